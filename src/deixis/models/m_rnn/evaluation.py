"""Evaluation of a captioner on a data set: perplexity (eq. 5) and scores of the captions that it generates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.evaluation.captions import CaptionScores, caption_scores, perplexity_scores
from deixis.evaluation.captions.metrics import cider
from deixis.evaluation.captions.ngrams import CaptionSet
from deixis.evaluation.intervals import Result, to_json
from deixis.evaluation.items import sentences_of
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.model import MRNN, PhotoInputs
from deixis.models.m_rnn.pipeline import CaptionPipeline, CaptionResult, Ranker, rank_captions
from deixis.models.photo_features import PhotoFeatures
from deixis.tokens import Text


def caption_perplexity(
    model: MRNN, photos: PhotoInputs, sentences: Sequence[Text], photo_of_sentence: NDArray[np.integer]
) -> Result:
    """Perplexity (eq. 5) of sentences given their photos, and the share of unknown words; intervals are over photos."""
    return perplexity_scores(
        model.log_probabilities(photos, sentences, photo_of_sentence),
        unknown=model.unknown_words(sentences),
        photos=photo_of_sentence.tolist(),
    )


def caption_cider(model: MRNN, photos: PhotoInputs, references: Sequence[Sequence[Sequence[str]]]) -> float:
    """CIDEr-D, in percent, of captions generated with a beam of 5, over the photos that have references."""
    best = [sentences[0].words for sentences in model.generate(photos)]
    known = [row for row, captions in enumerate(references) if captions]
    captions = CaptionSet(tuple(map(str, known)), [best[row] for row in known], [references[row] for row in known])
    return 100 * float(cider(captions).cider_d.mean())


@dataclass(frozen=True)
class CaptionerScores:
    """Scores of a captioner: the perplexity of people's captions, and scores of the generated ones."""

    perplexity: Result
    captions: CaptionScores
    likelihoods: Sequence[tuple[float, int]]  # of people's captions: the bits that encode each, and its words and end
    results: Mapping[str, CaptionResult]  # by photo id
    decoding: Decoding  # how the captions were generated
    ranker: Ranker | None  # score that ordered the sentences; None for their probability

    def as_json(self) -> dict[str, Any]:
        """All scores as one document."""
        perplexity, captions = self.perplexity.as_json(), self.captions.as_json()
        return {
            "perplexity": perplexity["perplexity"],
            "oov": perplexity["oov"],
            **captions,
            "interval": to_json({**self.perplexity.interval, **self.captions.interval}),
            "protocol": f"{captions['protocol']}; perplexity: {perplexity['protocol']}; sentences: {self.method}",
        }

    @property
    def method(self) -> str:
        """How the captions were generated, in words."""
        how = self.decoding
        name = {"beam": f"a beam of {how.beam}", "greedy": "greedy search", "sample": "sampling"}[how.method]
        if how.method == "beam" and how.length_power:
            name += f", by log-probability / words^{how.length_power:g}"
        if self.ranker is None:
            return name
        return f"{name}, {'reranked' if self.ranker.is_consensus else 'ranked by match with the photo'}"


def score_captioner(
    pipeline: CaptionPipeline,
    features: PhotoFeatures,
    decoding: Decoding,
    *,
    ranker: Ranker | None = None,
    training: Iterable[str] | None = None,
) -> CaptionerScores:
    """Score a captioner on photos with captions.

    The first caption of each photo is scored, in the order of `ranker`. Training captions do not count as novel.
    """
    model = pipeline.use_best_device().model
    photos, gold = pipeline.model_inputs(features), sentences_of(features.photos)
    ranked = rank_captions(photos, model.generate(photos, decoding), ranker)
    results = dict(zip(features.photos.ids, ranked, strict=True))
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in features.photos}
    owner = np.array(gold.photo_of_sentence)
    log_probabilities = model.log_probabilities(photos, gold.texts, owner)
    return CaptionerScores(
        perplexity_scores(log_probabilities, unknown=model.unknown_words(gold.texts), photos=owner.tolist()),
        caption_scores({photo: result.text for photo, result in results.items()}, references, training=training),
        [(-float(np.sum(values)) / np.log(2), len(values)) for values in log_probabilities],
        results,
        decoding,
        ranker,
    )
