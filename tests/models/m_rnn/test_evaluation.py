"""Scores of a captioner on a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.evaluation.captions import caption_scores
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.evaluation import score_captioner
from deixis.models.m_rnn.pipeline import load_captioner
from deixis.models.photo_features import find_or_compute_features

pytestmark = pytest.mark.usefixtures("small_encoder")


def test_perplexity_is_of_gold_captions_and_other_scores_of_generated_ones(captioner_folder: Path) -> None:
    dataset = Dataset(captioner_folder / "data", images=captioner_folder / "images")
    captioner, dev = load_captioner(captioner_folder / "run"), dataset.split("dev")
    found = score_captioner(
        captioner, find_or_compute_features(captioner.encoder, dataset, dev), Decoding(beam=3), training=["a red wall"]
    )

    paths = [dataset.path_of(photo) for photo in dev]
    results = captioner.caption_photos(paths, Decoding(beam=3))
    generated = {photo: result.text for photo, result in zip(dev.ids, results, strict=True)}
    assert {photo: result.text for photo, result in found.results.items()} == generated
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in dev}
    assert found.captions.bleu1 == caption_scores(generated, references).bleu1

    inputs = [captioner._encode([path])[0] for path in paths]
    log_p = [
        captioner.model.log_probabilities(inputs[row], [text])[0]
        for row, photo in enumerate(dev)
        for text in references[photo.id]
    ]
    expected = 2 ** (-sum(map(np.sum, log_p)) / np.log(2) / sum(map(len, log_p)))
    assert found.perplexity.perplexity == pytest.approx(expected, rel=1e-3)  # the store has half precision

    document = found.as_json()
    assert list(document)[:2] == ["perplexity", "oov"]
    assert {"perplexity", "oov", "bleu1", "novel"} <= set(document["interval"])
    assert document["novel"] < 100
