"""Scores of models on a split, for the rows of the papers' tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from deixis.data.dataset import Photos
from deixis.errors import DatasetError
from deixis.evaluation.items import localization_items, regions_of, sentences_of
from deixis.evaluation.phrase_localization import MentionGroup, RankedPredictions, group_scores
from deixis.evaluation.predictions import match_predictions
from deixis.evaluation.ranked_boxes import NEVER
from deixis.evaluation.retrieval import Ranking, RetrievalResult, recall_at_k, region_retrieval, sentence_retrieval
from deixis.models.base import Scorer
from deixis.models.cca.combined import ENTITIES, TWO_BRANCH, Combined, WithParts, mentioned_phrases
from deixis.models.consensus.consensus import Candidates, Similarity, best_first, cross_validated_order, oracle_scores
from deixis.models.consensus.reranking import Neighbours, RerankConfig, neighbour_vectors
from deixis.models.evaluation import EvaluationData
from deixis.models.m_rnn.decoding import Decoding, GeneratedSentence
from deixis.models.m_rnn.evaluation import caption_perplexity
from deixis.papers.results import Captions, ModelScores, score_caption_texts
from deixis.papers.tables import find_table

if TYPE_CHECKING:
    from deixis.arrays import Floats
    from deixis.models.grounding import EmbeddingPipeline
    from deixis.models.m_rnn.captioning import CaptionPipeline
    from deixis.models.pipeline import Pipeline
    from deixis.papers.tables import CaptionOptions, Weights


_COMBINATIONS = {"entities": ENTITIES, "two-branch": TWO_BRANCH}
_PROPOSALS = {"entities": 19, "two-branch": 200}
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
        if weights == "entities" or not len(vectors):
            vectors = np.concatenate([vectors, photos_as_regions[index][None]])
        regions.append(region_model.model.prepare_visual(vectors))
    counts = np.array([len(rows) for rows in regions], dtype=np.int64)
    photos = photo_model.model.prepare_visual(on.features(photo_model).vectors())
    return WithParts(photos, np.concatenate(regions), counts)


def _sentences_with_phrases(
    photo_model: EmbeddingPipeline, region_model: EmbeddingPipeline, photos: Photos
) -> WithParts:
    captions = [caption for photo in photos for caption in photo.sentences]
    phrases = mentioned_phrases(captions)
    return WithParts(
        photo_model.encode_sentences([caption.text for caption in captions]),
        region_model.encode_sentences(phrases.texts),
        phrases.counts,
        phrases.which,
    )


MAX_COMMON_PHRASES = 24
"""Number of the most common phrases of the data itself that are scored in addition to those of the paper."""


def score_retrieval(pipeline: Pipeline, on: EvaluationData) -> ModelScores:
    """Image–sentence retrieval."""
    gold = sentences_of(on.photos)
    scores = pipeline.retrieval_scores(on.features(pipeline), gold.texts, on.on_progress)
    return _scores_from_retrieval(recall_at_k(scores, gold.photo_of_sentence))


def score_combined(
    photo_model: EmbeddingPipeline, region_model: EmbeddingPipeline, weights: Weights, on: EvaluationData
) -> ModelScores:
    """Image–sentence retrieval by the distances of two models."""
    return _scores_from_retrieval(
        recall_at_k(combined_scores(photo_model, region_model, weights, on), sentences_of(on.photos).photo_of_sentence)
    )


def score_sentences(pipeline: Pipeline, on: EvaluationData) -> ModelScores:
    """Sentence–sentence retrieval."""
    gold = sentences_of(on.photos)
    return _scores_from_retrieval(sentence_retrieval(pipeline.sentence_scores(gold.texts), gold.photo_of_sentence))


def score_regions(pipeline: Pipeline, on: EvaluationData) -> ModelScores:
    """Region–phrase retrieval: gold regions are the queries, phrases the results."""
    gold = regions_of(on.photos)
    scores = pipeline.region_scores(on.features(pipeline), gold, on.on_progress)
    return _scores_from_retrieval(
        region_retrieval(scores, gold.positives, phrases=gold.phrases, photo_of_region=gold.photo_of_region)
    )


def scores_from_captions(captions: Captions, training: Iterable[str], perplexity: float | None = None) -> ModelScores:
    """Score generated captions, one per photo. `perplexity` is that of the reference captions."""
    found = score_caption_texts(captions, training)
    once = np.ones((1, found.n))
    scores = {name: float(statistic(once)[0]) for name, statistic in found.statistics.items()}
    more = {} if perplexity is None else {"perplexity": perplexity}
    return ModelScores(scores | more, captions=captions)


def _scores_from_retrieval(result: RetrievalResult) -> ModelScores:
    return ModelScores(result.scores, result.rankings)


def score_grounding(pipeline: Pipeline, on: EvaluationData) -> ModelScores:
    """Phrase localization of all phrases, by type, and of common phrases; the gold is the union of a chain's boxes."""
    items = localization_items(on.photos)
    if not items:
        raise DatasetError(f"{on.dataset.path}: no phrase of the split to score on has a box")
    predictions = pipeline.predict_boxes(on.features(pipeline, regions=True), items, on.on_progress)
    boxes = RankedPredictions.from_matched(match_predictions(predictions, items), items, "union")
    return scores_from_predictions(boxes)


def scores_from_predictions(boxes: RankedPredictions) -> ModelScores:
    """Score predicted boxes: all phrases, each type, and common phrases."""
    every = MentionGroup(np.arange(len(boxes.items)), np.empty(0, dtype=np.intp))
    phrases = boxes.phrases
    common = sorted(phrases, key=lambda phrase: (-len(phrases[phrase].mentions), phrase))[:MAX_COMMON_PHRASES]
    scored = dict.fromkeys([*(row.label for row in find_table("entities-5").rows), *common])
    groups = {**boxes.types, **{f"“{phrase}”": phrases[phrase] for phrase in scored if phrase in phrases}}
    rankings = {name: _ranking(boxes, group) for name, group in {"": every, "overall": every, **groups}.items()}
    unscored = ModelScores({}, rankings)
    once = np.ones((1, boxes.photos))
    scores = {name: float(statistic(once)[0]) for name, statistic in unscored.statistics.items()}
    return replace(unscored, scores=scores | _precisions(boxes, groups))


def _ranking(boxes: RankedPredictions, group: MentionGroup) -> Ranking:
    """Return the rank of the first correct box of each mention, from 1; inf if no box is correct."""
    first = boxes.first[group.mentions]
    ranks = np.where(first == NEVER, np.inf, first + 1.0)
    return Ranking(ranks, boxes.box_counts[group.mentions], boxes.photo_of_item[group.mentions], boxes.photos)


def _precisions(boxes: RankedPredictions, groups: Mapping[str, MentionGroup]) -> dict[str, float]:
    """Return the average precision of each group; the overall one is the mean over types, as in Table 4."""
    found = group_scores(boxes, groups, "area", rounds=1, seed=0)
    scores = {f"{name}_n": float(each.n) for name, each in found.items()}
    for score in ("ap", "ap_nms"):
        scores |= {f"{name}_{score}": getattr(each, score) for name, each in found.items()}
        if boxes.types:
            scores[f"overall_{score}"] = float(np.mean([getattr(found[name], score) for name in boxes.types]))
    return {**scores, "overall_n": float(len(boxes.items))}


def score_captions(
    pipeline: CaptionPipeline, on: EvaluationData, options: CaptionOptions, training: Photos
) -> ModelScores:
    """Score the captions that a model generates, and compute the perplexity of the captions of the data.

    If captions are reranked by those of training photos, k and m of each half of the photos are tuned on the other
    half. `training` are the photos that the model was trained on.
    """
    model, features, gold = pipeline.use_best_device().model, on.features(pipeline), sentences_of(on.photos)
    photos = pipeline.model_inputs(features, on.on_progress)
    on.on_progress("writing captions", 0, len(features.photos))
    generated = model.generate(photos, _decoding(options, model.settings.max_length))
    references = {photo.id: tuple(caption.text for caption in photo.sentences) for photo in on.photos}
    chosen, notes = _choose_captions(pipeline, on, options, generated, list(references.values()), training)
    captions = {photo: (text, references[photo]) for photo, text in zip(features.photos.ids, chosen, strict=True)}
    found = caption_perplexity(model, photos, gold.texts, np.array(gold.photo_of_sentence))
    scores = scores_from_captions(captions, sentences_of(training).texts, found.perplexity)
    vocabulary = {"words": f"{len(model.vocabulary):,} known, {found.oov or 0:.1f} % of those scored unknown"}
    return replace(scores, about=vocabulary | notes)


def _decoding(options: CaptionOptions, max_length: int) -> Decoding:
    if options.beam == 1:
        return Decoding(method="greedy", max_length=max_length)
    return Decoding(beam=options.beam, count=1 if options.rerank == "none" else options.beam, max_length=max_length)


def _choose_captions(
    pipeline: CaptionPipeline,
    on: EvaluationData,
    options: CaptionOptions,
    generated: Sequence[Sequence[GeneratedSentence]],
    references: Sequence[Sequence[str]],
    training: Photos,
) -> tuple[list[str], dict[str, str]]:
    """Return the caption of each photo, and notes on how it was chosen."""
    if options.rerank == "none":
        return [captions[0].text for captions in generated], {}
    sentences = [[each.words for each in captions] for captions in generated]
    notes = {}
    if options.rerank in ("bleu-oracle", "cider-oracle"):
        scores = oracle_scores(sentences, references, "bleu" if options.rerank == "bleu-oracle" else "cider")
        order = list(map(best_first, scores))
    else:
        similarity: Similarity = "bleu" if options.rerank == "bleu" else "cider"
        photos = on.features(pipeline)
        trained_on = pipeline.features(on.dataset, training, also=on.stores, on_progress=on.on_progress)
        neighbours = Neighbours.from_features(trained_on, pipeline.encoder, RerankConfig(options.feature))
        vectors = neighbour_vectors(pipeline.model, photos.vectors(), options.feature)
        candidates = Candidates(vectors, sentences, references)
        order, settings = cross_validated_order(neighbours.consensus(pipeline.model), candidates, similarity)
        notes = {
            f"k and m of {similarity}, each from the other half": ", ".join(
                f"{each.neighbours} and {each.m}" for each in settings
            )
        }
    return [captions[int(ranked[0])].text for captions, ranked in zip(generated, order, strict=True)], notes
