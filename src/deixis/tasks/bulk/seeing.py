"""Photos for an index, hashed and seen by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from deixis.errors import PhotoError
from deixis.index.file_facts import Read, ReadFacts, facts_of
from deixis.index.seeing import Seen
from deixis.tasks.bulk.workers import Workers, refuse_another, refuse_unshared
from deixis.tasks.search.searching import shipped_seer
from deixis.tasks.search.seeing import Seer

Sighted = tuple[Path, Seen | PhotoError]
_READERS = 4


@dataclass(frozen=True)
class SeeingPlan:
    """The vectors that the models of deixis make of photos; their fingerprint where the work was begun."""

    fingerprint: str

    def opened(self) -> Callable[[Sequence[Path]], Iterator[Sighted]]:
        """What sees some photos."""
        seer = shipped_seer()
        refuse_another("the models", self.fingerprint, seer.fingerprint)
        return seer.see


@dataclass(frozen=True)
class ReadingPlan:
    """The hashes of files, and what EXIF says."""

    def opened(self) -> Callable[[Sequence[Path]], Iterator[Read]]:
        """What reads some files."""
        return _read


def _read(paths: Sequence[Path]) -> Iterator[Read]:
    # Files elsewhere are waited for, not worked on.
    with ThreadPoolExecutor(_READERS, thread_name_prefix="hashes") as pool:
        yield from pool.map(facts_of, paths)


def facts_by(workers: Workers) -> ReadFacts:
    """What `update_index` takes to let workers read files."""

    def read(paths: Iterable[Path]) -> Iterator[Read]:
        for path, facts in workers.in_order(ReadingPlan(), paths):
            if isinstance(facts, PhotoError):
                refuse_unshared(path, facts)
            yield path, facts

    return read


class SeerOfWorkers:
    """A `PhotoSeer` whose photos are seen by workers, with the models that come with deixis."""

    def __init__(self, workers: Workers, seer: Seer) -> None:
        self._workers, self._seer = workers, seer

    @property
    def fingerprint(self) -> str:
        """That of the models."""
        return self._seer.fingerprint

    @property
    def dimension(self) -> int:
        """Numbers in the vector of a whole photo."""
        return self._seer.dimension

    @property
    def region_dimension(self) -> int:
        """Numbers in the vector of a region."""
        return self._seer.region_dimension

    def see(self, paths: Iterable[Path]) -> Iterator[Sighted]:
        """One answer for each path, in their order."""
        for path, seen in self._workers.in_order(SeeingPlan(self.fingerprint), paths):
            if isinstance(seen, PhotoError):
                refuse_unshared(path, seen)
            yield path, seen
