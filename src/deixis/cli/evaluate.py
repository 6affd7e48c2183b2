"""`deixis evaluate`: scores of a model, or of anybody's system from its matrix of scores or its predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deixis.cli.output import Json, print_json, print_table, progress, working
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.data.dataset import Photos
    from deixis.evaluation.intervals import Comparison
    from deixis.evaluation.retrieval_result import RetrievalResult
    from deixis.evaluation.scores import Scores as Matrix
    from deixis.files.progress import OnProgress
    from deixis.tasks.bundle import Bundle

app = typer.Typer(help="Score a system: retrieval, sentences, regions, grounding or captions.", no_args_is_help=True)

Data = Annotated[Path, typer.Option("--data", metavar="DATA", help="A data set directory.", show_default=False)]
Split = Annotated[str | None, typer.Option("--split", metavar="NAME", help="Score one split; all photos unless said.")]
Scores = Annotated[
    Path | None,
    typer.Option("--scores", metavar="FILE.npy", help="A matrix of scores, higher is better."),
]
Model = Annotated[
    Path | None,
    typer.Option("--model", metavar="DIR", help="A model that deixis train made, instead of --scores."),
]
Against = Annotated[
    Path | None,
    typer.Option("--against", metavar="FILE|DIR", help="Another system's file, or a model: is the difference real?"),
]

OfModel = Callable[["Bundle", "OnProgress"], "Matrix"]
"""The scores of a model on the data that was asked for."""


def _photos(data: Path, split: str | None) -> Photos:
    from deixis.data.dataset import Dataset

    dataset = Dataset(data)
    return dataset.split(split) if split else dataset.photos


@app.command()
def retrieval(
    scores: Scores = None,
    model: Model = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DATA", help="A data set directory.", show_default=False)
    ] = None,
    split: Split = None,
    captions_per_photo: Annotated[
        int | None, typer.Option(min=1, help="Instead of --data: sentence j belongs to photo j // N.")
    ] = None,
    against: Against = None,
    images: Annotated[Path | None, typer.Option(metavar="DIR", help="For a model: where the photos are now.")] = None,
    features: Annotated[
        Path | None, typer.Option(metavar="DIR", help="For a model: features that lie elsewhere than in DATA.")
    ] = None,
    json: Json = False,
) -> None:
    """Image→sentence and sentence→image: a matrix is photos × sentences, in the order of the data."""
    from deixis.evaluation.retrieval import recall_at_k

    owners, of_model = None, None
    if (data is None) == (captions_per_photo is None):
        raise DeixisError("give --data DATA, or --captions-per-photo N for a matrix of no data set")
    if data is not None:
        owners, of_model = _photos_and_sentences(data, split, images, [features] if features else [])
    _answer_from_matrices(
        "retrieval",
        lambda matrix: recall_at_k(matrix, owners, captions_per_photo=captions_per_photo),
        _systems(scores, model, against),
        of_model,
        (data, split, json),
    )


def _photos_and_sentences(
    data: Path, split: str | None, images: Path | None, also: Sequence[Path]
) -> tuple[Sequence[int], OfModel]:
    """The photo of each sentence, and how a model scores them all."""
    from deixis.data.dataset import Dataset
    from deixis.evaluation.of_data import sentences_of

    dataset = Dataset(data, images=images)
    photos = dataset.split(split) if split else dataset.photos
    gold = sentences_of(photos)

    def of_model(bundle: Bundle, on_progress: OnProgress) -> Matrix:
        from deixis.tasks.scoring import retrieval_scores, seen_photos

        seen = seen_photos(bundle, dataset, photos, also=also, on_progress=on_progress)
        return retrieval_scores(bundle, seen.require_all(), gold.texts)

    return gold.photo_of_sentence, of_model


@app.command()
def sentences(
    data: Data,
    scores: Scores = None,
    model: Model = None,
    split: Split = None,
    against: Against = None,
    json: Json = False,
) -> None:
    """Sentence→sentence: a matrix is sentences × sentences; each asks for the others of its photo."""
    from deixis.evaluation.of_data import sentences_of
    from deixis.evaluation.retrieval import sentence_retrieval

    gold = sentences_of(_photos(data, split))

    def of_model(bundle: Bundle, on_progress: OnProgress) -> Matrix:
        from deixis.tasks.scoring import sentence_scores

        return sentence_scores(bundle, gold.texts)

    _answer_from_matrices(
        "sentences",
        lambda matrix: sentence_retrieval(matrix, gold.photo_of_sentence),
        _systems(scores, model, against),
        of_model,
        (data, split, json),
    )


@app.command()
def regions(
    data: Data,
    scores: Annotated[
        Path,
        typer.Option("--scores", metavar="FILE.npy", help="A matrix of scores, higher is better.", show_default=False),
    ],
    split: Split = None,
    against: Against = None,
    json: Json = False,
) -> None:
    """Region→phrase: a matrix is gold regions × all phrases, in the order of the data."""
    from deixis.evaluation.of_data import regions_of
    from deixis.evaluation.retrieval import region_retrieval

    gold = regions_of(_photos(data, split))
    _answer_from_matrices(
        "regions",
        lambda matrix: region_retrieval(
            matrix, gold.positives, phrases=gold.phrases, photo_of_region=gold.photo_of_region
        ),
        _systems(scores, None, against),
        None,
        (data, split, json),
    )


@app.command()
def grounding(
    predictions: Annotated[
        Path,
        typer.Option("--predictions", metavar="FILE", help="JSON Lines, one phrase a line.", show_default=False),
    ],
    data: Data,
    split: Split = None,
    protocol: Annotated[
        Literal["union", "any"], typer.Option(help="The union of the chain's boxes, as the papers, or any of them.")
    ] = "union",
    blind_split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where to learn the fixed boxes; train, if there is one.")
    ] = None,
    missing_as_wrong: Annotated[
        bool, typer.Option("--missing-as-wrong", help="Count phrases without a prediction as wrong.")
    ] = False,
    against: Against = None,
    json: Json = False,
) -> None:
    """Phrase localisation: a box for each phrase, beside the best box that never looks at the photo."""
    from deixis.data.dataset import Dataset
    from deixis.evaluation.fixed_boxes import best_fixed_boxes
    from deixis.evaluation.grounding import compare_localization, localization
    from deixis.evaluation.localization_items import localization_items
    from deixis.evaluation.predictions import read_predictions

    dataset = Dataset(data)
    items = localization_items(dataset.split(split) if split else dataset.photos)
    blind_split = blind_split or ("train" if "train" in dataset.manifest.splits else None)
    blind = None
    if blind_split:
        with working(f"finding the best fixed boxes on {blind_split}"):
            blind = best_fixed_boxes(localization_items(dataset.split(blind_split)), protocol=protocol)
    given = read_predictions(predictions)
    missing: Literal["miss", "error"] = "miss" if missing_as_wrong else "error"
    with working(f"scoring {len(items):,} phrases"):
        result = localization(given, items, protocol=protocol, blind=blind, missing=missing)
        compared = (
            compare_localization(given, read_predictions(against), items, protocol=protocol, missing=missing)
            if against
            else {}
        )
    _answer("grounding", predictions, (data, split, json), result.as_json(), compared)


@app.command()
def captions(
    predictions: Annotated[
        Path,
        typer.Option("--predictions", metavar="FILE", help="COCO's result format.", show_default=False),
    ],
    data: Data,
    split: Split = None,
    train_split: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose captions are not novel; train, if there is one.")
    ] = None,
    against: Against = None,
    json: Json = False,
) -> None:
    """Captions: BLEU, CIDEr, ROUGE-L, METEOR, novelty and diversity, without Java."""
    from deixis.data.dataset import Dataset
    from deixis.evaluation.captions import caption_scores, compare_captions
    from deixis.evaluation.captions.results_file import match_results, read_results
    from deixis.evaluation.of_data import sentences_of

    dataset = Dataset(data)
    photos = dataset.split(split) if split else dataset.photos
    train_split = train_split or ("train" if "train" in dataset.manifest.splits else None)
    training = sentences_of(dataset.split(train_split)).texts if train_split else None
    references = {photo.id: [caption.text for caption in photo.sentences] for photo in photos}
    with working(f"scoring {len(references):,} photos"):
        results = [
            caption_scores(match_results(read_results(file), photos), references, training=training)
            for file in (predictions, against)
            if file is not None
        ]
        compared = compare_captions(*results) if against else {}
    _answer("captions", predictions, (data, split, json), results[0].as_json(), compared)


About = tuple[Path | None, str | None, bool]
"""The data, its split, and whether the answer is JSON."""


@dataclass(frozen=True)
class _System:
    """Whose scores are wanted: a file that holds them, or the directory of a model."""

    path: Path
    is_model: bool


def _systems(scores: Path | None, model: Path | None, against: Path | None) -> list[_System]:
    """The system to score, and another to compare it with where there is one."""
    if (scores is None) == (model is None):
        raise DeixisError("give one of --scores FILE.npy and --model DIR")
    systems = [_System(model, True)] if model else [_System(scores, False)] if scores else []
    return [*systems, *([_System(against, against.is_dir())] if against else [])]


def _answer_from_matrices(
    task: str,
    score: Callable[[Matrix], RetrievalResult],
    systems: Sequence[_System],
    of_model: OfModel | None,
    about: About,
) -> None:
    """Score one system, or two and their difference."""
    from deixis.evaluation.retrieval_result import compare_results

    matrices = [_matrix(system, of_model) for system in systems]
    with working("ranking"):
        results = [score(matrix) for matrix in matrices]
        compared = compare_results(*results) if len(results) == 2 else {}
        scores = results[0].as_json()
    _answer(task, systems[0].path, about, scores, compared)


def _matrix(system: _System, of_model: OfModel | None) -> Matrix:
    if not system.is_model:
        from deixis.evaluation.scores import scores_from_file

        return scores_from_file(system.path)
    from deixis.tasks.bundle import load

    if of_model is None:
        raise DeixisError(f"{system.path}: a model is scored on the photos and sentences of a data set")
    with progress() as on_progress:
        return of_model(load(system.path), on_progress)


def _answer(
    task: str, model: Path, about: About, result: Mapping[str, Any], compared: Mapping[str, Comparison]
) -> None:
    data, split, json = about
    if json:
        document = {"task": task, "model": str(model), "data": str(data) if data else None, "split": split, **result}
        if compared:
            document["difference"] = {
                name: {"difference": found.difference, "interval": [found.low, found.high], "p": found.p}
                for name, found in compared.items()
            }
        print_json(document)
    else:
        _print_scores(task, result, compared)


def _print_scores(task: str, result: Mapping[str, Any], compared: Mapping[str, Comparison]) -> None:
    from rich.table import Table

    table = Table(task)
    for heading in ("score", "95 % interval", *(["difference", "95 % interval", "p"] if compared else [])):
        table.add_column(heading, justify="right")
    for name, value in result.items():
        if isinstance(value, float):
            row = [name, f"{value:.2f}", _bounds(result["interval"].get(name))]
            if found := compared.get(name):
                row += [f"{found.difference:+.2f}", _bounds((found.low, found.high)), f"{found.p:.4f}"]
            table.add_row(*row)
    print_table(table)
    _print_groups(result)
    print(f"n = {result['n']:,}; {result['protocol']}" + (f"; ties: {result['ties']}" if "ties" in result else ""))


def _print_groups(result: Mapping[str, Any]) -> None:
    """The tables by type and by phrase, where a result has them."""
    from rich.markup import escape
    from rich.table import Table

    for heading in ("by_type", "by_phrase"):
        groups: Mapping[str, Mapping[str, Any]] = result.get(heading) or {}
        if groups:
            table = Table()
            table.add_column(heading.replace("_", " "), max_width=28)  # the whole stays within 120 columns
            for column in ("n", "photos", "r1 [95 %]", "r5", "r10", "upper_bound", "ap", "ap_nms"):
                table.add_column(column, justify="right")
            for name, scores in groups.items():
                table.add_row(escape(name), *_group_cells(scores))
            print_table(table)
            for reason in dict.fromkeys(scores["no_interval"] for scores in groups.values() if scores["no_interval"]):
                print(f"[–] no interval: {reason}")


def _group_cells(scores: Mapping[str, Any]) -> list[str]:
    """A row of a group's scores; there is room for one interval."""
    bounds = scores["interval"]["r1"]
    between = f"[{bounds[0]:.1f}, {bounds[1]:.1f}]" if bounds else "[–]"
    others = (f"{scores[name]:.1f}" for name in ("r5", "r10", "upper_bound", "ap", "ap_nms"))
    return [str(scores["n"]), str(scores["photos"]), f"{scores['r1']:.1f} {between}", *others]


def _bounds(interval: Any) -> str:
    return f"{interval[0]:.2f} – {interval[1]:.2f}" if interval else ""
