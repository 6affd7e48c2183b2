"""Scores of a model on a split, for the rows of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from deixis.data.dataset import Photos
from deixis.errors import DatasetError
from deixis.evaluation.intervals import values_of
from deixis.evaluation.items import localization_items, sentences_of
from deixis.evaluation.phrase_localization import MentionGroup, RankedPredictions
from deixis.evaluation.phrase_precision import average_precisions, photo_precisions
from deixis.evaluation.ranked_boxes import NEVER
from deixis.evaluation.retrieval import Ranking, recall_at_k
from deixis.models.base import Scorer
from deixis.models.evaluation import EvaluationData, phrase_scores, score_ranking
from deixis.models.m_rnn.consensus import (
    Candidates,
    Neighbours,
    Oracle,
    RerankConfig,
    cross_validated_order,
    neighbour_vectors,
)
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence
from deixis.models.m_rnn.evaluation import score_captioner
from deixis.models.m_rnn.model import MRNN, PhotoInputs, photo_arrays
from deixis.models.matching.combined import ENTITIES, PARTS_ALONE, TWO_BRANCH, Combined, WithParts
from deixis.papers.results import ModelScores
from deixis.papers.tables import CaptionOptions, Weights, find_table
from deixis.tokens import distinct_phrase

if TYPE_CHECKING:
    from deixis.arrays import FloatArray, Floats
    from deixis.models.grounding import EmbeddingPipeline, RegionPipeline
    from deixis.models.m_rnn.pipeline import CaptionPipeline, Ranker
    from deixis.models.pipeline import Pipeline

_COMBINATIONS = {"entities": ENTITIES, "parts-alone": PARTS_ALONE, "two-branch": TWO_BRANCH}
_PROPOSALS = {"entities": 19, "parts-alone": 19, "two-branch": 200}
"""Number of proposals per photo. In Flickr30k Entities the whole photo is one more region."""

_BATCH = 64


def combined_scores(
    photo_model: EmbeddingPipeline, region_model: EmbeddingPipeline, weights: Weights, on: EvaluationData
) -> Floats:
    """Score photos (rows) against sentences (columns) by the summed distances of two models.

    The phrases of a sentence are those marked in the data.
    """
    visual = _photos_with_regions(photo_model, region_model, weights, on)
    text = _sentences_with_phrases(photo_model, region_model, on.photos)
    model = Combined(cast(Scorer, photo_model.model), cast(Scorer, region_model.model), _COMBINATIONS[weights])
    rows, count = [], len(on.photos)
    for begin in range(0, count, _BATCH):
        end = min(begin + _BATCH, count)
        rows.append(model.scores(visual.run(begin, end), text))
        on.on_progress("comparing regions with phrases", end, count)
    return np.concatenate(rows)


def _photos_with_regions(
    photo_model: EmbeddingPipeline, region_model: EmbeddingPipeline, weights: Weights, on: EvaluationData
) -> WithParts:
    features = on.features(region_model, regions=True)
    photos_as_regions = features.vectors()
    regions = []
    for index, photo_id in enumerate(on.photos.ids):
        vectors = features.proposal_vectors(photo_id)[: _PROPOSALS[weights]]
        # The two-branch paper does not use the whole photo as a region; a photo without proposals has no other.
        if weights != "two-branch" or not len(vectors):
            vectors = np.concatenate([vectors, photos_as_regions[index][None]])
        regions.append(region_model.model.prepare_visual(vectors))
    counts = np.array([len(rows) for rows in regions], dtype=np.int64)
    photos = photo_model.model.prepare_visual(on.features(photo_model).vectors())
    return WithParts(photos, np.concatenate(regions), counts)


def _sentences_with_phrases(
    photo_model: EmbeddingPipeline, region_model: EmbeddingPipeline, photos: Photos
) -> WithParts:
    captions = [caption for photo in photos for caption in photo.sentences]
    number: dict[str, int] = {}
    mentions = [caption.phrase(mention) for caption in captions for mention in caption.mentions]
    which = np.array([number.setdefault(phrase, len(number)) for phrase in mentions], dtype=np.int64)
    counts = np.array([len(caption.mentions) for caption in captions], dtype=np.int64)
    whole = photo_model.encode_sentences([caption.text for caption in captions])
    return WithParts(whole, region_model.encode_sentences(list(number)), counts, which)


MAX_COMMON_PHRASES = 24
"""Number of the most common phrases of the data itself that are scored in addition to those of the paper."""


def score_task(task: str, pipeline: Pipeline, on: EvaluationData) -> ModelScores:
    """Retrieval, sentence–sentence or region–phrase retrieval."""
    found = score_ranking(task, pipeline, on)
    return ModelScores(found.scores, found.rankings)


def score_combined(
    photo_model: EmbeddingPipeline, region_model: EmbeddingPipeline, weights: Weights, on: EvaluationData
) -> ModelScores:
    """Image–sentence retrieval by the distances of two models."""
    scores = combined_scores(photo_model, region_model, weights, on)
    found = recall_at_k(scores, sentences_of(on.photos).photo_of_sentence)
    return ModelScores(found.scores, found.rankings)


def score_grounding(pipeline: Pipeline, on: EvaluationData) -> ModelScores:
    """Phrase localization of all phrases, by type, and of common phrases; the gold is the union of a chain's boxes."""
    items = localization_items(on.photos)
    if not items:
        raise DatasetError(f"{on.dataset.path}: no phrase of the split to score on has a box")
    predictions = pipeline.predict_boxes(on.features(pipeline, regions=True), items, on.on_progress)
    found = scores_from_predictions(RankedPredictions.from_predictions(predictions, items))
    position = {photo: number for number, photo in enumerate(on.photos.ids)}
    scored = [position[photo] for photo in dict.fromkeys(item.photo for item in items)]
    return replace(found, second_half=np.array(scored) % 2 == 1)


_WITHIN = re.compile(r"(.*_ap|.*_ap_nms)")


def score_detection(pipeline: RegionPipeline, on: EvaluationData) -> ModelScores:
    """Phrase localization, with the average precision of Flickr30k Entities, section 3.2.

    Each distinct phrase ranks the regions of all photos: `ap` and `ap_nms` rank a photo once for a phrase, and with the
    ending `_mentions` once for each mention. The precision of a type is the mean over the distinct phrases that it
    mentions, and the overall one the mean over types, as the paper's 9.71 is. The precision over the photos that
    mention a phrase has the ending `_within`.
    """
    found, items = score_grounding(pipeline, on), localization_items(on.photos)
    regions, scores = phrase_scores(pipeline, on.features(pipeline, regions=True), items, on.on_progress)
    groups: dict[str, set[str]] = {}
    for item in items:
        phrase = distinct_phrase(item.phrase)
        for group in (*item.types, f"“{phrase}”"):
            groups.setdefault(group, set()).add(phrase)
    types = [group for group in groups if not group.startswith("“")]
    within = {f"{name}_within" if _WITHIN.fullmatch(name) else name: score for name, score in found.scores.items()}
    over_all: dict[str, float] = {}
    for ending, precisions in (
        ("", photo_precisions(scores, items, regions)),
        ("_mentions", average_precisions(scores, items, regions)),
    ):
        for name in ("ap", "ap_nms"):
            means = {
                group: float(np.mean([precisions[phrase][name] for phrase in phrases]))
                for group, phrases in groups.items()
            }
            means["overall"] = float(np.mean([means[kind] for kind in types] or list(means.values())))
            over_all |= {f"{group}_{name}{ending}": mean for group, mean in means.items() if f"{group}_n" in within}
    return replace(found, scores={**within, **over_all})


def scores_from_predictions(boxes: RankedPredictions) -> ModelScores:
    """Score predicted boxes: all phrases, each type, and common phrases."""
    every = MentionGroup(np.arange(len(boxes.items)), np.empty(0, dtype=np.intp))
    published = [row.label for row in find_table("entities-5").rows if row.label in boxes.phrases]
    phrases = {phrase: boxes.phrases[phrase] for phrase in published} | boxes.common_phrases(MAX_COMMON_PHRASES)
    groups = {**boxes.types, **{f"“{phrase}”": group for phrase, group in phrases.items()}}
    rankings = {name: _ranking(boxes, group) for name, group in {"": every, "overall": every, **groups}.items()}
    unscored = ModelScores({}, rankings)
    scores = values_of(unscored.statistics, boxes.photos)
    return replace(unscored, scores=scores | _precisions(boxes, groups))


def _ranking(boxes: RankedPredictions, group: MentionGroup) -> Ranking:
    """Return the rank of the first correct box of each mention, from 1; inf if no box is correct."""
    first = boxes.first[group.mentions]
    ranks = np.where(first == NEVER, np.inf, first + 1.0)
    return Ranking(ranks, boxes.box_counts[group.mentions], boxes.photo_of_item[group.mentions], boxes.photos)


def _precisions(boxes: RankedPredictions, groups: Mapping[str, MentionGroup]) -> dict[str, float]:
    """Return the average precision of each group; the overall one is the mean over types, as in Table 4."""
    found = {name: values_of(boxes.precisions("ap", [group], "area"), boxes.photos) for name, group in groups.items()}
    scores = {"overall_n": float(len(boxes.items))}
    for name, group in groups.items():
        scores[f"{name}_n"] = float(len(group.mentions))
        scores |= {f"{name}_{score}": value for score, value in found[name].items()}
    if boxes.types:
        for score in ("ap", "ap_nms"):
            scores[f"overall_{score}"] = float(np.mean([found[name][score] for name in boxes.types]))
    return scores


def score_captions(
    pipeline: CaptionPipeline, on: EvaluationData, options: CaptionOptions, training: Photos
) -> ModelScores:
    """Score the captions that a model generates, and compute the perplexity of the captions of the data.

    If captions are reranked by those of training photos, k and m of each half of the photos are tuned on the other
    half. `training` are the photos that the model was trained on.
    """
    features = on.features(pipeline)
    on.on_progress("writing captions", 0, None)
    references = {photo.id: tuple(caption.text for caption in photo.sentences) for photo in features.photos}
    ranker = _ranker(pipeline, on, options, list(references.values()), training)
    decoding = _decoding(options, pipeline.model.settings.max_length)
    found = score_captioner(pipeline, features, decoding, ranker=ranker, training=sentences_of(training).texts)
    perplexity, owner = found.perplexity, sentences_of(features.photos).photo_of_sentence
    bits, words = (np.bincount(owner, each, len(references)) for each in zip(*found.likelihoods, strict=True))
    about = {"words": f"{len(pipeline.vocabulary or ()):,} known, {perplexity.oov or 0:.1f} % of those scored unknown"}
    return ModelScores(
        values_of(found.captions.statistics, found.captions.n) | {"perplexity": perplexity.perplexity},
        about=about | (ranker.notes if isinstance(ranker, CrossValidatedReranker) else {}),
        captions={photo: (found.results[photo].text, texts) for photo, texts in references.items()},
        likelihoods={photo: (float(b), int(w)) for photo, b, w in zip(references, bits, words, strict=True)},
    )


def _decoding(options: CaptionOptions, max_length: int) -> Decoding:
    if options.beam < 2:
        return Decoding("greedy" if options.beam else "sample", max_length=max_length)
    return Decoding(beam=options.beam, top=1 if options.rerank == "none" else options.beam, max_length=max_length)


def _ranker(
    pipeline: CaptionPipeline,
    on: EvaluationData,
    options: CaptionOptions,
    references: Sequence[Sequence[str]],
    training: Photos,
) -> Ranker | None:
    if options.rerank == "none":
        return None
    similarity: Literal["bleu", "cider"] = "bleu" if options.rerank in ("bleu", "bleu-oracle") else "cider"
    if options.rerank != similarity:
        return Oracle(references, similarity)
    features = pipeline.features(on.dataset, training, also=on.stores, on_progress=on.on_progress)
    config = RerankConfig(options.feature, neighbour_distance=options.distance, bleu_form=options.bleu)
    neighbours = Neighbours.from_features(features, pipeline.encoder, config)
    return CrossValidatedReranker(neighbours, pipeline.model, similarity, references)


@dataclass
class CrossValidatedReranker:
    """Ranks sentences by the captions of similar training photos, with k and m tuned on the other half of the photos.

    `notes` say which k and m were chosen, once sentences were ranked.
    """

    is_consensus = True

    neighbours: Neighbours
    model: MRNN
    similarity: Literal["bleu", "cider"]
    references: Sequence[Sequence[str]]
    notes: dict[str, str] = field(default_factory=dict)

    def scores(self, photos: PhotoInputs, sentences: Sequence[Sequence[GeneratedSentence]]) -> list[FloatArray]:
        feature = self.neighbours.config.neighbour_feature
        vectors = neighbour_vectors(self.model, photo_arrays(photos)[0], feature)
        candidates = Candidates(vectors, [[each.words for each in some] for some in sentences], self.references)
        order, settings = cross_validated_order(self.neighbours.consensus(self.model), candidates, self.similarity)
        chosen = ", ".join(f"{each.neighbours} and {each.m}" for each in settings)
        self.notes[f"k and m of {self.similarity}, each from the other half"] = chosen
        return [-np.argsort(ranked).astype(np.float64) for ranked in order]
