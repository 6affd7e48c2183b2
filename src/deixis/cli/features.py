"""``deixis features``: compute or import image, region and text features of a data set."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from deixis.cli.output import (
    Data,
    Json,
    Scheduler,
    hint,
    note,
    note_first,
    open_scheduler,
    option,
    plural,
    print_json,
    progress,
)
from deixis.errors import DeixisError
from deixis.storage.remote import photo_path

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset
    from deixis.vision.feature_store import UpdateReport
    from deixis.vision.feature_store.imports import BoxFormat

    Found = tuple[Path, UpdateReport, dict[str, Any]]
    """A feature store, how it was updated, and what it holds."""

_TOP = 100


def features(
    data: Data,
    encoder: Annotated[
        str | None, option("NAME", "Image encoder: deixis, efficientnet-lite2, timm:NAME or torchvision:NAME.")
    ] = None,
    import_: Annotated[
        Path | None,
        option(
            "FILE",
            "Vectors of whole photos that were computed elsewhere: an npy, npz, h5, mat or safetensors file.",
            "--import",
        ),
    ] = None,
    regions: Annotated[
        Path | None,
        option(
            "PATH",
            "Vectors and boxes of regions that were computed elsewhere: a file as for --import, or a folder with a "
            "file per photo. With --import: beside vectors of whole photos.",
        ),
    ] = None,
    boxes: Annotated[
        Path | None, option("FILE", "With --regions: the boxes, if they are in a file of their own.")
    ] = None,
    box_format: Annotated[
        Literal["xyxy", "xywh"], typer.Option(help="With --regions: two corners, or one corner, width and height.")
    ] = "xyxy",
    ids: Annotated[
        Path | None,
        option(
            "FILE", "With --import or --regions: names of the photos, in the order of the rows; one per line, or JSON."
        ),
    ] = None,
    text: Annotated[str | None, option("KIND", "Text features of the captions: mean, tfidf, fisher or hglmm.")] = None,
    vectors: Annotated[str | None, option("PATH", "With --text: word vectors, a file or an installed package.")] = None,
    train_split: Annotated[str, option("NAME", "With --text: the training split.")] = "train",
    split: Annotated[str | None, option("NAME", "With --encoder: only photos of this split.")] = None,
    crops: Annotated[int, option("10", "With --encoder: add the mean over ten crops.", show_default=False)] = 0,
    proposals: Annotated[
        str | None,
        option("NAME", "With --encoder: add region proposals of head, edge-boxes, edge-boxes-dense or fixed."),
    ] = None,
    top: Annotated[int | None, option("N", "With --proposals: maximum number per photo (default: 100).", min=1)] = None,
    images: Annotated[
        Path | None, option("DIR", "Photo folder or s3:// address, if it has moved.", parser=photo_path)
    ] = None,
    device: Annotated[str | None, option("NAME", "With --encoder: cpu, cuda, … (default: GPU if available).")] = None,
    out: Annotated[Path | None, option("DIR", "Output directory (default: DATA/features/NAME).")] = None,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Compute or import the features of a data set.

    Use --encoder or --import for photos, or --text for captions. A second run computes only missing features.
    """
    from deixis.data.dataset import Dataset

    if [encoder, import_ or regions, text].count(None) != 2:
        raise DeixisError("use exactly one of --encoder NAME, --import FILE (or --regions PATH) and --text KIND")
    if crops not in (0, 10):
        raise DeixisError(f"--crops {crops}: only --crops 10 is supported")
    encoder_options = {"--split": split, "--crops": crops, "--proposals": proposals, "--device": device}
    _require("--encoder", encoder, {**encoder_options, "--scheduler": scheduler})
    _require("--proposals", proposals, {"--top": top})
    _require("--import", import_ or regions, {"--ids": ids})
    _require("--regions", regions, {"--boxes": boxes, "--box-format": box_format != "xyxy"})
    _require("--text", text, {"--vectors": vectors})
    dataset = Dataset(data, images=images)
    if text is not None:
        _text(dataset, text, vectors, train_split, out, json)
        return
    if encoder is not None:
        options = crops, proposals, top or _TOP
        path, report, about = _encode(dataset, encoder, split, options, device, out, scheduler)
    else:
        path, report, about = _import(dataset, import_, regions, boxes, ids, box_format, out)
    _print_report(path, report, about, json)
    if json or encoder:
        return
    if regions:
        hint(f"at most {plural(about['regions'], 'region')} per photo, dimension {about['channels']:,}")
        hint(f"next: deixis train MODEL --data {data} --set features_dir={path} --set proposals=imported")
    elif report.unknown:
        note(f"skipped: {plural(report.unknown, 'row')} of {import_} that match no photo of {data}")


def _require(owner: str, value: object, options: dict[str, object]) -> None:
    """Refuse options that have no effect without another option."""
    if value is None:
        for option, setting in options.items():
            if setting:
                raise DeixisError(f"{option} requires {owner}")


def _encode(
    dataset: Dataset,
    name: str,
    split: str | None,
    options: tuple[int, str | None, int],
    device: str | None,
    out: Path | None,
    scheduler: str | None,
) -> Found:
    from deixis.vision.encoders import open_encoder
    from deixis.vision.feature_store import FeatureOptions, default_store_path, update_store
    from deixis.vision.proposals import open_proposer

    photos = dataset.split(split) if split else None
    encoder = open_encoder(name, device)
    crops, proposals, top = options
    extras = FeatureOptions(crops)
    if proposals is not None:
        extras = FeatureOptions(crops, open_proposer(proposals, encoder.name), top)
    proposer = extras.proposer.name if extras.proposer else None
    path = out or default_store_path(dataset.path, encoder.name, crops=extras.crops, proposer=proposer, top=extras.top)
    start, compute = time.monotonic(), None
    with open_scheduler(scheduler) as workers, progress("photos") as on_progress:
        if workers:
            from deixis.cluster import FeaturesJob, cluster_features

            compute = cluster_features(workers, FeaturesJob(name, encoder.fingerprint, device, *options))
        report = update_store(
            path, dataset, encoder, photos=photos, options=extras, compute=compute, on_progress=on_progress
        )
    about = {
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dimension": encoder.dimension,
        "channels": encoder.channels,
        "seconds": round(time.monotonic() - start, 1),
    }
    return path, report, about


def _import(
    dataset: Dataset,
    photos: Path | None,
    regions: Path | None,
    boxes: Path | None,
    ids: Path | None,
    box_format: BoxFormat,
    out: Path | None,
) -> Found:
    from deixis.vision.feature_store import FeatureStore, default_store_path, import_features

    file = cast("Path", regions or photos)
    path = out or default_store_path(dataset.path, f"imported-{file.stem}")
    with progress("photos") as on_progress:
        report = import_features(
            path, dataset, photos, regions=regions, boxes=boxes, ids=ids, box_format=box_format, on_progress=on_progress
        )
    contents = FeatureStore(path).contents
    about: dict[str, Any] = {field: getattr(contents, field) for field in ("encoder", "fingerprint", "dimension")}
    if regions:
        about |= {"channels": contents.channels, "regions": contents.top}
    return path, report, about


def _print_report(path: Path, report: UpdateReport, about: dict[str, Any], json: bool) -> None:
    counts = {
        name: getattr(report, name) for name in ("photos", "new", "redone", "kept", "dropped", "damaged", "unknown")
    }
    if json:
        skipped = [{"path": error.path, "reason": error.reason} for error in report.skipped]
        print_json({"out": str(path), **about, **counts, "skipped": skipped})
    else:
        for file in report.damaged:
            note(f"damaged: {path / file}; its photos were computed again")
        note_first("skipped", report.skipped)
        optional = {"changed": report.redone, "dropped": report.dropped, "skipped": len(report.skipped)}
        done = [f"{report.new:,} new", f"{report.kept:,} unchanged"]
        done += [f"{count:,} {word}" for word, count in optional.items() if count]
        print(f"{path}: {plural(report.photos, 'photo')}, dimension {about['dimension']:,} ({', '.join(done)})")
    if report.skipped and not report.photos:
        raise DeixisError(f"{path}: none of the photos can be read")


def _text(dataset: Dataset, kind: str, vectors: str | None, train: str, out: Path | None, json: bool) -> None:
    from deixis.language.features.captions import build_caption_features, default_folder, recipe_of

    path = out or default_folder(dataset.path, kind)
    with progress("captions") as on_progress:
        report = build_caption_features(path, dataset, recipe_of(kind, vectors), train=train, on_progress=on_progress)
    made = report.manifest
    if json:
        fields = ("kind", "captions", "dimension", "learned")
        about = {field: getattr(made, field) for field in fields}
        print_json({"out": str(path), **about, "fitted": report.fitted, "transformed": report.transformed})
    else:
        how = f"learned from split {train}" if report.fitted else "unchanged" if not report.transformed else "resumed"
        print(f"{path}: {plural(made.captions, 'caption')}, dimension {made.dimension:,} ({how})")
