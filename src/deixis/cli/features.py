"""`deixis features`: image, region and text features, computed once and kept."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.cli.output import Json, note, plural, print_json, progress
from deixis.cli.scheduler import Scheduler, workers_at
from deixis.errors import DeixisError
from deixis.files.remote import photo_path

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset
    from deixis.tasks.bulk.workers import Workers
    from deixis.vision.store import Extras, FillReport
    from deixis.vision.store.computing import Compute

_SKIPPED_SHOWN = 10
_TOP = 100


def features(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A data set directory.", show_default=False)],
    encoder: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encode the photos with this, such as deixis, our own.")
    ] = None,
    import_: Annotated[
        Path | None,
        typer.Option(
            "--import", metavar="FILE", help="Take whole-photo vectors from a file: npy, npz, h5, mat, safetensors."
        ),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --import: the photo of each row, one name a line, or JSON."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="KIND", help="Turn the captions into vectors: mean, tfidf, fisher or hglmm.")
    ] = None,
    vectors: Annotated[
        str | None, typer.Option(metavar="PATH", help="With --text: word vectors, a path or an installed package.")
    ] = None,
    train_split: Annotated[str, typer.Option(metavar="NAME", help="With --text: the split to learn from.")] = "train",
    split: Annotated[str | None, typer.Option(metavar="NAME", help="With --encoder: this split only.")] = None,
    crops: Annotated[int, typer.Option(metavar="10", help="With --encoder: the mean over ten crops too.")] = 0,
    proposals: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --encoder: keep boxes and their vectors, from head, edge-boxes, …"),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --proposals: at most so many a photo; 100 unless given."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", parser=photo_path, help="Where the photos are now; or s3://…")
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --encoder: cpu, cuda, …; a GPU, where there is one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to keep them; DATA/features/NAME unless given.")
    ] = None,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Compute the features of a data set once and keep them; run again, it does only what is missing."""
    from deixis.data.dataset import Dataset

    if [encoder, import_, text].count(None) != 2:
        raise DeixisError("give one of --encoder NAME, --import FILE and --text KIND")
    if crops not in (0, 10):
        raise DeixisError(f"--crops {crops}: the papers' ten crops are the only ones, --crops 10")
    of_encoder = {"--split": split, "--crops": crops, "--proposals": proposals, "--device": device}
    _refuse_alone("--encoder", encoder, {**of_encoder, "--scheduler": scheduler})
    _refuse_alone("--proposals", proposals, {"--top": top})
    _refuse_alone("--import", import_, {"--ids": ids})
    _refuse_alone("--text", text, {"--vectors": vectors})
    dataset = Dataset(data, images=images)
    if encoder is not None:
        _encode(dataset, encoder, split, (crops, proposals, top or _TOP), device, out, scheduler, json)
    elif import_ is not None:
        _import(dataset, import_, ids, out, json)
    elif text is not None:
        _text(dataset, text, vectors, train_split, out, json)


def _refuse_alone(owner: str, given: object, options: dict[str, object]) -> None:
    """An option that would do nothing is a mistake, not a wish."""
    if given is None:
        for option, value in options.items():
            if value:
                raise DeixisError(f"{option} goes with {owner} only")


def _encode(
    dataset: Dataset,
    name: str,
    split: str | None,
    asked: tuple[int, str | None, int],
    device: str | None,
    out: Path | None,
    scheduler: str | None,
    json: bool,
) -> None:
    from deixis.vision.encoders import open_encoder
    from deixis.vision.store import default_place, fill_store

    photos = dataset.split(split) if split else None
    encoder = open_encoder(name, device)
    extras = _extras(encoder.name, *asked)
    proposer = extras.proposer.name if extras.proposer else None
    place = out or default_place(dataset.path, encoder.name, crops=extras.crops, proposer=proposer, top=extras.top)
    begun = time.monotonic()
    with workers_at(scheduler) as workers, progress("photos") as on_progress:
        compute = _by_workers(workers, name, encoder.fingerprint, device, asked) if workers else None
        report = fill_store(
            place, dataset, encoder, photos=photos, extras=extras, compute=compute, on_progress=on_progress
        )
    about = {
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dimension": encoder.dimension,
        "channels": encoder.channels,
        "seconds": round(time.monotonic() - begun, 1),
    }
    _answer(place, report, about, json)


def _by_workers(
    workers: Workers, encoder: str, fingerprint: str, device: str | None, asked: tuple[int, str | None, int]
) -> Compute:
    from deixis.tasks.bulk.features import FeaturesPlan, features_by

    return features_by(workers, FeaturesPlan(encoder, fingerprint, device, *asked))


def _extras(encoder: str, crops: int, proposals: str | None, top: int) -> Extras:
    from deixis.vision.proposals import open_proposer
    from deixis.vision.store import Extras

    if proposals is None:
        return Extras(crops)
    return Extras(crops, open_proposer(proposals, encoder), top)


def _import(dataset: Dataset, file: Path, ids: Path | None, out: Path | None, json: bool) -> None:
    from deixis.vision.store import FeatureStore, default_place, import_features

    place = out or default_place(dataset.path, f"imported-{file.stem}")
    with progress("photos") as on_progress:
        report = import_features(place, dataset, file, ids=ids, on_progress=on_progress)
    contents = FeatureStore(place).contents
    about = {"encoder": contents.encoder, "fingerprint": contents.fingerprint, "dimension": contents.dimension}
    _answer(place, report, about, json)
    if report.unknown and not json:
        note(f"left out: {plural(report.unknown, 'row')} of {file} with a name that no photo of {dataset.path} has")


def _answer(place: Path, report: FillReport, about: dict[str, Any], json: bool) -> None:
    counts = {
        name: getattr(report, name) for name in ("photos", "new", "redone", "kept", "dropped", "damaged", "unknown")
    }
    if json:
        skipped = [{"path": error.path, "reason": error.reason} for error in report.skipped]
        print_json({"out": str(place), **about, **counts, "skipped": skipped})
        return
    for file in report.damaged:
        note(f"damaged: {place / file}; its photos were computed again")
    for error in report.skipped[:_SKIPPED_SHOWN]:
        note(f"skipped: {error}")
    if len(report.skipped) > _SKIPPED_SHOWN:
        note(f"skipped: … and {len(report.skipped) - _SKIPPED_SHOWN:,} more (--json lists all)")
    done = [f"{report.new:,} new", f"{report.kept:,} there already"]
    done += [f"{count:,} {word}" for word, count in (("changed", report.redone), ("dropped", report.dropped)) if count]
    done += [f"{len(report.skipped):,} skipped"] if report.skipped else []
    print(f"{place}: {plural(report.photos, 'photo')}, {about['dimension']:,} numbers each ({', '.join(done)})")


def _text(dataset: Dataset, kind: str, vectors: str | None, train: str, out: Path | None, json: bool) -> None:
    from deixis.language.features.of_data import default_place, fill_captions, recipe_of

    place = out or default_place(dataset.path, kind)
    with progress("captions") as on_progress:
        report = fill_captions(place, dataset, recipe_of(kind, vectors), train=train, on_progress=on_progress)
    made = report.manifest
    if json:
        fields = ("kind", "captions", "dimension", "learned")
        about = {field: getattr(made, field) for field in fields}
        print_json({"out": str(place), **about, "fitted": report.fitted, "transformed": report.transformed})
    else:
        how = (
            f"learned from split {train}" if report.fitted else "there already" if not report.transformed else "resumed"
        )
        print(f"{place}: {plural(made.captions, 'caption')}, {made.dimension:,} numbers each ({how})")
