"""Encoding of photos and sentences."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError, PhotoError
from deixis.geometry import iou
from deixis.language.sentence import Phrase
from deixis.models.grounding import EmbeddingPipeline
from deixis.models.installed import SHIPPED
from deixis.models.matching.model import TwoBranch
from deixis.search import encoder as encoder_module
from deixis.search.collection import search_encoder
from deixis.search.encoder import MAX_REGIONS, PHOTO_MODEL, SearchEncoder
from deixis.search.index.base import PhotoVectors
from tests.search.region_inputs import region_inputs
from tests.unchecked import without_checksums

CAT = SAMPLES / "images" / "cat.jpg"


def test_photos_get_valid_vectors_and_a_thumbnail(tmp_path: Path) -> None:
    encoder = search_encoder(PHOTO_MODEL)
    (tmp_path / "bad.jpg").write_bytes(b"no photo")
    found = dict(encoder.encode_photos([CAT, tmp_path / "bad.jpg"]))
    cat = found[CAT]
    assert isinstance(found[tmp_path / "bad.jpg"], PhotoError)
    assert isinstance(cat, PhotoVectors)
    assert cat.problem(encoder.dimension, encoder.region_dimension) is None
    assert (cat.width, cat.height, len(cat.region_boxes)) == (451, 300, MAX_REGIONS)
    assert (cat.thumbnail or b"").startswith(b"\xff\xd8")


def test_vectors_are_those_of_the_models() -> None:
    encoder = search_encoder(PHOTO_MODEL)
    photo = next(iter(encoder.encode_photos([CAT])))[1]
    assert isinstance(photo, PhotoVectors)
    assert np.allclose(photo.whole, encoder.encode_photo(CAT), atol=0.02)
    encoded = encoder.encode_sentence("a cat")
    assert np.allclose(encoded.vector, encoder.photo_model.encode_sentences(["a cat"])[0], atol=1e-5)
    box = encoder.region_model.ground(CAT, "a cat").phrases[0].box
    best = photo.region_boxes[(photo.region_vectors @ encoded.phrases[0].vector).argmax()]
    # The grounder looks at more regions, and moves the best one.
    assert iou(np.array([box]), best[None])[0, 0] > 0.6


def test_scores_of_regions_are_almost_the_cosines_of_the_photo_model() -> None:
    encoder = search_encoder(PHOTO_MODEL)
    model = cast(EmbeddingPipeline, encoder.photo_model)
    photo = next(iter(encoder.encode_photos([CAT])))[1]
    assert isinstance(photo, PhotoVectors)
    for text in ("a cat", "green eyes", "a kitchen"):
        [phrase] = encoder.encode_sentence(text).phrases
        cosines = model.encode_regions(region_inputs(encoder, CAT)) @ model.encode_sentences([text])[0]
        assert np.abs(photo.region_vectors @ phrase.vector - cosines).max() < 0.03
        assert np.abs(cosines).max() > 0.05


def test_a_photo_model_without_axes_gives_whole_vectors_of_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TwoBranch, "visual_axes", lambda self, count: None)
    encoder = SearchEncoder()
    photo = next(iter(encoder.encode_photos([CAT])))[1]
    assert isinstance(photo, PhotoVectors)
    assert encoder.region_dimension == encoder.dimension == photo.region_vectors.shape[1]
    [phrase] = encoder.encode_sentence("a cat").phrases
    np.testing.assert_array_equal(phrase.vector, phrase.whole_vector)
    assert encoder.fingerprint != search_encoder(PHOTO_MODEL).fingerprint


def test_a_sentence_without_noun_phrases_is_one_phrase() -> None:
    encoded = search_encoder(PHOTO_MODEL).encode_sentence("running quickly")
    assert [(phrase.text, phrase.span) for phrase in encoded.phrases] == [("running quickly", (0, 15))]


def test_encoding_many_sentences_equals_encoding_each() -> None:
    encoder = search_encoder(PHOTO_MODEL)
    texts = ["a dog", "two dogs in the snow", "a dog"]
    for text, encoded in zip(texts, encoder.encode_sentences(texts), strict=True):
        alone = encoder.encode_sentence(text)
        assert (encoded.text, encoded.statistics) == (text, alone.statistics)
        assert np.allclose(encoded.vector, alone.vector, atol=1e-5)
        for phrase, other in zip(encoded.phrases, alone.phrases, strict=True):
            assert np.allclose(phrase.vector, other.vector, atol=1e-4)


def test_vectors_are_the_same_whether_phrases_are_new_or_kept() -> None:
    """Each text alone through the network is the oracle; phrases of the second sentence are known from the first."""
    encoder = SearchEncoder()
    axes = cast(EmbeddingPipeline, encoder.photo_model).model.visual_axes(encoder.region_dimension)
    texts = ["two dogs in the snow near a house", "a house with two dogs", "two dogs", "running quickly", "the snow"]
    for text in [*texts, *reversed(texts)]:
        encoded = encoder.encode_sentence(text)
        np.testing.assert_allclose(encoded.vector, encoder.photo_model.encode_sentences([text])[0], atol=1e-6)
        for phrase in encoded.phrases:
            [whole] = encoder.photo_model.encode_sentences([phrase.text])
            np.testing.assert_allclose(phrase.whole_vector, whole, atol=1e-6)
            np.testing.assert_allclose(phrase.vector, whole @ axes, atol=1e-6)


def test_recent_phrases_are_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = SearchEncoder()
    encoded: list[str] = []
    encode_sentences = encoder.photo_model.encode_sentences

    def record(texts: Sequence[Any]) -> Any:
        encoded.extend(text.text for text in texts if isinstance(text, Phrase))
        return encode_sentences(texts)

    monkeypatch.setattr(encoder.photo_model, "encode_sentences", record)
    monkeypatch.setattr(encoder_module, "_CACHED_PHRASES", 3)
    encoder.encode_sentences(["a dog and a cat", "a cat near a house", "a dog"])
    assert encoded == ["a dog", "a cat", "a house"]
    encoder.encode_sentence("a dog runs")
    encoder.encode_sentence("a boat")
    assert encoded == ["a dog", "a cat", "a house", "a boat"]
    encoder.encode_sentences(["a dog", "a cat"])  # the cat was used longest ago
    assert encoded == ["a dog", "a cat", "a house", "a boat", "a cat"]


def test_rare_and_unknown_words_are_counted() -> None:
    encoder = search_encoder(PHOTO_MODEL)
    usual, rare = encoder.encode_sentence("a dog"), encoder.encode_sentence("a dog qwertyuiop")
    assert (usual.unknown_words, rare.unknown_words) == ((), ("qwertyuiop",))
    assert (usual.statistics.count, rare.statistics.count) == (1, 2)
    assert (usual.statistics.unknown_share, rare.statistics.unknown_share) == (0.0, 0.5)
    assert rare.statistics.rarest < usual.statistics.rarest < 0
    assert rare.statistics.log_frequency < usual.statistics.log_frequency


def test_the_fingerprint_depends_on_model_files_but_not_on_the_card(tmp_path: Path) -> None:
    copy = tmp_path / "two-branch"
    shutil.copytree(SHIPPED / "two-branch", copy)
    without_checksums(copy)
    (copy / "README.md").write_text("another card")
    assert SearchEncoder(photo_model=copy).fingerprint == search_encoder(PHOTO_MODEL).fingerprint
    weights = load_file(copy / "weights.safetensors")
    save_file(weights | {name: 2 * array for name, array in list(weights.items())[:1]}, copy / "weights.safetensors")
    assert SearchEncoder(photo_model=copy).fingerprint != search_encoder(PHOTO_MODEL).fingerprint


def test_a_region_model_without_region_vectors_is_an_error() -> None:
    with pytest.raises(DeixisError, match="two-branch"):
        list(SearchEncoder(region_model="two-branch").encode_photos([CAT]))


def test_a_fast_name_opens_both_models_with_the_fast_encoder() -> None:
    fast, full = SearchEncoder("two-branch-fast"), search_encoder(PHOTO_MODEL)
    assert [model.encoder.name for model in (fast.photo_model, fast.region_model)] == ["deixis-fast"] * 2
    assert fast.model_name == "two-branch-fast"
    assert fast.fingerprint != full.fingerprint
    assert fast.encode_photo(CAT) @ full.encode_photo(CAT) > 0.5
    assert np.allclose(fast.encode_sentence("a cat").vector, full.encode_sentence("a cat").vector)


@pytest.mark.parametrize(
    ("text", "kind", "noun"),
    [
        ("dogs", "word", ""),
        ("a fire hydrant", "phrase", "hydrant"),
        ("school bus", "phrase", "bus"),
        ("a flock of sheep", "phrase", "sheep"),
        ("two green cats", "phrase", "cat"),
        ("a hot dog", "phrase", ""),  # not a dog
        ("riding a horse", "action", ""),
        ("a man in a red hat rides a brown horse", "sentence", ""),
    ],
)
def test_queries_have_a_kind_and_phrases_a_noun(text: str, kind: str, noun: str) -> None:
    read = search_encoder(PHOTO_MODEL).encode_sentence(text)
    assert (read.statistics.kind, read.noun) == (kind, noun)
