"""A model that writes captions is scored on a data set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deixis.data.images import open_photo
from deixis.evaluation.captions import caption_scores
from deixis.evaluation.of_data import Regions
from deixis.models.decoding import Decoding
from deixis.models.m_rnn import MRNNSettings
from deixis.tasks.captions import scoring as caption_scoring
from deixis.tasks.captions.captioning import CaptionBundle
from deixis.tasks.captions.scoring import captioner_regions, captioner_retrieval, score_captioner
from deixis.tasks.scores.scoring import seen_by
from deixis.vision import encoders
from tests.tasks.coloured import make_coloured
from tests.tasks.quarters import make_quarters, use_small_encoders
from tests.tasks.writing import SMALL, train_writer
from tests.vision.store.small import colour_encoder


@pytest.mark.parametrize("settings", [SMALL, replace(SMALL, attention=True)])
def test_retrieval_is_the_models_own_matrix_however_many_photos_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: MRNNSettings
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    monkeypatch.setattr(caption_scoring, "_AT_A_TIME", 3)
    dataset = make_coloured(tmp_path)
    train_writer(dataset, tmp_path / "run", settings=settings)
    bundle, dev = CaptionBundle.load(tmp_path / "run"), dataset.split("dev")
    seen, texts = seen_by(bundle.encoder, dataset, dev), ["A red wall.", "A blue wall.", "Everything here is green."]
    heard: list[int] = []
    found = captioner_retrieval(bundle, seen, texts, lambda doing, done, total: heard.append(done))
    model = bundle.model
    whole = model.scores(model.prepare_visual(bundle.photos_of(seen)), model.prepare_text(texts))
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-4)
    assert (found.argmax(0) % 4).tolist() == [0, 2, 1]  # red, blue and green photos
    assert heard[-4:] == [0, 3, 6, 8]


def test_perplexity_is_of_peoples_captions_and_the_rest_of_the_models_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    dataset = make_coloured(tmp_path)
    train_writer(dataset, tmp_path / "run")
    bundle, dev = CaptionBundle.load(tmp_path / "run"), dataset.split("dev")
    found = score_captioner(bundle, seen_by(bundle.encoder, dataset, dev), Decoding(beam=3), training=["a red wall"])

    paths = [dataset.path_of(photo) for photo in dev]
    made_up = bundle.caption(paths, Decoding(beam=3))
    written = {photo: result.text for photo, result in zip(dev.ids, made_up, strict=True)}
    assert found.written == written
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in dev}
    assert found.captions.bleu1 == caption_scores(written, references).bleu1

    vectors = np.stack([bundle.image_encoder.encode([image])[0].whole for image in map(open_photo, paths)])
    likely = [
        bundle.model.log_probabilities(vectors[[row]], [text])[0]
        for row, photo in enumerate(dev)
        for text in references[photo.id]
    ]
    expected = 2 ** (-sum(map(np.sum, likely)) / np.log(2) / sum(map(len, likely)))
    assert found.perplexity.perplexity == pytest.approx(expected, rel=1e-3)  # the store holds half precision

    document = found.as_json()
    assert list(document)[:3] == ["perplexity", "oov", "bleu1"]
    assert {"perplexity", "oov", "bleu1", "novel"} <= set(document["interval"])
    assert document["novel"] < 100


def test_every_region_is_scored_by_its_own_part_of_its_own_photo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_small_encoders(monkeypatch)
    monkeypatch.setattr(caption_scoring, "_AT_A_TIME", 2)
    dataset = make_quarters(tmp_path, 12)
    train_writer(dataset, tmp_path / "run")
    bundle, dev = CaptionBundle.load(tmp_path / "run"), dataset.split("dev")
    seen = seen_by(bundle.encoder, dataset, dev)
    boxes = ((0, 0, 8, 8), (8, 8, 16, 16), (0, 8, 8, 16), (8, 0, 16, 8), (0, 0, 16, 16))
    photos = (0, 0, 2, 3, 3)  # the second has none
    phrases = ("a red square", "the blue one", "a red square")
    gold = Regions(boxes, photos, phrases, (0, 0, 2), ((0, 0),))
    heard: list[int] = []
    found = captioner_regions(bundle, seen, gold, lambda doing, done, total: heard.append(done))
    vectors = np.concatenate(
        [seen.region_vectors(dev.ids[photo], np.array([box])) for box, photo in zip(boxes, photos, strict=True)]
    )
    expected = bundle.model.scores(bundle.model.prepare_visual(vectors), bundle.model.prepare_text(phrases))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert len({tuple(row.round(3)) for row in found}) == 5
    assert heard == [0, 2, 5]
