"""New splits of a data set, drawn at random by a seed: those of the papers, and any others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Photo
from deixis.data.tables import Manifest
from deixis.errors import DatasetError
from deixis.storage.progress import OnProgress, no_progress, track


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
        if draw.source and draw.source not in dataset.manifest.splits:
            known = ", ".join(dataset.manifest.splits) or "none"
            raise DatasetError(f"{dataset.path}: no split {draw.source!r} to draw {draw.split} from; it has: {known}")
        ids = (dataset.split(draw.source) if draw.source else dataset.photos).ids
        left = sorted(photo for photo in ids if photo not in chosen)
        if draw.count > len(left):
            where = f"split {draw.source}" if draw.source else "the data set"
            asked = f"{draw.split}={draw.count:,} photos"
            raise DatasetError(f"{dataset.path}: {asked}, but only {len(left):,} of {where} are left to draw")
        chosen |= {left[index]: draw.split for index in generator.permutation(len(left))[: draw.count].tolist()}
    return chosen
