"""Scores of a captioner on a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.images import open_photo
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.items import Regions
from deixis.models.m_rnn import evaluation
from deixis.models.m_rnn.captioning import load_captioner
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.evaluation import region_scores, retrieval_scores, score_captioner
from deixis.models.m_rnn.spec import MRNNSettings
from deixis.models.photo_features import find_or_compute_features
from deixis.vision import encoders
from tests.models.captioner import SMALL, train_small_captioner
from tests.models.coloured import make_coloured
from tests.models.quarters import make_quarters, use_small_encoders
from tests.vision.feature_store.small import colour_encoder


@pytest.mark.parametrize("settings", [SMALL, replace(SMALL, attention=True)])
def test_retrieval_scores_do_not_depend_on_the_block_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: MRNNSettings
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    monkeypatch.setattr(evaluation, "_PHOTOS_PER_BLOCK", 3)
    dataset = make_coloured(tmp_path)
    train_small_captioner(dataset, tmp_path / "run", settings=settings)
    captioner, dev = load_captioner(tmp_path / "run"), dataset.split("dev")
    features, texts = (
        find_or_compute_features(captioner.encoder, dataset, dev),
        ["A red wall.", "A blue wall.", "Everything here is green."],
    )
    progress: list[int] = []
    found = retrieval_scores(captioner, features, texts, lambda doing, done, total: progress.append(done))
    model = captioner.model
    whole = model.scores(model.prepare_visual(captioner.model_inputs(features)), model.prepare_text(texts))
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-4)
    assert (found.argmax(0) % 4).tolist() == [0, 2, 1]  # red, blue and green photos
    assert progress[-4:] == [0, 3, 6, 8]


def test_perplexity_is_of_gold_captions_and_the_other_scores_of_generated_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    dataset = make_coloured(tmp_path)
    train_small_captioner(dataset, tmp_path / "run")
    captioner, dev = load_captioner(tmp_path / "run"), dataset.split("dev")
    found = score_captioner(
        captioner, find_or_compute_features(captioner.encoder, dataset, dev), Decoding(beam=3), training=["a red wall"]
    )

    paths = [dataset.path_of(photo) for photo in dev]
    results = captioner.caption_photos(paths, Decoding(beam=3))
    generated = {photo: result.text for photo, result in zip(dev.ids, results, strict=True)}
    assert found.best == generated
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in dev}
    assert found.captions.bleu1 == caption_scores(generated, references).bleu1

    vectors = np.stack([captioner.image_encoder.encode([image])[0].whole for image in map(open_photo, paths)])
    log_p = [
        captioner.model.log_probabilities(vectors[[row]], [text])[0]
        for row, photo in enumerate(dev)
        for text in references[photo.id]
    ]
    expected = 2 ** (-sum(map(np.sum, log_p)) / np.log(2) / sum(map(len, log_p)))
    assert found.perplexity.perplexity == pytest.approx(expected, rel=1e-3)  # the store has half precision

    document = found.as_json()
    assert list(document)[:3] == ["perplexity", "oov", "bleu1"]
    assert {"perplexity", "oov", "bleu1", "novel"} <= set(document["interval"])
    assert document["novel"] < 100


def test_regions_are_scored_by_their_own_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_encoders(monkeypatch)
    monkeypatch.setattr(evaluation, "_PHOTOS_PER_BLOCK", 2)
    dataset = make_quarters(tmp_path, 12)
    train_small_captioner(dataset, tmp_path / "run")
    captioner, dev = load_captioner(tmp_path / "run"), dataset.split("dev")
    features = find_or_compute_features(captioner.encoder, dataset, dev)
    boxes = ((0, 0, 8, 8), (8, 8, 16, 16), (0, 8, 8, 16), (8, 0, 16, 8), (0, 0, 16, 16))
    photos = (0, 0, 2, 3, 3)  # the second has none
    phrases = ("a red square", "the blue one", "a red square")
    gold = Regions(boxes, photos, phrases, (0, 0, 2), ((0, 0),))
    progress: list[int] = []
    found = region_scores(captioner, features, gold, lambda doing, done, total: progress.append(done))
    vectors = np.concatenate(
        [features.region_vectors(dev.ids[photo], np.array([box])) for box, photo in zip(boxes, photos, strict=True)]
    )
    expected = captioner.model.scores(captioner.model.prepare_visual(vectors), captioner.model.prepare_text(phrases))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert len({tuple(row.round(3)) for row in found}) == 5
    assert progress == [0, 2, 5]
