"""A collection of photos: an index with the models that filled it, searched by sentences and by photos."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from os import PathLike, fspath
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.models.arguments import PhotoLike, check_count, check_path
from deixis.search import DEFAULT_INDEX
from deixis.search.calibration import Calibration, Evidence
from deixis.search.encoder import EncodedSentence, SearchEncoder
from deixis.search.index.photo_files import absolute_path
from deixis.search.index.photo_index import PhotoIndex
from deixis.search.index.records import DateLike, IndexedPhoto, PhotoFilter
from deixis.search.index.snapshot import Box, Grouping, IndexSnapshot, Match, to_box
from deixis.search.index.update import IndexReport, update_index
from deixis.search.query import QueryPart, check_contradiction, parse_query
from deixis.search.results import Hit, HitPhrase, PhotoRecord, SearchResults, format_time
from deixis.storage.progress import OnProgress, no_progress

MAX_TOP = 1000
"""Maximum number of results of a search."""

_SMALL_INDEX = 1000
"""In an index of at most this many photos, every photo is a candidate."""

_CANDIDATES = 400
"""Candidates in a larger index, for the sentence and for each of its phrases."""

_SAME_PHOTO = 0.99
"""Photos with this cosine are the same photo, saved again."""

_CERTAIN = 12.0
"""A logit whose probability is displayed as 100 %."""

_SIGNATURE_BYTES = 8


class PhotoCollection:
    """An index of photos with the models that filled it; `open_index` returns one.

    A search uses one snapshot of the index, while other processes may add photos. Usable from any number of threads.

    Parameters
    ----------
    index
        The folder of the index, or the address of its database.
    encoder
        The models. An index filled by other models is an error.
    """

    def __init__(self, index: str | PathLike[str], encoder: SearchEncoder) -> None:
        self.index = PhotoIndex(index, fingerprint=encoder.fingerprint)
        self.encoder = encoder
        self.calibration = Calibration.for_models(encoder.fingerprint)

    def close(self) -> None:
        """Close files and connections."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Return the number of photos."""
        return len(self.index)

    def search(
        self,
        sentence: str,
        top: int = 10,
        *,
        explain: bool = False,
        after: DateLike | None = None,
        before: DateLike | None = None,
        folder: str | None = None,
        camera: str | None = None,
        everything: bool = False,
        grouped: bool = True,
    ) -> SearchResults:
        """Find the photos that show what a sentence says.

        Parameters
        ----------
        sentence
            In English; may contain ``+ball``, ``-snow`` and filters such as ``in:holiday``; see `parse_query`.
        top
            Maximum number of results.
        explain
            Locate the phrases of the sentence in each photo.
        after, before, folder, camera
            Filters; see `PhotoFilter`.
        everything
            Include improbable photos.
        grouped
            Return near-duplicates and bursts as one result.

        Returns
        -------
        SearchResults
            A list of `Hit`, most probable first.

        Examples
        --------
        >>> photos = open_index("photos.deixis")  # doctest: +SKIP
        >>> for hit in photos.search("two dogs in the snow", top=5, explain=True):  # doctest: +SKIP
        ...     print(hit.path, hit.probability, hit.phrases)
        """
        top = check_count(top, "top", MAX_TOP)
        query = parse_query(sentence, PhotoFilter(after, before, folder, camera))
        required = [self.encoder.encode_sentence(part.text) for part in query.required]
        excluded = [self.encoder.encode_sentence(part.text) for part in query.excluded]
        check_contradiction(
            [text for part in required for text in (part.text, *(phrase.text for phrase in part.phrases))],
            [part.text for part in excluded],
        )
        with self.index.snapshot() as snapshot:
            photos, searched = snapshot.count(), snapshot.count(query.photo_filter)
            hits: list[Hit] = []
            if not self.calibration or everything or not any(part.is_unknown for part in required):
                numbers = _candidates(snapshot, photos, required, query.photo_filter)
                logits = self._logits(snapshot, required, excluded, numbers, searched)
                if self.calibration and not everything:
                    is_hit = self.calibration.is_hit(logits, searched)
                    numbers, logits = numbers[is_hit], logits[is_hit]
                hits = self._hits(snapshot, numbers, logits, top, grouped)
            if explain:
                parts = list(zip(query.required, required, strict=True))
                hits = [replace(hit, phrases=self._locate(snapshot, hit.photo_id, parts)) for hit in hits]
        unknown = dict.fromkeys(word for part in (*required, *excluded) for word in part.unknown_words)
        return SearchResults(hits, photos=photos, searched=searched, unknown_words=tuple(unknown))

    def like(
        self,
        photo: PhotoLike | PhotoRecord,
        top: int = 10,
        *,
        after: DateLike | None = None,
        before: DateLike | None = None,
        folder: str | None = None,
        camera: str | None = None,
        everything: bool = False,
        grouped: bool = True,
    ) -> SearchResults:
        """Find photos that are similar to a photo, most similar first.

        Parameters
        ----------
        photo
            A path, an open Pillow image, or a photo of this index. It need not be in the index.
        top, after, before, folder, camera, everything, grouped
            As for `search`.
        """
        top, photo_filter = check_count(top, "top", MAX_TOP), PhotoFilter(after, before, folder, camera)
        with self.index.snapshot() as snapshot:
            vector = self._photo_vector(snapshot, photo)
            photos, searched = snapshot.count(), snapshot.count(photo_filter)
            numbers = snapshot.nearest(vector, _CANDIDATES + top, photo_filter)
            cosines = logits = snapshot.vectors_of(numbers) @ vector
            if self.calibration:
                logits = self.calibration.similarity_logits(cosines, searched)
                logits = np.where(cosines >= _SAME_PHOTO, _CERTAIN + cosines, logits)
                if not everything:
                    is_hit = logits >= self.calibration.similarity_threshold.at(searched)
                    numbers, logits = numbers[is_hit], logits[is_hit]
            hits = self._hits(snapshot, numbers, logits, top, grouped)
        return SearchResults(hits, photos=photos, searched=searched)

    def newest(self, count: int = 100, begin: int = 0) -> list[PhotoRecord]:
        """Return a page of photos, the last added first."""
        with self.index.snapshot() as snapshot:
            return [_record(photo, snapshot) for photo in snapshot.newest(count, begin)]

    def photo(self, photo_id: str) -> PhotoRecord:
        """Return the photo with an opaque id."""
        with self.index.snapshot() as snapshot:
            return _record(snapshot.photo(_number(photo_id, snapshot)), snapshot)

    def thumbnail(self, photo_id: str) -> bytes | None:
        """Return a small JPEG of a photo, if one was stored."""
        with self.index.snapshot() as snapshot:
            return snapshot.thumbnail(_number(photo_id, snapshot))

    def regions(self, photo_id: str) -> list[Box]:
        """Return the boxes of the regions that are searched, best proposals first."""
        with self.index.snapshot() as snapshot:
            boxes, _ = snapshot.regions_of(_number(photo_id, snapshot))
        return [to_box(box) for box in boxes]

    def explain(self, photo_id: str, sentence: str) -> tuple[HitPhrase, ...]:
        """Locate the noun phrases of a query in a photo, among the regions in the index."""
        parts = [(part, self.encoder.encode_sentence(part.text)) for part in parse_query(sentence).required]
        with self.index.snapshot() as snapshot:
            return self._locate(snapshot, photo_id, parts)

    def _logits(
        self,
        snapshot: IndexSnapshot,
        required: Sequence[EncodedSentence],
        excluded: Sequence[EncodedSentence],
        numbers: NDArray[np.int64],
        searched: int,
    ) -> Floats:
        """Return the logit of the probability that each photo shows all that is required and nothing excluded."""
        whole = snapshot.vectors_of(numbers)
        stored = snapshot.regions_of_all(numbers.tolist())
        regions = [stored[number][1].astype(np.float32) if number in stored else None for number in numbers.tolist()]

        def logits(part: EncodedSentence) -> Floats:
            evidence = Evidence.collect(part, whole, regions)
            return self.calibration.logits(evidence, searched) if self.calibration else evidence.whole

        # The parts of a query are correlated: that a photo shows all of them is taken to be as probable as the least
        # probable one.
        total = np.min([logits(part) for part in required], axis=0)
        for part in excluded:
            total = _and_not(total, logits(part)) if self.calibration else total - logits(part)
        return np.asarray(total, dtype=np.float32)

    def _hits(
        self, snapshot: IndexSnapshot, numbers: NDArray[np.int64], logits: Floats, top: int, grouped: bool
    ) -> list[Hit]:
        matches = snapshot.rank(numbers, logits, top, grouping=Grouping() if grouped else None)
        return [self._hit(match, snapshot) for match in matches]

    def _hit(self, match: Match, snapshot: IndexSnapshot) -> Hit:
        probability = float(1 / (1 + np.exp(-match.score))) if self.calibration else None
        duplicates = tuple(self._hit(other, snapshot) for other in match.others)
        return Hit(_record(match, snapshot), match.score, probability, duplicates=duplicates)

    def _locate(
        self, snapshot: IndexSnapshot, photo_id: str, parts: Sequence[tuple[QueryPart, EncodedSentence]]
    ) -> tuple[HitPhrase, ...]:
        boxes, vectors = snapshot.regions_of(_number(photo_id, snapshot))
        if not len(boxes):
            return ()
        phrases = []
        for part, encoded in parts:
            for phrase in encoded.phrases:
                scores = vectors @ phrase.vector
                span = phrase.span[0] + part.start, phrase.span[1] + part.start
                presence = float(self.encoder.region_model.presence(scores.max()))
                phrases.append(HitPhrase(phrase.text, span, to_box(boxes[scores.argmax()]), presence))
        return tuple(phrases)

    def _photo_vector(self, snapshot: IndexSnapshot, photo: PhotoLike | PhotoRecord) -> Floats:
        """Return the vector of a photo, from the index if its file has not changed since."""
        if isinstance(photo, PhotoRecord):
            return snapshot.vector_of(_number(photo.photo_id, snapshot))
        if not isinstance(photo, Image.Image):
            path = absolute_path(check_path(photo, "photo"))
            known = snapshot.photo_at(path)
            if known is not None and path.is_file():
                status = path.stat()
                if (status.st_size, status.st_mtime_ns) == (known.size, known.mtime_ns):
                    return snapshot.vector_of(known.id)
        return self.encoder.encode_photo(photo)


def index_photos(
    folder: str | PathLike[str] | Iterable[str | PathLike[str]],
    into: str | PathLike[str] | None = None,
    *,
    rebuild: bool = False,
    retry: bool = False,
    encoder: SearchEncoder | None = None,
    on_progress: OnProgress = no_progress,
) -> IndexReport:
    """Index photos, so that they can be searched.

    Run again, it indexes only new and changed photos, and removes those whose files are gone.

    Parameters
    ----------
    folder
        A folder, which is searched recursively, a photo, or several of these; addresses such as ``s3://...`` are
        allowed.
    into
        The folder of the index, or ``postgresql://user@host/database``; ``photos.deixis`` in the current directory
        by default.
    rebuild
        Empty the index first.
    retry
        Try files again that could not be read before.
    encoder
        The models; those that come with deixis by default.
    on_progress
        Progress callback.

    Returns
    -------
    IndexReport
        The numbers of added, updated, removed and unchanged photos, and the skipped files.

    Examples
    --------
    >>> import deixis
    >>> deixis.index_photos("~/Pictures").added  # doctest: +SKIP
    1203
    """
    photos = [folder] if isinstance(folder, str | PathLike) else list(folder)
    return update_index(
        _index_path(into),
        [_expand_user(check_path(photo, "folder")) for photo in photos],
        encoder or default_encoder(),
        rebuild=rebuild,
        retry=retry,
        on_progress=on_progress,
    )


def open_index(path: str | PathLike[str] | None = None, model: SearchEncoder | None = None) -> PhotoCollection:
    """Open an index for searching.

    Parameters
    ----------
    path
        The folder of the index, or ``postgresql://user@host/database``; ``photos.deixis`` in the current directory
        by default.
    model
        The models that filled it; those that come with deixis by default.

    Examples
    --------
    >>> import deixis
    >>> photos = deixis.open_index("photos.deixis")  # doctest: +SKIP
    >>> for hit in photos.search("two dogs in the snow", top=5, explain=True):  # doctest: +SKIP
    ...     print(hit.path, hit.probability, hit.phrases)
    """
    return PhotoCollection(_index_path(path), model or default_encoder())


@lru_cache(maxsize=1)
def default_encoder() -> SearchEncoder:
    """Return the models that come with deixis, loaded once."""
    return SearchEncoder()


def _index_path(path: str | PathLike[str] | None) -> str:
    return DEFAULT_INDEX if path is None else _expand_user(check_path(path, "index"))


def _expand_user(path: str | PathLike[str]) -> str:
    text = fspath(path)
    return fspath(Path(text).expanduser()) if text.startswith("~") else text


def _candidates(
    snapshot: IndexSnapshot, photos: int, required: Sequence[EncodedSentence], photo_filter: PhotoFilter
) -> NDArray[np.int64]:
    """Return the photos to score: all of a small index, otherwise the best of each model for each part."""
    if photos <= _SMALL_INDEX:
        return snapshot.numbers(photo_filter)
    found = [snapshot.nearest(part.vector, _CANDIDATES, photo_filter) for part in required]
    for part in required:
        found += [snapshot.nearest_by_regions(phrase.vector, photo_filter)[:_CANDIDATES] for phrase in part.phrases]
    return np.unique(np.concatenate(found))


def _record(photo: IndexedPhoto | Match, snapshot: IndexSnapshot) -> PhotoRecord:
    size, taken = (photo.width, photo.height), format_time(photo.exif.taken)
    return PhotoRecord(_opaque_id(photo.id, snapshot), photo.path, size, taken, photo.exif.camera)


def _opaque_id(number: int, snapshot: IndexSnapshot) -> str:
    """Return a photo's number with a signature, so that ids of other photos cannot be guessed."""
    signature = hashlib.blake2b(f"{snapshot.info.uid} {number}".encode(), digest_size=_SIGNATURE_BYTES).hexdigest()
    return f"{number:x}-{signature}"


def _number(photo_id: str, snapshot: IndexSnapshot) -> int:
    try:
        number = int(photo_id.partition("-")[0][:16], 16)
    except ValueError:
        number = 0
    if not hmac.compare_digest(_opaque_id(number, snapshot).encode(), photo_id.encode(errors="replace")):
        raise DeixisError(f"{photo_id[:40]!r}: no photo of this index has this id")
    return number


def _and_not(logits: Floats, others: Floats) -> Floats:
    """Return the logit of an event without another one, as if they were independent."""
    log_probability = -np.logaddexp(0, -logits) - np.logaddexp(0, others)
    return np.asarray(log_probability - np.log(-np.expm1(np.minimum(log_probability, -1e-12))), dtype=np.float32)
