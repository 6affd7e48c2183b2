"""Data set directories: the reader, in which photos have a fixed order and are read on access, and the writer."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deixis.arrays import IntArray, expand_runs
from deixis.data.names import NameIndex, photo_stem
from deixis.data.records import AnnotationSource, Box, Caption, Chain, Mention, Photo
from deixis.data.tables import Manifest, hash_tables, open_tables, read_manifest, write_manifest, write_tables
from deixis.errors import DatasetError
from deixis.storage.atomic import new_directory
from deixis.storage.remote import allow_address, is_allowed, is_remote, photo_path
from deixis.tokens import TOKENIZER_VERSION, Token

UNKNOWN_LICENCE = "not stated; ask the makers of the data"

FEATURES = "features"
"""Folder of a data set directory for computed features. Its content may be stale after a new import."""

_BLOCK = 512


class Photos(Sequence[Photo]):
    """A sequence of photos of a data set. Each photo is read from disk on access."""

    def __init__(self, dataset: Dataset, rows: IntArray) -> None:
        self._dataset = dataset
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Photo]:
        for begin in range(0, len(self.rows), _BLOCK):
            yield from self._dataset._read(self.rows[begin : begin + _BLOCK])

    @overload
    def __getitem__(self, index: int) -> Photo: ...
    @overload
    def __getitem__(self, index: slice) -> Photos: ...
    def __getitem__(self, index: int | slice) -> Photo | Photos:
        if isinstance(index, slice):
            return Photos(self._dataset, self.rows[index])
        return next(self._dataset._read(self.rows[[index]]))

    @property
    def ids(self) -> list[str]:
        """Ids of the photos."""
        ids: list[str] = self._dataset.tables["photos"]["id"].take(pa.array(self.rows)).to_pylist()
        return ids

    def sentence_rows(self) -> tuple[IntArray, IntArray]:
        """Return the row of each sentence of these photos in the captions table, and the position of its photo here."""
        begins = self._dataset._begins["captions"]
        counts = begins[self.rows + 1] - begins[self.rows]
        photo = np.repeat(np.arange(len(self.rows)), counts)
        rows = expand_runs(begins[self.rows], counts)
        captions = self._dataset.tables["captions"]
        is_sentence = captions["related"].to_numpy() & ~captions["region_phrase"].to_numpy()
        return rows[is_sentence[rows]], photo[is_sentence[rows]]


class Dataset:
    """A data set directory, as written by ``deixis data import``.

    Parameters
    ----------
    path
        The directory.
    images
        Photo folder or URL such as ``s3://…``, if it has moved since the import.

    Attributes
    ----------
    manifest : Manifest
        Sources, licence, splits and counts.

    Examples
    --------
    >>> dataset = Dataset("flickr8k.data")  # doctest: +SKIP
    >>> dataset.split("dev")[0].captions[0].text  # doctest: +SKIP
    'A man in a red hat holds a guitar .'
    """

    def __init__(self, path: str | Path, *, images: str | Path | None = None) -> None:
        for name, value in (("a data set", path), ("images", images)):
            if not isinstance(value, str | os.PathLike) and not (value is None and name == "images"):
                raise DatasetError(f"{name}: give a path, not {type(value).__name__}")
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        self._images = images or self.manifest.images
        self._is_named = bool(images)

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """Memory-mapped Arrow tables: photos, captions, mentions, chains and boxes."""
        return open_tables(self.path, self.manifest.files)

    @property
    def images(self) -> Path | None:
        """The photo folder, or None. A remote address that only the data set itself names is an error."""
        folder = photo_path(self._images) if self._images else None
        if folder is not None and is_remote(folder) and not (self._is_named or is_allowed(folder)):
            raise DatasetError(
                f"{self.path}: its photos are at {folder}, an address that you have not named yourself; "
                f"if you trust it, run: deixis data check {self.path} --images {folder}"
            )
        return folder

    @property
    def photos(self) -> Photos:
        """All photos."""
        return Photos(self, np.arange(self.tables["photos"].num_rows))

    def split(self, name: str) -> Photos:
        """Return the photos of a split."""
        if name not in self.manifest.splits:
            known = ", ".join(self.manifest.splits) or "none"
            raise DatasetError(f"{self.path}: no split {name!r}; it has: {known}")
        lists = self.tables["photos"]["splits"].combine_chunks()
        photo_of_name = np.repeat(np.arange(len(lists)), np.diff(lists.offsets.to_numpy()))
        members = photo_of_name[np.asarray(pc.equal(lists.values, name))]
        return Photos(self, members)

    def photo(self, photo_id: str) -> Photo:
        """Return a photo by its id."""
        row = self._rows_of_names[0].by_stem.get(photo_id)
        if row is None:
            raise DatasetError(f"{self.path}: no photo {photo_id!r}")
        return self.photos[row]

    def find_photo(self, name: str) -> Photo:
        """Return a photo by its id, the name of its file with or without suffix, or its Flickr number."""
        row = self.find_row(name)
        if row is None:
            raise DatasetError(f"{self.path}: no photo {name!r}")
        return self.photos[row]

    def find_row(self, name: str) -> int | None:
        """Return the row of a photo as `find_photo` finds it, or None."""
        by_id, by_file = self._rows_of_names
        stem = photo_stem(name)
        found = (index.find(each) for index, each in ((by_id, name), (by_id, stem), (by_file, stem)))
        return next((row for row in found if row is not None), None)

    def path_of(self, photo: Photo) -> Path:
        """Return the path of a photo file."""
        if self.images is None or photo.file is None:
            raise DatasetError(f"{self.path}: photo {photo.id!r} has no file; the data was imported without --images")
        return self.images / photo.file

    @cached_property
    def _rows_of_names(self) -> tuple[NameIndex[int], NameIndex[int]]:
        """The row of each photo by its id, and by the stem of its file."""
        ids, files = (self.tables["photos"][column].to_pylist() for column in ("id", "file"))
        by_file = {photo_stem(file): row for row, file in enumerate(files) if file}
        return NameIndex({photo_id: row for row, photo_id in enumerate(ids)}), NameIndex(by_file)

    @cached_property
    def _begins(self) -> dict[str, IntArray]:
        """First row of each photo (in mentions: of each caption) in each table, and the end."""
        parents = {"captions": "photos", "chains": "photos", "boxes": "photos", "mentions": "captions"}
        return {
            name: np.searchsorted(
                self.tables[name]["caption" if name == "mentions" else "photo"].to_numpy(),
                np.arange(self.tables[parent].num_rows + 1),
            )
            for name, parent in parents.items()
        }

    def _read(self, rows: IntArray) -> Iterator[Photo]:
        """Build the photos of some rows. Each run of consecutive rows is read at once."""
        breaks = np.flatnonzero(np.diff(rows) != 1) + 1
        for begin, end in pairwise([0, *breaks.tolist(), len(rows)]):
            if begin < end:
                try:
                    yield from self._read_run(int(rows[begin]), int(rows[end - 1]) + 1)
                except (IndexError, OverflowError, TypeError, ValueError) as error:
                    raise DatasetError(
                        f"{self.path}: its tables are inconsistent, import the data again ({error})"
                    ) from error

    def _read_run(self, first: int, stop: int) -> Iterator[Photo]:
        photos = _columns(self.tables["photos"], first, stop)
        chains_of, chains = self._slice("chains", first, stop)
        boxes_of, boxes = self._slice("boxes", first, stop)
        captions_of, captions = self._slice("captions", first, stop)
        first_caption, end_caption = self._begins["captions"][[first, stop]].tolist()
        mentions_of, mentions = self._slice("mentions", first_caption, end_caption)
        first_chain = int(self._begins["chains"][first])
        chain_ids = chains["id"]

        def mention(row: int) -> Mention:
            start, end, of, types = (mentions[name][row] for name in ("start", "end", "chain", "types"))
            return Mention(start, end, None if of is None else chain_ids[of - first_chain], tuple(types))

        def caption(row: int) -> Caption:
            text = captions["text"][row]
            offsets = zip(captions["token_starts"][row], captions["token_ends"][row], strict=True)
            return Caption(
                text,
                tuple(Token(text[start:stop_], start, stop_) for start, stop_ in offsets),
                tuple(mention(m) for m in mentions_of[row]),
                *(captions[name][row] for name in ("related", "tree", "region_phrase")),
            )

        def chain(row: int) -> Chain:
            return Chain(*(chains[name][row] for name in ("id", "scene", "no_box", "annotated")))

        def box(row: int) -> Box:
            corners = boxes["x1"][row], boxes["y1"][row], boxes["x2"][row], boxes["y2"][row]
            return Box(corners, tuple(chain_ids[of - first_chain] for of in boxes["chains"][row]), boxes["label"][row])

        for row in range(stop - first):
            yield Photo(
                photos["id"][row],
                tuple(map(caption, captions_of[row])),
                tuple(map(chain, chains_of[row])),
                tuple(map(box, boxes_of[row])),
                photos["width"][row],
                photos["height"][row],
                photos["file"][row],
                tuple(photos["splits"][row]),
                _annotated(photos, row),
                photos["sha256"][row],
            )

    def _slice(self, name: str, first: int, stop: int) -> tuple[list[range], dict[str, list[Any]]]:
        """Return the columns of the rows that belong to some parents, and the rows of each parent in these columns."""
        begins = self._begins[name][first : stop + 1].tolist()
        rows_of = [range(begin - begins[0], end - begins[0]) for begin, end in pairwise(begins)]
        return rows_of, _columns(self.tables[name], begins[0], begins[-1])


def _columns(table: pa.Table, first: int, stop: int) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = table.slice(first, stop - first).to_pydict()
    return columns


def _annotated(photos: dict[str, list[Any]], row: int) -> AnnotationSource | None:
    if photos["annotated_id"][row] is None:
        return None
    return AnnotationSource(*(photos[f"annotated_{name}"][row] for name in ("id", "file", "width", "height", "depth")))


def make_dataset(
    out: Path,
    photos: Iterable[Photo],
    *,
    images: Path | None = None,
    licence: str = UNKNOWN_LICENCE,
    sources: Sequence[tuple[str, Path]] = (),
    replace_old: bool = False,
    inputs: Iterable[Path | None] = (),
) -> Manifest:
    """Write a data set directory.

    Parameters
    ----------
    out
        The directory to create. It appears only when it is complete.
    photos
        Records, read once. A few thousand are in memory at a time.
    images
        The photo folder.
    licence
        Licence of the data.
    sources
        Format and path of each source file or folder.
    replace_old
        Replace an existing data set. Its computed features are kept.
    inputs
        Other files that `photos` reads. A directory that contains one of them is not replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dog = Photo("1", (Caption.from_text("A dog."),), splits=("train",))
    ...     make_dataset(Path(folder) / "data", [dog]).splits
    {'train': 1}
    """
    if images is not None and is_remote(images):
        allow_address(images)
    splits: Counter[str] = Counter()

    def counted() -> Iterator[Photo]:
        for photo in photos:
            splits.update(set(photo.splits))
            yield photo

    read_from = [images, *(path for _, path in sources), *inputs]
    with new_directory(out, replace=replace_old, inputs=read_from) as folder:
        counts = write_tables(counted(), folder)
        if not counts["photos"]:
            raise DatasetError("no photos: a data set needs at least one")
        files, together = hash_tables(folder)
        manifest = Manifest(
            sources=tuple({"kind": kind, "name": path.name} for kind, path in sources),
            licence=licence,
            images=str(images.absolute()) if images else None,
            splits=dict(sorted(splits.items())),
            counts=counts,
            files=files,
            hash=together,
            tokenizer=TOKENIZER_VERSION,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        write_manifest(manifest, folder)
        _keep_features(out / FEATURES, folder / FEATURES)
    return manifest


def move_images(path: Path, images: str | Path) -> None:
    """Record where the photos of a data set are now."""
    folder = photo_path(images)
    if not folder.is_dir():
        raise DatasetError(f"{images}: not a folder")
    if is_remote(folder):
        allow_address(folder)
    write_manifest(replace(read_manifest(path), images=str(folder.absolute())), path)


def _keep_features(old: Path, new: Path) -> None:
    """Hard-link the features, so that the old data set stays complete until it is replaced."""
    if old.is_symlink():
        new.symlink_to(old.readlink())
    elif old.is_dir():
        unfinished = shutil.ignore_patterns(".*.lock", ".*.partial-*")
        shutil.copytree(old, new, symlinks=True, ignore=unfinished, copy_function=_link_or_copy)


def _link_or_copy(old: str, new: str) -> None:
    try:
        os.link(old, new)
    except OSError:  # the file system has no hard links
        shutil.copy2(old, new)
