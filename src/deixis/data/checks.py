"""Find problems in a data set and say how to fix them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from deixis.data.dataset import Dataset
from deixis.data.images import inspect_photo, open_photo
from deixis.data.records import Photo
from deixis.data.tables import hash_tables
from deixis.errors import PhotoError
from deixis.storage.progress import OnProgress, no_progress, track

_EXAMPLES = 5
_BLOCK = 512


@dataclass(frozen=True)
class Problem:
    """One kind of problem: number of cases, first examples, and how to fix it."""

    kind: str
    count: int
    examples: tuple[str, ...]
    remedy: str

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "count": self.count, "examples": list(self.examples), "fix": self.remedy}


REMEDIES = {
    "damaged table": "the data set directory was changed or damaged after the import; import the data again",
    "missing photo": "put the file back; if the folder has moved: deixis data check DATA --images FOLDER",
    "changed photo": "the file is not the one that was imported; import the data again",
    "unreadable photo": "replace the file, or remove it from the folder and import the data again",
    "photo of another shape": "its aspect ratio differs from the annotated copy, so boxes may be wrong; use that copy",
    "duplicate photos": "the files are the same byte for byte; keep one of them and import the data again",
    "box ends before it begins": "correct the coordinates in the annotation file and import the data again",
    "box outside the photo": "correct the coordinates in the annotation file or clip the box, then import again",
    "chain with no mention": "no caption mentions it; mark its words in a caption, or remove it from the annotation",
    "mention of an unknown chain": "the annotation does not contain it; add an object (box, scene or nobndbox) for it",
    "unrelated caption": "the data set marks it as describing another photo; scores skip it (`Photo.sentences`)",
    "empty caption": "write the caption, or remove the line, and import the data again",
    "photo without caption": "add captions for it, or remove it from the folder",
    "splits overlap": "remove these photos from one of the two lists and import the data again",
}
"""How to fix each kind of problem, in the order of the report."""


DAMAGE = frozenset(("damaged table", "changed photo", "unreadable photo"))
"""Kinds of problems that an import does not leave: something has changed since."""


def check_dataset(dataset: Dataset, *, decode: bool = False, on_progress: OnProgress = no_progress) -> list[Problem]:
    """Find problems; the most serious kinds come first.

    Parameters
    ----------
    dataset
        The data set.
    decode
        Also decode every photo in full. This finds truncated files but takes longer.
    on_progress
        Progress callback.
    """
    found: dict[str, list[str]] = defaultdict(list)
    files, _ = hash_tables(dataset.path)
    found["damaged table"] = [name for name, digest in files.items() if dataset.manifest.files.get(name) != digest]
    if found["damaged table"]:
        return _problems(found)
    same_content: dict[str, list[str]] = defaultdict(list)
    overlaps: dict[str, list[str]] = defaultdict(list)
    for photo in track(dataset.photos, "checking annotations", len(dataset.photos), on_progress):
        for kind, example in _record_problems(photo):
            found[kind].append(example)
        if photo.sha256:
            same_content[photo.sha256].append(photo.id)
        for pair in combinations(sorted(set(photo.splits)), 2):
            overlaps[" and ".join(pair)].append(photo.id)
    found["duplicate photos"] = [" = ".join(ids) for ids in same_content.values() if len(ids) > 1]
    found["splits overlap"] = [f"{pair}: {len(ids)} photos, {ids[0]} first" for pair, ids in overlaps.items()]
    if dataset.images is not None:
        for kind, example in _file_problems(dataset, decode, on_progress):
            found[kind].append(example)
    return _problems(found)


def _problems(found: dict[str, list[str]]) -> list[Problem]:
    return [
        Problem(kind, len(found[kind]), tuple(found[kind][:_EXAMPLES]), remedy)
        for kind, remedy in REMEDIES.items()
        if found.get(kind)
    ]


def _record_problems(photo: Photo) -> Iterator[tuple[str, str]]:
    """Yield kind and example of each problem in the records of a photo."""
    as_annotated = photo.as_annotated()
    for number, box in enumerate(as_annotated.boxes, start=1):
        x1, y1, x2, y2 = (round(value, 2) for value in box.xyxy)
        example = f"{photo.id}: box {number} [{x1:g}, {y1:g}, {x2:g}, {y2:g}]"
        if x1 >= x2 or y1 >= y2:
            yield "box ends before it begins", example
        elif x1 < 0 or y1 < 0 or _beyond(x2, as_annotated.width) or _beyond(y2, as_annotated.height):
            yield "box outside the photo", f"{example} of {as_annotated.width} × {as_annotated.height}"
    mentions = Counter(mention.chain for caption in photo.captions for mention in caption.mentions)
    for chain in photo.chains:
        if not mentions[chain.id]:
            yield "chain with no mention", f"{photo.id}: chain {chain.id}"
        if not chain.annotated:
            yield "mention of an unknown chain", f"{photo.id}: chain {chain.id}"
    if not photo.captions:
        yield "photo without caption", photo.id
    for number, caption in enumerate(photo.captions, start=1):
        if not caption.related:
            yield "unrelated caption", f"{photo.id}: caption {number}: {caption.text}"
        if not caption.tokens:
            yield "empty caption", f"{photo.id}: caption {number}"
    if _has_other_shape(photo):
        size, was = f"{photo.width} × {photo.height}", f"{as_annotated.width} × {as_annotated.height}"
        yield "photo of another shape", f"{photo.id}: {size}, annotated at {was}"


def _beyond(end: float, size: int | None) -> bool:
    return size is not None and end > size


def _has_other_shape(photo: Photo) -> bool:
    """Return whether the aspect ratio of the photo differs from that of the annotated copy."""
    was = photo.annotated
    if was is None or not (was.width and was.height and photo.width and photo.height):
        return False
    # Scaled sizes are rounded, so each side may be off by a pixel.
    slack = 1 / min(photo.width, photo.height) + 1 / min(was.width, was.height)
    return abs(photo.width * was.height / (photo.height * was.width) - 1) > 0.01 + slack


def _file_problems(dataset: Dataset, decode: bool, on_progress: OnProgress) -> Iterator[tuple[str, str]]:
    """Yield kind and example of each problem in the photo files."""
    photos = dataset.photos

    def problem(photo: Photo) -> tuple[str, str] | None:
        return _file_problem(photo, dataset.path_of(photo), decode)

    with ThreadPoolExecutor() as pool:
        for begin in range(0, len(photos), _BLOCK):  # `map` submits all items at once
            block = photos[begin : begin + _BLOCK]
            yield from filter(None, pool.map(problem, block))
            on_progress("checking photos", begin + len(block), len(photos))


def _file_problem(photo: Photo, path: Path, decode: bool) -> tuple[str, str] | None:
    if not path.is_file():
        return "missing photo", f"{photo.id}: {path}"
    try:
        if inspect_photo(path).sha256 != photo.sha256:
            return "changed photo", f"{photo.id}: {path}"
        if decode:
            open_photo(path)
    except PhotoError as error:
        return "unreadable photo", str(error)
    return None
