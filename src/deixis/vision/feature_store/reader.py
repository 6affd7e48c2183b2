"""Reader of feature stores."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from deixis.data.creation import FEATURES
from deixis.errors import DeixisError
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.feature_map import FeatureMap
from deixis.vision.feature_store.manifest import Contents, read_manifest
from deixis.vision.feature_store.shards import FileStamp, Floats, ShardReader, is_intact
from deixis.vision.proposals.base import Proposals


def default_store_path(data: Path, encoder: str, *, crops: int = 0, proposer: str | None = None, top: int = 0) -> Path:
    """Return the default path of the features of a data set.

    Examples
    --------
    >>> default_store_path(Path("flickr8k.data"), "torchvision:vgg19", crops=10).as_posix()
    'flickr8k.data/features/torchvision-vgg19,crops=10'
    """
    name = encoder + (f",crops={crops}" if crops else "") + (f",{proposer}={top}" if proposer else "")
    return data / FEATURES / re.sub(r"[^\w.,=@+-]+", "-", name).strip("-.")


class FeatureStore:
    """The features of a data set by one encoder, as written by ``deixis features``.

    Opening reads the ids only; vectors and maps are read on access. The store is a snapshot: later changes by other
    processes are not visible.

    Parameters
    ----------
    path
        The store's directory.
    fingerprint
        Expected fingerprint of the encoder.

    Attributes
    ----------
    contents : Contents
        Encoder, dimensions and what else is stored of each photo.

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
                f"{self.path}: holds features of {self.contents.encoder} ({self.contents.fingerprint[:16]}), not of "
                f"{fingerprint[:16]}; compute them with: deixis features DATA --encoder NAME --out DIR"
            )
        self._shards = [ShardReader(self.path, shard, self.contents) for shard in self.manifest.shards]
        self._locations = self._find_locations()

    def _find_locations(self) -> dict[str, tuple[int, int]]:
        locations: dict[str, tuple[int, int]] = {}
        for number, (shard, opened) in enumerate(zip(self.manifest.shards, self._shards, strict=True)):
            gone = set(shard.gone)
            locations.update((name, (number, row)) for row, name in enumerate(opened.ids) if row not in gone)
        return locations

    @cached_property
    def ids(self) -> list[str]:
        """Sorted ids of the photos that have features."""
        return sorted(self._locations)

    def __len__(self) -> int:
        """Number of photos."""
        return len(self._locations)

    def __contains__(self, photo_id: str) -> bool:
        return photo_id in self._locations

    def whole(self, ids: Sequence[str] | None = None) -> Floats:
        """Return the global vectors of photos, by default of all: (n, dimension)."""
        return self._gather("whole", ids)

    def crops(self, ids: Sequence[str] | None = None) -> Floats:
        """Return mean vectors over ten crops; requires ``--crops 10``."""
        self._require(self.contents.crops, "no crops", "--crops 10")
        return self._gather("crops", ids)

    def sizes(self, ids: Sequence[str] | None = None) -> NDArray[np.int32]:
        """Return width and height of photos in pixels: (n, 2)."""
        return self._gather("size", ids, columns=2, kind=np.int32)

    def map(self, photo_id: str) -> FeatureMap:
        """Return the feature map of a photo. It is stored as float16."""
        self._require(self.contents.channels, "no maps", "--encoder NAME")
        number, row = self._location(photo_id)
        return self._shards[number].map(row)

    def regions(self, photo_id: str, boxes: npt.ArrayLike) -> Floats:
        """Pool one vector for each box, given in pixels of the photo: (n, channels)."""
        return self.map(photo_id).regions(boxes)

    def proposals(self, photo_id: str) -> Proposals:
        """Return the region proposals of a photo; requires ``--proposals``."""
        self._require(self.contents.proposer, "no proposals", "--proposals NAME")
        number, row = self._location(photo_id)
        return self._shards[number].proposals(row)

    def proposal_vectors(self, photo_id: str) -> Floats:
        """Return the vectors of the proposals. They are stored as float16."""
        self._require(self.contents.proposer, "no proposals", "--proposals NAME")
        number, row = self._location(photo_id)
        return self._shards[number].vectors(row)

    def stamps(self) -> dict[str, FileStamp]:
        """Return the file stamp of each photo."""
        stamps = [list(opened.stamps()) for opened in self._shards]
        return {name: stamps[number][row] for name, (number, row) in self._locations.items()}

    def damaged(self, on_progress: OnProgress = no_progress) -> list[str]:
        """Check the hashes and return the names of damaged files."""
        found, checked, total = [], 0, sum(shard.photos for shard in self.manifest.shards)
        for shard in self.manifest.shards:
            if not is_intact(self.path, shard):
                found.append(shard.file)
            checked += shard.photos
            on_progress("checking stored features", checked, total)
        return found

    def _gather(
        self, name: str, ids: Sequence[str] | None, columns: int = 0, kind: npt.DTypeLike = np.float32
    ) -> NDArray[Any]:
        """Collect rows of an array from all shards. Each shard is read once."""
        locations = [self._location(photo_id) for photo_id in (self.ids if ids is None else ids)]
        gathered = np.empty((len(locations), columns or self.contents.dimension), dtype=kind)
        numbers, rows = np.array(locations, dtype=np.int64).reshape(-1, 2).T
        order = np.argsort(numbers, kind="stable")
        for same_shard in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            if len(same_shard):
                gathered[same_shard] = self._shards[numbers[same_shard[0]]].rows(name)[rows[same_shard]]
        return gathered

    def _location(self, photo_id: str) -> tuple[int, int]:
        try:
            return self._locations[photo_id]
        except KeyError:
            raise DeixisError(
                f"{self.path}: no features of photo {photo_id!r}; run the same deixis features command again"
            ) from None

    def _require(self, present: object, missing: str, option: str) -> None:
        if not present:
            raise DeixisError(f"{self.path}: holds {missing}; compute them with: deixis features DATA {option}")
