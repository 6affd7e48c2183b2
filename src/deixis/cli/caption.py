"""`deixis caption`: sentences for photos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deixis.cli.output import Json, note, plural, print_json, progress
from deixis.cli.scheduler import Scheduler, workers_at
from deixis.errors import DeixisError, PhotoError
from deixis.files.remote import is_remote, photo_path

if TYPE_CHECKING:
    from deixis.tasks.captions.captioning import CaptionResult
    from deixis.tasks.captions.unfinished import CaptionAll

Rerank = Literal["none", "bleu", "cider"]


def caption(
    photos: Annotated[
        list[Path],
        typer.Argument(
            metavar="PHOTO…", parser=photo_path, help="Photos, and folders of photos; or s3://…", show_default=False
        ),
    ],
    model: Annotated[str, typer.Option(metavar="DIR", help="A model that deixis train m-rnn made.")] = "m-rnn",
    beam: Annotated[
        int | None,
        typer.Option(min=1, help="How many unfinished sentences are kept at each word; 5, or 10 to rerank."),
    ] = None,
    rerank: Annotated[
        Rerank,
        typer.Option(help="Order the beam's sentences by how like they are to captions of like training photos."),
    ] = "none",
    neighbours: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --rerank: what deixis train consensus made, unless kept with the model."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Sentences for each photo.")] = 1,
    length_power: Annotated[
        float, typer.Option(min=0, help="Compare sentences by log-probability / words^N; 0 favours short ones.")
    ] = 0.0,
    start: Annotated[str, typer.Option(metavar="WORDS", help="Words to begin with.")] = "",
    sample: Annotated[bool, typer.Option("--sample", help="Draw words by chance instead of the likeliest.")] = False,
    temperature: Annotated[float, typer.Option(help="With --sample: less than 1 is more careful.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="With --sample: only the N likeliest words; 0 for all.")] = 0,
    nucleus: Annotated[
        float, typer.Option(help="With --sample: only the likeliest words that together have this probability.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="With --sample: the same gives the same.")] = 0,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a row for each sentence into FILE.")] = None,
    xmp: Annotated[
        bool, typer.Option("--xmp", help="Write the best into PHOTO.xmp beside each photo, for photo programs.")
    ] = False,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Write sentences about photos.

    With --csv, a run that was stopped goes on where it was when the same is asked again.
    """
    from deixis.models.decoding import Decoding
    from deixis.tasks.bulk.captions import CaptionPlan, captions_by
    from deixis.tasks.captions.captioning import RERANKED_BEAM, USUAL_BEAM, beam_of, load_captioner
    from deixis.tasks.captions.reranking import open_reranker
    from deixis.tasks.captions.unfinished import unfinished

    if sample and rerank != "none":
        raise DeixisError("--rerank: orders the sentences of a beam; leave out --sample")
    if not sample and (temperature, top_k, nucleus) != (1.0, 0, 1.0):
        raise DeixisError("--temperature, --top-k and --nucleus: say how words are drawn by chance; add --sample")
    width = beam or (RERANKED_BEAM if rerank != "none" else USUAL_BEAM)
    if not sample and top > width:
        raise DeixisError(f"--top {top}: a beam of {width} has no more than {width} sentences; give --beam {top}")
    if csv is not None and not csv.absolute().parent.is_dir():
        raise DeixisError(f"--csv {csv}: the folder {csv.parent} does not exist")
    paths = _photo_files(photos)
    if xmp and (elsewhere := next(filter(is_remote, paths), None)):
        raise DeixisError(f"--xmp: writes beside photos of this machine, and {elsewhere} lies elsewhere")
    bundle = load_captioner(model)
    reranker = None if rerank == "none" else open_reranker(rerank, model, bundle, neighbours)
    if sample:
        longest = bundle.model.settings.longest
        how = Decoding(
            "sample", count=top, temperature=temperature, top_k=top_k, nucleus=nucleus, seed=seed, longest=longest
        )
    else:
        how = beam_of(bundle, beam, top, length_power=length_power, reranked=reranker is not None)
    bundle.refuse_unknown(start)
    caption_all: CaptionAll = partial(bundle.caption_files, how=how, start=start, reranker=reranker)
    plan = CaptionPlan.of(model, how, start, None if rerank == "none" else rerank, neighbours)
    results = []
    # What is drawn for a photo depends on the photos that it is looked at with: a run by chance begins anew.
    with workers_at(scheduler) as workers, unfinished(csv, repr(plan)) if csv and not sample else nullcontext() as kept:
        if workers:
            caption_all = partial(captions_by, workers, plan)
        if kept:
            if before := kept.known(paths):
                note(f"{csv}: goes on after {plural(len(before), 'photo')} of a run that was stopped")
            caption_all = partial(kept.going_on, caption_all)
        for path, found in _captioned(caption_all, paths):
            result = found.first(top)
            results.append((path, result))
            if xmp:
                _write_xmp(path, result.text)
            if not json:
                for written in result.captions:
                    print(f"{path}: {written.text}")
        if csv is not None:
            _write_csv(csv, results)
    if json:
        print_json([{"photo": str(path), **result.as_json()} for path, result in results])
    elif csv is not None:
        note(f"{csv}: {plural(len(results) * top, 'sentence')} about {plural(len(results), 'photo')}")


def _photo_files(places: Sequence[Path]) -> list[Path]:
    """The files that are named, and all photos below the folders; each once, in this order."""
    from deixis.data.images import find_photos

    below = {place: find_photos(place) if place.is_dir() else [place] for place in places}
    found = list(dict.fromkeys(path for paths in below.values() for path in paths))
    empty = [f"{place}: no photo in this folder" for place, paths in below.items() if not paths]
    if not found:
        raise DeixisError(empty[0] if empty else "there is no photo to write about")
    for line in empty:
        note(f"left out: {line}")
    return found


def _captioned(caption_all: CaptionAll, paths: Sequence[Path]) -> Iterator[tuple[Path, CaptionResult]]:
    """What is written about the photos that can be read; the others are named, and refused where there are no more."""
    failed: list[PhotoError] = []
    with progress("photos") as on_progress:
        for path, result in caption_all(paths, on_progress=on_progress):
            if isinstance(result, PhotoError):
                failed.append(result)
            else:
                yield path, result
    if len(failed) == len(paths):
        more = f"; {plural(len(failed) - 1, 'other photo')} cannot be read either" if len(failed) > 1 else ""
        raise DeixisError(f"{failed[0]}{more}")
    for error in failed:
        note(f"left out: {error}")


def _write_xmp(photo: Path, text: str) -> None:
    from deixis.tasks.captions.sidecars import write_sidecar

    try:
        write_sidecar(photo, text)
    except DeixisError as error:  # the other photos have theirs
        note(f"not written: {error}")


def _write_csv(path: Path, results: Sequence[tuple[Path, CaptionResult]]) -> None:
    from csv import writer

    from deixis.files.atomic import new_file

    with (
        new_file(path) as unfinished,
        unfinished.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        rows = writer(file)
        rows.writerow(["photo", "caption", "logprob", "perplexity"])
        for photo, result in results:
            for written in result.as_json()["captions"]:
                rows.writerow([photo, written["text"], written["logprob"], written["perplexity"]])
