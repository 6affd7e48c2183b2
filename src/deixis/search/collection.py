"""A collection of photos: an index with the models that filled it, searched by sentences and by photos."""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from os import PathLike, fspath
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.arrays import Floats, logistic
from deixis.errors import DeixisError, PhotoError
from deixis.models.arguments import (
    PhotoLike,
    check_count,
    check_flag,
    check_list,
    check_path,
    check_share,
    check_text,
)
from deixis.models.grounding import PhotoProposals
from deixis.search.albums import Albums
from deixis.search.calibration import Calibration, Evidence
from deixis.search.encoder import PHOTO_MODEL, WORD, EncodedSentence, SearchEncoder
from deixis.search.index.base import CALIBRATION, write_entry
from deixis.search.index.photo_files import absolute_path
from deixis.search.index.photo_index import PhotoIndex, open_writer, read_about
from deixis.search.index.records import DateLike, IndexedPhoto, PhotoFilter
from deixis.search.index.snapshot import Box, Grouping, IndexSnapshot, Match, to_box
from deixis.search.places import index_place
from deixis.search.query import (
    Query,
    QueryPart,
    Reading,
    check_contradiction,
    content_words,
    correct_words,
    kinds_of,
    parse_query,
    parts_of,
    without_filters,
)
from deixis.search.results import Hit, HitPhrase, Overview, PhotoRecord, SearchResults, format_time
from deixis.storage.files import size_and_time
from deixis.storage.progress import OnProgress, no_progress
from deixis.storage.sidecars import Favourites
from deixis.storage.sql import hide_password

if TYPE_CHECKING:
    from deixis.search.index.update import IndexReport

MAX_TOP = 1000
"""Maximum number of results of a search."""

_SMALL_INDEX = 1000
"""In an index of at most this many photos, every photo is a candidate."""

_CANDIDATES = 400
"""Candidates in a larger index, for the sentence and for each of its phrases."""

_SAME_PHOTO = 0.99
"""Photos with this cosine are the same photo, saved again."""

_LIKELY = 0.5
"""A phrase with this probability is never called absent."""

_MAX_SCORED = 5000
"""Maximum number of photos that are looked at if a query does not say what they show."""

_SURE_PART = 0.0
"""A part of a sentence stands for the whole sentence only if a photo of it has a higher logit than this (50 %)."""

_CERTAIN = 12.0
"""A logit whose probability is displayed as 100 %."""

_PRESENT = 0.0
"""The logit from which on an excluded thing is there (50 %)."""

_CACHED_SENTENCES = 256
"""Sentences whose vectors are kept, at most 3 MB, and words whose suggestions are kept."""

_SIGNATURE_BYTES = 8

Kinds = Sequence[EncodedSentence]
"""An excluded thing, as all its kinds."""


class PhotoCollection:
    """An index of photos with the models that filled it; `open_index` returns one.

    A search uses one snapshot of the index, while other processes may add photos. Usable from any number of threads.

    Parameters
    ----------
    index
        The folder of the index, or the address of its database.
    encoder
        The models. An index filled by other models is an error.

    Attributes
    ----------
    calibration
        Fitted by ``deixis calibrate`` and stored in the index, or else the shipped one if it belongs to the models;
        None if there is neither: results then have no probabilities.
    """

    def __init__(self, index: str | PathLike[str], encoder: SearchEncoder) -> None:
        self.index = PhotoIndex(index, fingerprint=encoder.fingerprint)
        self.encoder = encoder
        self.albums, self._favourites = Albums(index), Favourites()
        self.calibration = self._stored_calibration() or Calibration.for_models(encoder.fingerprint)
        self.encode_sentence = lru_cache(_CACHED_SENTENCES)(encoder.encode_sentence)
        self._suggest = lru_cache(_CACHED_SENTENCES)(encoder.suggest)
        self._correct = lru_cache(_CACHED_SENTENCES)(encoder.correct)
        self._other_scores = ("", np.zeros(0, dtype=np.float32))

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

    @property
    def version(self) -> int | None:
        """Equal as long as searches find the same; None if that is not known."""
        return self.index.version

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
        like: PhotoLike | PhotoRecord | None = None,
        like_weight: float = 0.5,
        everything: bool = False,
        grouped: bool = True,
        exact: bool = False,
    ) -> SearchResults:
        """Find the photos that show what a sentence says.

        Parameters
        ----------
        sentence
            In English; may contain ``+ball``, ``-snow`` and filters such as ``in:holiday``; see `parse_query`.
        top
            Maximum number of results.
        explain
            Locate the phrases of the sentence in each photo, as `deixis.ground` does. Opens the photos of the results,
            and takes about as long as indexing them.
        after, before, folder, camera
            Filters; see `PhotoFilter`.
        like, like_weight
            A photo that results should resemble too, and its weight from 0 (only the sentence counts) to 1. It is not
            among the results itself.
        everything
            Include improbable photos.
        grouped
            Return near-duplicates and bursts as one result.
        exact
            Search for all words as typed: correct no spelling, take no words for a date, and try no parts of a sentence
            of which nothing is found.

        Returns
        -------
        SearchResults
            A list of `Hit`, most probable first. Its `readings` say what was read differently than typed.

        Examples
        --------
        >>> photos = open_index("photos.deixis")  # doctest: +SKIP
        >>> for hit in photos.search("two dogs in the snow", top=5, explain=True):  # doctest: +SKIP
        ...     print(hit.path, hit.probability, hit.phrases)
        """
        top = check_count(top, "top", MAX_TOP)
        like_weight = check_share(like_weight, "like_weight")
        explain, everything = check_flag(explain, "explain"), check_flag(everything, "everything")
        exact = check_flag(exact, "exact")
        query = self._parse(sentence, PhotoFilter(after, before, folder, camera), exact)
        query = replace(query, photo_filter=self._find_marked(query.photo_filter))
        required, excluded = self._encode(query)
        check_contradiction(
            [text for part in required for text in (part.text, *(phrase.text for phrase in part.phrases))],
            [part.text for part in query.excluded],
        )
        readings, asked_parts = query.readings, (*required, *(kinds[0] for kinds in excluded))
        every = dict.fromkeys(word for part in asked_parts for word in part.words)
        with self.index.snapshot() as snapshot:
            search = _Search(self, snapshot, query.photo_filter)
            if like is not None:
                search.resemble(*self._photo_vector(snapshot, like), like_weight)
            hits: list[Hit] = []
            found = 0
            if not (required or excluded) and like is None:
                hits = _newest(snapshot, query.photo_filter, top, search.searched, grouped)
                found = search.searched
            else:
                numbers, logits = search.find(required, excluded, everything)
                if not (len(numbers) or exact or everything) and required and self.calibration:
                    part, numbers, logits = search.find_part(query, required, excluded)
                    if part is not None:
                        readings += (Reading("part", query.required[0].text, part.text),)
                        query = replace(query, required=(part, *query.required[1:]))
                hits, found = search.hits(numbers, logits, top, grouped), len(numbers)
            if explain:
                hits = [replace(hit, phrases=search.locate(hit, query.required)) for hit in hits]
            reason = search.explain_filter()
            if not hits and search.searched:
                readings += self._names(snapshot, content_words(list(every)))
        unknown = dict.fromkeys(word for part in asked_parts for word in part.unknown_words)
        untrained = [] if hits else self.encoder.untrained_words(every)
        names = {reading.text for reading in readings if reading.kind == "name"}
        asked = [word for word in dict.fromkeys([*unknown, *untrained]) if word not in names]
        suggestions = {word: self._suggest(word) for word in asked}
        return SearchResults(
            hits,
            photos=search.photos,
            searched=search.searched,
            unknown_words=tuple(unknown),
            suggestions={word: found for word, found in suggestions.items() if found},
            filter_reason=reason,
            is_listing=not (required or excluded) and like is None,
            found=found,
            readings=readings,
        )

    def _parse(self, sentence: str, photo_filter: PhotoFilter | None = None, exact: bool = False) -> Query:
        """Parse a query, and correct its spelling."""
        query = parse_query(sentence, photo_filter, exact=exact)
        return query if exact else correct_words(query, self._correct)

    def _encode(self, query: Query) -> tuple[list[EncodedSentence], list[list[EncodedSentence]]]:
        """Return what a query requires, and each excluded thing as all its kinds."""
        required = [self.encode_sentence(part.text) for part in query.required]
        return required, [[self.encode_sentence(kind) for kind in kinds_of(part.text)] for part in query.excluded]

    def _names(self, snapshot: IndexSnapshot, asked: Iterable[str]) -> tuple[Reading, ...]:
        """Return the words that may be names of people or places, with a folder of that name."""
        names = [word for word in asked if self.encoder.may_be_name(word) and not self._correct(word)]
        folders = {word: f"in:{word}" for word in names if snapshot.count(PhotoFilter(folder=word))}
        return tuple(Reading("name", word, folders.get(word, "")) for word in names)

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
        """Find other photos that are similar to a photo, most similar first.

        Parameters
        ----------
        photo
            A path, an open Pillow image, or a photo of this index. It need not be in the index, and is not among the
            results itself.
        top, after, before, folder, camera, everything, grouped
            As for `search`.
        """
        top, photo_filter = check_count(top, "top", MAX_TOP), PhotoFilter(after, before, folder, camera)
        with self.index.snapshot() as snapshot:
            search = _Search(self, snapshot, photo_filter)
            own, vector = self._photo_vector(snapshot, photo)
            numbers = snapshot.nearest(vector, _CANDIDATES + top, photo_filter)
            numbers = numbers[numbers != own]
            cosines = logits = snapshot.vectors_of(numbers) @ vector
            if self.calibration:
                logits = self.calibration.similarity_logits(cosines, search.searched)
                logits = np.where(cosines >= _SAME_PHOTO, _CERTAIN + cosines, logits)
                if not everything:
                    is_hit = logits >= self.calibration.similarity_threshold.at(search.searched)
                    numbers, logits = numbers[is_hit], logits[is_hit]
            hits = search.hits(numbers, logits, top, grouped)
        return SearchResults(hits, photos=search.photos, searched=search.searched, found=len(numbers))

    def browse(self, filters: str = "", count: int = 100, begin: int = 0) -> SearchResults:
        """Return the photos that pass the filters of a query, the last taken first and undated ones last.

        Near-duplicates and bursts of a month are one result, so that the results of `count` photos may be fewer.
        `begin` counts photos, too.
        """
        if not isinstance(begin, int) or begin < 0:
            raise DeixisError(f"begin={begin!r}: give a whole number of 0 or more")
        check_count(count, "count")
        query = parse_query(filters) if check_text(filters, "filters") else None
        if query and (query.required or query.excluded):
            raise DeixisError(f"{filters!r}: has words, which are for a search; give only filters")
        photo_filter = self._find_marked(query.photo_filter) if query else PhotoFilter()
        with self.index.snapshot() as snapshot:
            search = _Search(self, snapshot, photo_filter)
            hits, reason = _by_date(snapshot, photo_filter, begin, count, grouped=True), search.explain_filter()
        return SearchResults(
            hits, photos=search.photos, searched=search.searched, filter_reason=reason, is_listing=True
        )

    def overview(self, query: str = "") -> Overview:
        """Count what a query finds by folder, without its filter of a folder, and by month, without its dates."""
        folders = self._folders_and_months(without_filters(query, "in:"))
        months = self._folders_and_months(without_filters(query, "after:", "before:", "is:undated"))
        with self.index.snapshot() as snapshot:
            roots = [Path(root) for root, _ in snapshot.info.roots]
        named: Counter[str] = Counter()
        for folder, count in Counter(folder for folder, _ in folders).items():
            top = next((root for root in roots if folder.is_relative_to(root)), folder)
            parts = folder.relative_to(top.parent).parts or (str(folder),)
            named.update(dict.fromkeys(("/".join(parts[:end]) for end in range(1, len(parts) + 1)), count))
        by_month = Counter(month for _, month in months)
        undated = by_month.pop("", 0)
        return Overview(dict(sorted(named.items())), dict(sorted(by_month.items())), undated)

    def _folders_and_months(self, query: str) -> list[tuple[Path, str]]:
        parsed = parse_query(query) if query.strip() else None
        if parsed and (parsed.required or parsed.excluded):
            photos = [hit.photo for hit in self.search(query, MAX_TOP, grouped=False)]
            return [(photo.path.parent, photo.month) for photo in photos]
        photo_filter = self._find_marked(parsed.photo_filter) if parsed else PhotoFilter()
        with self.index.snapshot() as snapshot:
            return snapshot.folders_and_months(photo_filter)

    def favourites(self) -> list[str]:
        """Return the ids of the photos with five stars in their XMP sidecars."""
        with self.index.snapshot() as snapshot:
            paths = self._favourites.read(snapshot.folders())
            return [_opaque_id(number, snapshot) for number in snapshot.numbers(PhotoFilter(paths=paths)).tolist()]

    def set_favourites(self, photos: Iterable[PhotoRecord], is_favourite: bool) -> None:
        """Write five stars, or none, into the XMP sidecars of photos, beside them."""
        chosen = list(photos)
        for photo in chosen:
            if photo.root and not Path(realpath(photo.path.parent)).is_relative_to(photo.root):
                raise PhotoError(photo.path, "its folder is now a link to another place")
        self._favourites.change([photo.path for photo in chosen], is_favourite)

    def _find_marked(self, photo_filter: PhotoFilter) -> PhotoFilter:
        """Return a filter with the paths of its album and of favourites."""
        chosen: list[Iterable[Path]] = [] if photo_filter.album is None else [self.albums.read(photo_filter.album)]
        if photo_filter.favourite:
            with self.index.snapshot() as snapshot:
                chosen.append(self._favourites.read(snapshot.folders()))
        return replace(photo_filter, paths=frozenset.intersection(*map(frozenset, chosen))) if chosen else photo_filter

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

    def explain(
        self, photo_id: str, sentence: str, propose: Callable[[], PhotoProposals] | None = None
    ) -> tuple[HitPhrase, ...]:
        """Locate the noun phrases of a query in a photo, as `search` does for its results.

        Parameters
        ----------
        photo_id
            The opaque id of the photo.
        sentence
            A query, as for `search`.
        propose
            Gives what `propose` of the model of regions gives for the photo, if it may be at hand.

        Returns
        -------
        tuple of HitPhrase
            In the order of the query. Empty if the file of the photo cannot be read.
        """
        query = self._parse(sentence)
        with self.index.snapshot() as snapshot:
            search, number = _Search(self, snapshot, query.photo_filter), _number(photo_id, snapshot)
            [logit] = search.without(*search.logits(*self._encode(query), np.array([number])))
            probability = _probability(float(logit)) if self.calibration else None
            hit = Hit(_record(snapshot.photo(number), snapshot), float(logit), probability)
            return search.locate(hit, query.required, propose)

    def _stored_calibration(self) -> Calibration | None:
        with self.index.snapshot() as snapshot:
            text = snapshot.entry(CALIBRATION)
        if text is None:
            return None
        calibration = Calibration.from_json(text, hide_password(self.index.path))
        return calibration if calibration.fingerprint == self.encoder.fingerprint else None

    def scores_of_others(self, snapshot: IndexSnapshot, numbers: NDArray[np.int64], whole: Floats) -> Floats:
        """Return the scores of photos for other queries; see `QueryBank`.

        They do not depend on the query and are kept by photo number, which is never used again within an index.
        """
        if not self.calibration or not len(numbers):
            return np.zeros(len(numbers), dtype=np.float32)
        uid, kept = self._other_scores
        if uid != snapshot.info.uid:
            kept = np.zeros(0, dtype=np.float32)
        if (missing := int(numbers.max()) + 1 - len(kept)) > 0:
            kept = np.concatenate([kept, np.full(missing + len(kept) // 2, np.nan, dtype=np.float32)])
        scores = kept[numbers]
        if (is_new := np.isnan(scores)).any():
            scores[is_new] = kept[numbers[is_new]] = self.calibration.bank.scores(whole[is_new])
            # A pair, replaced at once: other threads may have kept other photos meanwhile, which are scored again.
            self._other_scores = (snapshot.info.uid, kept)
        return scores

    def _photo_vector(self, snapshot: IndexSnapshot, photo: PhotoLike | PhotoRecord) -> tuple[int | None, Floats]:
        """Return the number of a photo if it is in the index, and its vector.

        The vector comes from the index unless the file has changed since.
        """
        number = None
        if isinstance(photo, PhotoRecord):
            number = _number(photo.photo_id, snapshot)
            return number, snapshot.vector_of(number)
        if not isinstance(photo, Image.Image):
            path = absolute_path(check_path(photo, "photo"))
            known = snapshot.photo_at(path)
            if known is not None and path.is_file():
                number, status = known.id, path.stat()
                if size_and_time(status) == (known.size, known.mtime_ns):
                    return number, snapshot.vector_of(number)
        return number, self.encoder.encode_photo(photo)


class _Search:
    """One search in one state of the index, by the models and the calibration of a collection."""

    def __init__(self, collection: PhotoCollection, snapshot: IndexSnapshot, photo_filter: PhotoFilter) -> None:
        self.collection, self.snapshot, self.photo_filter = collection, snapshot, photo_filter
        self.calibration, self.encode = collection.calibration, collection.encode_sentence
        self.photos, self.searched = snapshot.count(), snapshot.count(photo_filter)
        self._own: int | None = None
        self._vector: Floats | None = None
        self._weight = 0.0

    def resemble(self, number: int | None, vector: Floats, weight: float) -> None:
        """Let results resemble a photo, too; one with a number is not among them."""
        self._own, self._vector, self._weight = number, vector, weight

    def find(
        self, required: Sequence[EncodedSentence], excluded: Sequence[Kinds], everything: bool = False
    ) -> tuple[NDArray[np.int64], Floats]:
        """Return the photos that a search shows, and their logits."""
        if self.calibration and not everything and any(part.is_unknown for part in required):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        # A number or a quality orders what the noun finds.
        noun = [self.encode(required[0].noun)] if len(required) == 1 and required[0].noun else []
        numbers = self._candidates([*required, *noun])
        required_logits, present = self.logits(required, excluded, numbers)
        logits = self.without(required_logits, present)
        is_hit = np.ones(len(numbers), dtype=bool)
        if self.calibration:
            is_hit &= (present < _PRESENT).all(axis=0)
        if self._vector is not None:
            logits, is_alike = self._mix(numbers, logits, required, self._vector)
            is_hit &= is_alike
        else:
            is_found = self._is_hit(required_logits[is_hit], required)
            if noun and (is_found.any() or not required[0].is_compound):  # poles are no answer to "a totem pole"
                of_noun, _ = self.logits(noun, [], numbers)
                is_found |= self._is_hit(of_noun[is_hit], noun)
            is_hit[is_hit] = is_found
        return (numbers, logits) if everything else (numbers[is_hit], logits[is_hit])

    def find_part(
        self, query: Query, required: Sequence[EncodedSentence], excluded: Sequence[Kinds]
    ) -> tuple[QueryPart | None, NDArray[np.int64], Floats]:
        """Search for parts of the sentence of a query; return the one with the most probable photo, if it is sure."""
        best: tuple[QueryPart | None, NDArray[np.int64], Floats]
        best = None, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32)
        highest = _SURE_PART
        whole = query.required[0]
        for text in parts_of(whole.text):
            numbers, logits = self.find([self.encode(text), *required[1:]], excluded)
            if len(numbers) and logits.max() > highest:
                start = whole.typed_span((at := whole.text.find(text), at))[0]
                best, highest = (QueryPart(text, start), numbers, logits), float(logits.max())
        return best

    def _candidates(self, required: Sequence[EncodedSentence]) -> NDArray[np.int64]:
        """Return the photos to score: all of a small index, otherwise the best of each model for each part."""
        snapshot, photo_filter = self.snapshot, self.photo_filter
        if self.photos <= _SMALL_INDEX:
            numbers = snapshot.numbers(photo_filter)
        else:
            vectors = [part.vector for part in required] + ([] if self._vector is None else [self._vector])
            phrases = [phrase.vector for part in required for phrase in part.phrases]
            found = [snapshot.nearest(vector, _CANDIDATES, photo_filter) for vector in vectors]
            found += [snapshot.nearest_by_regions(vector, photo_filter)[:_CANDIDATES] for vector in phrases]
            numbers = np.unique(np.concatenate(found)) if found else snapshot.numbers(photo_filter)[-_MAX_SCORED:]
        return numbers[numbers != self._own]

    def logits(
        self, required: Sequence[EncodedSentence], excluded: Sequence[Kinds], numbers: NDArray[np.int64]
    ) -> tuple[Floats, Floats]:
        """Return the logits of what is required, (n,), and of each excluded thing: (excluded, n)."""
        whole = self.snapshot.vectors_of(numbers)
        regions = self.snapshot.region_vectors(numbers)
        others = self.collection.scores_of_others(self.snapshot, numbers, whole)

        def logits(part: EncodedSentence) -> Floats:
            evidence = Evidence.collect(part, whole, regions, others)
            return self.calibration.logits(evidence, self.searched) if self.calibration else evidence.whole

        # The parts of a query are correlated: that a photo shows all of them is taken to be as probable as the least
        # probable one.
        certain = np.full(len(numbers), _CERTAIN if self.calibration else 0.0, dtype=np.float32)
        total = np.min([logits(part) for part in required], axis=0) if required else certain
        present = np.empty((len(excluded), len(numbers)), dtype=np.float32)
        for row, kinds in enumerate(excluded):
            known = [kind for kind in kinds if not kind.is_unknown]
            present[row] = np.max([logits(kind) for kind in known], axis=0) if known else -certain
            if self.calibration and len(known) > 1:
                present[row] = self.calibration.people_logits(present[row])
        return np.asarray(total, dtype=np.float32), present

    def without(self, logits: Floats, present: Floats) -> Floats:
        """Return the logit of the probability that a photo shows what is required and nothing excluded."""
        for each in present:
            logits = _and_not(logits, each) if self.calibration else logits - each
        return logits

    def _is_hit(self, logits: Floats, parts: Sequence[EncodedSentence]) -> NDArray[np.bool_]:
        """Return which photos are probable enough to be shown."""
        if not self.calibration:
            return np.ones(len(logits), dtype=bool)
        return self.calibration.is_hit(logits, _kind(parts))

    def _mix(
        self, numbers: NDArray[np.int64], logits: Floats, required: Sequence[EncodedSentence], vector: Floats
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the weighted mean of the logits of a query and of those of a similar photo, and which are shown."""
        similar, weight = self.snapshot.vectors_of(numbers) @ vector, self._weight
        if not self.calibration:
            return (1 - weight) * logits + weight * similar, np.ones(len(numbers), dtype=bool)
        mixed = (1 - weight) * logits + weight * self.calibration.similarity_logits(similar, self.searched)
        limit = self.calibration.cut_off(_kind(required))
        alike = self.calibration.similarity_threshold.at(self.searched)
        return mixed, np.asarray(mixed >= (1 - weight) * limit + weight * alike)

    def hits(self, numbers: NDArray[np.int64], logits: Floats, top: int, grouped: bool) -> list[Hit]:
        matches = self.snapshot.rank(numbers, logits, top, grouping=Grouping() if grouped else None)
        return list(map(self._hit, matches))

    def _hit(self, match: Match) -> Hit:
        probability = _probability(match.score) if self.calibration else None
        duplicates = tuple(map(self._hit, match.others))
        return Hit(_record(match.photo, self.snapshot), match.score, probability, duplicates=duplicates)

    def locate(
        self, hit: Hit, parts: Sequence[QueryPart], propose: Callable[[], PhotoProposals] | None = None
    ) -> tuple[HitPhrase, ...]:
        """Ground the parts of a query in a photo; without its file there are no boxes.

        The probability of a phrase is that of a search for it alone, and at least that of the whole query.
        """
        model, phrases, regions = self.collection.encoder.region_model, [], None
        for part in parts:
            if regions is None:
                try:
                    regions = propose() if propose else model.propose(hit.path)
                except PhotoError:
                    return ()
            for found in model.ground_regions(regions, part.text).phrases:
                span = part.typed_span(found.span)
                presence, is_absent = found.presence, found.absent
                if hit.probability is not None:
                    number = _number(hit.photo_id, self.snapshot)
                    [logit], _ = self.logits([self.encode(found.text)], [], np.array([number]))
                    presence = max(_probability(float(logit)), hit.probability)
                    is_absent = is_absent and presence < _LIKELY
                presence = None if found.guess else presence
                phrases.append(HitPhrase(found.text, span, found.box, presence, is_absent, found.guess, found.boxes))
        return tuple(phrases)

    def explain_filter(self) -> str | None:
        """Say why no photo passes the filter; None if some do, or there are none."""
        if self.searched or not self.photos:
            return None
        snapshot, photo_filter, reasons = self.snapshot, self.photo_filter, []
        if photo_filter.after or photo_filter.before:
            undated = self.photos - snapshot.count(PhotoFilter(after="0001"))
            if not snapshot.count(PhotoFilter(photo_filter.after, photo_filter.before)):
                reasons.append("no photo is from that time")
            if undated:
                reasons.append(f"{undated:,} {'photo has' if undated == 1 else 'photos have'} no date")
        if photo_filter.paths is not None and not photo_filter.paths:
            reasons.append("no photo has five stars" if photo_filter.favourite else "the album has no photo")
        if photo_filter.folder and not snapshot.count(PhotoFilter(folder=photo_filter.folder)):
            reasons.append(f"no folder is named {photo_filter.folder}")
        if photo_filter.camera and not snapshot.count(PhotoFilter(camera=photo_filter.camera)):
            reasons.append(f"no camera is named {photo_filter.camera}")
        return "; ".join(reasons) or "no photo passes all filters together"


def index_photos(
    folder: str | PathLike[str] | Iterable[str | PathLike[str]],
    into: str | PathLike[str] | None = None,
    *,
    rebuild: bool = False,
    retry: bool = False,
    exclude: Sequence[str] | None = None,
    model: SearchModel | None = None,
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
        The folder of the index, ``@NAME`` for a named one, or ``postgresql://user@host/database``; by default the
        index of the user (`deixis.search.places`).
    rebuild
        Empty the index first.
    retry
        Try files again that could not be read before.
    exclude
        Patterns of files and folders to leave out, such as ``Screenshots`` or ``*.gif``; the index remembers them.
    model
        The model of whole photos and sentences: a name that ``deixis models`` lists, the directory of a model, or
        ``open-clip:ARCHITECTURE[:FILE]``. By default that of the index, or for a new index the one that comes with
        deixis.
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
    from deixis.search.index.update import update_index

    photos = [folder] if isinstance(folder, str | PathLike) else check_list(folder, "folder")
    index = _index_path(into)
    return update_index(
        index,
        [_expand_user(check_path(photo, "folder")) for photo in photos],
        encoder_to_fill(index, model),
        rebuild=rebuild,
        retry=retry,
        exclude=exclude,
        on_progress=on_progress,
    )


def open_index(path: str | PathLike[str] | None = None, model: SearchModel | None = None) -> PhotoCollection:
    """Open an index for searching.

    Parameters
    ----------
    path
        The folder of the index, ``@NAME`` for a named one, or ``postgresql://user@host/database``; by default the
        index of the user (`deixis.search.places`).
    model
        The model that filled it, as for `index_photos`; by default it is opened by the name that the index stores.

    Examples
    --------
    >>> import deixis
    >>> photos = deixis.open_index("photos.deixis")  # doctest: +SKIP
    >>> for hit in photos.search("two dogs in the snow", top=5, explain=True):  # doctest: +SKIP
    ...     print(hit.path, hit.probability, hit.phrases)
    """
    index = _index_path(path)
    # A missing index is reported before a model is loaded.
    stored = read_about(index).get("model", "")
    return PhotoCollection(index, _as_encoder(stored if model is None else model))


SearchModel = SearchEncoder | str | PathLike[str]
"""Open models, or the name or path of the photo model."""


def encoder_to_fill(index: str, model: SearchModel | None = None) -> SearchEncoder:
    """Return the given model, or else that of an existing index, or else the default."""
    if model is None:
        try:
            model = read_about(index).get("model", "")
        except DeixisError:  # there is no index yet, or a damaged one, which the update reports
            model = ""
    return _as_encoder(model)


@lru_cache(maxsize=3)
def search_encoder(photo_model: str) -> SearchEncoder:
    """Return the encoder with a photo model, loaded once."""
    return SearchEncoder(photo_model)


def _as_encoder(model: SearchModel) -> SearchEncoder:
    return model if isinstance(model, SearchEncoder) else search_encoder(check_path(model, "model") or PHOTO_MODEL)


def store_calibration(index: str | PathLike[str], encoder: SearchEncoder, calibration: Calibration) -> None:
    """Store a calibration of the models of an index; collections that are opened later use it."""
    with open_writer(_index_path(index), encoder) as writer:
        writer.begin()
        write_entry(writer.connection, CALIBRATION, calibration.to_json())
        writer.commit()


def _index_path(path: str | PathLike[str] | None) -> str:
    return index_place(None if path is None else check_path(path, "index"))


def _expand_user(path: str | PathLike[str]) -> str:
    text = fspath(path)
    return fspath(Path(text).expanduser()) if text.startswith("~") else text


def _newest(snapshot: IndexSnapshot, photo_filter: PhotoFilter, top: int, searched: int, grouped: bool) -> list[Hit]:
    """Return the first results by date; a group of photos is one result."""
    count = top
    while len(hits := _by_date(snapshot, photo_filter, 0, count, grouped)) <= top and count < searched:
        count *= 2
    return hits[:top]


def _by_date(snapshot: IndexSnapshot, photo_filter: PhotoFilter, begin: int, count: int, grouped: bool) -> list[Hit]:
    """Return photos that pass a filter, the last taken first and undated ones last, in groups of the same month."""
    numbers = snapshot.numbers_by_date(photo_filter)[begin : begin + count].tolist()
    photos = snapshot.photos(numbers)
    hits: list[Hit] = []
    in_order = ((photos[number], _record(photos[number], snapshot)) for number in numbers if number in photos)
    for _, month in groupby(in_order, key=lambda pair: pair[1].month):
        some = list(month)
        for first, *others in snapshot.group([photo for photo, _ in some], Grouping() if grouped else None):
            duplicates = tuple(Hit(some[row][1], 0.0) for row in others)
            hits.append(Hit(some[first][1], 0.0, duplicates=duplicates))
    return hits


def _kind(parts: Sequence[EncodedSentence]) -> str:
    """Return the kind of a query: of its parts, that with the lowest cut-off."""
    return min((part.statistics.kind for part in parts), key=Calibration.cut_off, default=WORD)


def _probability(logit: float) -> float:
    return float(logistic(logit))


def _record(photo: IndexedPhoto, snapshot: IndexSnapshot) -> PhotoRecord:
    size, exif = (photo.width, photo.height), photo.exif
    photo_id, taken = _opaque_id(photo.id, snapshot), format_time(exif.taken)
    root = snapshot.info.root_of(photo.path)
    return PhotoRecord(photo_id, photo.path, size, taken, exif.camera, exif.date_source, root)


def _opaque_id(number: int, snapshot: IndexSnapshot) -> str:
    """Return a photo's number with a signature, so that ids of other photos cannot be guessed."""
    signature = hashlib.blake2b(f"{snapshot.info.uid} {number}".encode(), digest_size=_SIGNATURE_BYTES).hexdigest()
    return f"{number:x}-{signature}"


def _number(photo_id: str, snapshot: IndexSnapshot) -> int:
    check_text(photo_id, "photo_id")
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
