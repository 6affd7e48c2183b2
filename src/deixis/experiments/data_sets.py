"""Which of the papers' data sets a directory holds, and whether a table can be measured on it."""

from __future__ import annotations

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError
from deixis.experiments.records import Need, Table
from deixis.experiments.tables import TABLES

SCORED_SPLITS = ("dev", "val", "test")
"""The split that is scored is the first of these that is there."""

_BY_SIZE = {"Flickr8k": range(5_000, 10_001), "Flickr30k": range(25_000, 35_001)}
"""How many photos there are in what people have of them."""
_BY_NAME = {"flickr8k": "Flickr8k", "flickr30k": "Flickr30k", "coco": "MS COCO", "iapr": "IAPR TC-12"}
_BY_KIND = {"coco-captions": "MS COCO", "iapr-tc12": "IAPR TC-12", "region-phrases": "MS-COCO-region"}
_FLICKR = ("flickr-token", "flickr-results", "flickr30k-entities")


def known_data(dataset: Dataset) -> str:
    """The papers' name of a data set; empty for any other.

    The first source decides, by its kind, else by its name; Flickr8k and Flickr30k without a telling name by size.
    """
    for source in dataset.manifest.sources:
        kind, name = source.get("kind", ""), source.get("name", "").lower().replace("_", "").replace("-", "")
        if kind in _BY_KIND:
            return _BY_KIND[kind]
        for part, known in _BY_NAME.items():
            if part in name:
                return known
        if kind in _FLICKR:
            photos = dataset.manifest.counts.get("photos", 0)
            return next((known for known, sizes in _BY_SIZE.items() if photos in sizes), "")
    return ""


def scored_split(dataset: Dataset, asked: str | None = None) -> str:
    """The split to score on: the one asked for, else dev, val or test."""
    there = dataset.manifest.splits
    if asked is not None:
        dataset.split(asked)
        return asked
    for name in SCORED_SPLITS:
        if name in there:
            return name
    raise DatasetError(f"{dataset.path}: no split to score on; it has: {', '.join(there) or 'none'}")


def refuse_without(table: Table, dataset: Dataset, *, split: str | None = None, features: bool = False) -> None:
    """Say in one line what a data set lacks for a table.

    Parameters
    ----------
    table, dataset
        What is to be measured, on what.
    split
        The split to score on, where one was asked for.
    features
        Whether features were given, so that no photos are needed.
    """
    _refuse_other_data(table, dataset)
    there = dataset.manifest
    lacks: dict[Need, bool] = {
        "boxes": not there.counts.get("boxes"),
        "train": "train" not in there.splits,
        "photos": there.images is None and not features,
    }
    said: dict[Need, str] = {
        "boxes": "boxes of phrases; import the data with --entities",
        "train": "split 'train'; import the data with --split train=FILE",
        "photos": "photos; import the data with --images, or give features with --set features=DIR",
    }
    for need, words in said.items():
        if need in table.needs and lacks[need]:
            raise DatasetError(f"{dataset.path}: table {table.name} needs {words}")
    if "dev" in table.needs:
        scored_split(dataset, split)


def _refuse_other_data(table: Table, dataset: Dataset) -> None:
    known = known_data(dataset)
    if table.any_data or known in table.data:
        return
    here = known or "none of the papers' data sets"
    others = [each.name for each in TABLES.values() if not each.any_data and known in each.data]
    hint = f"; tables of {known}: {', '.join(others)}" if others else ""
    raise DatasetError(f"{dataset.path}: table {table.name} is of {' and '.join(table.data)}, and this is {here}{hint}")
