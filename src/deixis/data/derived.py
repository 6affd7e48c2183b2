"""New data sets from existing ones: merged into one, or with other splits, drawn at random by a seed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Photo
from deixis.data.tables import Manifest
from deixis.errors import DatasetError
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.storage.remote import is_remote

SUFFIX = ".data"

SplitParts = Mapping[str, Sequence[tuple[str, str]]]
"""For each new split, the data set and the split of each of its parts."""


@dataclass
class MergeReport:
    """Counts of merged and skipped items."""

    counts: dict[str, int] = field(default_factory=dict)  # rows of each table
    splits: dict[str, int] = field(default_factory=dict)  # photos of each split
    same_photo: int = 0  # skipped, because an earlier data set has the same file
    renamed: list[str] = field(default_factory=list)  # new ids of photos whose id was taken


def dataset_name(path: Path) -> str:
    """Return the name of a data set in split descriptions: that of its directory, without ``.data``."""
    return path.resolve().name.removesuffix(SUFFIX)


def named_splits(paths: Iterable[Path], splits: Sequence[str]) -> Iterator[tuple[str, Dataset, str]]:
    """Yield name, data set and split for each of the splits that a data set has, or for the first if it has none."""
    for path in paths:
        dataset, name = Dataset(path), dataset_name(path)
        found = [split for split in splits if split in dataset.manifest.splits] or splits[:1]
        for split in found:
            yield (name if len(found) == 1 else f"{name} {split}"), dataset, split


def merge_datasets(
    out: Path,
    paths: Sequence[Path],
    *,
    splits: SplitParts | None = None,
    replace_old: bool = False,
    on_progress: OnProgress = no_progress,
) -> MergeReport:
    """Merge data sets into a new data set directory. Photo files are neither copied nor moved.

    A photo whose file an earlier data set has too is skipped, so that no photo gets into two splits by being in two
    data sets. A photo whose id is taken gets the id ``NAME-ID`` with the name of its data set.

    Parameters
    ----------
    out
        The directory to create. It appears only when it is complete.
    paths
        Data set directories, with or without photos, but all alike.
    splits
        New splits and the parts of each: the name of a data set (see `dataset_name`) and one of its splits. Photos of
        other splits are left out. By default all photos are kept, and splits of the same name are joined.
    replace_old
        Replace an existing data set.
    on_progress
        Progress callback.

    Examples
    --------
    >>> parts = {"train": [("flickr8k", "train"), ("coco", "train")], "dev": [("coco", "dev")]}
    >>> merge_datasets(Path("all.data"), [Path("flickr8k.data"), Path("coco.data")], splits=parts)  # doctest: +SKIP
    """
    if len(paths) < 2:
        raise DatasetError("merging needs at least two data sets")
    sources: dict[str, Dataset] = {}
    for path in paths:
        name = dataset_name(path)
        if name in sources:
            raise DatasetError(f"{path}: another data set is named {name!r} too; rename one of the directories")
        sources[name] = Dataset(path)
    chosen = None if splits is None else _choose(sources, splits)
    images = _common_folder(sources)
    report = MergeReport()
    manifest = make_dataset(
        out,
        _merged(sources, chosen, images, report, on_progress),
        images=images,
        licence="; ".join(dict.fromkeys(source.manifest.licence for source in sources.values())),
        sources=[("deixis", path) for path in paths],
        replace_old=replace_old,
    )
    report.counts, report.splits = manifest.counts, manifest.splits
    return report


def _choose(sources: Mapping[str, Dataset], splits: SplitParts) -> dict[str, dict[str, list[str]]]:
    """Return, for each data set and each of its photos that is kept, the new splits of the photo."""
    chosen: dict[str, dict[str, list[str]]] = {name: {} for name in sources}
    for split, parts in splits.items():
        for name, part in parts:
            if name not in sources:
                raise DatasetError(f"split {split}: no data set {name!r}; there are: {', '.join(sources)}")
            for photo_id in sources[name].split(part).ids:
                own = chosen[name].setdefault(photo_id, [])
                if split not in own:
                    own.append(split)
    return chosen


def _common_folder(sources: Mapping[str, Dataset]) -> Path | None:
    """Return the nearest folder above all photo folders, or None if no data set has photos."""
    folders = {name: source.images for name, source in sources.items()}
    found = [folder for folder in folders.values() if folder is not None]
    if not found:
        return None
    if len(found) < len(folders):
        without = ", ".join(name for name, folder in folders.items() if folder is None)
        raise DatasetError(f"{without}: imported without --images, unlike the other data sets")
    if len(set(found)) == 1:
        return found[0]
    if any(map(is_remote, found)):
        raise DatasetError("data sets with different photo folders can be merged only if all of them are local")
    try:
        return Path(os.path.commonpath([folder.resolve() for folder in found]))
    except ValueError:
        raise DatasetError("the photos are on different drives; import them from one drive") from None


def _merged(
    sources: Mapping[str, Dataset],
    chosen: Mapping[str, Mapping[str, list[str]]] | None,
    images: Path | None,
    report: MergeReport,
    on_progress: OnProgress,
) -> Iterator[Photo]:
    ids: set[str] = set()
    hashes: set[str] = set()
    for name, source in sources.items():
        own_hashes = set()
        for photo in track(source.photos, f"merging {name}", len(source.photos), on_progress):
            if chosen is not None and photo.id not in chosen[name]:
                continue
            if photo.sha256 in hashes:
                report.same_photo += 1
                continue
            if photo.sha256 is not None:
                own_hashes.add(photo.sha256)
            moved = photo if images is None else replace(photo, file=_file_below(images, source, photo))
            if chosen is not None:
                moved = replace(moved, splits=tuple(chosen[name][photo.id]))
            if moved.id in ids:
                moved = replace(moved, id=f"{name}-{photo.id}")
                report.renamed.append(moved.id)
            ids.add(moved.id)
            yield moved
        hashes |= own_hashes


def _file_below(images: Path, source: Dataset, photo: Photo) -> str | None:
    if photo.file is None or source.images is None or source.images == images:
        return photo.file
    return (source.images.resolve() / photo.file).relative_to(images).as_posix()


@dataclass(frozen=True)
class Draw:
    """A number of random photos that become a split. They leave the splits that they were in."""

    split: str
    count: int
    source: str = ""  # the split to draw from; empty for all photos


@dataclass(frozen=True)
class SplitRule:
    """How the splits of a data set are drawn."""

    draws: tuple[Draw, ...]
    rest: str | None = None  # the split of all photos that are not drawn; None leaves them in their splits
    drop: tuple[str, ...] = ()  # splits of which nothing stays


RULES: Mapping[str, SplitRule] = {
    # m-RNN, section 6: 4,000 and 1,000 photos of MS COCO's validation photos; all of its training photos.
    "coco": SplitRule((Draw("dev", 4000, "val"), Draw("test", 1000, "val")), drop=("val",)),
    # All four papers: 1,000 photos to choose on and 1,000 to test on; the others to train on.
    "flickr30k": SplitRule((Draw("dev", 1000), Draw("test", 1000)), rest="train"),
    # The lists of IAPR TC-12 have no validation photos: 1,000 of the 17,665 to train on.
    "iapr": SplitRule((Draw("dev", 1000, "train"),)),
}
"""The splits of the papers."""


def split_dataset(
    out: Path,
    data: Path,
    rule: SplitRule,
    *,
    seed: int = 0,
    replace_old: bool = False,
    on_progress: OnProgress = no_progress,
) -> Manifest:
    """Write a copy of a data set with new splits. Photo files stay where they are.

    Photos are drawn in the order of the rule, none of them twice; the same seed and ids give the same splits,
    regardless of the order of the photos.

    Examples
    --------
    >>> split_dataset(Path("new.data"), Path("flickr30k.data"), RULES["flickr30k"]).splits  # doctest: +SKIP
    {'dev': 1000, 'test': 1000, 'train': 29783}
    """
    dataset = Dataset(data)
    chosen = _draw(dataset, rule.draws, seed)
    dropped = set(rule.drop)

    def photos() -> Iterator[Photo]:
        for photo in track(dataset.photos, "writing photos", len(dataset.photos), on_progress):
            own = tuple(split for split in photo.splits if split not in dropped)
            others = own if rule.rest is None else (rule.rest,)
            yield replace(photo, splits=(chosen[photo.id],) if photo.id in chosen else others)

    return make_dataset(
        out,
        photos(),
        images=dataset.images,
        licence=dataset.manifest.licence,
        sources=[(source["kind"], Path(source["name"])) for source in dataset.manifest.sources],
        replace_old=replace_old,
        inputs=[data],
    )


def _draw(dataset: Dataset, draws: Sequence[Draw], seed: int) -> dict[str, str]:
    """Return the new split of each photo that is drawn."""
    generator = np.random.default_rng(seed)
    chosen: dict[str, str] = {}
    for draw in draws:
        ids = (dataset.split(draw.source) if draw.source else dataset.photos).ids
        left = sorted(photo for photo in ids if photo not in chosen)
        if draw.count > len(left):
            where = f"split {draw.source}" if draw.source else "the data set"
            asked = f"{draw.split}={draw.count:,} photos"
            raise DatasetError(f"{dataset.path}: {asked}, but only {len(left):,} of {where} are left to draw")
        chosen |= {left[index]: draw.split for index in generator.permutation(len(left))[: draw.count].tolist()}
    return chosen
