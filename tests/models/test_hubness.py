"""Hubness correction: scores as a plain loop computes them, saved with the model, for photos and sentences only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from safetensors.numpy import save_file

import deixis
from deixis.arrays import Floats, to_unit_length
from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.evaluation.items import sentences_of
from deixis.models.grounding import EmbeddingPipeline
from deixis.models.hubness import HubnessCorrection
from deixis.models.installed import SHIPPED
from deixis.models.matching.model import MatchingPipeline
from deixis.storage.artifacts import HUBNESS, WEIGHTS, find_damage, fingerprint_artifact
from deixis.storage.checksums import BLOCK, CheckedFile
from deixis.storage.tensors import TensorFile
from tests.models.coloured import fit_cca
from tests.unchecked import without_checksums

HALF_STEP = 2e-3
"""Rounding error of cosines with codes, at most, in two dimensions."""


@pytest.fixture
def plain(dataset: Dataset) -> MatchingPipeline:
    return fit_cca(dataset)


@pytest.fixture
def corrected(dataset: Dataset) -> MatchingPipeline:
    pipeline = fit_cca(dataset)
    pipeline.hubness = HubnessCorrection.fit(vectors(1, 12), vectors(2, 9), neighbours=3)
    return pipeline


def vectors(seed: int, rows: int, dimension: int = 2) -> Floats:
    return to_unit_length(np.random.default_rng(seed).normal(size=(rows, dimension)).astype(np.float32))


def csls(photo: Floats, sentence: Floats, photo_bank: Floats, sentence_bank: Floats, k: int) -> float:
    """Half of eq. 3 of the paper for one pair: cosine less half the mean cosine with k neighbours of either side."""
    near_photo = sorted(float(photo @ each) for each in sentence_bank)[-k:]
    near_sentence = sorted(float(sentence @ each) for each in photo_bank)[-k:]
    return float(photo @ sentence) - sum(near_photo) / k / 2 - sum(near_sentence) / k / 2


@pytest.mark.parametrize("neighbours", [1, 4, 9])
def test_scores_equal_those_of_a_plain_loop(plain: MatchingPipeline, neighbours: int) -> None:
    photo_bank, sentence_bank = vectors(1, 12), vectors(2, 9)
    photos, sentences = vectors(3, 700), vectors(4, 5)  # more photos than are computed at once
    plain.hubness = HubnessCorrection.fit(photo_bank, sentence_bank, neighbours)
    expected = [[csls(v, t, photo_bank, sentence_bank, neighbours) for t in sentences] for v in photos]
    np.testing.assert_allclose(plain.similarity(photos, sentences), expected, atol=2 * HALF_STEP)
    assert plain.similarity(photos[:0], sentences).shape == (0, 5)


def test_a_photo_that_is_similar_to_every_sentence_no_longer_wins(plain: MatchingPipeline) -> None:
    """The hub is nearer to the sentence than the right photo, but nearer still to the sentences of others."""
    angles = {"hub": 0.0, "right": 60.0}
    photos = np.array([[np.cos(np.radians(each)), np.sin(np.radians(each))] for each in angles.values()], np.float32)
    sentence = np.array([[np.cos(np.radians(29)), np.sin(np.radians(29))]], np.float32)
    bank = np.array([[1, 0.1], [1, -0.1], [1, 0]], np.float32)
    bank /= np.linalg.norm(bank, axis=1, keepdims=True)
    assert plain.similarity(photos, sentence).argmax() == 0
    plain.hubness = HubnessCorrection.fit(bank, bank, neighbours=2)
    assert plain.similarity(photos, sentence).argmax() == 1


def test_retrieval_scores_are_corrected_and_terms_computed_once(
    corrected: MatchingPipeline, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    dev = dataset.split("dev")
    texts, features = sentences_of(dev).texts, corrected.features(dataset, dev)
    visual, text = corrected.model.prepare_visual(features.vectors()), corrected.encode_sentences(texts)
    expected = corrected.similarity(visual, text)
    scores, counted = corrected.retrieval_scores(features, texts), []
    monkeypatch.setattr(HubnessCorrection, "_terms", lambda *arguments: counted.append(arguments))
    np.testing.assert_allclose(scores.rows(0, len(dev)), expected, atol=1e-6)
    np.testing.assert_allclose(scores.rows(2, 3), expected[2:3], atol=1e-6)
    assert not counted


def test_evaluation_and_match_use_the_correction(corrected: MatchingPipeline, dataset: Dataset, tmp_path: Path) -> None:
    corrected.save_pretrained(tmp_path / "made")
    options = {"model": tmp_path / "made", "split": "dev", "out": tmp_path / "scores.npy"}
    deixis.evaluate("retrieval", dataset.path, **options)
    dev = dataset.split("dev")
    photos = corrected.encode_images([dataset.path_of(photo) for photo in dev])
    expected = corrected.similarity(photos, corrected.encode_sentences(sentences_of(dev).texts))
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, atol=1e-4)
    texts = ["A red wall.", "A blue wall."]
    found = dict(corrected.match(dataset.path_of(dev[0]), texts))
    np.testing.assert_allclose(
        [found[text] for text in texts],
        corrected.similarity(photos[:1], corrected.encode_sentences(texts))[0],
        atol=1e-5,
    )


def test_vectors_regions_and_sentences_are_compared_as_before(
    plain: MatchingPipeline, corrected: MatchingPipeline, dataset: Dataset
) -> None:
    paths, texts = [dataset.path_of(photo) for photo in dataset.photos][:3], ["A red wall.", "A blue wall."]
    photos, sentences = plain.encode_images(paths), plain.encode_sentences(texts)
    np.testing.assert_array_equal(corrected.encode_images(paths), photos)
    np.testing.assert_array_equal(corrected.encode_sentences(texts), sentences)
    np.testing.assert_array_equal(corrected.compare(photos, sentences), plain.compare(photos, sentences))
    np.testing.assert_array_equal(corrected.sentence_scores(texts).rows(0, 2), plain.sentence_scores(texts).rows(0, 2))
    np.testing.assert_array_equal(plain.similarity(photos, sentences), plain.compare(photos, sentences))


def test_banks_are_saved_with_the_model_and_leave_its_fingerprint(corrected: MatchingPipeline, tmp_path: Path) -> None:
    photos, sentences = vectors(3, 6), vectors(4, 5)
    expected = corrected.similarity(photos, sentences)
    for name, half in (("whole", False), ("half", True)):
        (tmp_path / name).mkdir()
        corrected.write(tmp_path / name, half=half)
        again = cast(MatchingPipeline, deixis.load(tmp_path / name))
        np.testing.assert_array_equal(again.similarity(photos, sentences), expected)
        stored = TensorFile(CheckedFile(tmp_path / name / HUBNESS / WEIGHTS, None)).layout
        assert {stored[bank].dtype for bank in ("photos", "sentences")} == {"I8"}
    again.save_pretrained(tmp_path / "third")  # from banks that were read
    third = cast(MatchingPipeline, deixis.load(tmp_path / "third"))
    np.testing.assert_array_equal(third.similarity(photos, sentences), expected)
    in_memory = MatchingPipeline.from_artifact(corrected.to_artifact())
    np.testing.assert_array_equal(in_memory.similarity(photos, sentences), expected)

    third.hubness = None
    third.save_pretrained(tmp_path / "without")
    assert not (tmp_path / "without" / HUBNESS).exists()
    without = cast(MatchingPipeline, deixis.load(tmp_path / "without"))
    np.testing.assert_array_equal(without.similarity(photos, sentences), photos @ sentences.T)
    assert fingerprint_artifact(tmp_path / "without") == fingerprint_artifact(tmp_path / "third")  # indexes stay valid


def test_damaged_banks_are_refused_with_one_line_when_they_are_used(
    corrected: MatchingPipeline, dataset: Dataset, tmp_path: Path
) -> None:
    corrected.hubness = HubnessCorrection.fit(vectors(1, BLOCK), vectors(2, BLOCK))
    corrected.save_pretrained(tmp_path / "made")
    file = tmp_path / "made" / HUBNESS / WEIGHTS
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    opened = deixis.load(tmp_path / "made")  # the banks are not read yet
    assert opened.encode_sentences(["A red wall."]).shape == (1, 2)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(file))}: .*$"):
        deixis.evaluate("retrieval", dataset.path, model=tmp_path / "made", split="dev")
    [line] = find_damage(tmp_path / "made")
    assert line.startswith(str(file))


@pytest.mark.parametrize(
    ("banks", "words"),
    [
        ({"photos": np.zeros((9, 2), np.int8)}, "no sentences"),
        ({"photos": np.zeros((9, 2), np.int8), "sentences": np.zeros((9, 3), np.int8)}, "dimension 3"),
        ({"photos": np.zeros((9, 2), np.int8), "sentences": np.zeros((2, 2), np.int8)}, "3 or more rows"),
        ({"photos": np.zeros((9, 2), np.int8), "sentences": np.zeros((9, 2), np.float32)}, "int8"),
    ],
)
def test_banks_that_do_not_fit_are_refused(
    corrected: MatchingPipeline, tmp_path: Path, banks: dict[str, np.ndarray], words: str
) -> None:
    corrected.save_pretrained(tmp_path / "made")
    without_checksums(tmp_path / "made")
    save_file(banks, tmp_path / "made" / HUBNESS / WEIGHTS)
    with pytest.raises(DeixisError, match=words):
        deixis.load(tmp_path / "made").similarity(vectors(3, 1), vectors(4, 1))


def test_the_shipped_model_has_banks_that_both_encoders_share() -> None:
    model, fast = (cast(EmbeddingPipeline, deixis.load(name)) for name in ("two-branch", "two-branch-fast"))
    photos, sentences = vectors(1, 4, 512), model.encode_sentences(["Two dogs.", "A cup of coffee."])
    assert model.hubness is not None, "make the banks: scripts/fit_hubness.py DATA…"
    assert not model.hubness._banks  # not read before they are used
    scores = model.similarity(photos, sentences)
    assert (scores < photos @ sentences.T).any()
    np.testing.assert_array_equal(fast.similarity(photos, sentences), scores)
    lengths = np.linalg.norm(model.hubness._bank("photos"), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=0.02)
    assert (SHIPPED / "two-branch" / HUBNESS / WEIGHTS).stat().st_size < 2_100_000
