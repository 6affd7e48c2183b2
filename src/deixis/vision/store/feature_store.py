"""What was computed, for which photos, by which encoder: features on disk, read as they are asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from deixis.data.making import FEATURES
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress, silent
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposals
from deixis.vision.store.manifest import Contents, read_manifest
from deixis.vision.store.shards import Floats, OpenShard, Stamp, is_intact


def default_place(data: Path, encoder: str, *, crops: int = 0, proposer: str | None = None, top: int = 0) -> Path:
    """Where the features of a data set are put, and looked for, when nobody says otherwise.

    Examples
    --------
    >>> default_place(Path("flickr8k.data"), "torchvision:vgg19", crops=10).as_posix()
    'flickr8k.data/features/torchvision-vgg19,crops=10'
    """
    name = encoder + (f",crops={crops}" if crops else "") + (f",{proposer}={top}" if proposer else "")
    return data / FEATURES / re.sub(r"[^\w.,=@+-]+", "-", name).strip("-.")


class FeatureStore:
    """The features of the photos of a data set by one encoder, made by ``deixis features``.

    Opening reads the ids alone; vectors and maps stay on disk until they are asked for. What another process adds after
    that is not seen, and nothing that was there goes away.

    Parameters
    ----------
    path
        The store's directory.
    fingerprint
        Of the encoder whose features are expected; those of another are refused.

    Attributes
    ----------
    contents : Contents
        The encoder's name and fingerprint, the numbers in a vector, and what else each photo has.

    Examples
    --------
    >>> store = FeatureStore("flickr8k.data/features/efficientnet-lite2")  # doctest: +SKIP
    >>> store.whole(["1000268201_693b08cb0e"]).shape  # doctest: +SKIP
    (1, 1280)
    >>> store.regions("1000268201_693b08cb0e", [[0, 0, 50, 80]]).shape  # doctest: +SKIP
    (1, 1280)
    """

    def __init__(self, path: str | Path, *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        self.manifest = read_manifest(self.path)
        self.contents: Contents = self.manifest.contents
        if fingerprint is not None and fingerprint != self.contents.fingerprint:
            raise DeixisError(
                f"{self.path}: holds features of {self.contents.encoder} ({self.contents.fingerprint[:16]}), not those "
                f"of {fingerprint[:16]}; make these with: deixis features DATA --encoder NAME --out DIR"
            )
        self._shards = [OpenShard(self.path, shard, self.contents) for shard in self.manifest.shards]
        self._places = self._find_places()

    def _find_places(self) -> dict[str, tuple[int, int]]:
        places: dict[str, tuple[int, int]] = {}
        for number, (shard, opened) in enumerate(zip(self.manifest.shards, self._shards, strict=True)):
            gone = set(shard.gone)
            places.update((name, (number, row)) for row, name in enumerate(opened.ids) if row not in gone)
        return places

    @cached_property
    def ids(self) -> list[str]:
        """The photos that have features, sorted, so that how the store came about does not matter."""
        return sorted(self._places)

    def __len__(self) -> int:
        """How many photos have features."""
        return len(self._places)

    def __contains__(self, photo_id: str) -> bool:
        """Whether a photo has features."""
        return photo_id in self._places

    def whole(self, ids: Sequence[str] | None = None) -> Floats:
        """One vector for each photo, in the order of `ids`, or of all: (n, dimension)."""
        return self._gathered("whole", ids)

    def crops(self, ids: Sequence[str] | None = None) -> Floats:
        """The same as the mean over ten crops; for stores made with ``--crops 10``."""
        self._need(self.contents.crops, "no crops", "--crops 10")
        return self._gathered("crops", ids)

    def sizes(self, ids: Sequence[str] | None = None) -> NDArray[np.int32]:
        """Width and height of each photo in pixels: (n, 2)."""
        return self._gathered("size", ids, columns=2, kind=np.int32)

    def map(self, photo_id: str) -> FeatureMap:
        """A photo's map and vector; maps are kept as float16."""
        self._need(self.contents.channels, "no maps", "--encoder NAME")
        number, row = self._place(photo_id)
        return self._shards[number].map(row)

    def regions(self, photo_id: str, boxes: npt.ArrayLike) -> Floats:
        """One vector for each box in pixels of a photo, pooled from its map: (n, channels)."""
        return self.map(photo_id).regions(boxes)

    def proposals(self, photo_id: str) -> Proposals:
        """The boxes that were proposed for a photo; for stores made with ``--proposals``."""
        self._need(self.contents.proposer, "no proposals", "--proposals NAME")
        number, row = self._place(photo_id)
        return self._shards[number].proposals(row)

    def proposal_vectors(self, photo_id: str) -> Floats:
        """The vectors of these boxes; kept as float16."""
        self._need(self.contents.proposer, "no proposals", "--proposals NAME")
        number, row = self._place(photo_id)
        return self._shards[number].vectors(row)

    def stamps(self) -> dict[str, Stamp]:
        """The file that each photo's features were computed from."""
        stamps = [list(opened.stamps()) for opened in self._shards]
        return {name: stamps[number][row] for name, (number, row) in self._places.items()}

    def damaged(self, on_progress: OnProgress = silent) -> list[str]:
        """Read every byte, and name the files that are no longer what was written."""
        found, checked, total = [], 0, sum(shard.photos for shard in self.manifest.shards)
        for shard in self.manifest.shards:
            if not is_intact(self.path, shard):
                found.append(shard.file)
            checked += shard.photos
            on_progress("checking what is there", checked, total)
        return found

    def _gathered(
        self, name: str, ids: Sequence[str] | None, columns: int = 0, kind: npt.DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Rows of an array from all the shards that have one of the photos, each shard read once."""
        places = [self._place(photo_id) for photo_id in (self.ids if ids is None else ids)]
        gathered = np.empty((len(places), columns or self.contents.dimension), dtype=kind)
        numbers, rows = np.array(places, dtype=np.int64).reshape(-1, 2).T
        order = np.argsort(numbers, kind="stable")
        for here in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            if len(here):
                gathered[here] = self._shards[numbers[here[0]]].rows(name)[rows[here]]
        return gathered

    def _place(self, photo_id: str) -> tuple[int, int]:
        try:
            return self._places[photo_id]
        except KeyError:
            raise DeixisError(
                f"{self.path}: no features of photo {photo_id!r}; run the same deixis features again"
            ) from None

    def _need(self, there: object, lacks: str, option: str) -> None:
        if not there:
            raise DeixisError(f"{self.path}: holds {lacks}; make a store that does with: deixis features DATA {option}")
