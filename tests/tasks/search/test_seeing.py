"""The models of an index, and what they give it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError, PhotoError
from deixis.index.seeing import Seen, refusal
from deixis.tasks.grounding import Pointer
from deixis.tasks.search.searching import shipped_seer
from deixis.tasks.search.seeing import REGIONS, Seer
from deixis.tasks.shipped_models import SHIPPED

CAT = SAMPLES / "images" / "cat.jpg"


def test_a_photo_gets_vectors_that_the_index_takes_and_a_thumbnail(tmp_path: Path) -> None:
    seer = shipped_seer()
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    seen = dict(seer.see([CAT, tmp_path / "bad.jpg"]))
    cat = seen[CAT]
    assert isinstance(seen[tmp_path / "bad.jpg"], PhotoError)
    assert isinstance(cat, Seen)
    assert refusal(cat, seer.dimension, seer.region_dimension) is None
    assert (cat.width, cat.height, len(cat.region_boxes)) == (451, 300, REGIONS)
    assert (cat.thumbnail or b"").startswith(b"\xff\xd8")


def test_vectors_are_those_of_the_models_alone() -> None:
    seer = shipped_seer()
    seen = next(iter(seer.see([CAT])))[1]
    assert isinstance(seen, Seen)
    assert np.allclose(seen.whole, seer.see_whole(CAT), atol=0.02)
    read = seer.read("a cat")
    assert np.allclose(read.vector, seer.whole.encode_sentences(["a cat"])[0], atol=1e-5)
    pointer = Pointer(seer.pointing)
    box = pointer.ground(CAT, "a cat").phrases[0].box
    best = seen.region_boxes[(seen.region_vectors @ read.phrases[0].vector).argmax()]
    assert np.abs(np.array(box) - best).max() < 60  # the pointer looks at more regions, and moves the best one


def test_a_sentence_without_phrases_is_one_phrase() -> None:
    read = shipped_seer().read("running quickly")
    assert [(phrase.text, phrase.span) for phrase in read.phrases] == [("running quickly", (0, 15))]


def test_reading_many_is_reading_each() -> None:
    seer = shipped_seer()
    texts = ["a dog", "two dogs in the snow", "a dog"]
    for text, read in zip(texts, seer.read_all(texts), strict=True):
        alone = seer.read(text)
        assert (read.text, read.facts) == (text, alone.facts)
        assert np.allclose(read.vector, alone.vector, atol=1e-5)
        for phrase, other in zip(read.phrases, alone.phrases, strict=True):
            assert np.allclose(phrase.vector, other.vector, atol=1e-4)


def test_rare_and_unknown_words_are_known_to_be_so() -> None:
    seer = shipped_seer()
    usual, rare = seer.read("a dog"), seer.read("a dog qwertyuiop")
    assert (usual.unknown, rare.unknown) == ((), ("qwertyuiop",))
    assert (usual.facts.count, rare.facts.count) == (1, 2)
    assert (usual.facts.strange, rare.facts.strange) == (0.0, 0.5)
    assert rare.facts.rarest < usual.facts.rarest < 0
    assert rare.facts.log_shares < usual.facts.log_shares


def test_the_fingerprint_is_of_the_weights_and_not_of_the_card(tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "two-branch"
    shutil.copytree(SHIPPED / "two-branch", copy)
    (copy / "README.md").write_text("another card")
    assert Seer(whole=copy).fingerprint == shipped_seer().fingerprint
    settings = copy / "model" / "settings.json"
    settings.write_text(settings.read_text() + "\n")
    assert Seer(whole=copy).fingerprint != shipped_seer().fingerprint


def test_a_model_that_points_at_nothing_is_refused() -> None:
    with pytest.raises(DeixisError, match="points at proposals|cannot point"):
        list(Seer(pointing="two-branch").see([CAT]))
