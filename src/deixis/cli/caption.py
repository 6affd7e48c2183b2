"""``deixis caption``: captions of photos, as text, JSON, CSV or XMP sidecars."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from json import dumps, loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

import typer

from deixis import __version__
from deixis.cli.output import (
    Json,
    Scheduler,
    argument,
    flag,
    hint,
    note,
    open_scheduler,
    option,
    plural,
    print_json,
    progress,
    show_name,
)
from deixis.errors import DeixisError, PhotoError
from deixis.storage.atomic import check_new_file, exclusive_lock, explain_os_errors, write_csv
from deixis.storage.progress import OnProgress, no_progress
from deixis.storage.remote import is_remote, photo_path

if TYPE_CHECKING:
    from deixis.cluster import CaptionJob
    from deixis.models.m_rnn.pipeline import CaptionResult

    CaptionAll = Callable[..., Iterator[tuple[Path, CaptionResult | PhotoError]]]
    """Takes photos and `on_progress`; yields the captions of each photo, in order."""

Rerank = Literal["none", "match", "bleu", "cider"]


def caption(
    photos: Annotated[list[Path], argument("PHOTO", "Photos, folders, or s3:// addresses.", parser=photo_path)],
    model: Annotated[
        str, option("NAME|DIR", "Caption model: a name from deixis models, or a directory.")
    ] = "captioner",
    beam: Annotated[
        int | None, option("N", "Beam width (default: 5, or 10 with --rerank bleu or cider).", min=1)
    ] = None,
    rerank: Annotated[
        Rerank | None,
        typer.Option(
            help="Rank captions by how well they match the photo (match; captioner only), by their similarity to "
            "captions of similar training photos (bleu, cider) or by probability (none). Default: match for captioner, "
            "cider for a model of deixis train consensus, else none."
        ),
    ] = None,
    neighbours: Annotated[
        Path | None, option("DIR", "With --rerank: output of deixis train consensus, if not stored with the model.")
    ] = None,
    top: Annotated[int, option("N", "Number of captions per photo.", min=1)] = 1,
    length_power: Annotated[
        float,
        option(
            "N", "Rank captions by log-probability / length^N, unless --rerank is given; 0 favours short ones.", min=0
        ),
    ] = 0.0,
    start: Annotated[str, option("WORDS", "First words of each caption.")] = "",
    sample: Annotated[bool, flag("--sample", "Sample words instead of beam search.")] = False,
    temperature: Annotated[float, option("T", "With --sample: sampling temperature.")] = 1.0,
    top_k: Annotated[int, option("N", "With --sample: only the N most probable words; 0 for all.", min=0)] = 0,
    nucleus: Annotated[
        float, option("P", "With --sample: only the most probable words, with a total probability of P (top-p).")
    ] = 1.0,
    seed: Annotated[int, option("N", "With --sample: random seed.", min=0)] = 0,
    csv: Annotated[Path | None, option("FILE", "Write the captions to a CSV file.")] = None,
    xmp: Annotated[
        bool,
        flag("--xmp", "Write the best caption to PHOTO.xmp, an XMP sidecar, beside each photo, unless it is not sure."),
    ] = False,
    scheduler: Scheduler = None,
    json: Json = False,
) -> None:
    """Write captions of photos.

    Captions that the model is not sure of are marked "not sure: perhaps". With --csv, an interrupted run is continued
    by the same command.
    """
    from deixis.models.m_rnn.decoding import Decoding
    from deixis.models.m_rnn.pipeline import default_beam, load_captioner

    if sample and rerank not in (None, "none"):
        raise DeixisError("--rerank: needs beam search; leave out --sample")
    if not sample and (temperature, top_k, nucleus) != (1.0, 0, 1.0):
        raise DeixisError("--temperature, --top-k and --nucleus: only for sampling; add --sample")
    if sample and xmp:
        raise DeixisError("--xmp: needs beam search, because samples have no confidence; leave out --sample")
    if csv is not None:
        check_new_file(csv)
    paths = _photo_files(photos)
    if xmp and (remote := next(filter(is_remote, paths), None)):
        raise DeixisError(f"--xmp: writes beside photos on this machine, and {remote} is not")
    pipeline = load_captioner(model)
    rerank = rerank or ("none" if sample or length_power else pipeline.default_rerank)
    ranker = pipeline.ranker(rerank, neighbours)
    width = beam or default_beam(ranker)
    if not sample and top > width:
        raise DeixisError(f"--top {top}: a beam of {width} gives at most {width} captions; --beam N widens it")
    if sample:
        decoding = Decoding(
            "sample",
            top=top,
            temperature=temperature,
            top_k=top_k,
            nucleus=nucleus,
            seed=seed,
            max_length=pipeline.model.settings.max_length,
        )
    else:
        decoding = pipeline.beam_search(beam, top, length_power=length_power, ranker=ranker)
    pipeline.check_start(start)
    caption_all: CaptionAll = partial(pipeline.caption_files, decoding=decoding, start=start, ranker=ranker)

    def make_job() -> CaptionJob:
        from deixis.cluster import CaptionJob, model_fingerprint

        return CaptionJob(model, model_fingerprint(model), decoding, start, rerank, neighbours)

    # Samples of a photo depend on the photos before it, so an interrupted run with --sample starts again.
    journal = caption_journal(csv, repr(make_job())) if csv and not sample else nullcontext()
    results, unsure = [], 0
    with open_scheduler(scheduler) as workers, journal as opened:
        if workers:
            from deixis.cluster import caption_photos

            caption_all = partial(caption_photos, workers, make_job())
        if opened:
            if known := opened.known(paths):
                hint(f"{csv}: continues an interrupted run after {plural(len(known), 'photo')}")
            caption_all = partial(opened.resume, caption_all)
        for path, found in _readable(caption_all, paths):
            result = found.first(top)
            results.append((path, result))
            if xmp and result.is_unsure:
                unsure += 1
            elif xmp:
                _write_xmp(path, result.text)
            if not json:
                for line in result.lines:
                    print(f"{show_name(path)}: {line}")
        if csv is not None:
            write_csv(csv, _table(results))
    if json:
        print_json([{"photo": str(path), **result.as_json()} for path, result in results])
    elif csv is not None:
        count = sum(len(result.captions) for _, result in results)
        hint(f"{csv}: {plural(count, 'caption')} of {plural(len(results), 'photo')}")
    if unsure:
        note(f"no XMP sidecar for {plural(unsure, 'photo')}: the model is not sure of the caption")


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
    from deixis.storage.sidecars import write_caption

    try:
        write_caption(photo, text)
    except DeixisError as error:  # the other photos are still written
        note(f"not written: {error}")


def _table(results: Sequence[tuple[Path, CaptionResult]]) -> Iterator[list[object]]:
    columns = ["text", "logprob", "perplexity", "confidence", "sure"]
    yield ["photo", "caption", *columns[1:]]
    for photo, result in results:
        for document in result.as_json()["captions"]:
            yield [str(photo), *(document[column] for column in columns)]


class CaptionJournal:
    """Captions that a run has generated so far; opened by `caption_journal`."""

    def __init__(self, path: Path, file: BinaryIO, lines: dict[str, dict[str, Any]]) -> None:
        self._path, self._file, self._lines = path, file, lines

    def known(self, paths: Sequence[Path]) -> dict[Path, CaptionResult]:
        """Return the stored captions of photos that have not changed since."""
        lines = {path: self._lines.get(_name(path)) for path in paths}
        return {path: _result(line) for path, line in lines.items() if line and line["file"] == _file_stamp(path)}

    def resume(
        self, caption_all: CaptionAll, paths: Sequence[Path], on_progress: OnProgress = no_progress
    ) -> Iterator[tuple[Path, CaptionResult | PhotoError]]:
        """Yield captions of all photos; `caption_all` computes those that are not stored yet."""
        known = self.known(paths)
        new = caption_all([path for path in paths if path not in known], on_progress=on_progress)
        for path in paths:
            if path in known:
                yield path, known[path]
                continue
            _, result = next(new)
            if not isinstance(result, PhotoError):
                self._append(path, result)
            yield path, result

    def _append(self, path: Path, result: CaptionResult) -> None:
        captions = [(each.words, each.log_probability, each.finished) for each in result.captions]
        line = {
            "photo": _name(path),
            "file": _file_stamp(path),
            "captions": captions,
            "consensus": result.consensus,
            "confidence": result.confidence,
            "sure": result.sure,
        }
        self._lines[_name(path)] = line
        with explain_os_errors(self._path):
            self._file.write(dumps(line).encode() + b"\n")
            self._file.flush()


@contextmanager
def caption_journal(table: Path, plan: str) -> Iterator[CaptionJournal]:
    """Store captions beside a table until it is written; a file of another `plan` or version of deixis is ignored."""
    path = table.absolute().with_name(f".{table.name}.unfinished")
    with exclusive_lock(table):
        with explain_os_errors(path):
            header = {"plan": plan, "version": __version__}
            lines, end = _read(path, header)
            file = path.open("ab")
        try:
            with explain_os_errors(path):
                file.truncate(end)
                if not end:
                    file.write(dumps(header).encode() + b"\n")
            yield CaptionJournal(path, file, lines)
            lines.clear()
        finally:
            file.close()
            if not lines:
                path.unlink(missing_ok=True)


def _read(path: Path, header: dict[str, str]) -> tuple[dict[str, dict[str, Any]], int]:
    """Return the lines of an interrupted run with this header, and the end of its last complete line."""
    data = path.read_bytes() if path.exists() else b""
    end = data.rfind(b"\n") + 1
    with suppress(ValueError, TypeError, KeyError):  # not our file
        first, *lines = [loads(line) for line in data[:end].splitlines()]
        if first == header:
            return {line["photo"]: line for line in lines}, end
    return {}, 0


def _name(path: Path) -> str:
    return str(path.absolute())


def _file_stamp(path: Path) -> list[int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def _result(line: dict[str, Any]) -> CaptionResult:
    from deixis.models.m_rnn.decoding import GeneratedSentence
    from deixis.models.m_rnn.pipeline import CaptionResult

    captions = (GeneratedSentence(tuple(words), score, finished) for words, score, finished in line["captions"])
    return CaptionResult(tuple(captions), tuple(line["consensus"]), tuple(line["confidence"]), tuple(line["sure"]))
