"""Other people's files become a data set directory: read, matched with photos, written whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from deixis.data.images import PhotoFile, find_photos, look_at
from deixis.data.making import UNKNOWN_LICENCE, make_dataset
from deixis.data.matching import ByName, names_in_list, stem_of
from deixis.data.readers import read_captions
from deixis.data.readers.entities import read_entities
from deixis.data.readers.source import Source
from deixis.data.readers.text import read_text
from deixis.data.records import Annotated, Photo
from deixis.errors import DatasetError, PhotoError
from deixis.files.atomic import explained
from deixis.files.progress import OnProgress, silent, told


@dataclass(frozen=True)
class CaptionFile:
    """A file of captions, with the boxes that belong to it (COCO's instances) and the split that all of it is."""

    path: Path
    instances: Path | None = None
    split: str | None = None


@dataclass
class ImportReport:
    """What an import took in, and what it left out and why."""

    counts: dict[str, int] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)
    without_photo: int = 0
    photos_without_caption: int = 0
    not_in_data: dict[str, int] = field(default_factory=dict)
    unreadable: list[PhotoError] = field(default_factory=list)
    same_name: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Images:
    """The photos of a folder by their stems."""

    folder: Path
    by_name: ByName[tuple[str, PhotoFile]]


def import_dataset(
    out: Path,
    *,
    images: Path | None = None,
    captions: Sequence[CaptionFile] = (),
    entities: Path | None = None,
    splits: Mapping[str, Path] | None = None,
    licence: str = UNKNOWN_LICENCE,
    replace_old: bool = False,
    on_progress: OnProgress = silent,
) -> ImportReport:
    """Make a data set directory of other people's files.

    Parameters
    ----------
    out
        The directory to make; it appears only when it is whole.
    images
        A folder of photos. They decide what is in: an annotation without a photo is left out and counted.
    captions, entities
        Files of captions in any form that `read_captions` knows; Flickr30k Entities as a folder or a zip. One of
        them is needed. Where a photo is in both, the Entities sentences are its captions.
    splits
        Lists of photos by the name of the split; they replace any splits that the files bring themselves.
    licence
        What the makers of the data allow.
    replace_old
        Put the new directory in the place of an old one.
    on_progress
        Called as the work goes on.
    """
    if not captions and entities is None:
        raise DatasetError("nothing to import: give --captions FILE or --entities DIR, or both")
    report = ImportReport()
    lists = {name: _listed(name, path) for name, path in (splits or {}).items()}
    found = _find_images(images, report, on_progress) if images else None
    with ExitStack() as stack:
        said = [_read(file, on_progress) for file in captions]
        wanted = (lambda name: found.by_name.stem(name) is not None) if found else (lambda name: True)
        released = stack.enter_context(read_entities(entities, wanted)) if entities else None
        photos = _join(said, released)
        if found:
            photos = _with_files(photos, found, report)
        if lists:
            photos = _with_splits(photos, lists, report)
        total = released.total if released else _sum(source.total for source in said)
        sources = [(source.kind, file.path) for file, source in zip(captions, said, strict=True)]
        if entities and released:
            sources.append((released.kind, entities))
        manifest = make_dataset(
            out,
            _not_empty(told(photos, "importing", total, on_progress), found, report),
            images=images,
            licence=licence,
            sources=sources,
            replace_old=replace_old,
            inputs=[*(splits or {}).values(), *(file.instances for file in captions)],
        )
    report.counts, report.splits = manifest.counts, manifest.splits
    return report


def _listed(split: str, path: Path) -> list[str]:
    names = names_in_list(read_text(path).splitlines())
    if not names:
        raise DatasetError(f"{path}: the list of split {split!r} names no photo")
    return names


def _read(file: CaptionFile, on_progress: OnProgress) -> Source:
    on_progress(f"reading {file.path.name}", 0, None)
    source = read_captions(file.path, instances=file.instances)
    if file.split is None:
        return source
    return replace(source, photos=(replace(photo, splits=(file.split,)) for photo in source.photos))


def _sum(totals: Iterable[int | None]) -> int | None:
    known = list(totals)
    return None if None in known else sum(total for total in known if total is not None)


def _find_images(folder: Path, report: ImportReport, on_progress: OnProgress) -> Images:
    with explained(folder):
        is_there = folder.is_dir()
    if not is_there:
        raise DatasetError(f"{folder}: no such folder of photos")
    paths: dict[str, Path] = {}
    for path in find_photos(folder):
        if path.stem in paths:
            report.same_name.append(path.relative_to(folder).as_posix())
        else:
            paths[path.stem] = path
    if not paths:
        raise DatasetError(f"{folder}: no photos in it")
    files: dict[str, tuple[str, PhotoFile]] = {}

    def looked_at(path: Path) -> PhotoFile | PhotoError:
        try:
            return look_at(path)
        except PhotoError as error:
            return error

    with ThreadPoolExecutor() as pool:
        seen_files = zip(paths, pool.map(looked_at, paths.values()), strict=True)
        for stem, seen in told(seen_files, "looking at photos", len(paths), on_progress):
            if isinstance(seen, PhotoError):
                report.unreadable.append(seen)
            else:
                files[stem] = (paths[stem].relative_to(folder).as_posix(), seen)
    return Images(folder, ByName(files))


def _join(said: Sequence[Source], released: Source | None) -> Iterator[Photo]:
    """The photos of all files, those of Entities first; where both have one, the captions give its name and splits."""
    of_captions = chain.from_iterable(source.photos for source in said)
    if released is None:
        yield from of_captions
        return
    captioned = ByName({photo.id: photo for photo in of_captions})
    taken = set()
    for photo in released.photos:
        same = captioned.find(photo.id)
        if same is None:
            yield photo
            continue
        taken.add(same.id)
        captions = photo.captions or same.captions
        yield replace(photo, id=same.id, captions=captions, splits=photo.splits or same.splits)
    yield from (photo for photo in captioned.things.values() if photo.id not in taken)


def _with_files(photos: Iterator[Photo], found: Images, report: ImportReport) -> Iterator[Photo]:
    """Only photos that have a file, at the size of that file."""
    used = set()
    for photo in photos:
        stem = found.by_name.stem(photo.id)
        if stem is None:
            report.without_photo += 1
            continue
        if stem in used:
            raise DatasetError(f"photo {photo.id!r}: another annotation belongs to the same file, {stem!r}")
        used.add(stem)
        name, file = found.by_name.things[stem]
        annotated = photo.annotated or Annotated(photo.id, name, photo.width, photo.height)
        at_size = photo.resized(file.width, file.height)
        yield replace(at_size, id=stem, file=name, annotated=annotated, sha256=file.sha256)
    report.photos_without_caption = len(found.by_name.things) - len(used)


def _with_splits(photos: Iterator[Photo], lists: Mapping[str, list[str]], report: ImportReport) -> Iterator[Photo]:
    """The splits that lists give, in the place of any that the files brought."""
    splits_of: dict[str, tuple[str, ...]] = {}
    for split, names in lists.items():
        for name in dict.fromkeys(names):
            splits_of[name] = (*splits_of.get(name, ()), split)
    listed = ByName(splits_of)
    met: Counter[str] = Counter()
    for photo in photos:
        names = [photo.id, *([photo.annotated.id, stem_of(photo.annotated.file)] if photo.annotated else [])]
        splits = next((found for name in names if (found := listed.find(name))), ())
        met.update(splits)
        yield replace(photo, splits=splits)
    report.not_in_data = {split: len(set(names)) - met[split] for split, names in lists.items()}
    for split, names in lists.items():
        if names and not met[split]:
            raise DatasetError(f"split {split!r}: none of its {len(names)} names, {names[0]!r} first, is in the data")


def _not_empty(photos: Iterable[Photo], found: Images | None, report: ImportReport) -> Iterator[Photo]:
    """Pass photos on; if none comes, say why."""
    empty = True
    for photo in photos:
        empty = False
        yield photo
    if empty:
        raise DatasetError(_why_empty(found, report))


def _why_empty(found: Images | None, report: ImportReport) -> str:
    if found is None:
        return "nothing to import: the files hold no photo"
    if not found.by_name.things:
        return f"nothing to import: no photo in {found.folder} can be read; the first is {report.unreadable[0]}"
    count = len(found.by_name.things)
    return f"nothing to import: none of the {count} photos in {found.folder} has the name of an annotation"
