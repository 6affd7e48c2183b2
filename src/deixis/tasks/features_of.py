"""The features of a data set's photos and sentences, computed where they are missing and read where they are there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.data.dataset import Dataset, Photos
from deixis.data.making import FEATURES
from deixis.errors import DeixisError, PhotoError
from deixis.files.progress import OnProgress, silent
from deixis.geometry import Boxes
from deixis.language.features import TextFeatures, of_data
from deixis.language.features.base import Floats
from deixis.tasks.places import PLACE_SIZE, with_places, with_whole_place
from deixis.vision.encoder import ImageEncoder
from deixis.vision.store import Extras, FeatureStore, default_place, fill_store, is_filled
from deixis.vision.store.manifest import FILE as MANIFEST
from deixis.vision.store.manifest import read_manifest


@dataclass(frozen=True)
class Proposing:
    """Which regions of a photo are looked at.

    Attributes
    ----------
    name, top
        Who proposes them, and at most how many for a photo.
    fingerprint
        What changes whenever the proposer's boxes do; empty where any will do.
    """

    name: str
    top: int
    fingerprint: str = ""


@dataclass(frozen=True)
class SeenPhotos:
    """Photos whose features are there.

    Attributes
    ----------
    store
        Where the features are.
    photos
        Those of the photos asked for that have features, in the order of the data set.
    left_out
        Why the others have none, a line for each.
    crops
        10 where the vector of a photo is to be the mean over ten crops.
    top
        At most so many regions of a photo are looked at; the store may hold more.
    place
        How much the place of a region counts, as in `Learning`.
    """

    store: FeatureStore
    photos: Photos
    left_out: tuple[str, ...] = ()
    crops: int = 0
    top: int = 0
    place: float = 0.0

    def vectors(self, begin: int = 0, end: int | None = None) -> Floats:
        """The vectors of whole photos, of all or of those from `begin` to before `end`."""
        ids = self.photos[begin:end].ids
        return with_whole_place(self.store.crops(ids) if self.crops else self.store.whole(ids), self.place)

    @property
    def region_size(self) -> int:
        """Numbers in the vector of a region."""
        return self.store.contents.channels + (PLACE_SIZE if self.place else 0)

    def proposals(self, photo_id: str) -> Boxes:
        """The boxes proposed for a photo, the likeliest first."""
        return self.store.proposals(photo_id).boxes[: self.top]

    def proposal_vectors(self, photo_id: str) -> Floats:
        """The vectors of these boxes."""
        vectors = self.store.proposal_vectors(photo_id)[: self.top]
        return with_places(vectors, self.proposals(photo_id), self._size(photo_id), self.place)

    def region_vectors(self, photo_id: str, boxes: Boxes) -> Floats:
        """The vectors of any boxes of a photo."""
        return with_places(self.store.regions(photo_id, boxes), boxes, self._size(photo_id), self.place)

    def _size(self, photo_id: str) -> tuple[int, int]:
        if not self.place:
            return 1, 1  # nobody asks, and looking it up takes longer than reading the vectors
        width, height = self.store.sizes([photo_id])[0].tolist()
        return width, height

    def require_all(self) -> SeenPhotos:
        """The same, for those who cannot do with fewer photos than they asked for."""
        if self.left_out:
            asked = len(self.photos) + len(self.left_out)
            raise DeixisError(
                f"{len(self.left_out):,} of {asked:,} photos have no features, the first: {self.left_out[0]}"
            )
        return self


def encode_photos(
    dataset: Dataset,
    photos: Photos,
    encoder: ImageEncoder,
    *,
    crops: int = 0,
    proposing: Proposing | None = None,
    on_progress: OnProgress = silent,
) -> SeenPhotos:
    """The features of photos by an encoder; what is missing or has changed is computed, and kept beside the data.

    A store beside the data that has all of these photos, and more than is asked for, will do as well.

    Parameters
    ----------
    dataset, photos
        Whose photos, and which. Those that cannot be read are left out.
    encoder
        Who computes.
    crops
        10 for the mean vectors over ten crops as well.
    proposing
        For the boxes of regions and their vectors as well.
    on_progress
        Called as the work goes on.
    """
    extras = _extras(encoder, crops, proposing)
    if extras.proposer and proposing:
        proposing = replace(proposing, name=extras.proposer.name, fingerprint=extras.proposer.fingerprint)
    name = extras.proposer.name if extras.proposer else None
    path = default_place(dataset.path, encoder.name, crops=crops, proposer=name, top=extras.top)
    if not (path / MANIFEST).exists():
        found = find_photos(dataset, photos, encoder.fingerprint, crops=crops, proposing=proposing)
        if found and not found.left_out:
            return found
    _refuse_another_version(path, encoder)
    if is_filled(path, dataset, encoder, photos=photos, extras=extras, on_progress=on_progress):
        return _seen(FeatureStore(path), dataset, photos, crops, extras.top)
    report = fill_store(path, dataset, encoder, photos=photos, extras=extras, on_progress=on_progress)
    return _seen(FeatureStore(path), dataset, photos, crops, extras.top, report.skipped)


def _extras(encoder: ImageEncoder, crops: int, proposing: Proposing | None) -> Extras:
    if proposing is None:
        return Extras(crops)
    from deixis.vision import proposals

    proposer = proposals.open_proposer(proposing.name, encoder.name)
    if proposing.fingerprint not in ("", proposer.fingerprint):
        raise DeixisError(
            f"the model learned from another version of the proposals of {proposing.name} "
            f"({proposing.fingerprint}, here is {proposer.fingerprint}); train it again"
        )
    return Extras(crops, proposer, proposing.top)


def stored_photos(
    folder: Path,
    dataset: Dataset,
    photos: Photos,
    *,
    crops: int = 0,
    proposing: Proposing | None = None,
    fingerprint: str | None = None,
) -> SeenPhotos:
    """The features of photos in a store that ``deixis features`` made, by an encoder or by ``--import``."""
    store = FeatureStore(folder, fingerprint=fingerprint)
    if crops and not store.contents.crops:
        raise DeixisError(f"{folder}: holds no crops; make a store that does with: deixis features DATA --crops 10")
    if proposing:
        _refuse_other_proposals(store, proposing)
    return _seen(store, dataset, photos, crops, proposing.top if proposing else 0)


def _refuse_other_proposals(store: FeatureStore, proposing: Proposing) -> None:
    there = store.contents
    if not there.channels or not there.proposer:
        lacks = "proposals" if there.channels else "maps"
    elif there.proposer != proposing.name or proposing.fingerprint not in ("", there.proposer_fingerprint):
        lacks = f"proposals of {proposing.name}, but of {there.proposer} ({there.proposer_fingerprint})"
    elif there.top < proposing.top:
        lacks = f"{proposing.top} proposals for a photo, but {there.top}"
    else:
        return
    raise DeixisError(
        f"{store.path}: holds no {lacks}; make a store that does with: "
        f"deixis features DATA --encoder NAME --proposals {proposing.name} --top {proposing.top}"
    )


def find_photos(
    dataset: Dataset,
    photos: Photos,
    fingerprint: str,
    *,
    crops: int = 0,
    proposing: Proposing | None = None,
    also: Iterable[Path] = (),
) -> SeenPhotos | None:
    """The features of photos as far as they are there, in the store of the data set that has most of them.

    Parameters
    ----------
    dataset, photos
        Whose photos, and which.
    fingerprint
        Of the encoder, or of the file that features were imported from.
    crops
        10 for the mean vectors over ten crops.
    proposing
        For boxes of regions and their vectors.
    also
        Stores elsewhere.
    """
    found = []
    for folder in [*also, *_stores_of(dataset)]:
        try:
            found.append(
                stored_photos(folder, dataset, photos, crops=crops, proposing=proposing, fingerprint=fingerprint)
            )
        except DeixisError:  # of another encoder, without crops or proposals, or no store of photos at all
            continue
    return max(found, key=lambda seen: len(seen.photos), default=None)


def _stores_of(dataset: Dataset) -> Iterator[Path]:
    folder = dataset.path / FEATURES
    return (path for path in sorted(folder.glob("*")) if path.is_dir())


def _refuse_another_version(path: Path, encoder: ImageEncoder) -> None:
    if (path / MANIFEST).exists():
        there = read_manifest(path).contents.fingerprint
        if there != encoder.fingerprint:
            raise DeixisError(
                f"{path}: holds features of another version of the encoder {encoder.name} ({there[:16]}, here is "
                f"{encoder.fingerprint[:16]}); remove it to compute them anew"
            )


def _seen(
    store: FeatureStore, dataset: Dataset, photos: Photos, crops: int, top: int, skipped: Sequence[PhotoError] = ()
) -> SeenPhotos:
    there = np.array([photo_id in store for photo_id in photos.ids], dtype=bool)
    said = {error.path: str(error) for error in skipped}
    left_out = tuple(
        said.get(
            str(dataset.path_of(photo)) if photo.file and dataset.images else "", f"{photo.id}: not in {store.path}"
        )
        for photo in Photos(dataset, photos.rows[~there])
    )
    return SeenPhotos(store, Photos(dataset, photos.rows[there]), left_out, crops, top)


@dataclass(frozen=True)
class SentenceVectors:
    """The sentences of some photos as vectors.

    Attributes
    ----------
    vectors
        Of all captions of the data set, memory-mapped.
    rows, owner
        For each sentence its row there, and the place of its photo.
    features
        What made them, to make more.
    """

    vectors: NDArray[np.float32]
    rows: NDArray[np.int64]
    owner: NDArray[np.int64]
    features: TextFeatures


def sentence_vectors(
    dataset: Dataset,
    photos: Photos,
    recipe: of_data.Recipe,
    *,
    train: str = "train",
    on_progress: OnProgress = silent,
) -> SentenceVectors:
    """The sentences of these photos; text features that are not there yet are learned from the training split now."""
    path = of_data.default_place(dataset.path, recipe.kind)
    report = of_data.fill_captions(path, dataset, recipe, train=train, on_progress=on_progress)
    rows, owner = photos.sentence_rows()
    fitted = of_data.fitted_features(path, report.manifest)
    return SentenceVectors(of_data.caption_vectors(path, dataset), rows, owner, fitted)
