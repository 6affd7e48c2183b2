"""Evaluation on a data set: of models, and of files with the scores or predictions of any system."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from deixis.arrays import Floats
from deixis.data.dataset import Dataset, Photos
from deixis.data.records import Photo
from deixis.errors import DeixisError
from deixis.evaluation.baselines import best_fixed_boxes
from deixis.evaluation.box_sets import box_set_scores
from deixis.evaluation.intervals import Comparison, Result, Statistic, mean_of
from deixis.evaluation.items import (
    Item,
    Protocol,
    distinct_phrases,
    localization_items,
    regions_of,
    sentences_of,
    typical_wording,
)
from deixis.evaluation.phrase_localization import compare_localization, localization
from deixis.evaluation.phrase_precision import CandidateBoxes, phrase_precision
from deixis.evaluation.phrase_presence import best_region_scores, mentioned_in_photos, score_presence
from deixis.evaluation.predictions import read_predictions, write_predictions
from deixis.evaluation.retrieval import (
    Ranking,
    RetrievalResult,
    nearest_photos,
    recall_at_k,
    region_retrieval,
    sentence_retrieval,
    sentence_shortlists,
)
from deixis.evaluation.score_matrix import ScoreBlocks, Scores, as_blocks, open_scores
from deixis.language.sentence import Sentence, parents, parse_sentences
from deixis.models.arguments import check_path, check_text
from deixis.models.installed import model_folder
from deixis.models.pipeline import TASKS, Pipeline, load
from deixis.storage.atomic import new_file
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.vision.feature_store.files import read_manifest

if TYPE_CHECKING:
    from deixis.evaluation.predictions import NegativePrediction, Prediction
    from deixis.models.grounding import RegionPipeline
    from deixis.models.m_rnn.evaluation import CaptionerScores
    from deixis.models.m_rnn.pipeline import CaptionPipeline, Ranker
    from deixis.models.photo_features import PhotoFeatures

Name = str | PathLike[str]
EvaluationTask = Literal["retrieval", "sentences", "regions", "grounding", "captions"]
Reranking = Literal["none", "match", "bleu", "cider", "bleu-oracle", "cider-oracle"]

_PAIRS_AT_ONCE = 1 << 22
"""Pairs of phrase and region that are scored between two reports of progress."""

_PRECISIONS = ("ap", "ap_nms", "macro_ap", "macro_ap_nms")


@dataclass(frozen=True)
class EvaluationData:
    """The photos that models are evaluated on; `stores` are feature stores outside the data set."""

    dataset: Dataset
    photos: Photos
    stores: tuple[Path, ...] = ()
    on_progress: OnProgress = no_progress

    @classmethod
    def open(
        cls,
        data: Name,
        split: str | None = None,
        *,
        images: Name | None = None,
        features: Name | None = None,
        on_progress: OnProgress = no_progress,
    ) -> EvaluationData:
        """Open a split of a data set, or all of it; see `evaluate` for the parameters."""
        dataset = Dataset(check_path(data, "data"), images=None if images is None else check_path(images, "images"))
        stores = () if features is None else (Path(check_path(features, "features")),)
        for store in stores:
            read_manifest(store)  # a wrong path is an error here, and not ignored
        return cls(dataset, dataset.split(split) if split else dataset.photos, stores, on_progress)

    def features(self, pipeline: Pipeline, *, regions: bool = False) -> PhotoFeatures:
        """Features of all photos for a model, with its region proposals on request."""
        found = pipeline.features(
            self.dataset, self.photos, regions=regions, also=self.stores, on_progress=self.on_progress
        )
        return found.require_all()


@dataclass(frozen=True)
class System:
    """A system to evaluate: a model, or a file with its scores or predictions."""

    path: Name
    is_model: bool

    def load(self, task: EvaluationTask) -> Pipeline:
        """Open the model, and refuse it unless it can do the task."""
        pipeline = load(self.path)
        pipeline.require(task)
        return pipeline


@dataclass(frozen=True)
class Evaluation:
    """Scores of a system."""

    task: str
    model: str
    scores: Mapping[str, Any]  # with their intervals, as JSON
    comparison: Mapping[str, Comparison] = field(default_factory=dict)  # differences from another system, by score
    rankings: Mapping[str, Ranking] = field(default_factory=dict)  # ranks of the correct results, for recall curves
    data: str | None = None
    split: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the document of ``deixis evaluate --json``."""
        document = {"task": self.task, "model": self.model, "data": self.data, "split": self.split, **self.scores}
        if self.comparison:
            document["difference"] = {
                name: {"difference": found.difference, "interval": [found.low, found.high], "p": found.p}
                for name, found in self.comparison.items()
            }
        return document


def evaluate(
    task: EvaluationTask,
    data: Name,
    *,
    model: Name | None = None,
    predictions: Name | None = None,
    scores: Name | None = None,
    split: str | None = None,
    against: Name | None = None,
    images: Name | None = None,
    features: Name | None = None,
    on_progress: OnProgress = no_progress,
    **options: Any,
) -> dict[str, Any]:
    """Evaluate a model, or the scores or predictions of any system, on a data set.

    Parameters
    ----------
    task
        retrieval, sentences, regions, grounding or captions.
    data
        A data set directory.
    model
        A name that ``deixis models`` lists, or the directory of a model.
    predictions
        Instead of a model, for grounding and captions: a file of predictions (JSON Lines, or COCO results).
    scores
        Instead of a model, for the other tasks: a matrix in a ``.npy`` file, higher is better.
    split
        Evaluate one split; all photos by default.
    against
        Another model or file, to test whether the difference is significant.
    images
        Where the photos are now, if not where they were at the import.
    features
        A feature store outside the data set.
    on_progress
        Progress callback.
    **options
        Options of the task, such as ``protocol`` for grounding or ``beam`` for captions.

    Returns
    -------
    dict
        The document that ``deixis evaluate TASK --json`` prints.

    Examples
    --------
    >>> import deixis
    >>> deixis.evaluate("grounding", "flickr8k", model="grounder", split="dev")["r1"]  # doctest: +SKIP
    71.2
    """
    if check_text(task, "task") not in TASKS:
        raise DeixisError(f"task {task!r}: choose from {', '.join(TASKS)}")
    takes_predictions = task in ("grounding", "captions")
    file, other, name = (predictions, scores, "predictions") if takes_predictions else (scores, predictions, "scores")
    if other is not None or (model is None) == (file is None):
        raise DeixisError(f"{task}: give one of model and {name}")
    systems = open_systems(model, file, against)
    opened = EvaluationData.open(data, split, images=images, features=features, on_progress=on_progress)
    found: Evaluation = _EVALUATORS[task](opened, systems, **options)
    return replace(found, data=fspath(data), split=split).as_json()


def open_systems(model: Name | None, file: Name | None, against: Name | None = None) -> list[System]:
    """The system to evaluate, and the one to compare it with."""
    systems = [System(model, True)] if model is not None else [System(cast(Name, file), False)]
    return [*systems, *([System(against, model_folder(against).is_dir())] if against is not None else [])]


# Tasks whose systems give a matrix of scores.


@dataclass(frozen=True)
class MatrixTask:
    """A task whose systems score every query against every result."""

    gold: Callable[[Photos], Any]
    model_scores: Callable[[Pipeline, EvaluationData, Any], Scores]
    rank: Callable[..., RetrievalResult]  # scores a matrix against the gold; options differ by task


MATRIX_TASKS: Mapping[str, MatrixTask] = {
    "retrieval": MatrixTask(
        sentences_of,
        lambda pipeline, on, gold: pipeline.retrieval_scores(on.features(pipeline), gold.texts, on.on_progress),
        lambda matrix, gold, **options: recall_at_k(matrix, gold.photo_of_sentence, **options),
    ),
    "sentences": MatrixTask(
        sentences_of,
        lambda pipeline, on, gold: pipeline.sentence_scores(gold.texts),
        lambda matrix, gold: sentence_retrieval(matrix, gold.photo_of_sentence),
    ),
    "regions": MatrixTask(
        regions_of,
        lambda pipeline, on, gold: pipeline.region_scores(on.features(pipeline), gold, on.on_progress),
        lambda matrix, gold: region_retrieval(
            matrix, gold.positives, phrases=gold.phrases, photo_of_region=gold.photo_of_region
        ),
    ),
}
"""retrieval: image–sentence retrieval in both directions; sentences: each asks for the others of its photo; regions:
each gold region asks for its phrases."""


def score_ranking(task: str, pipeline: Pipeline, on: EvaluationData) -> RetrievalResult:
    """Score a model on a task of `MATRIX_TASKS`."""
    gold = MATRIX_TASKS[task].gold(on.photos)
    return MATRIX_TASKS[task].rank(MATRIX_TASKS[task].model_scores(pipeline, on, gold), gold)


def evaluate_ranking(
    task: EvaluationTask, on: EvaluationData, systems: Sequence[System], *, out: Name | None = None, **options: Any
) -> Evaluation:
    """Evaluate systems on a task of `MATRIX_TASKS`; `out` is a ``.npy`` file for the scores of a model."""
    _check_matrix_file(out)
    gold = MATRIX_TASKS[task].gold(on.photos)
    results = []
    for system in systems:
        if system.is_model:
            matrix = MATRIX_TASKS[task].model_scores(system.load(task), on, gold)
            if out is not None and system is systems[0]:
                matrix = _save_matrix(matrix, Path(out))
        else:
            matrix = open_scores(Path(system.path))
        on.on_progress("ranking", 0, None)
        results.append(MATRIX_TASKS[task].rank(matrix, gold, **options))
    return _compare_rankings(task, systems, results)


def evaluate_retrieval(
    on: EvaluationData,
    systems: Sequence[System],
    *,
    shortlist: int = 0,
    folds: int = 1,
    out: Name | None = None,
    all_matches: bool = False,
) -> Evaluation:
    """Image–sentence retrieval in both directions.

    With `shortlist`, each photo ranks only the sentences of this many nearest photos, with `folds` only those of its
    part of the photos. `all_matches` ranks every correct answer, for curves.
    """
    shortlists = None
    if shortlist:
        if not systems[0].is_model:
            raise DeixisError("--shortlist: needs --model, whose features say which photos are near each other")
        vectors = on.features(load(systems[0].path)).vectors()
        photo_of_sentence = sentences_of(on.photos).photo_of_sentence
        shortlists = sentence_shortlists(list(nearest_photos(vectors, shortlist)), photo_of_sentence)
    options = {"i2t_shortlists": shortlists, "folds": folds, "all_matches": all_matches}
    return evaluate_ranking("retrieval", on, systems, out=out, **options)


def evaluate_matrix(systems: Sequence[System], on_progress: OnProgress, **options: Any) -> Evaluation:
    """Image–sentence retrieval of matrices without a data set; options are those of `recall_at_k`."""
    for system in systems:
        if system.is_model:
            raise DeixisError(f"{fspath(system.path)}: a model is evaluated on a data set; give --data DATA")
    on_progress("ranking", 0, None)
    results = [recall_at_k(open_scores(Path(system.path)), **options) for system in systems]
    return _compare_rankings("retrieval", systems, results)


def _compare_rankings(task: str, systems: Sequence[System], results: Sequence[RetrievalResult]) -> Evaluation:
    compared = results[0].compare(results[1]) if len(results) == 2 else {}
    return Evaluation(task, fspath(systems[0].path), results[0].as_json(), compared, results[0].rankings)


def _check_matrix_file(out: Name | None) -> None:
    if out is not None and (Path(out).suffix != ".npy" or not Path(out).absolute().parent.is_dir()):
        raise DeixisError(f"--out {fspath(out)}: must end in .npy, in a directory that exists")


def _save_matrix(scores: Scores, out: Path) -> Scores:
    blocks = as_blocks(scores)
    matrix = np.asarray(blocks.rows(0, blocks.shape[0]))
    with new_file(out) as unfinished, unfinished.open("wb") as file:
        np.save(file, matrix.astype(np.float32), allow_pickle=False)
    return matrix


# Phrase localization.


def evaluate_grounding(
    on: EvaluationData,
    systems: Sequence[System],
    *,
    protocol: Protocol | Literal["sets", "nested"] = "union",
    blind_split: str | None = None,
    missing_as_wrong: bool = False,
    all_photos: bool = False,
    out: Name | None = None,
) -> Evaluation:
    """Phrase localization, beside the best fixed box of each entity type, which are fitted on `blind_split`.

    In the protocol union, as in the papers, the gold is the union of the boxes of a chain; in any, each of them; sets
    is union with the F1 of sets of boxes in addition; nested needs no gold boxes (`deixis.evaluation.nesting`).
    `missing_as_wrong` counts phrases without a prediction as wrong instead of refusing them; `all_photos` also ranks
    each phrase over the regions of all photos; `out` is a JSON Lines file for the predictions of a model.
    """
    if protocol == "nested":
        if all_photos or missing_as_wrong or blind_split:
            raise DeixisError("--protocol nested: has no gold boxes, so options about them have no meaning")
        return _evaluate_nested(on, systems, out)
    items = localization_items(on.photos)
    has_sets, protocol = protocol == "sets", "union" if protocol == "sets" else protocol
    splits = on.dataset.manifest.splits
    blind_split = blind_split or ("train" if "train" in splits else None)
    blind = None
    if blind_split:
        on.on_progress(f"finding the best fixed boxes on {blind_split}", 0, None)
        blind = best_fixed_boxes(localization_items(on.dataset.split(blind_split)), protocol=protocol)
    predictions = [_predictions(on, system, items) for system in systems]
    if out is not None:
        write_predictions(Path(out), predictions[0])
    missing: Literal["miss", "error"] = "miss" if missing_as_wrong else "error"
    on.on_progress(f"scoring {len(items):,} phrases", 0, None)
    result = localization(predictions[0], items, protocol=protocol, blind=blind, missing=missing)
    compared = (
        compare_localization(predictions[0], predictions[1], items, protocol=protocol, missing=missing)
        if len(predictions) == 2
        else {}
    )
    scores: dict[str, Any] = result.as_json()
    if has_sets:
        sets = [box_set_scores(each, items, missing=missing) for each in predictions]
        scores, compared = _with_scores(scores, compared, sets, "sets")
    if all_photos:
        pipeline = cast("RegionPipeline", systems[0].load("grounding"))
        features = on.features(pipeline, regions=True)
        precision, presence = search_phrases(pipeline, features, items, protocol, on.on_progress)
        scores = _with_all_photos(scores, precision.as_json(), presence.as_json())
    return Evaluation("grounding", fspath(systems[0].path), scores, compared)


def _with_scores(
    scores: Mapping[str, Any], compared: Mapping[str, Comparison], more: Sequence[Result], protocol: str
) -> tuple[dict[str, Any], dict[str, Comparison]]:
    """Add more scores of the same systems to those of the first, and to its differences from the other."""
    first, *others = more
    found = first.as_json()
    both = {**scores, **found, "protocol": protocol, "interval": {**scores["interval"], **found["interval"]}}
    return both, {**compared, **(first.compare(others[0]) if others else {})}


def _evaluate_nested(on: EvaluationData, systems: Sequence[System], out: Name | None) -> Evaluation:
    """The phrases of all sentences and those inside them; those of a file are the ones that it has."""
    from deixis.evaluation.nesting import compare_nesting, nesting_scores

    items = nested_items(on.photos, on.on_progress) if any(system.is_model for system in systems) else []
    predictions = [_predictions(on, system, items) for system in systems]
    if out is not None:
        write_predictions(Path(out), predictions[0])
    scores = nesting_scores(predictions[0]).as_json()
    compared = compare_nesting(predictions[0], predictions[1]) if len(predictions) == 2 else {}
    return Evaluation("grounding", fspath(systems[0].path), scores, compared)


def nested_items(photos: Iterable[Photo], on_progress: OnProgress = no_progress) -> list[Item]:
    """The phrases of every sentence that contain others, and the phrases inside them; they have no gold boxes."""
    found: list[Item] = []
    for photo in photos:
        sentences = {
            index: Sentence.from_caption(caption)
            for index, caption in enumerate(photo.captions)
            if caption.related and not caption.region_phrase
        }
        parse_sentences(sentences.values())
        for index, sentence in sentences.items():
            phrases = sentence.nested_phrases
            if any(parent is not None for parent in parents([phrase.span for phrase in phrases])):
                found += [Item(photo.id, index, phrase.span, phrase.text, phrase.types, ()) for phrase in phrases]
        on_progress("parsing sentences", len(found), None)
    return found


def _predictions(
    on: EvaluationData, system: System, items: Sequence[Item]
) -> Sequence[Prediction | NegativePrediction]:
    if not system.is_model:
        return read_predictions(Path(system.path))
    pipeline = system.load("grounding")
    return pipeline.predict_boxes(on.features(pipeline, regions=True), items, on.on_progress)


def phrase_scores(
    pipeline: RegionPipeline, features: PhotoFeatures, items: Sequence[Item], on_progress: OnProgress = no_progress
) -> tuple[CandidateBoxes, ScoreBlocks]:
    """The regions of all photos, and the scores of every distinct phrase (rows) for them, block by block."""
    ids = features.photos.ids
    regions = CandidateBoxes.from_boxes({photo_id: features.proposals(photo_id) for photo_id in ids})
    tracked = track(ids, "reading regions", len(ids), on_progress)
    visual = np.concatenate([pipeline.proposal_vectors(features, photo_id) for photo_id in tracked])
    text = pipeline.encode_phrases(typical_wording(items))

    def rows(begin: int, end: int) -> Floats:
        on_progress("looking for phrases in all photos", end, len(text))
        return np.ascontiguousarray(pipeline.compare(visual, text[begin:end]).T)

    return regions, ScoreBlocks((len(text), len(visual)), rows, max(1, _PAIRS_AT_ONCE // max(1, len(visual))))


def search_phrases(
    pipeline: RegionPipeline,
    features: PhotoFeatures,
    items: Sequence[Item],
    protocol: Protocol = "union",
    on_progress: OnProgress = no_progress,
) -> tuple[Result, Result]:
    """Look for every distinct phrase in all photos, whether they mention it or not, in one pass over the scores.

    Each phrase ranks the regions of all photos, and the photos by their best regions. Phrases are read without their
    sentences, and proposals are not refined. The vectors of all photos are held in memory, 100 MB for 100,000 of size
    256.
    """
    regions, scores = phrase_scores(pipeline, features, items, on_progress)
    best = np.empty((scores.shape[0], len(regions.photos)))

    def rows(begin: int, end: int) -> Floats:
        found = scores.rows(begin, end)
        # Kept while the scores are here: computing them again would take as long as everything else.
        best[begin:end] = best_region_scores(found, regions)
        return found

    precision = phrase_precision(replace(scores, rows=rows), items, regions, protocol=protocol)
    mentioned = mentioned_in_photos(distinct_phrases(items), features.photos)
    return precision, score_presence(best, mentioned)


def _with_all_photos(
    result: Mapping[str, Any], precision: Mapping[str, Any], presence: Mapping[str, Any]
) -> dict[str, Any]:
    """Scores of localization, with average precisions of rankings over all photos, and with presence."""
    groups = {
        heading: {name: _with_precisions(scores, precision[heading][name]) for name, scores in result[heading].items()}
        for heading in ("by_type", "by_phrase")
    }
    found = _with_precisions(result, precision)
    return {**found, **groups, "ranked_photos": float(precision["photos"]), "presence": presence}


def _with_precisions(scores: Mapping[str, Any], precision: Mapping[str, Any]) -> dict[str, Any]:
    replaced = {name: precision[name] for name in _PRECISIONS if name in precision}
    return {**scores, **replaced, "interval": {**scores["interval"], **precision["interval"]}}


# Captions.


def evaluate_captions(
    on: EvaluationData,
    systems: Sequence[System],
    *,
    train_split: str | None = None,
    beam: int | None = None,
    length_power: float = 0.0,
    rerank: Reranking | None = None,
    neighbours: Name | None = None,
    photo_score: bool = False,
) -> Evaluation:
    """Captions: BLEU, CIDEr, ROUGE-L, METEOR, novelty and diversity; for a model also perplexity.

    Captions of `train_split` are not novel. The other options say how a model writes captions. By default captions are
    ranked as ``deixis caption`` ranks them, or by `length_power` if it is given. `photo_score` also scores captions by
    their photos, without and with the references.
    """
    from deixis.evaluation.captions import CaptionScores, caption_scores, compare_captions
    from deixis.evaluation.captions.results_file import match_results, read_results

    if not systems[0].is_model and rerank is not None:
        raise DeixisError("--rerank: needs a model that writes captions; give --model DIR")
    train_split = train_split or ("train" if "train" in on.dataset.manifest.splits else None)
    training = sentences_of(on.dataset.split(train_split)).texts if train_split else None
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in on.photos}
    written: list[Mapping[str, str]] = []  # the captions of each system, by photo

    def score_model(system: System) -> CaptionerScores:
        from deixis.models.m_rnn.evaluation import score_captioner

        pipeline = cast("CaptionPipeline", system.load("captions"))
        ranking = rerank or ("none" if length_power else pipeline.default_rerank)
        ranker = _ranker(on, pipeline, ranking, neighbours)
        decoding = pipeline.beam_search(beam, 1, length_power=length_power, ranker=ranker)
        features = on.features(pipeline)
        on.on_progress(f"writing and scoring captions of {len(features.photos):,} photos", 0, None)
        found = score_captioner(pipeline, features, decoding, ranker=ranker, training=training)
        written.append({photo: result.text for photo, result in found.results.items()})
        return found

    def score_file(system: System) -> CaptionScores:
        on.on_progress(f"scoring {len(references):,} photos", 0, None)
        written.append(match_results(read_results(Path(system.path)), on.photos))
        return caption_scores(written[-1], references, training=training)

    results = [score_model(system) if system.is_model else score_file(system) for system in systems]
    own = [found if isinstance(found, CaptionScores) else found.captions for found in results]
    compared = compare_captions(*own) if len(own) == 2 else {}
    scores: dict[str, Any] = {**results[0].as_json()}
    if photo_score:
        n, protocol = len(on.photos), f"{scores['protocol']}; {PHOTO_SCORE}"
        by_photo = [Result.of({}, _photo_statistics(on, captions, references), n) for captions in written]
        scores, compared = _with_scores(scores, compared, by_photo, protocol)
    return Evaluation("captions", fspath(systems[0].path), scores, compared)


PHOTO_SCORE = "photo_score: mean probability that a caption is right by its photo, ref_photo_score: and by references"


def _photo_statistics(
    on: EvaluationData, captions: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> dict[str, Statistic]:
    """The scores of captions by their photos, in percent."""
    from deixis.models.photo_score import data_scores, shipped_scorer

    features = on.features(shipped_scorer().region_model, regions=True)
    on.on_progress("scoring captions by photos", 0, None)
    by_photo, with_references = data_scores(features, captions, references)
    found = {"photo_score": mean_of(100 * by_photo)}
    return found if with_references is None else {**found, "ref_photo_score": mean_of(100 * with_references)}


def _ranker(on: EvaluationData, pipeline: CaptionPipeline, rerank: Reranking, neighbours: Name | None) -> Ranker | None:
    from deixis.models.m_rnn.consensus import Oracle

    if rerank != "bleu-oracle" and rerank != "cider-oracle":
        return pipeline.ranker(rerank, neighbours)
    similarity: Literal["bleu", "cider"] = "bleu" if rerank == "bleu-oracle" else "cider"
    return Oracle([[caption.text for caption in photo.sentences] for photo in on.photos], similarity)


_EVALUATORS: Mapping[str, Callable[..., Evaluation]] = {
    "retrieval": evaluate_retrieval,
    "sentences": partial(evaluate_ranking, "sentences"),
    "regions": partial(evaluate_ranking, "regions"),
    "grounding": evaluate_grounding,
    "captions": evaluate_captions,
}
