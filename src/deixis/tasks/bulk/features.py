"""The features of a data set's photos by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from deixis.errors import PhotoError
from deixis.tasks.bulk.workers import Workers, refuse_another, refuse_unshared
from deixis.vision.encoders import open_encoder
from deixis.vision.proposals import open_proposer
from deixis.vision.store.computing import Compute, Extras, Found, WantedPhoto, compute_features


@dataclass(frozen=True)
class FeaturesPlan:
    """Which features are wanted.

    Attributes
    ----------
    encoder, device
        As `open_encoder` takes them; without a device each worker takes a GPU where it has one.
    fingerprint
        Of the encoder where the work was begun.
    crops, proposer, top
        As in `Extras`, the proposer by its name.
    """

    encoder: str
    fingerprint: str
    device: str | None = None
    crops: int = 0
    proposer: str | None = None
    top: int = 0

    def opened(self) -> Callable[[Sequence[WantedPhoto]], Iterator[Found]]:
        """What computes the features of some photos."""
        encoder = open_encoder(self.encoder, self.device)
        refuse_another(f"the encoder {self.encoder}", self.fingerprint, encoder.fingerprint)
        proposer = open_proposer(self.proposer, encoder.name) if self.proposer else None
        extras = Extras(self.crops, proposer, self.top)
        return lambda photos: compute_features(photos, encoder, extras)


def features_by(workers: Workers, plan: FeaturesPlan) -> Compute:
    """What `fill_store` takes to let workers compute."""

    def compute(todo: Sequence[WantedPhoto]) -> Iterator[Found]:
        for photo, found in workers.in_order(plan, todo):
            if isinstance(found, PhotoError):
                refuse_unshared(photo.path, found)
            yield photo, found

    return compute
