"""`deixis evaluate`: scores of a model, or of any system by its score matrix or its predictions."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from deixis.cli.output import (
    Json,
    Split,
    argument,
    flag,
    hint,
    numbers_table,
    option,
    print_json,
    print_table,
    progress,
)
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deixis.evaluation.intervals import Comparison
    from deixis.models.evaluation import Evaluation, EvaluationData, System

app = typer.Typer(help="Evaluate a model, or the output of any system.", no_args_is_help=True)

DATA = option("DATA", "Data set directory.", "--data", show_default=False)
Data = Annotated[Path, DATA]
Scores = Annotated[Path | None, option("FILE.npy", "Score matrix; higher is better.", "--scores")]
Model = Annotated[Path | None, option("NAME|DIR", "Model to score, instead of a file.", "--model")]
Against = Annotated[Path | None, option("FILE|DIR", "Compare with another system: its file, or a model.", "--against")]

Images = Annotated[Path | None, option("DIR", "With --model: photo folder, if it has moved.", "--images")]
Features = Annotated[Path | None, option("DIR", "With --model: feature directory outside of DATA.", "--features")]


@app.command()
def retrieval(
    scores: Scores = None,
    model: Model = None,
    data: Annotated[Path | None, DATA] = None,
    split: Split = None,
    captions_per_photo: Annotated[
        int | None,
        option(
            "N", "Instead of --data: the first N sentences belong to the first photo, the next N to the second.", min=1
        ),
    ] = None,
    against: Against = None,
    curve: Annotated[
        Path | None, option("FILE", "Write the mean number of matches by share of the ranking: .csv, .png or .svg.")
    ] = None,
    shortlist: Annotated[
        int | None, option("N", "With --model: rank only the sentences of the N nearest photos.", min=1)
    ] = None,
    folds: Annotated[
        int, option("N", "Rank within N parts of the photos: of 5,000 photos of MS COCO, papers rank 5 folds.", min=1)
    ] = 1,
    out: Annotated[Path | None, option("FILE.npy", "With --model: write the score matrix.")] = None,
    images: Images = None,
    features: Features = None,
    json: Json = False,
) -> None:
    """Image–sentence retrieval in both directions.

    A score matrix is photos × sentences, in the order of the data set.
    """
    from deixis.evaluation.retrieval import check_curve_path, write_curves
    from deixis.models.evaluation import evaluate_matrix, evaluate_retrieval

    if (data is None) == (captions_per_photo is None):
        raise DeixisError("give --data DATA, or --captions-per-photo N for a matrix without a data set")
    if shortlist and (data is None or model is None):
        raise DeixisError("--shortlist: needs --model and --data")
    if folds > 1 and (curve or shortlist):
        raise DeixisError("--folds: cannot be combined with --curve or --shortlist")
    if curve:
        check_curve_path(curve)
    systems = _systems(scores, model, against)
    if data is None:
        with progress() as on_progress:
            found = evaluate_matrix(
                systems, on_progress, captions_per_photo=captions_per_photo, folds=folds, all_matches=bool(curve)
            )
    else:
        with _open_data(data, split, images, features) as on:
            found = evaluate_retrieval(
                on, systems, shortlist=shortlist or 0, folds=folds, out=out if model else None, all_matches=bool(curve)
            )
    _print(found, data, split, json)
    if curve:
        hint(write_curves(curve, found.rankings))


@app.command()
def sentences(
    data: Data,
    scores: Scores = None,
    model: Model = None,
    split: Split = None,
    against: Against = None,
    json: Json = False,
) -> None:
    """Sentence–sentence retrieval.

    Each sentence is a query for the other sentences of its photo. A score matrix is sentences × sentences.
    """
    from deixis.models.evaluation import evaluate_ranking

    systems = _systems(scores, model, against)
    with _open_data(data, split) as on:
        found = evaluate_ranking("sentences", on, systems)
    _print(found, data, split, json)


@app.command()
def regions(
    data: Data,
    scores: Scores = None,
    model: Model = None,
    split: Split = None,
    against: Against = None,
    images: Images = None,
    features: Features = None,
    json: Json = False,
) -> None:
    """Region–phrase retrieval.

    A score matrix is gold regions × all phrases, in the order of the data set.
    """
    from deixis.models.evaluation import evaluate_ranking

    systems = _systems(scores, model, against)
    with _open_data(data, split, images, features) as on:
        found = evaluate_ranking("regions", on, systems)
    _print(found, data, split, json)


@app.command()
def grounding(
    data: Data,
    predictions: Annotated[
        Path | None, option("FILE", "Predictions: JSON Lines, one phrase per line.", "--predictions")
    ] = None,
    model: Model = None,
    split: Split = None,
    protocol: Annotated[
        Literal["union", "any", "sets", "nested"],
        typer.Option(
            help="Gold box: the union of the boxes of the chain, as in the papers, or any. sets: union, and the F1 of "
            "one box for each thing. nested: no gold boxes, but how far the boxes of phrases lie in those of the "
            "longer phrases around them."
        ),
    ] = "union",
    blind_split: Annotated[
        str | None, option("NAME", "Split for the fixed boxes (default: train, if it exists).")
    ] = None,
    missing_as_wrong: Annotated[
        bool, flag("--missing-as-wrong", "Count phrases without a prediction as wrong.")
    ] = False,
    all_photos: Annotated[
        bool,
        flag(
            "--all-photos",
            "With --model: rank each phrase over the regions of all photos, as in Flickr30k Entities, and score its "
            "presence in the photo. Takes minutes for 1,000 photos, with a similarity network an hour.",
        ),
    ] = False,
    against: Against = None,
    out: Annotated[Path | None, option("FILE", "With --model: write the predictions as JSON Lines.")] = None,
    images: Images = None,
    features: Features = None,
    json: Json = False,
) -> None:
    """Phrase localization.

    The baseline blind_r1 is the best fixed box of each entity type.
    """
    from deixis.models.evaluation import evaluate_grounding

    systems = _systems(predictions, model, against, "--predictions FILE")
    if out and not model:
        raise DeixisError("--out: requires --model")
    if all_photos and (not model or against):
        raise DeixisError("--all-photos: use it with --model and without --against")
    with _open_data(data, split, images, features) as on:
        found = evaluate_grounding(
            on,
            systems,
            protocol=protocol,
            blind_split=blind_split,
            missing_as_wrong=missing_as_wrong,
            all_photos=all_photos,
            out=out,
        )
    _print(found, data, split, json)


@app.command()
def captions(
    data: Data,
    predictions: Annotated[
        Path | None, option("FILE", "Captions in the COCO results format.", "--predictions", show_default=False)
    ] = None,
    model: Model = None,
    split: Split = None,
    beam: Annotated[
        int | None, option("N", "With --model: beam width (default: 5, or 10 with --rerank bleu or cider).", min=1)
    ] = None,
    length_power: Annotated[
        float, option("P", "With --model: rank captions by log-probability / length^P.", min=0)
    ] = 0.0,
    rerank: Annotated[
        Literal["none", "match", "bleu", "cider", "bleu-oracle", "cider-oracle"] | None,
        typer.Option(
            help="With --model: rank captions by how well they match the photo, by those of similar photos, or of the "
            "photo itself (oracle). Default: as deixis caption does, or none with --length-power."
        ),
    ] = None,
    neighbours: Annotated[
        Path | None, option("DIR", "With --rerank: output of deixis train consensus, if not stored with the model.")
    ] = None,
    train_split: Annotated[
        str | None, option("NAME", "Split whose captions are not novel (default: train, if it exists).")
    ] = None,
    photo_score: Annotated[
        bool,
        flag(
            "--photo-score",
            "Also score captions by their photos: photo_score, and ref_photo_score with the references. Encodes "
            "photos that have no features yet, about 5 per second.",
        ),
    ] = False,
    against: Against = None,
    images: Images = None,
    features: Features = None,
    json: Json = False,
) -> None:
    """Caption scores: BLEU, CIDEr, ROUGE-L, METEOR and others.

    Also novelty and diversity, and perplexity with --model.
    """
    from deixis.models.evaluation import evaluate_captions

    systems = _systems(predictions, model, against, "--predictions FILE")
    with _open_data(data, split, images, features) as on:
        found = evaluate_captions(
            on,
            systems,
            train_split=train_split,
            beam=beam,
            length_power=length_power,
            rerank=rerank,
            neighbours=neighbours,
            photo_score=photo_score,
        )
    _print(found, data, split, json)


@app.command()
def pairs(
    file: Annotated[Path, argument("FILE", "Photos and captions: CSV with a header, or JSON Lines.")],
    images: Annotated[Path | None, option("DIR", "Folder of the photos.")] = None,
    data: Annotated[Path | None, option("DATA", "Data set whose captions are the references.")] = None,
    out: Annotated[Path | None, option("FILE", "Write every pair with its scores to a .csv or .jsonl file.")] = None,
    json: Json = False,
) -> None:
    """Scores of captions by their photos, for any pairs of photo and caption.

    FILE has the columns image and caption. With a column rating, Kendall's tau-c tells how far the scores agree with
    people. References come from --data, or from a list "references" in JSON Lines.
    """
    from deixis.models.caption_pairs import check_pairs_file, read_pairs, score_pairs

    if out:
        check_pairs_file(out)
    with progress() as on_progress:
        found = score_pairs(read_pairs(file), images=images, data=data, on_progress=on_progress)
    if out:
        found.write(out)
    document = {"task": "pairs", "file": str(file), "data": str(data) if data else None, **found.as_json()}
    if json:
        print_json(document)
        return
    _print_totals("pairs", document, {})
    print(f"n = {document['n']:,} pairs of {document['photos']:,} photos; {document['protocol']}")
    if out:
        print(f"written: {out}")
    else:
        hint("next: --out FILE.csv writes the score of every pair")


def _systems(
    file: Path | None, model: Path | None, against: Path | None, option: str = "--scores FILE.npy"
) -> list[System]:
    from deixis.models.evaluation import open_systems

    if (file is None) == (model is None):
        raise DeixisError(f"give one of {option} and --model DIR")
    return open_systems(model, file, against)


@contextmanager
def _open_data(
    data: Path, split: str | None, images: Path | None = None, features: Path | None = None
) -> Iterator[EvaluationData]:
    """Open a data set, and show progress until the end of the block."""
    from deixis.models.evaluation import EvaluationData

    with progress() as on_progress:
        yield EvaluationData.open(data, split, images=images, features=features, on_progress=on_progress)


def _print(found: Evaluation, data: Path | None, split: str | None, json: bool) -> None:
    if json:
        print_json((replace(found, data=str(data), split=split) if data else found).as_json())
        return
    result = found.scores
    _print_totals(found.task, result, found.comparison)
    if "presence" in result:
        _print_totals("presence in all photos", result["presence"], {})
    _print_groups(result)
    print(f"n = {result['n']:,}; {result['protocol']}" + (f"; ties: {result['ties']}" if "ties" in result else ""))


def _print_totals(title: str, result: Mapping[str, Any], compared: Mapping[str, Comparison]) -> None:
    differences = ("difference", "95 % interval", "p") if compared else ()
    table = numbers_table(title, ("score", "95 % interval", *differences))
    for name, value in result.items():
        if isinstance(value, float):
            row = [name, f"{value:.2f}", _bounds(result["interval"].get(name))]
            if found := compared.get(name):
                row += [f"{found.difference:+.2f}", _bounds((found.low, found.high)), f"{found.p:.4f}"]
            table.add_row(*row)
    print_table(table)


def _print_groups(result: Mapping[str, Any]) -> None:
    """Print the tables by type and by phrase, if there are any."""
    from rich.markup import escape
    from rich.table import Table

    for heading in ("by_type", "by_phrase"):
        groups: Mapping[str, Mapping[str, Any]] = result.get(heading) or {}
        if groups:
            table = Table()
            table.add_column(heading.replace("_", " "), max_width=28)  # so that the table fits into 120 columns
            for column in ("n", "photos", "r1 [95 %]", "r5", "r10", "upper_bound", "ap", "ap_nms"):
                table.add_column(column, justify="right")
            for name, scores in groups.items():
                table.add_row(escape(name), *_group_cells(scores))
            print_table(table)
            for reason in dict.fromkeys(scores["no_interval"] for scores in groups.values() if scores["no_interval"]):
                print(f"[–] no interval: {reason}")


def _group_cells(scores: Mapping[str, Any]) -> list[str]:
    """Return the row of a group; only r1 has an interval, for lack of space."""
    bounds = scores["interval"]["r1"]
    between = f"[{bounds[0]:.1f}, {bounds[1]:.1f}]" if bounds else "[–]"
    others = (f"{scores[name]:.1f}" for name in ("r5", "r10", "upper_bound", "ap", "ap_nms"))
    return [str(scores["n"]), str(scores["photos"]), f"{scores['r1']:.1f} {between}", *others]


def _bounds(interval: Any) -> str:
    return f"{interval[0]:.2f} – {interval[1]:.2f}" if interval else ""
