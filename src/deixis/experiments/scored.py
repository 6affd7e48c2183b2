"""What models score on a split, kept query by query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DatasetError
from deixis.evaluation.group_scores import group_scores
from deixis.evaluation.localization_items import localization_items
from deixis.evaluation.localized import Group, Localized
from deixis.evaluation.of_data import regions_of, sentences_of
from deixis.evaluation.predictions import match_predictions
from deixis.evaluation.ranked_boxes import NEVER
from deixis.evaluation.retrieval import recall_at_k, region_retrieval, sentence_retrieval
from deixis.evaluation.retrieval_result import Ranking, RetrievalResult
from deixis.experiments.outcomes import Captions, Outcome, scores_of
from deixis.experiments.papers.entities import COMMONEST
from deixis.files.progress import OnProgress, silent

if TYPE_CHECKING:
    from deixis.experiments.records import Weights
    from deixis.tasks.bundle import Bundle
    from deixis.tasks.features_of import SeenPhotos

OWN_COMMONEST = 24
"""So many of the commonest phrases of the data itself are scored beside those of the paper."""


@dataclass(frozen=True)
class Scored:
    """What models are scored on.

    Attributes
    ----------
    dataset, photos
        Whose photos, and which.
    stores
        Features that lie elsewhere than beside the data.
    on_progress
        Called as the work goes on.
    """

    dataset: Dataset
    photos: Photos
    stores: tuple[Path, ...] = ()
    on_progress: OnProgress = silent

    def seen_by(self, bundle: Bundle, *, regions: bool = False) -> SeenPhotos:
        """The photos as the encoder of a model sees them, with its proposals where they are wanted."""
        from deixis.tasks.scores.scoring import seen_photos

        seen = seen_photos(
            bundle, self.dataset, self.photos, regions=regions, also=self.stores, on_progress=self.on_progress
        )
        return seen.require_all()


def score_retrieval(bundle: Bundle, on: Scored) -> Outcome:
    """Image–sentence retrieval."""
    from deixis.tasks.scores.scoring import retrieval_scores

    gold = sentences_of(on.photos)
    seen = on.seen_by(bundle)
    return _outcome(recall_at_k(retrieval_scores(bundle, seen, gold.texts), gold.photo_of_sentence))


def score_weighted(wholes: Bundle, parts: Bundle, weights: Weights, on: Scored) -> Outcome:
    """Image–sentence retrieval by the distances of two models."""
    from deixis.experiments.weighted import weighted_scores

    return _outcome(recall_at_k(weighted_scores(wholes, parts, weights, on), sentences_of(on.photos).photo_of_sentence))


def score_sentences(bundle: Bundle, on: Scored) -> Outcome:
    """Sentence–sentence retrieval."""
    from deixis.tasks.scores.scoring import sentence_scores

    gold = sentences_of(on.photos)
    return _outcome(sentence_retrieval(sentence_scores(bundle, gold.texts), gold.photo_of_sentence))


def score_regions(bundle: Bundle, on: Scored) -> Outcome:
    """Region–phrase retrieval: the gold regions of the photos ask for their phrases."""
    from deixis.tasks.pointing import gold_region_scores

    gold = regions_of(on.photos)
    scores = gold_region_scores(bundle, on.seen_by(bundle), gold)
    return _outcome(
        region_retrieval(scores, gold.positives, phrases=gold.phrases, photo_of_region=gold.photo_of_region)
    )


def captioned(captions: Captions, training: Iterable[str], perplexity: float | None = None) -> Outcome:
    """The outcome of captions that a model has made, one for each photo.

    Parameters
    ----------
    captions
        With those of people.
    training
        The captions that the model learned from: others are novel.
    perplexity
        Of the captions of people, which is no score of those that were made.

    Examples
    --------
    >>> made = captioned({"1": ("A dog runs.", ("A dog runs.",)), "2": ("A cat.", ("A dog.",))}, ["A cat."], 20.5)
    >>> round(made.scores["bleu1"], 2), made.scores["novel"], made.scores["perplexity"]
    (80.0, 50.0, 20.5)
    """
    found = scores_of(captions, training)
    once = np.ones((1, found.n))
    scores = {name: float(statistic(once)[0]) for name, statistic in found.statistics.items()}
    more = {} if perplexity is None else {"perplexity": perplexity}
    return Outcome(scores | more, captions=captions)


def _outcome(result: RetrievalResult) -> Outcome:
    return Outcome(result.scores, result.rankings)


def score_grounding(bundle: Bundle, on: Scored) -> Outcome:
    """Phrase localisation: of all phrases, by type, and of common phrases; the gold is the union of a chain's boxes."""
    from deixis.tasks.pointing import predictions_of

    items = localization_items(on.photos)
    if not items:
        raise DatasetError(f"{on.dataset.path}: no phrase of the split to score on has a box")
    given = predictions_of(bundle, on.seen_by(bundle, regions=True), items, on_progress=on.on_progress)
    boxes = Localized.of(match_predictions(given, items), items, "union")
    return localized_outcome(boxes)


def localized_outcome(boxes: Localized) -> Outcome:
    """The outcome of predictions that are laid against their golds."""
    every = Group(np.arange(len(boxes.items)), np.empty(0, dtype=np.intp))
    phrases = boxes.phrases
    ours = sorted(phrases, key=lambda phrase: (-len(phrases[phrase].mentions), phrase))[:OWN_COMMONEST]
    wanted = dict.fromkeys([*(phrase for phrase, _ in COMMONEST), *ours])
    groups = {**boxes.types, **{f"“{phrase}”": phrases[phrase] for phrase in wanted if phrase in phrases}}
    rankings = {name: _ranking(boxes, group) for name, group in {"": every, "overall": every, **groups}.items()}
    outcome = Outcome({}, rankings)
    once = np.ones((1, boxes.photos))
    scores = {name: float(statistic(once)[0]) for name, statistic in outcome.statistics.items()}
    return replace(outcome, scores=scores | _precisions(boxes, groups))


def _ranking(boxes: Localized, group: Group) -> Ranking:
    """The rank of the first right box of each mention, from 1; inf where no box is right."""
    first = boxes.first[group.mentions]
    ranks = np.where(first == NEVER, np.inf, first + 1.0)
    return Ranking(ranks, boxes.given[group.mentions], boxes.photo_of_item[group.mentions], boxes.photos)


def _precisions(boxes: Localized, groups: Mapping[str, Group]) -> dict[str, float]:
    """Average precision by group; that of all is the mean over the types, as in Table 4."""
    found = group_scores(boxes, groups, "area", rounds=1, seed=0)
    scores = {f"{name}_n": float(each.n) for name, each in found.items()}
    for score in ("ap", "ap_nms"):
        scores |= {f"{name}_{score}": getattr(each, score) for name, each in found.items()}
        if boxes.types:
            scores[f"overall_{score}"] = float(np.mean([getattr(found[name], score) for name in boxes.types]))
    return {**scores, "overall_n": float(len(boxes.items))}
