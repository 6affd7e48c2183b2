"""Features of the photos and sentences of a data set: read from its stores, or computed and stored there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.data.dataset import FEATURES, Dataset, Photos
from deixis.errors import DeixisError, PhotoError
from deixis.evaluation.items import Regions
from deixis.geometry import Boxes
from deixis.language.features import TextFeatures
from deixis.language.features import captions as caption_store
from deixis.models.base import LOCATION_SIZE, append_locations, append_whole_location
from deixis.models.provenance import EncoderInfo, ProposalSource
from deixis.storage.progress import OnProgress, no_progress
from deixis.vision.encoder import ImageEncoder, PhotoVector
from deixis.vision.feature_store import FeatureOptions, FeatureStore, default_store_path, is_up_to_date, update_store
from deixis.vision.feature_store.files import FILE as MANIFEST
from deixis.vision.feature_store.files import IMPORTED, read_manifest


@dataclass(frozen=True)
class PhotoFeatures:
    """Photos of a data set with their features."""

    store: FeatureStore
    photos: Photos  # the requested photos that have features, in the order of the data set
    left_out: tuple[str, ...] = ()  # why the other photos have none, one line each
    crops: int = 0  # 10 if the vector of a photo is the mean over ten crops
    max_proposals: int = 0  # the store may hold more
    location_weight: float = 0.0
    photo_vector: PhotoVector = "photo"

    def vectors(self, begin: int = 0, end: int | None = None) -> Floats:
        """The vectors of whole photos, of all or of those from `begin` to before `end`."""
        return self.vectors_of(self.photos[begin:end].ids)

    def vectors_of(self, ids: Sequence[str]) -> Floats:
        parts = []
        if self.photo_vector != "region":
            parts.append(self.store.crops(ids) if self.crops else self.store.whole(ids))
        if self.photo_vector != "photo":
            parts.append(self.store.whole_regions(ids))
        return np.hstack([append_whole_location(vectors, self.location_weight) for vectors in parts])

    def with_photo_vector(self, kind: PhotoVector) -> PhotoFeatures:
        """Take these vectors of photos if photos and regions have vectors of different sizes, else the global ones."""
        contents = self.store.contents
        return replace(self, photo_vector="photo" if contents.dimension == contents.channels else kind)

    @property
    def sentence_count(self) -> int:
        return len(self.photos.sentence_rows()[0])

    @property
    def region_size(self) -> int:
        return self.store.contents.channels + (LOCATION_SIZE if self.location_weight else 0)

    def proposals(self, photo_id: str) -> Boxes:
        """The proposed boxes of a photo, the most likely first."""
        return self.store.proposals(photo_id).boxes[: self.max_proposals]

    def proposal_vectors(self, photo_id: str) -> Floats:
        """The vectors of the proposed boxes."""
        vectors = self.store.proposal_vectors(photo_id)[: self.max_proposals]
        return append_locations(vectors, self.proposals(photo_id), self._size(photo_id), self.location_weight)

    def region_vectors(self, photo_id: str, boxes: Boxes) -> Floats:
        """The vectors of any boxes of a photo."""
        return append_locations(self.store.regions(photo_id, boxes), boxes, self._size(photo_id), self.location_weight)

    def gold_vectors(self, gold: Regions) -> Iterator[Floats]:
        """The vectors of gold regions, photo by photo."""
        boxes, ids = np.array(gold.boxes, dtype=np.float64), self.photos.ids
        starts = np.searchsorted(gold.photo_of_region, np.arange(len(ids) + 1))
        for photo in np.unique(gold.photo_of_region):
            yield self.region_vectors(ids[photo], boxes[starts[photo] : starts[photo + 1]])

    def _size(self, photo_id: str) -> tuple[int, int]:
        if not self.location_weight:
            return 1, 1  # not used, and looking it up takes longer than reading the vectors
        width, height = self.store.sizes([photo_id])[0].tolist()
        return width, height

    def require_all(self) -> PhotoFeatures:
        """Return self, or raise an error if a photo has no features."""
        if self.left_out:
            requested = len(self.photos) + len(self.left_out)
            raise DeixisError(
                f"{len(self.left_out):,} of {requested:,} photos have no features, the first: {self.left_out[0]}"
            )
        return self


def find_or_compute_features(
    encoder: EncoderInfo,
    dataset: Dataset,
    photos: Photos,
    *,
    proposals: ProposalSource | None = None,
    also: Iterable[Path] = (),
    on_progress: OnProgress = no_progress,
) -> PhotoFeatures:
    """Features by the encoder of a model: read if a store has them, else computed; see `Pipeline.features`."""
    found = find_features(dataset, photos, encoder.fingerprint, crops=encoder.crops, proposals=proposals, also=also)
    if not encoder.is_imported and (found is None or found.left_out):
        found = compute_features(
            dataset, photos, encoder.open(), crops=encoder.crops, proposals=proposals, on_progress=on_progress
        )
    if found is None:
        raise DeixisError(
            f"{dataset.path}: has no imported features like those that the model was trained on ({encoder.name}); "
            "import them with deixis features DATA --import FILE, or name their store with --features DIR"
        )
    return replace(found, photo_vector=encoder.photo_vector)


def compute_features(
    dataset: Dataset,
    photos: Photos,
    encoder: ImageEncoder,
    *,
    crops: int = 0,
    proposals: ProposalSource | None = None,
    on_progress: OnProgress = no_progress,
) -> PhotoFeatures:
    """Features by an encoder; missing and outdated ones are computed and stored in the data set.

    Another store of the data set that has all of these photos and features is used as it is. Photos that cannot be read
    are left out.
    """
    options, name = FeatureOptions(crops), None
    if proposals:
        proposer = proposals.open(encoder.name)
        options, name = FeatureOptions(crops, proposer, proposals.max_proposals), proposer.name
        proposals = replace(proposals, name=name, fingerprint=proposer.fingerprint)
    path = default_store_path(dataset.path, encoder.name, crops=crops, proposer=name, top=options.top)
    if (path / MANIFEST).exists():
        _check_encoder(path, encoder)
    else:
        found = find_features(dataset, photos, encoder.fingerprint, crops=crops, proposals=proposals)
        if found and not found.left_out:
            return found
    if is_up_to_date(path, dataset, encoder, photos=photos, options=options, on_progress=on_progress):
        return _select(FeatureStore(path), dataset, photos, crops, options.top)
    report = update_store(path, dataset, encoder, photos=photos, options=options, on_progress=on_progress)
    return _select(FeatureStore(path), dataset, photos, crops, options.top, report.skipped)


def read_features(
    folder: Path,
    dataset: Dataset,
    photos: Photos,
    *,
    crops: int = 0,
    proposals: ProposalSource | None = None,
    fingerprint: str | None = None,
) -> PhotoFeatures:
    """Features in a store that ``deixis features`` made, by an encoder or by ``--import``."""
    store = FeatureStore(folder, fingerprint=fingerprint)
    if crops and not store.contents.crops:
        raise DeixisError(f"{folder}: holds no crops; make a store that does with: deixis features DATA --crops 10")
    if proposals:
        _check_proposals(store, proposals)
    return _select(store, dataset, photos, crops, proposals.max_proposals if proposals else 0)


def _check_proposals(store: FeatureStore, proposals: ProposalSource) -> None:
    contents = store.contents
    if not contents.channels or not contents.proposer:
        lacks = "proposals" if contents.channels else "maps"
    elif contents.proposer == IMPORTED and proposals.name != IMPORTED:
        raise DeixisError(f"{store.path}: its regions were imported; set proposals={IMPORTED}")
    elif contents.proposer != proposals.name or proposals.fingerprint not in ("", contents.proposer_fingerprint):
        lacks = f"proposals of {proposals.name}, but of {contents.proposer} ({contents.proposer_fingerprint})"
    elif contents.top < proposals.max_proposals and contents.proposer != IMPORTED:
        lacks = f"{proposals.max_proposals} proposals per photo, but {contents.top}"
    else:
        return
    raise DeixisError(
        f"{store.path}: holds no {lacks}; make a store that does with: "
        f"deixis features DATA --encoder NAME --proposals {proposals.name} --top {proposals.max_proposals}"
    )


def find_features(
    dataset: Dataset,
    photos: Photos,
    fingerprint: str,
    *,
    crops: int = 0,
    proposals: ProposalSource | None = None,
    also: Iterable[Path] = (),
) -> PhotoFeatures | None:
    """Features from the store that has most of these photos; None if no store has them.

    The fingerprint is that of the encoder, or of the file that features were imported from; `also` names stores outside
    the data set.
    """
    stores = [path for path in sorted((dataset.path / FEATURES).glob("*")) if path.is_dir()]
    found = []
    for folder in [*also, *stores]:
        try:
            features = read_features(folder, dataset, photos, crops=crops, proposals=proposals, fingerprint=fingerprint)
        except DeixisError:  # of another encoder, without crops or proposals, or not a store of photos
            continue
        found.append(features)
    return max(found, key=lambda features: len(features.photos), default=None)


def _check_encoder(path: Path, encoder: ImageEncoder) -> None:
    stored = read_manifest(path).contents.fingerprint
    if stored != encoder.fingerprint:
        raise DeixisError(
            f"{path}: holds features of another version of the encoder {encoder.name} ({stored[:16]}, installed "
            f"is {encoder.fingerprint[:16]}); remove it to compute them again"
        )


def _select(
    store: FeatureStore,
    dataset: Dataset,
    photos: Photos,
    crops: int,
    max_proposals: int,
    skipped: Sequence[PhotoError] = (),
) -> PhotoFeatures:
    present = np.array([photo_id in store for photo_id in photos.ids], dtype=bool)
    reasons = {error.path: str(error) for error in skipped}
    left_out = tuple(
        reasons.get(
            str(dataset.path_of(photo)) if photo.file and dataset.images else "", f"{photo.id}: not in {store.path}"
        )
        for photo in Photos(dataset, photos.rows[~present])
    )
    return PhotoFeatures(store, Photos(dataset, photos.rows[present]), left_out, crops, max_proposals)


@dataclass(frozen=True)
class SentenceVectors:
    """Sentences of photos with their text features."""

    vectors: NDArray[np.float32]  # of all captions of the data set, memory-mapped
    rows: NDArray[np.int64]  # for each sentence its row in `vectors`
    owner: NDArray[np.int64]  # for each sentence the index of its photo
    features: TextFeatures


def sentence_vectors(
    dataset: Dataset,
    photos: Photos,
    recipe: caption_store.Recipe,
    *,
    train: str = "train",
    on_progress: OnProgress = no_progress,
) -> SentenceVectors:
    """Text features of the sentences of photos; features that are missing are fitted on the training split first."""
    path = recipe.folder(dataset.path)
    report = caption_store.build_caption_features(path, dataset, recipe, train=train, on_progress=on_progress)
    rows, owner = photos.sentence_rows()
    fitted = caption_store.fitted_features(path, report.manifest)
    return SentenceVectors(caption_store.caption_vectors(path, dataset), rows, owner, fitted)
