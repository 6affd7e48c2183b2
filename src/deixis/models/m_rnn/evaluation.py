"""Evaluation of a captioner on a data set: perplexity, caption scores, and likelihoods for retrieval."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.evaluation.captions import CaptionScores, PerplexityScores, caption_scores, perplexity_scores
from deixis.evaluation.captions.metrics import cider
from deixis.evaluation.captions.ngrams import CaptionSet
from deixis.evaluation.items import Regions, sentences_of
from deixis.language.features.base import Text
from deixis.models.m_rnn.captioning import CaptionPipeline, CaptionResult, Ranker, rank_captions
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.model import MRNN, Photos, VectorsAndCells
from deixis.models.photo_features import PhotoFeatures
from deixis.models.training.distributed import chosen_device
from deixis.storage.progress import OnProgress, no_progress

_PHOTOS_PER_BLOCK = 16


def caption_perplexity(
    model: MRNN, photos: Photos, sentences: Sequence[Text], photo_of_sentence: NDArray[np.integer]
) -> PerplexityScores:
    """Perplexity (eq. 5) of sentences given their photos, and the share of unknown words; intervals are over photos.

    Examples
    --------
    >>> from deixis.language.vocabulary import Vocabulary
    >>> model = MRNN(4, Vocabulary(("a", "dog"), (2, 1)))
    >>> round(caption_perplexity(model, np.eye(4), ["a dog", "a cat"], np.array([0, 0])).oov, 1)
    25.0
    """
    return perplexity_scores(
        model.log_probabilities(photos, sentences, photo_of_sentence),
        unknown=model.unknown_words(sentences),
        photos=photo_of_sentence.tolist(),
    )


def caption_cider(
    model: MRNN, photos: Photos, references: Sequence[Sequence[Sequence[str]]], decoding: Decoding | None = None
) -> float:
    """CIDEr-D, in percent, of generated captions, over the photos that have references; by default with a beam of 5."""
    best = [sentences[0].words for sentences in model.generate(photos, decoding)]
    known = [row for row, captions in enumerate(references) if captions]
    captions = CaptionSet(tuple(map(str, known)), [best[row] for row in known], [references[row] for row in known])
    return 100 * float(cider(captions).cider_d.mean())


@dataclass(frozen=True)
class CaptionerScores:
    """Scores of a captioner.

    Attributes
    ----------
    perplexity
        Of people's captions.
    captions
        Scores of the generated captions.
    results
        Photo id → generated captions.
    method
        How they were generated, in words.
    """

    perplexity: PerplexityScores
    captions: CaptionScores
    results: Mapping[str, CaptionResult]
    method: str

    @property
    def best(self) -> dict[str, str]:
        """Photo id → best caption."""
        return {photo: result.text for photo, result in self.results.items()}

    def as_json(self) -> dict[str, Any]:
        """All scores as one document."""
        perplexity, captions = self.perplexity.as_json(), self.captions.as_json()
        return {
            "perplexity": perplexity["perplexity"],
            "oov": perplexity["oov"],
            **captions,
            "interval": {
                name: [bounds.low, bounds.high]
                for part in (self.perplexity, self.captions)
                for name, bounds in part.interval.items()
            },
            "protocol": f"{captions['protocol']}; perplexity: {perplexity['protocol']}; sentences: {self.method}",
        }


def score_captioner(
    pipeline: CaptionPipeline,
    features: PhotoFeatures,
    decoding: Decoding,
    *,
    ranker: Ranker | None = None,
    training: Iterable[str] | None = None,
    on_progress: OnProgress = no_progress,
) -> CaptionerScores:
    """Score a captioner on photos with captions.

    The first caption of each photo is scored, in the order of `ranker`. Training captions do not count as novel.
    """
    model = use_best_device(pipeline).model
    photos, gold = pipeline.model_inputs(features, on_progress), sentences_of(features.photos)
    ranked = rank_captions(photos, model.generate(photos, decoding), ranker)
    results = dict(zip(features.photos.ids, ranked, strict=True))
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in features.photos}
    return CaptionerScores(
        caption_perplexity(model, photos, gold.texts, np.array(gold.photo_of_sentence)),
        caption_scores({photo: result.text for photo, result in results.items()}, references, training=training),
        results,
        _describe_method(decoding, reranked=ranker is not None),
    )


def _describe_method(decoding: Decoding, *, reranked: bool) -> str:
    name = {"beam": f"a beam of {decoding.beam}", "greedy": "greedy search", "sample": "sampling"}[decoding.method]
    if decoding.method == "beam" and decoding.length_power:
        name += f", by log-probability / words^{decoding.length_power:g}"
    return f"{name}, reranked" if reranked else name


def use_best_device(pipeline: CaptionPipeline) -> CaptionPipeline:
    """Move the model to a GPU if there is one."""
    pipeline.model.network.to(chosen_device("auto"))
    return pipeline


def retrieval_scores(
    pipeline: CaptionPipeline, features: PhotoFeatures, texts: Sequence[str], on_progress: OnProgress = no_progress
) -> Floats:
    """Eq. 7, photos × sentences: log P(w | I) − log P(w), for both directions of retrieval.

    Each pair takes about a quarter of a millisecond on a CPU: twenty minutes for a thousand photos with five captions
    each, and seconds on a GPU.
    """
    photos = pipeline.model_inputs(features, on_progress)
    count = len(features.photos)
    blocks = (_take(photos, slice(first, first + _PHOTOS_PER_BLOCK)) for first in range(0, count, _PHOTOS_PER_BLOCK))
    return _score_blocks(pipeline, blocks, texts, count, "photos", on_progress)


def region_scores(
    pipeline: CaptionPipeline, features: PhotoFeatures, gold: Regions, on_progress: OnProgress = no_progress
) -> Floats:
    """Eq. 7, gold regions × phrases, with regions instead of photos."""
    boxes, ids = np.array(gold.boxes, dtype=np.float64), features.photos.ids
    starts = np.searchsorted(gold.photo_of_region, np.arange(len(ids) + 1))
    vectors = (
        features.region_vectors(ids[photo], boxes[starts[photo] : starts[photo + 1]])
        for photo in np.unique(gold.photo_of_region)
    )
    blocks = _join_rows(vectors, _PHOTOS_PER_BLOCK)
    return _score_blocks(pipeline, blocks, gold.phrases, len(boxes), "regions", on_progress)


def _score_blocks(
    pipeline: CaptionPipeline,
    blocks: Iterable[Photos],
    texts: Sequence[str],
    total: int,
    noun: str,
    on_progress: OnProgress,
) -> Floats:
    model = use_best_device(pipeline).model
    on_progress(f"scoring {noun}", 0, total)
    distinct = list(dict.fromkeys(texts))  # repeated texts are read once
    column = {text: number for number, text in enumerate(distinct)}
    columns = np.array([column[text] for text in texts])
    prepared = model.prepare_text(distinct)
    rows: list[Floats] = []
    done = 0
    for block in blocks:
        rows.append(model.scores(model.prepare_visual(block), prepared)[:, columns])
        done += len(rows[-1])
        on_progress(f"scoring {noun}", done, total)
    return np.concatenate(rows)


def _take(photos: Photos, rows: slice) -> Photos:
    if isinstance(photos, VectorsAndCells):
        return VectorsAndCells(photos.vectors[rows], photos.cells[rows])
    return np.asarray(photos)[rows]


def _join_rows(groups: Iterable[Floats], count: int) -> Iterator[Floats]:
    """Join groups of rows until there are at least this many."""
    waiting: list[Floats] = []
    for group in groups:
        waiting.append(group)
        if sum(map(len, waiting)) >= count:
            yield np.concatenate(waiting)
            waiting = []
    if waiting:
        yield np.concatenate(waiting)
