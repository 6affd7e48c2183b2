"""`deixis features`: image, region and text features, computed once and kept."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deixis.cli.output import Json, note, plural, print_json
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress

if TYPE_CHECKING:
    from deixis.data.dataset import Dataset
    from deixis.language.vectors import WordVectors
    from deixis.vision.store_captions import Recipe, TextFeatures
    from deixis.vision.store_filling import Extras, FillReport

_SECONDS_BETWEEN_LINES = 5.0
_SKIPPED_SHOWN = 10
TEXT_KINDS = ("mean", "tfidf", "fisher", "hglmm")


def features(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A data set directory.", show_default=False)],
    encoder: Annotated[
        str | None, typer.Option(metavar="NAME", help="Encode the photos with this, such as efficientnet-lite2.")
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
        str | None, typer.Option(metavar="NAME", help="With --encoder: propose boxes and keep their vectors.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="With --proposals: at most so many a photo.")] = 100,
    images: Annotated[Path | None, typer.Option(metavar="DIR", help="Where the photos are now.")] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --encoder: cpu, cuda, …; a GPU, where there is one.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where to keep them; DATA/features/NAME unless given.")
    ] = None,
    json: Json = False,
) -> None:
    """Compute the features of a data set once and keep them; run again, it does only what is missing."""
    from deixis.data.dataset import Dataset

    if [encoder, import_, text].count(None) != 2:
        raise DeixisError("give one of --encoder NAME, --import FILE and --text KIND")
    if crops not in (0, 10):
        raise DeixisError(f"--crops {crops}: the papers' ten crops are the only ones, --crops 10")
    dataset = Dataset(data, images=images)
    if encoder is not None:
        _encode(dataset, encoder, split, (crops, proposals, top), device, out, json)
    elif import_ is not None:
        _import(dataset, import_, ids, out, json)
    elif text is not None:
        _text(dataset, text, vectors, train_split, out, json)


def _encode(
    dataset: Dataset,
    name: str,
    split: str | None,
    asked: tuple[int, str | None, int],
    device: str | None,
    out: Path | None,
    json: bool,
) -> None:
    from deixis.vision.encoders import open_encoder
    from deixis.vision.store import default_place
    from deixis.vision.store_filling import fill_store

    photos = dataset.split(split) if split else None
    extras = _extras(*asked)
    encoder = open_encoder(name, device)
    proposer = extras.proposer.name if extras.proposer else None
    place = out or default_place(dataset.path, encoder.name, crops=extras.crops, proposer=proposer, top=extras.top)
    begun = time.monotonic()
    with paced_progress("photos") as on_progress:
        report = fill_store(place, dataset, encoder, photos=photos, extras=extras, on_progress=on_progress)
    about = {
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dimension": encoder.dimension,
        "channels": encoder.channels,
        "seconds": round(time.monotonic() - begun, 1),
    }
    _answer(place, report, about, json)


def _extras(crops: int, proposals: str | None, top: int) -> Extras:
    from deixis.vision.store_filling import Extras

    if proposals is None:
        return Extras(crops)
    from deixis.vision.proposals import open_proposer

    return Extras(crops, open_proposer(proposals), top)


def _import(dataset: Dataset, file: Path, ids: Path | None, out: Path | None, json: bool) -> None:
    from deixis.vision.importing import import_features
    from deixis.vision.store import FeatureStore, default_place

    place = out or default_place(dataset.path, f"imported-{file.stem}")
    with paced_progress("photos") as on_progress:
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
    from deixis.vision.store import default_place
    from deixis.vision.store_captions import fill_captions

    place = out or default_place(dataset.path, f"text-{kind}")
    with paced_progress("captions") as on_progress:
        report = fill_captions(place, dataset, _recipe(kind, vectors), train=train, on_progress=on_progress)
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


def _recipe(kind: str, vectors: str | None) -> Recipe:
    from deixis.language import features as text
    from deixis.vision.store_captions import Recipe

    if kind not in TEXT_KINDS:
        raise DeixisError(f"--text {kind}: there are {', '.join(TEXT_KINDS)}")
    if kind == "tfidf":
        return Recipe(kind, "", text.TfIdf, text.load_features)
    words = _word_vectors(vectors)
    makers: dict[str, Callable[[WordVectors], TextFeatures]] = {
        "mean": text.MeanVector,
        "fisher": text.gmm_fisher_vectors,
        "hglmm": text.hglmm_features,
    }
    return Recipe(kind, _hash_of(words), lambda: makers[kind](words), text.load_features)


def _word_vectors(vectors: str | None) -> WordVectors:
    from deixis.language.vectors import PACKAGES, installed_vectors, read_vectors

    if vectors is None or (vectors in PACKAGES and not Path(vectors).exists()):
        return installed_vectors(vectors or PACKAGES[0])
    return read_vectors(vectors)


def _hash_of(words: WordVectors) -> str:
    """What tells word vectors from others: the words, their rows and all numbers."""
    import hashlib
    import json

    import numpy as np

    saved = words.saved()
    together = hashlib.sha256(json.dumps(saved.settings["words"]).encode())
    for name in ("rows", "matrix"):
        together.update(np.ascontiguousarray(saved.arrays[name]).data)
    return together.hexdigest()


class Pace:
    """How fast something goes, from the last half minute, and so how long the rest will take.

    Examples
    --------
    >>> pace = Pace()
    >>> pace.at(0.0, 0), pace.at(10.0, 50)
    (0.0, 5.0)
    """

    SECONDS = 30.0

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def at(self, now: float, done: int) -> float:
        """The number done in a second, now that so many are; 0 where it cannot be told yet."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self.SECONDS:
            self._seen.popleft()
        then, before = self._seen[0]
        return (done - before) / (now - then) if now > then else 0.0


def time_left(done: int, total: int, pace: float) -> str:
    """How long the rest takes, in words that claim no more than is known.

    Examples
    --------
    >>> time_left(10, 7000, 0.0), time_left(1000, 7000, 20.0), time_left(6990, 7000, 20.0)
    ('time left not known yet', 'about 5 min left', 'less than a minute left')
    """
    if pace <= 0:
        return "time left not known yet"
    minutes = (total - done) / pace / 60
    if minutes < 1:
        return "less than a minute left"
    return f"about {minutes:.0f} min left" if minutes < 90 else f"about {minutes / 60:.1f} h left"


@contextmanager
def paced_progress(noun: str) -> Iterator[OnProgress]:
    """Show how far a job is, how fast it goes and how long it will take: a bar on a terminal, lines elsewhere."""
    paces: dict[str, Pace] = {}

    def speed(doing: str, done: int, total: int | None) -> str:
        pace = paces.setdefault(doing, Pace()).at(time.monotonic(), done)
        said = [f"{pace:,.1f} {noun}/s"] if pace else []
        if total and done < total:
            said.append(time_left(done, total, pace))
        return ", ".join(said)

    if not sys.stderr.isatty():
        yield _lines(speed)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[speed]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def on_progress(doing: str, done: int, total: int | None) -> None:
            said = speed(doing, done, total)
            if doing not in tasks:
                tasks[doing] = bars.add_task(doing, total=total, speed=said)
            bars.update(tasks[doing], completed=done, speed=said)

        yield on_progress


def _lines(speed: Callable[[str, int, int | None], str]) -> OnProgress:
    spoken = time.monotonic()

    def on_progress(doing: str, done: int, total: int | None) -> None:
        nonlocal spoken
        said = speed(doing, done, total)
        if time.monotonic() - spoken >= _SECONDS_BETWEEN_LINES:
            spoken = time.monotonic()
            note(", ".join(filter(None, (f"{doing}: {done:,} of {total:,}", said))) if total else f"{doing} …")

    return on_progress
