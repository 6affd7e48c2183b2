"""An index of photos, opened to be searched: while it grows, from many threads, for any kind of vector."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.errors import DeixisError
from deixis.index.about import About, refuse_other_model
from deixis.index.archive import Archive, Ranking
from deixis.index.connection import StoredRegions
from deixis.index.embedded import EmbeddedArchive
from deixis.index.grouping import Grouping, groups_of
from deixis.index.matches import Answer, Match
from deixis.index.places import Place, is_address, shown
from deixis.index.ranking import best
from deixis.index.records import IndexedPhoto
from deixis.index.seeing import Floats
from deixis.index.walking import known_as
from deixis.index.where import Where

SHORTLIST = 1000
"""Regions whose exact scores are computed."""

_REGIONS = 20
"""As many regions as a photo may well have: that many of one photo leave room for others on the shortlist."""

_SPARE = 4
"""How many times more photos are looked at than asked for, where some will fall together in groups."""


def mixed(vectors: ArrayLike, weights: Sequence[float] | None = None) -> Floats:
    """One query of several: plus and minus weights, each vector taken at unit length.

    Examples
    --------
    >>> mixed([[3, 0], [0, 1]], [3, -4])
    array([ 0.6, -0.8], dtype=float32)
    """
    rows = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
    unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    together = np.asarray([1.0] * len(rows) if weights is None else weights, dtype=np.float32) @ unit
    return np.asarray(together / max(float(np.linalg.norm(together)), 1e-12), dtype=np.float32)


class PhotoIndex:
    """An index that `update_index` has made. Searches see all that was committed when they began.

    Parameters
    ----------
    place
        The directory of the index, or the address of the database that holds it.
    fingerprint
        Of the model whose vectors will be asked for; an index of another one is refused. None takes any.

    Examples
    --------
    >>> with PhotoIndex("photos.deixis") as photos:  # doctest: +SKIP
    ...     photos.search(query, top=5)[0].path
    """

    def __init__(self, place: Place, *, fingerprint: str | None = None) -> None:
        self.place = place
        self.fingerprint = fingerprint
        self._archive = _opened(place)
        try:
            self._now()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of files and connections."""
        self._archive.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many photos there are."""
        return self.count()

    @property
    def about(self) -> About:
        """The fingerprint and the dimension of the model."""
        return self._now()

    def search(
        self, query: ArrayLike, top: int = 10, *, where: Where | None = None, grouping: Grouping | None = None
    ) -> list[Match]:
        """The photos whose vectors have the highest dot product with a query's.

        Exactly those, unless whoever filled a database chose to have it searched approximately.

        Parameters
        ----------
        query : array, (dimension,)
            The vector of a sentence, of a photo (`vector_of`), or of several (`mixed`).
        top
            How many at most.
        where
            Which photos to look at.
        grouping
            Put near-duplicates and bursts together; `top` counts groups then. None lists every photo.
        """
        asked = self._as_query(query, self._now().dimension)
        return self._matches(self._archive.ranking(asked, where), top, grouping)

    def search_regions(
        self,
        query: ArrayLike,
        top: int = 10,
        *,
        where: Where | None = None,
        grouping: Grouping | None = None,
        shortlist: int = SHORTLIST,
    ) -> list[Match]:
        """The photos with the regions whose vectors have the highest dot product with a query's, each with its box.

        Short codes of all regions choose a shortlist, whose exact scores decide.
        """
        asked = self._as_query(query, self._now().region_dimension)
        found = self._archive.region_ranking(asked, where, max(shortlist, _REGIONS * top))
        return self._matches(found.first, top, grouping)

    def count(self, where: Where | None = None) -> int:
        """How many photos a search would look at."""
        self._now()
        return self._archive.count(where)

    def numbers(self, where: Where | None = None) -> NDArray[np.int64]:
        """The numbers of all of them, ascending."""
        self._now()
        return self._archive.numbers(where)

    def nearest(self, query: ArrayLike, count: int, *, where: Where | None = None) -> NDArray[np.int64]:
        """The numbers of the photos that `search` would find, best first."""
        asked = self._as_query(query, self._now().dimension)
        found = self._archive.ranking(asked, where)(count)
        return np.array([answer.number for answer in found], dtype=np.int64)

    def nearest_by_regions(
        self, query: ArrayLike, *, where: Where | None = None, shortlist: int = SHORTLIST
    ) -> NDArray[np.int64]:
        """The numbers of the photos of the regions on the shortlist, best first."""
        asked = self._as_query(query, self._now().region_dimension)
        return self._archive.region_ranking(asked, where, shortlist).numbers

    def ranked(
        self, numbers: NDArray[np.int64], scores: Floats, top: int, *, grouping: Grouping | None = None
    ) -> list[Match]:
        """Photos as matches, by scores that somebody else gave them; a photo that is gone is left out."""
        order = best(scores, len(scores))
        answers = [Answer(int(numbers[place]), float(scores[place])) for place in order]
        return self._matches(lambda count: answers[:count], top, grouping)

    def photo(self, number: int) -> IndexedPhoto:
        """What the index knows of the photo with a number."""
        found = self._archive.photos([number])
        if number not in found:
            raise DeixisError(f"{shown(self.place)}: there is no photo {number}")
        return found[number]

    def photo_at(self, path: str | os.PathLike[str]) -> IndexedPhoto | None:
        """The same for a path; None where there is none."""
        return self._archive.photo_at(known_as(path))

    def newest(self, count: int, begin: int = 0) -> list[IndexedPhoto]:
        """Photos by falling numbers, `count` of them after the first `begin`."""
        return self._archive.newest(count, begin)

    def vectors_of(self, numbers: NDArray[np.int64]) -> Floats:
        """The vectors of whole photos: (n, dimension); zeros for one that is gone."""
        return self._archive.vectors_of(numbers)

    def vector_of(self, number: int) -> Floats:
        """The vector of a whole photo, to search by it."""
        self.photo(number)
        (vector,) = self.vectors_of(np.array([number], dtype=np.int64))
        return np.asarray(vector, dtype=np.float32)

    def regions_of(self, number: int) -> tuple[Floats, Floats]:
        """Boxes (n, 4) and vectors (n, region dimension) of a photo's regions."""
        found = self.regions_of_all([number]).get(number)
        if found is None:
            return np.zeros((0, 4), dtype=np.float32), np.zeros((0, self.about.region_dimension), dtype=np.float32)
        return found[0], found[1].astype(np.float32)

    def regions_of_all(self, numbers: Iterable[int]) -> StoredRegions:
        """The same for several photos, as they are kept; a photo without any is left out."""
        return self._archive.regions_of(numbers)

    def thumbnail(self, number: int) -> bytes | None:
        """A small JPEG of a photo; None where none was kept."""
        return self._archive.thumbnail(number)

    def _now(self) -> About:
        """What the index says of itself now; it may have been made anew by another model since it was opened."""
        about = self._archive.about()
        if self.fingerprint is not None:
            refuse_other_model(about, self.fingerprint, self.place)
        return about

    def _as_query(self, query: ArrayLike, dimension: int) -> Floats:
        asked = np.ascontiguousarray(query, dtype=np.float32)
        if asked.shape != (dimension,):
            raise DeixisError(
                f"{shown(self.place)}: its vectors have {dimension} numbers, the query's has shape {asked.shape}"
            )
        if not np.isfinite(asked).all():
            raise DeixisError("the vector of the query holds a number that is not finite")
        return asked

    def _matches(self, ranking: Ranking, top: int, grouping: Grouping | None) -> list[Match]:
        """The first answers as photos; more of them are looked at until there are enough groups."""
        count = max(top, 0) * (1 if grouping is None else _SPARE)
        while True:
            answers = ranking(count)
            photos = self._archive.photos([answer.number for answer in answers])
            found = [(answer, photos[answer.number]) for answer in answers if answer.number in photos]  # else just gone
            groups = self._groups([photo for _, photo in found], grouping, top)
            if len(groups) >= top or len(answers) < count:
                break
            count *= _SPARE
        return [_match([found[place] for place in group], rank) for rank, group in enumerate(groups[:top], start=1)]

    def _groups(self, photos: list[IndexedPhoto], grouping: Grouping | None, top: int) -> list[list[int]]:
        if grouping is None:
            return [[place] for place in range(len(photos))]
        vectors = self.vectors_of(np.array([photo.id for photo in photos], dtype=np.int64))
        return groups_of(photos, vectors, grouping, most=top)


def _opened(place: Place) -> Archive:
    if not is_address(place):
        return EmbeddedArchive(Path(place))
    from deixis.index.postgres.archive import PostgresArchive

    return PostgresArchive(os.fspath(place))


def _match(group: list[tuple[Answer, IndexedPhoto]], rank: int) -> Match:
    (answer, photo), *others = group
    return Match(
        photo.id,
        photo.path,
        answer.score,
        rank,
        photo.width,
        photo.height,
        photo.taken,
        answer.box,
        tuple(_match([other], rank) for other in others),
    )
