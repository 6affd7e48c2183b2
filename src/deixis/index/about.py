"""What an index says of itself, and who is refused for it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Protocol

from deixis.errors import DeixisError
from deixis.index.places import Place, shown

FORMAT = "deixis-index"
VERSION = "2"


class DamagedIndexError(DeixisError):
    """An index that cannot be read any more; only this kind does a rebuild take away."""


class Model(Protocol):
    """What an index remembers of whoever sees its photos: a `PhotoSeer`, or what another index says."""

    @property
    def fingerprint(self) -> str:
        """What changes whenever the vectors of the same photo would."""
        ...

    @property
    def dimension(self) -> int:
        """Numbers in the vector of a whole photo."""
        ...

    @property
    def region_dimension(self) -> int:
        """Numbers in the vector of a region."""
        ...


@dataclass(frozen=True)
class About:
    """What an index says of itself.

    Attributes
    ----------
    uid
        Differs whenever the index was begun anew, so that caches of what was there before are known.
    fingerprint, dimension, region_dimension
        Of whoever saw the photos.
    """

    uid: str
    fingerprint: str
    dimension: int
    region_dimension: int


def first_words(fingerprint: str, dimension: int, region_dimension: int) -> dict[str, str]:
    """What an index that is begun says of itself."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "uid": uuid.uuid4().hex,
        "fingerprint": fingerprint,
        "dimension": str(dimension),
        "region_dimension": str(region_dimension),
    }


def understood(said: dict[str, str], name: str, place: Place) -> About:
    """The same, read again; `name` is what to call damaged, and `place` where to make it anew."""
    if said.get("format") != FORMAT:
        raise damaged("it does not say that it is an index", name, place)
    if said.get("version") != VERSION:
        raise DamagedIndexError(
            f"{name}: written for version {said.get('version')} of the layout, this deixis reads {VERSION}; "
            f"{_anew(place)}"
        )
    try:
        return About(said["uid"], said["fingerprint"], int(said["dimension"]), int(said["region_dimension"]))
    except (KeyError, ValueError) as error:
        raise damaged(f"{type(error).__name__}: {error}", name, place) from None


def damaged(what: str, name: str, place: Place) -> DamagedIndexError:
    """How a damaged index is told, and what to do about it."""
    return DamagedIndexError(f"{name}: damaged ({what}); {_anew(place)}")


def refuse_other_model(about: About, fingerprint: str, place: Place) -> None:
    """Vectors of two models do not mix, and neither do queries of one with photos of the other."""
    if about.fingerprint != fingerprint:
        raise DeixisError(
            f"{shown(place)}: its photos were seen by another model "
            f"({about.fingerprint[:16]}, not {fingerprint[:16]}); {_anew(place)}"
        )


def _anew(place: Place) -> str:
    return f"make it anew with: deixis index PHOTOS --into {shown(place)} --rebuild"
