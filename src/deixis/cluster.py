"""Bulk work on a Dask cluster: indexing, features and captions, computed by workers.

A job names models and settings; each worker loads them itself and checks that its files are the same. Results come in
the order of the items, and the work of a worker that dies is done again by another.
"""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from deixis.errors import DeixisError, PhotoError
from deixis.models.installed import model_folder
from deixis.models.m_rnn.decoding import Decoding
from deixis.models.m_rnn.pipeline import CaptionResult, load_captioner
from deixis.runtime.devices import use_one_thread
from deixis.search.collection import search_encoder
from deixis.search.encoder import SearchEncoder
from deixis.search.index.base import PhotoVectors
from deixis.search.index.photo_files import MetadataReader, MetadataResult, read_metadata
from deixis.storage.artifacts import fingerprint_artifact
from deixis.storage.progress import OnProgress, no_progress, track
from deixis.vision.encoders import open_encoder
from deixis.vision.feature_store.updates import (
    ComputeFeatures,
    FeatureOptions,
    PhotoResult,
    PhotoSource,
    compute_features,
)
from deixis.vision.proposals import open_proposer

if TYPE_CHECKING:
    from deixis.models.pipeline import Rerank

PART = 64
"""Photos per task: a multiple of every batch size, so that batches are the same as in one process."""

_TASKS_AHEAD = 3
"""Tasks per worker: one running, one queued, one with a result that was not read yet. This bounds the memory."""

_TRIM_MEMORY = "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_"
"""Dask's default returns memory at once; networks need it again for the next layer and lose a fifth of their speed."""

_PROTOCOLS = ("tcp", "tls", "ws", "wss", "ucx")
_CONNECT_S = 10
_FIRST_WORKER_S = 120
_POLL_S = 30.0

Item_contra = TypeVar("Item_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
Item = TypeVar("Item")
Result = TypeVar("Result")

Notify = Callable[[str], None]
"""Called with messages for the user."""


class Job(Hashable, Protocol, Generic[Item_contra, Result_co]):
    """Work for a cluster, described by names and settings, without weights."""

    def load(self) -> Callable[[Sequence[Item_contra]], Iterable[Result_co]]:
        """Load the models, once per worker; return a function that gives one result per item, in order."""
        ...


class ClusterWorkers:
    """The workers of a cluster, from `open_workers`; `notify` is called when no worker is left."""

    def __init__(self, client: Any, notify: Notify) -> None:
        self._client = client
        self._notify = notify
        self._imported: set[str] = set()

    def map(self, job: Job[Item, Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield one result per item, in order; items are read only as far ahead as there are workers."""
        self._check_imports(type(job).__module__)
        waiting: deque[tuple[Any, Item]] = deque()
        parts = iter(items)
        try:
            while part := list(islice(parts, PART)):
                waiting.append((self._submit(job, part), part[0]))
                if len(waiting) >= _TASKS_AHEAD * max(self._count(), 1):
                    yield from self._results(*waiting.popleft())
            while waiting:
                yield from self._results(*waiting.popleft())
        finally:
            if self._client.status == "running":
                self._client.cancel([future for future, _ in waiting], force=True)

    def check_versions(self) -> None:
        """Raise an error if a machine has no deixis or another version; its tasks would never finish."""
        local = _installed_version()
        for machine, remote in self._run_everywhere(_version, "deixis").items():
            if isinstance(remote, PackageNotFoundError):
                raise DeixisError(f"{machine} has no deixis; install it on all machines")
            if isinstance(remote, str) and remote != local:
                raise DeixisError(f"{machine} has deixis {remote}, this one has {local}; install the same on both")

    def _check_imports(self, module: str) -> None:
        """Raise an error if a machine cannot import a module of deixis."""
        if module in self._imported:
            return
        for machine, result in self._run_everywhere(import_module, module).items():
            if isinstance(result, ImportError):
                raise DeixisError(f"{machine} cannot import deixis ({result}); install it again with its dependencies")
        self._imported.add(module)

    def _run_everywhere(self, function: Callable[[str], object], argument: str) -> dict[str, object]:
        """Return what a function returns or raises on the scheduler, which unpacks tasks too, and on each worker."""
        try:
            workers = self._client.run(function, argument, on_error="return")
            scheduler = self._client.run_on_scheduler(function, argument)
        except ImportError as error:
            scheduler = error
        except (OSError, AttributeError):  # the latter from a client that has given up
            raise _lost_scheduler() from None
        return {"the scheduler": scheduler} | {f"the worker {name}": result for name, result in workers.items()}

    def _submit(self, job: Job[Item, Result], part: Sequence[Item]) -> Any:
        from distributed.client import ClosedClientError

        try:
            return self._client.submit(_run_part, job, part, pure=False)
        except ClosedClientError:
            raise _lost_scheduler() from None

    def _count(self) -> int:
        return len(self._client.scheduler_info().get("workers", ()))

    def _results(self, future: Any, first: object) -> Sequence[Any]:
        from distributed import KilledWorker

        while True:
            try:
                results: Sequence[Any] = future.result(timeout=_POLL_S)
            except TimeoutError:
                if future.status == "error":  # the timeout happened on the worker
                    raise
                self.check_versions()
                if not self._count():
                    self._notify("no worker is left; waiting for one to join (Ctrl-C stops; completed work is saved)")
            except CancelledError:
                raise _lost_scheduler() from None
            except KilledWorker:
                self.check_versions()  # another version of deixis may be the cause
                photo = getattr(first, "path", first)
                raise DeixisError(
                    f"workers die on the photos from {photo} on, possibly for lack of memory; completed work was saved"
                ) from None
            else:
                return results


def _lost_scheduler() -> DeixisError:
    return DeixisError("lost the connection to the scheduler; completed work was saved, run again to continue")


def _installed_version() -> str:
    try:
        return _version("deixis")
    except PackageNotFoundError:
        raise DeixisError("--scheduler needs an installed deixis: pip install deixis[cluster]") from None


@lru_cache(maxsize=4)
def _load(job: Job[Item, Result]) -> Callable[[Sequence[Item]], Iterable[Result]]:
    return job.load()


_one_part_at_a_time = threading.Lock()


def _run_part(job: Job[Item, Result], part: Sequence[Item]) -> list[Result]:
    """Run a task on a worker, in one thread, because rounding can depend on the number of threads."""
    with _one_part_at_a_time:
        use_one_thread()
        return list(_load(job)(part))


@contextmanager
def open_workers(address: str, notify: Notify) -> Iterator[ClusterWorkers]:
    """Connect to workers at ``tcp://HOST:PORT``, or start N on this machine (``local:N``); `notify` gets messages."""
    count = _local_count(address)
    distributed = _distributed()
    for name in ("distributed", "distributed.client"):  # errors are reported by deixis
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if count is None:
        with _connect(distributed, address, address) as client:
            workers = ClusterWorkers(client, notify)
            workers.check_versions()
            yield workers
        return
    from dask import config

    # Local workers share the memory of this machine, which the number of tasks ahead bounds.
    with (
        config.set({_TRIM_MEMORY: None}),
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs=logging.CRITICAL
        ) as cluster,
        _connect(distributed, cluster, address) as client,
    ):
        client.run(_ignore_ctrl_c)
        yield ClusterWorkers(client, notify)


def _ignore_ctrl_c() -> None:
    """A terminal sends Ctrl-C to all processes; only the main process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _connect(distributed: Any, scheduler: Any, address: str) -> Iterator[Any]:
    protocol, separator, _ = address.partition("://")
    if separator and protocol not in _PROTOCOLS:
        raise DeixisError(f"--scheduler {address}: the protocol is none of {', '.join(_PROTOCOLS)}")
    try:
        client = distributed.Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, AssertionError) as error:  # AssertionError: its thread did not start in time
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DeixisError(f"--scheduler {address}: no scheduler responds there ({reason})") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=_FIRST_WORKER_S)
        except TimeoutError:
            raise DeixisError(f"--scheduler {address}: no worker has joined in {_FIRST_WORKER_S} s") from None
        yield client


def _local_count(address: str) -> int | None:
    kind, _, count = address.partition(":")
    if kind != "local":
        return None
    if not re.fullmatch("[1-9][0-9]{0,2}", count):
        raise DeixisError(f"--scheduler {address}: use local:N for N processes on this machine, such as local:4")
    return int(count)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise DeixisError("--scheduler needs Dask; install it with: pip install deixis[cluster]") from None
    return distributed


def check_same(name: str, expected: str, found: str) -> None:
    """Raise an error on a worker whose models would give other numbers."""
    if expected != found:
        raise DeixisError(
            f"a worker has another version of {name} ({found} instead of {expected}); install the same deixis and the "
            "same model files on all machines"
        )


def check_shared(path: Path, error: PhotoError) -> None:
    """Raise an error if a worker cannot access a photo that exists here."""
    if "no such file" in error.reason.lower() and path.exists():
        raise DeixisError(
            f"{path}: a worker cannot access this photo; it needs the same path on all machines, or an address such "
            "as s3://BUCKET/FOLDER"
        )


Source = TypeVar("Source", Path, PhotoSource)


def _check_all_shared(
    results: Iterable[tuple[Source, Result | PhotoError]],
) -> Iterator[tuple[Source, Result | PhotoError]]:
    for photo, result in results:
        if isinstance(result, PhotoError):
            check_shared(photo if isinstance(photo, Path) else photo.path, result)
        yield photo, result


def model_fingerprint(model: str) -> str:
    """Return the fingerprint of a model by its name or directory."""
    return fingerprint_artifact(model_folder(model))


CaptionedPhoto = tuple[Path, CaptionResult | PhotoError]


@dataclass(frozen=True)
class CaptionJob:
    """Captions of photos."""

    model: str  # name or directory
    fingerprint: str  # of the model on this machine: `model_fingerprint`
    decoding: Decoding
    start: str = ""  # words that captions begin with
    rerank: Rerank = "none"
    neighbours: Path | None = None  # directory of the photos to rerank by

    def load(self) -> Callable[[Sequence[Path]], Iterator[CaptionedPhoto]]:
        check_same(f"the model {self.model}", self.fingerprint, model_fingerprint(self.model))
        pipeline = load_captioner(self.model)
        ranker = pipeline.ranker(self.rerank, self.neighbours)
        return lambda paths: pipeline.caption_files(paths, self.decoding, self.start, ranker=ranker)


def caption_photos(
    workers: ClusterWorkers, job: CaptionJob, paths: Sequence[Path], on_progress: OnProgress = no_progress
) -> Iterator[CaptionedPhoto]:
    """Yield what `CaptionPipeline.caption_files` gives, computed by workers."""
    yield from _check_all_shared(track(workers.map(job, paths), "captioning photos", len(paths), on_progress))


@dataclass(frozen=True)
class FeaturesJob:
    """Features of photos."""

    encoder: str
    fingerprint: str  # of the encoder on this machine
    device: str | None = None  # by default each worker uses a GPU if it has one
    crops: int = 0
    proposer: str | None = None
    top: int = 0

    def load(self) -> Callable[[Sequence[PhotoSource]], Iterator[PhotoResult]]:
        encoder = open_encoder(self.encoder, self.device)
        check_same(f"the encoder {self.encoder}", self.fingerprint, encoder.fingerprint)
        proposer = open_proposer(self.proposer, encoder.name) if self.proposer else None
        extras = FeatureOptions(self.crops, proposer, self.top)
        return lambda photos: compute_features(photos, encoder, extras)


def cluster_features(workers: ClusterWorkers, job: FeaturesJob) -> ComputeFeatures:
    """Return the `compute` argument of `update_store` that lets workers compute features."""
    return lambda todo: _check_all_shared(workers.map(job, todo))


EncodedResult = tuple[Path, PhotoVectors | PhotoError]
_READER_THREADS = 4


@dataclass(frozen=True)
class EncodingJob:
    """Vectors of photos for an index, by a photo model; the fingerprint of the models on this machine."""

    model_name: str
    fingerprint: str

    def load(self) -> Callable[[Sequence[Path]], Iterator[EncodedResult]]:
        encoder = search_encoder(self.model_name)
        check_same("the models", self.fingerprint, encoder.fingerprint)
        return encoder.encode_photos


@dataclass(frozen=True)
class MetadataJob:
    """Hashes and EXIF data of files."""

    def load(self) -> Callable[[Sequence[Path]], Iterator[MetadataResult]]:
        return _read_metadata


def _read_metadata(paths: Sequence[Path]) -> Iterator[MetadataResult]:
    # Several threads, because reading remote files is mostly waiting.
    with ThreadPoolExecutor(_READER_THREADS, thread_name_prefix="hashes") as pool:
        yield from pool.map(read_metadata, paths)


def cluster_metadata_reader(workers: ClusterWorkers) -> MetadataReader:
    """Return the `read_metadata` argument of `update_index` that lets workers read files."""
    return lambda paths: _check_all_shared(workers.map(MetadataJob(), paths))


class ClusterEncoder:
    """A `PhotoEncoder` that lets workers encode photos."""

    def __init__(self, workers: ClusterWorkers, encoder: SearchEncoder) -> None:
        self._workers = workers
        self.fingerprint, self.model_name = encoder.fingerprint, encoder.model_name
        self.dimension, self.region_dimension = encoder.dimension, encoder.region_dimension

    def encode_photos(self, paths: Iterable[Path]) -> Iterator[EncodedResult]:
        yield from _check_all_shared(self._workers.map(EncodingJob(self.model_name, self.fingerprint), paths))
