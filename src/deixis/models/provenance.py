"""Provenance of a model: its image encoder, region proposals and training data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import WeakValueDictionary

from deixis.errors import DeixisError
from deixis.vision.encoder import PhotoVector

if TYPE_CHECKING:
    from deixis.vision.encoder import ImageEncoder
    from deixis.vision.proposals import Proposer

FULL_ENCODER, FAST_ENCODER = "deixis", "deixis-fast"

TrainOn = Literal["sentences", "phrases", "both"]


@dataclass(frozen=True)
class EncoderInfo:
    """The image encoder whose features a model was trained on.

    Attributes
    ----------
    name, fingerprint
        Name for users, and a hash that changes whenever its features do.
    crops
        10 if the vector of a photo is the mean over ten crops; 0 if it is that of the whole photo.
    feature_grid
        Side of the grid to which feature maps are pooled for attention; 0 without attention.
    photo_vector
        photo: the encoder's vector of the photo. region: that of a region as large as the photo, which has another
        size. both: the two after each other.
    """

    name: str
    fingerprint: str
    crops: int = 0
    feature_grid: int = 0
    photo_vector: PhotoVector = "photo"

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and isinstance(self.fingerprint, str) and self.crops in (0, 10)):
            raise ValueError(f"not an encoder: {self.name!r}, {self.fingerprint!r}, crops {self.crops!r}")
        if not isinstance(self.feature_grid, int) or self.feature_grid < 0:
            raise ValueError(f"feature_grid {self.feature_grid!r}: must be 0 or more")
        if self.photo_vector not in get_args(PhotoVector):
            raise ValueError(f"photo_vector {self.photo_vector!r}: must be one of {', '.join(get_args(PhotoVector))}")

    @property
    def is_imported(self) -> bool:
        """Whether the features were imported, so that deixis cannot compute them for other photos."""
        return self.name.startswith("imported:")

    @property
    def is_fast(self) -> bool:
        """Whether it is the fast encoder of the package."""
        return self.name == FAST_ENCODER

    def faster(self) -> EncoderInfo:
        """The fast encoder, which imitates the feature maps of the encoder ``deixis``."""
        from deixis.vision.encoders import open_encoder

        if self.name != FULL_ENCODER:
            raise DeixisError(f"the fast encoder replaces the encoder {FULL_ENCODER}, not {self.name}")
        return replace(self, name=FAST_ENCODER, fingerprint=open_encoder(FAST_ENCODER).fingerprint)

    def open(self, device: str | None = None) -> ImageEncoder:
        """Open the encoder; all models of a process share one. A different version of it is refused."""
        if self.is_imported:
            raise DeixisError(f"the model was trained on imported features ({self.name}), so it cannot encode photos")
        key = self.name, self.fingerprint, device
        with _OPENING:
            encoder = _ENCODERS.get(key) or self._open(device)
            _ENCODERS[key] = encoder
            return encoder

    def _open(self, device: str | None) -> ImageEncoder:
        from deixis.vision.encoders import open_encoder

        encoder = open_encoder(self.name, device)
        if encoder.fingerprint != self.fingerprint:
            raise DeixisError(
                f"the model was trained on another version of the encoder {self.name} "
                f"({self.fingerprint}, installed is {encoder.fingerprint}); train it again"
            )
        return encoder


_ENCODERS: WeakValueDictionary[tuple[str, str, str | None], ImageEncoder] = WeakValueDictionary()
_OPENING = Lock()
"""Encoders are large and most models use the same one: it is opened once and shared while anyone uses it."""


@dataclass(frozen=True)
class ProposalSource:
    """The region proposals that a model uses."""

    name: str
    max_proposals: int
    fingerprint: str = ""  # changes whenever the proposals do; empty accepts any version

    def open(self, encoder: str) -> Proposer:
        """Open the proposer; another version than that of the fingerprint is refused."""
        from deixis.vision.feature_store.files import IMPORTED
        from deixis.vision.proposals import open_proposer

        if self.name == IMPORTED:
            raise DeixisError(f"proposals={IMPORTED}: the regions come from a file; name their store with features_dir")
        proposer = open_proposer(self.name, encoder)
        if self.fingerprint not in ("", proposer.fingerprint):
            raise DeixisError(
                f"the model was trained on another version of the proposals {self.name} "
                f"({self.fingerprint}, installed is {proposer.fingerprint}); train it again"
            )
        return proposer


@dataclass(frozen=True)
class Provenance:
    """Inputs and training data of a model, and a description of it.

    Attributes
    ----------
    encoder
        Encoder of the photos.
    train_on
        sentences, phrases or both.
    location_weight
        Weight of the location of a region in its features; 0 leaves it out.
    proposals, max_proposals
        Region proposals that the model ranks, and their maximum number per photo.
    proposals_fingerprint
        Hash that changes whenever the proposals do; empty if the model was not trained on regions.
    summary, trained_on, licence
        For ``deixis models``: what the model does, its training data and the licence of its weights.
    scores
        Scores on data that it was not trained on.
    """

    encoder: EncoderInfo
    train_on: TrainOn = "sentences"
    location_weight: float = 0.0
    proposals: str = "head"
    max_proposals: int = 100
    proposals_fingerprint: str = ""
    summary: str = ""
    trained_on: str = ""
    licence: str = ""
    scores: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = (self.location_weight, self.max_proposals)
        if self.train_on not in get_args(TrainOn) or not all(type(number) in (int, float) for number in numbers):
            raise ValueError(f"not a provenance: {self.train_on!r}, {self.location_weight!r}, {self.max_proposals!r}")

    @property
    def proposal_source(self) -> ProposalSource:
        """The region proposals that the model ranks."""
        return ProposalSource(self.proposals, self.max_proposals, self.proposals_fingerprint)

    def to_json(self) -> dict[str, Any]:
        """For ``config.json``."""
        document = {name: value for name, value in asdict(self).items() if value not in ("", {})}
        if self.encoder.photo_vector == "photo":  # as in models that were saved before there was a choice
            del document["encoder"]["photo_vector"]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Provenance:
        """Read what `to_json` gave; other entries are ignored."""
        known = {name: value for name, value in document.items() if name in cls.__dataclass_fields__}
        return cls(**known | {"encoder": EncoderInfo(**document["encoder"])})
