"""Import caption and annotation files into a data set directory: read, match with photo files, assign splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from deixis.data.dataset import UNKNOWN_LICENCE, make_dataset
from deixis.data.documents import read_text
from deixis.data.formats import read_captions
from deixis.data.formats.entities import read_entities
from deixis.data.images import PhotoFile, find_photos, inspect_photo
from deixis.data.names import CaptionSource, NameIndex, parse_name_list, photo_stem
from deixis.data.records import AnnotationSource, Photo
from deixis.errors import DatasetError, PhotoError
from deixis.storage.atomic import explain_os_errors
from deixis.storage.progress import OnProgress, no_progress, track


@dataclass(frozen=True)
class CaptionFile:
    """A captions file, optionally with COCO instances (boxes) and the split of all its photos.

    Examples
    --------
    >>> CaptionFile(Path("captions_val2014.json"), split="val").split
    'val'
    """

    path: Path
    instances: Path | None = None
    split: str | None = None


@dataclass
class ImportReport:
    """Counts of imported and skipped items."""

    counts: dict[str, int] = field(default_factory=dict)  # rows of each table
    splits: dict[str, int] = field(default_factory=dict)  # photos of each split
    without_photo: int = 0  # annotations without a photo file
    photos_without_caption: int = 0
    not_in_data: dict[str, int] = field(default_factory=dict)  # names of each split list that match no photo
    unreadable: list[PhotoError] = field(default_factory=list)
    same_name: list[str] = field(default_factory=list)  # photo files with the same stem as another one


PhotoFiles = NameIndex[tuple[str, PhotoFile]]
"""Relative path and size of the readable photo files of a folder, by stem."""


def import_dataset(
    out: Path,
    *,
    images: Path | None = None,
    captions: Sequence[CaptionFile] = (),
    entities: Path | None = None,
    splits: Mapping[str, Path] | None = None,
    licence: str = UNKNOWN_LICENCE,
    replace_old: bool = False,
    on_progress: OnProgress = no_progress,
) -> ImportReport:
    r"""Import captions, annotations and photos into a new data set directory.

    Parameters
    ----------
    out
        The directory to create. It appears only when it is complete.
    images
        Photo folder. Annotations without a photo are skipped and counted.
    captions, entities
        Caption files in any format of `deixis.data.formats`, and Flickr30k Entities as a folder or zip. At least one
        is required. For a photo in both, the captions are those of Entities.
    splits
        Name and list file of each split. They replace the splits in the caption files.
    licence
        Licence of the data.
    replace_old
        Replace an existing data set.
    on_progress
        Progress callback.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     captions = Path(folder) / "captions.csv"
    ...     _ = captions.write_text("image,caption\n1.jpg,A dog runs .\n")
    ...     import_dataset(Path(folder) / "data", captions=[CaptionFile(captions)]).counts["photos"]
    1
    """
    if not captions and entities is None:
        raise DatasetError("nothing to import: use --captions FILE or --entities DIR, or both")
    report = ImportReport()
    lists = {name: _read_split_list(name, path) for name, path in (splits or {}).items()}
    files = _index_photos(images, report, on_progress) if images else None
    caption_sources = [_read(file, on_progress) for file in captions]
    has_photo = (lambda name: files.stem(name) is not None) if files else (lambda name: True)
    with read_entities(entities, has_photo) if entities else nullcontext() as entity_source:
        photos = _merge(caption_sources, entity_source)
        if files:
            photos = _match_files(photos, files, report)
        if lists:
            photos = _assign_splits(photos, lists, report)
        total = entity_source.total if entity_source else sum(source.total for source in caption_sources)
        sources = [(source.kind, file.path) for file, source in zip(captions, caption_sources, strict=True)]
        if entities and entity_source:
            sources.append((entity_source.kind, entities))
        manifest = make_dataset(
            out,
            _require_photos(track(photos, "importing", total, on_progress), images, files, report),
            images=images,
            licence=licence,
            sources=sources,
            replace_old=replace_old,
            inputs=[*(splits or {}).values(), *(file.instances for file in captions)],
        )
    report.counts, report.splits = manifest.counts, manifest.splits
    return report


def _read_split_list(split: str, path: Path) -> list[str]:
    names = parse_name_list(read_text(path).splitlines())
    if not names:
        raise DatasetError(f"{path}: the list of split {split!r} is empty")
    return names


def _read(file: CaptionFile, on_progress: OnProgress) -> CaptionSource:
    on_progress(f"reading {file.path.name}", 0, None)
    source = read_captions(file.path, instances=file.instances)
    if file.split is None:
        return source
    return replace(source, photos=(replace(photo, splits=(file.split,)) for photo in source.photos))


def _index_photos(folder: Path, report: ImportReport, on_progress: OnProgress) -> PhotoFiles:
    with explain_os_errors(folder):
        is_there = folder.is_dir()
    if not is_there:
        raise DatasetError(f"{folder}: no such folder")
    paths: dict[str, Path] = {}
    for path in find_photos(folder):
        if path.stem in paths:
            report.same_name.append(path.relative_to(folder).as_posix())
        else:
            paths[path.stem] = path
    if not paths:
        raise DatasetError(f"{folder}: no photos found")
    files: dict[str, tuple[str, PhotoFile]] = {}

    def inspect(path: Path) -> PhotoFile | PhotoError:
        try:
            return inspect_photo(path)
        except PhotoError as error:
            return error

    with ThreadPoolExecutor() as pool:
        inspected = zip(paths, pool.map(inspect, paths.values()), strict=True)
        for stem, file in track(inspected, "reading photos", len(paths), on_progress):
            if isinstance(file, PhotoError):
                report.unreadable.append(file)
            else:
                files[stem] = (paths[stem].relative_to(folder).as_posix(), file)
    return NameIndex(files)


def _merge(caption_sources: Sequence[CaptionSource], entity_source: CaptionSource | None) -> Iterator[Photo]:
    """Yield the photos of all files, first those of Entities. Id and splits come from the caption files, if any."""
    from_captions = chain.from_iterable(source.photos for source in caption_sources)
    if entity_source is None:
        yield from from_captions
        return
    captioned = NameIndex({photo.id: photo for photo in from_captions})
    merged = set()
    for photo in entity_source.photos:
        same = captioned.find(photo.id)
        if same is None:
            yield photo
            continue
        merged.add(same.id)
        captions = photo.captions or same.captions
        yield replace(photo, id=same.id, captions=captions, splits=photo.splits or same.splits)
    yield from (photo for photo in captioned.by_stem.values() if photo.id not in merged)


def _match_files(photos: Iterator[Photo], files: PhotoFiles, report: ImportReport) -> Iterator[Photo]:
    """Yield the photos that have a file, at the size of that file."""
    used = set()
    for photo in photos:
        stem = files.stem(photo.id)
        if stem is None:
            report.without_photo += 1
            continue
        if stem in used:
            raise DatasetError(f"photo {photo.id!r}: another annotation matches the same file {stem!r}")
        used.add(stem)
        name, file = files.by_stem[stem]
        annotated = photo.annotated or AnnotationSource(photo.id, name, photo.width, photo.height)
        at_size = photo.resized(file.width, file.height)
        yield replace(at_size, id=stem, file=name, annotated=annotated, sha256=file.sha256)
    report.photos_without_caption = len(files.by_stem) - len(used)


def _assign_splits(photos: Iterator[Photo], lists: Mapping[str, list[str]], report: ImportReport) -> Iterator[Photo]:
    """Replace the splits of photos by those of the lists."""
    splits_of: dict[str, tuple[str, ...]] = {}
    for split, names in lists.items():
        for name in dict.fromkeys(names):
            splits_of[name] = (*splits_of.get(name, ()), split)
    listed = NameIndex(splits_of)
    found: Counter[str] = Counter()
    for photo in photos:
        names = [photo.id, *([photo.annotated.id, photo_stem(photo.annotated.file)] if photo.annotated else [])]
        splits = next((match for name in names if (match := listed.find(name))), ())
        found.update(splits)
        yield replace(photo, splits=splits)
    report.not_in_data = {split: len(set(names)) - found[split] for split, names in lists.items()}
    for split, names in lists.items():
        if names and not found[split]:
            raise DatasetError(f"split {split!r}: none of its {len(names)} names (such as {names[0]!r}) is in the data")


def _require_photos(
    photos: Iterable[Photo], images: Path | None, files: PhotoFiles | None, report: ImportReport
) -> Iterator[Photo]:
    """Yield the photos; raise an error that says why if there are none."""
    empty = True
    for photo in photos:
        empty = False
        yield photo
    if not empty:
        return
    if files is None:
        reason = "the files contain no photos"
    elif not files.by_stem:
        reason = f"no photo in {images} can be read; the first: {report.unreadable[0]}"
    else:
        reason = f"none of the {len(files.by_stem)} photos in {images} matches an annotation by name"
    raise DatasetError(f"nothing to import: {reason}")
