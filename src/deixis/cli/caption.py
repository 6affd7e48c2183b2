"""``deixis caption``: captions of photos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from deixis.cli.options import Scheduler, open_scheduler
from deixis.cli.output import Json, note, plural, print_json, progress
from deixis.errors import DeixisError, PhotoError
from deixis.storage.remote import is_remote, photo_path

if TYPE_CHECKING:
    from deixis.cli.caption_files import CaptionAll
    from deixis.models.m_rnn.captioning import CaptionResult

Rerank = Literal["none", "bleu", "cider"]


def caption(
    photos: Annotated[
        list[Path],
        typer.Argument(
            metavar="PHOTO…", parser=photo_path, help="Photos, folders, or s3:// addresses.", show_default=False
        ),
    ],
    model: Annotated[str, typer.Option(metavar="NAME|DIR", help="Model that writes captions.")] = "m-rnn",
    beam: Annotated[int | None, typer.Option(min=1, help="Beam width (default: 5, or 10 with --rerank).")] = None,
    rerank: Annotated[
        Rerank | None,
        typer.Option(
            help="Rerank captions by their similarity to captions of similar training photos (default: none, or "
            "cider for a model of deixis train consensus)."
        ),
    ] = None,
    neighbours: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="With --rerank: output of deixis train consensus, if not stored with the model."
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of captions per photo.")] = 1,
    length_power: Annotated[
        float, typer.Option(min=0, help="Rank captions by log-probability / length^N; 0 favours short ones.")
    ] = 0.0,
    start: Annotated[str, typer.Option(metavar="WORDS", help="First words of each caption.")] = "",
    sample: Annotated[bool, typer.Option("--sample", help="Sample words instead of beam search.")] = False,
    temperature: Annotated[float, typer.Option(help="With --sample: sampling temperature.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="With --sample: only the N most probable words; 0 for all.")] = 0,
    nucleus: Annotated[
        float, typer.Option(help="With --sample: only the most probable words with this total probability (top-p).")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="With --sample: random seed.")] = 0,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the captions to a CSV file.")] = None,
    xmp: Annotated[bool, typer.Option("--xmp", help="Write the best caption to PHOTO.xmp beside each photo.")] = False,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Write captions of photos.

    With --csv, an interrupted run is continued by the same command.
    """
    from deixis.cli.caption_files import caption_journal
    from deixis.cluster import CaptionJob, caption_photos
    from deixis.models.consensus.reranking import open_reranker
    from deixis.models.m_rnn.captioning import BEAM, RERANK_BEAM, load_captioner
    from deixis.models.m_rnn.decoding import Decoding

    if sample and rerank not in (None, "none"):
        raise DeixisError("--rerank: needs beam search; leave out --sample")
    if not sample and (temperature, top_k, nucleus) != (1.0, 0, 1.0):
        raise DeixisError("--temperature, --top-k and --nucleus: only for sampling; add --sample")
    if csv is not None and not csv.absolute().parent.is_dir():
        raise DeixisError(f"--csv {csv}: the folder {csv.parent} does not exist")
    paths = _photo_files(photos)
    if xmp and (remote := next(filter(is_remote, paths), None)):
        raise DeixisError(f"--xmp: writes beside photos on this machine, and {remote} is not")
    pipeline = load_captioner(model)
    rerank = "none" if sample else rerank or pipeline.default_rerank
    width = beam or (RERANK_BEAM if rerank != "none" else BEAM)
    if not sample and top > width:
        raise DeixisError(f"--top {top}: a beam of {width} gives at most {width} captions; give --beam {top}")
    reranker = None if rerank == "none" else open_reranker(rerank, model, pipeline, neighbours)
    if sample:
        decoding = Decoding(
            "sample",
            count=top,
            temperature=temperature,
            top_k=top_k,
            nucleus=nucleus,
            seed=seed,
            max_length=pipeline.model.settings.max_length,
        )
    else:
        decoding = pipeline.beam_search(beam, top, length_power=length_power, rerank=reranker is not None)
    pipeline.check_start(start)
    caption_all: CaptionAll = partial(pipeline.caption_files, decoding=decoding, start=start, ranker=reranker)
    job = CaptionJob.for_model(model, decoding, start, None if rerank == "none" else rerank, neighbours)
    # Samples of a photo depend on the photos before it, so an interrupted run with --sample starts again.
    journal = caption_journal(csv, repr(job)) if csv and not sample else nullcontext()
    results = []
    with open_scheduler(scheduler) as workers, journal as opened:
        if workers:
            caption_all = partial(caption_photos, workers, job)
        if opened:
            if known := opened.known(paths):
                note(f"{csv}: continues an interrupted run after {plural(len(known), 'photo')}")
            caption_all = partial(opened.resume, caption_all)
        for path, found in _readable(caption_all, paths):
            result = found.first(top)
            results.append((path, result))
            if xmp:
                _write_xmp(path, result.text)
            if not json:
                for sentence in result.captions:
                    print(f"{path}: {sentence.text}")
        if csv is not None:
            _write_csv(csv, results)
    if json:
        print_json([{"photo": str(path), **result.as_json()} for path, result in results])
    elif csv is not None:
        note(f"{csv}: {plural(len(results) * top, 'caption')} of {plural(len(results), 'photo')}")


def _photo_files(paths: Sequence[Path]) -> list[Path]:
    """Return files, and all photos below folders, without repetitions."""
    from deixis.data.images import find_photos

    below = {path: find_photos(path) if path.is_dir() else [path] for path in paths}
    found = list(dict.fromkeys(each for some in below.values() for each in some))
    empty = [f"{path}: no photo in this folder" for path, some in below.items() if not some]
    if not found:
        raise DeixisError(empty[0] if empty else "there is no photo to caption")
    for line in empty:
        note(f"skipped: {line}")
    return found


def _readable(caption_all: CaptionAll, paths: Sequence[Path]) -> Iterator[tuple[Path, CaptionResult]]:
    """Yield captions of readable photos; report the others at the end, and raise an error if no photo is readable."""
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
        note(f"skipped: {error}")


def _write_xmp(photo: Path, text: str) -> None:
    from deixis.cli.caption_files import write_sidecar

    try:
        write_sidecar(photo, text)
    except DeixisError as error:  # the other photos are still written
        note(f"not written: {error}")


def _write_csv(path: Path, results: Sequence[tuple[Path, CaptionResult]]) -> None:
    from csv import writer

    from deixis.storage.atomic import new_file

    with (
        new_file(path) as unfinished,
        unfinished.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file,
    ):
        rows = writer(file)
        rows.writerow(["photo", "caption", "logprob", "perplexity"])
        for photo, result in results:
            for document in result.as_json()["captions"]:
                rows.writerow([photo, document["text"], document["logprob"], document["perplexity"]])
