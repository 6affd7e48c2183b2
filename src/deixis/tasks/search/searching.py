"""A person's photos, opened to be searched by sentences, by words to have and to avoid, and by other photos."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.errors import DeixisError
from deixis.index import Grouping, Match, PhotoIndex, Where
from deixis.index.records import IndexedPhoto
from deixis.index.where import When
from deixis.language.features.base import Floats
from deixis.tasks.bundle import PhotoLike
from deixis.tasks.given import count_of, path_of
from deixis.tasks.search.contradictions import refuse_contradiction
from deixis.tasks.search.hits import BoxXyxy, Hit, HitPhrase, KnownPhoto, date_of
from deixis.tasks.search.probability import Certainty, Evidence
from deixis.tasks.search.queries import Words, read_query
from deixis.tasks.search.seeing import ReadSentence, Seer

_ALL_OF_THEM = 1000
"""An index of so many photos is looked at whole."""

_CANDIDATES = 400
"""Photos of a larger one that are looked at closely, for the whole sentence and for each of its phrases."""

_THE_SAME = 0.99
"""Photos as alike as this are one, saved another time."""

_CERTAIN = 12.0
"""A logit whose probability is shown as 100 %."""

_MARK_BYTES = 8
MAX_TOP = 1000


class PhotoCollection:
    """An index of photos with the models that filled it; `open_index` gives one.

    Searches see all that was committed when they began, while another process may be adding photos. It may be used
    from many threads.

    Parameters
    ----------
    index
        The directory of the index, or the address of the database that holds it.
    seer
        The models. An index that other ones have filled is refused.
    """

    def __init__(self, index: str | PathLike[str], seer: Seer) -> None:
        self.index = PhotoIndex(index, fingerprint=seer.fingerprint)
        self.seer = seer
        self.certainty = Certainty.of_models(seer.fingerprint)

    def close(self) -> None:
        """Let go of the files."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many photos there are, as of now."""
        return len(self.index)

    def search(
        self,
        sentence: str,
        top: int = 10,
        *,
        explain: bool = False,
        after: When | None = None,
        before: When | None = None,
        folder: str | None = None,
        camera: str | None = None,
        everything: bool = False,
        grouped: bool = True,
    ) -> list[Hit]:
        """Photos that show what a sentence says, the likeliest first.

        Parameters
        ----------
        sentence
            In English, with ``+ball``, ``-snow`` and ``in:holiday`` where wanted; see `read_query`.
        top
            How many at most.
        explain
            Say where each phrase is.
        after, before, folder, camera
            Only photos that were taken then (a text such as ``2024-06``, or a date of Python), lie there, and were
            taken with that; see `Where`.
        everything
            Also photos that are not likely enough to show it.
        grouped
            Near-duplicates and bursts as one hit.
        """
        top = count_of(top, "top", MAX_TOP)
        query = read_query(sentence, Where(after, before, folder, camera))
        wanted = [(words, self.seer.read(words.text)) for words in query.wanted]
        avoided = [self.seer.read(words.text) for words in query.avoided]
        refuse_contradiction([read for _, read in wanted], avoided)
        numbers = self._candidates([read for _, read in wanted], query.where)
        count = self.index.count(query.where)
        logits = self._logits([read for _, read in wanted], avoided, numbers, count)
        if self.certainty and not everything:
            if any(read.is_unknown for _, read in wanted):
                return []
            likely = self.certainty.worth_showing(logits, count)
            numbers, logits = numbers[likely], logits[likely]
        hits = self._hits(numbers, logits, top, grouped)
        return [self._explained(hit, wanted) for hit in hits] if explain else hits

    def like(
        self,
        photo: PhotoLike | KnownPhoto,
        top: int = 10,
        *,
        after: When | None = None,
        before: When | None = None,
        folder: str | None = None,
        camera: str | None = None,
        everything: bool = False,
        grouped: bool = True,
    ) -> list[Hit]:
        """Photos that look like another one, the likest first; the photo itself, if it is in the index, is certain.

        Parameters
        ----------
        photo
            A path, a Pillow image that is open already, or a photo of this index; it need not be in the index.
        top, after, before, folder, camera, everything, grouped
            As for `search`.
        """
        top, where = count_of(top, "top", MAX_TOP), Where(after, before, folder, camera)
        vector = self._vector_of(photo)
        count, numbers = self.index.count(where), self.index.nearest(vector, _CANDIDATES + top, where=where)
        cosines = self.index.vectors_of(numbers) @ vector
        logits = self.certainty.of_likeness(cosines, count) if self.certainty else cosines
        if self.certainty:
            logits = np.where(cosines >= _THE_SAME, _CERTAIN + cosines, logits)
        if self.certainty and not everything:
            likely = logits >= self.certainty.likeness_cut_off.at(count)
            numbers, logits = numbers[likely], logits[likely]
        return self._hits(numbers, logits, top, grouped)

    def looked_at(
        self,
        sentence: str = "",
        *,
        after: When | None = None,
        before: When | None = None,
        folder: str | None = None,
        camera: str | None = None,
    ) -> int:
        """How many photos the filters of a query, and these, leave to be searched."""
        where = Where(after, before, folder, camera)
        return self.index.count(read_query(sentence, where).where if sentence else where)

    def unknown_words(self, sentence: str) -> list[str]:
        """The words of a query that the models have never met, which they cannot look for."""
        query = read_query(sentence)
        asked = [*query.wanted, *query.avoided]
        return list(dict.fromkeys(word for words in asked for word in self.seer.unknown_words(words.text)))

    def newest(self, count: int = 100, begin: int = 0) -> list[KnownPhoto]:
        """A page to look through: photos in the order they came into the index, the last first."""
        uid = self.index.about.uid
        return [_known(photo, uid) for photo in self.index.newest(count, begin)]

    def photo(self, photo_id: str) -> KnownPhoto:
        """The photo of an opaque id."""
        return _known(self.index.photo(self._number(photo_id)), self.index.about.uid)

    def thumbnail(self, photo_id: str) -> bytes | None:
        """A small JPEG of a photo, encoded anew; None where none was kept."""
        return self.index.thumbnail(self._number(photo_id))

    def regions(self, photo_id: str) -> list[BoxXyxy]:
        """The boxes of the regions that are searched, the likeliest to hold something first."""
        boxes, _ = self.index.regions_of(self._number(photo_id))
        return [_as_box(box) for box in boxes]

    def explain(self, photo_id: str, sentence: str) -> tuple[HitPhrase, ...]:
        """Where the noun phrases of a query are in a photo, from what the index holds: quick, boxes as proposed."""
        asked = [(words, self.seer.read(words.text)) for words in read_query(sentence).wanted]
        return self._phrases(photo_id, asked)

    def _candidates(self, wanted: Sequence[ReadSentence], where: Where) -> NDArray[np.int64]:
        """Photos worth a close look: all of a few, else those that any model, for any part, puts in front."""
        if len(self.index) <= _ALL_OF_THEM:
            return self.index.numbers(where)
        found = [self.index.nearest(read.vector, _CANDIDATES, where=where) for read in wanted]
        for read in wanted:
            found += [
                self.index.nearest_by_regions(phrase.vector, where=where)[:_CANDIDATES] for phrase in read.phrases
            ]
        return np.unique(np.concatenate(found))

    def _logits(
        self, wanted: Sequence[ReadSentence], avoided: Sequence[ReadSentence], numbers: NDArray[np.int64], count: int
    ) -> Floats:
        """How likely each photo, one of so many, shows all that is wanted and nothing that is avoided, as logits."""
        whole = self.index.vectors_of(numbers)
        stored = self.index.regions_of_all(numbers.tolist())
        regions = [stored[number][1].astype(np.float32) if number in stored else None for number in numbers.tolist()]

        def logits(read: ReadSentence) -> Floats:
            evidence = Evidence.of(read, whole, regions)
            return self.certainty.of(evidence, count) if self.certainty else evidence.whole

        # That a photo shows several things is at most as likely as the least likely of them, and things that are named
        # together go together as a rule.
        together = np.min([logits(read) for read in wanted], axis=0)
        for read in avoided:
            together = _and_not(together, logits(read)) if self.certainty else together - logits(read)
        return np.asarray(together, dtype=np.float32)

    def _hits(self, numbers: NDArray[np.int64], logits: Floats, top: int, grouped: bool) -> list[Hit]:
        grouping = Grouping() if grouped else None
        uid = self.index.about.uid
        return [self._hit(match, uid) for match in self.index.ranked(numbers, logits, top, grouping=grouping)]

    def _hit(self, match: Match, uid: str) -> Hit:
        photo = KnownPhoto(
            _id_of(match.id, uid),
            match.path,
            (match.width, match.height),
            date_of(match.taken.seconds),
            match.taken.camera,
        )
        probability = float(1 / (1 + np.exp(-match.score))) if self.certainty else None
        return Hit(photo, match.score, probability, duplicates=tuple(self._hit(other, uid) for other in match.others))

    def _explained(self, hit: Hit, asked: Sequence[tuple[Words, ReadSentence]]) -> Hit:
        return replace(hit, phrases=self._phrases(hit.photo_id, asked))

    def _phrases(self, photo_id: str, asked: Sequence[tuple[Words, ReadSentence]]) -> tuple[HitPhrase, ...]:
        boxes, vectors = self.index.regions_of(self._number(photo_id))
        if not len(boxes):
            return ()
        found = []
        for words, read in asked:
            for phrase in read.phrases:
                scores = vectors @ phrase.vector
                span = phrase.span[0] + words.start, phrase.span[1] + words.start
                score = float(self.seer.presence(scores.max()))
                found.append(HitPhrase(phrase.text, span, _as_box(boxes[scores.argmax()]), score))
        return tuple(found)

    def _vector_of(self, photo: PhotoLike | KnownPhoto) -> Floats:
        if isinstance(photo, KnownPhoto):
            return self.index.vector_of(self._number(photo.photo_id))
        known = None if isinstance(photo, Image.Image) else self._indexed(Path(path_of(photo, "photo")))
        return self.seer.see_whole(photo) if known is None else self.index.vector_of(known.id)

    def _indexed(self, path: Path) -> IndexedPhoto | None:
        """What the index knows of a file, unless it has changed since."""
        known = self.index.photo_at(path)
        if known is None or not path.is_file():
            return None
        now = path.stat()
        return known if (now.st_size, now.st_mtime_ns) == (known.size, known.mtime_ns) else None

    def _number(self, photo_id: str) -> int:
        try:
            number = int(photo_id.partition("-")[0][:16], 16)
        except ValueError:
            number = 0
        if not hmac.compare_digest(_id_of(number, self.index.about.uid).encode(), photo_id.encode(errors="replace")):
            raise DeixisError(f"{photo_id[:40]!r}: no photo of this index has this id")
        return number


def open_index(path: str | PathLike[str], model: Seer | None = None) -> PhotoCollection:
    """Open an index that ``deixis index`` made, to search it.

    Parameters
    ----------
    path
        The directory of the index, or an address: ``postgresql://user@host/database``.
    model
        The models that filled it; those that come with deixis, unless told otherwise.

    Examples
    --------
    >>> photos = open_index("photos.deixis")  # doctest: +SKIP
    >>> for hit in photos.search("two dogs in the snow", top=5, explain=True):  # doctest: +SKIP
    ...     print(hit.path, hit.probability, hit.phrases)
    """
    return PhotoCollection(path_of(path, "index"), model or shipped_seer())


@lru_cache(maxsize=1)
def shipped_seer() -> Seer:
    """The models that come with deixis, read once."""
    return Seer()


def _known(photo: IndexedPhoto, uid: str) -> KnownPhoto:
    """A photo of the index that has this uid."""
    size = photo.width, photo.height
    return KnownPhoto(_id_of(photo.id, uid), photo.path, size, date_of(photo.taken.seconds), photo.taken.camera)


def _id_of(number: int, uid: str) -> str:
    """The number with a mark that only those know whom this index has told it."""
    mark = hashlib.blake2b(f"{uid} {number}".encode(), digest_size=_MARK_BYTES).hexdigest()
    return f"{number:x}-{mark}"


def _and_not(logits: Floats, others: Floats) -> Floats:
    """The logit of what is likely and something else that is not, as if one said nothing of the other."""
    logarithm = -np.logaddexp(0, -logits) - np.logaddexp(0, others)
    return np.asarray(logarithm - np.log(-np.expm1(np.minimum(logarithm, -1e-12))), dtype=np.float32)


def _as_box(box: Floats) -> BoxXyxy:
    left, top, right, bottom = map(float, box)
    return left, top, right, bottom
