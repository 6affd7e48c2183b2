"""A photo collection and an inference service without models, for tests of the server."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from deixis.data.images import open_photo, photo_size
from deixis.errors import DeixisError, PhotoError
from deixis.models.grounding import ABSENT, PhotoProposals
from deixis.search.albums import Albums
from deixis.search.collection import PhotoCollection
from deixis.search.index.photo_files import make_thumbnail
from deixis.search.index.records import PhotoFilter
from deixis.search.index.snapshot import Box
from deixis.search.query import parse_query
from deixis.search.results import Hit, HitPhrase, Overview, PhotoRecord, SearchResults
from deixis.storage.sidecars import Favourites
from deixis.web.inference import InferenceService, PhotoInput
from deixis.web.responses import Captions, Description, Grounding


class FakeCollection(PhotoCollection):
    """Finds the photos whose file names contain a word of the query."""

    def __init__(self, paths: Sequence[Path] = (), folder: Path = Path("/index")) -> None:  # no index is opened
        self.folder = folder
        self.known = {_id_of(path): _known(path) for path in paths}
        self.alike: tuple[Hit, ...] = ()
        self.probability = 0.9  # of the results
        self.odd_folder = 'Ann\'s "best" shots'
        self.searched: list[str] = []
        self.undated = 0
        self.albums, self.found_favourites = Albums(folder), Favourites()

    @property
    def version(self) -> int | None:
        return hash((tuple(self.known), self.alike))

    def __len__(self) -> int:
        return len(self.known)

    def search(
        self,
        sentence: str,
        top: int = 10,
        *,
        after: str | None = None,
        before: str | None = None,
        folder: str | None = None,
        everything: bool = False,
        **_: Any,
    ) -> SearchResults:
        if after and not after[:4].isdecimal():
            raise DeixisError(f"{after!r}: not a date; write one like 2024, 2024-06 or 2024-06-01")
        self.searched.append(sentence)
        words = sentence.casefold().split()
        unknown = [word for word in words if word.startswith("xyzzy")]
        if "in:nowhere" in words or folder == "nowhere":
            return SearchResults([], photos=len(self), searched=0, unknown_words=unknown)
        likely = {photo.photo_id: any(word in photo.path.stem for word in words) for photo in self.known.values()}
        hits = [
            Hit(
                photo,
                score=1.0 if likely[photo.photo_id] else 0.1,
                probability=self.probability if likely[photo.photo_id] else 0.01,
                duplicates=self.alike,
            )
            for photo in self.known.values()
            if likely[photo.photo_id] or everything
        ]
        hits = sorted(hits, key=lambda hit: -hit.score)[:top]
        return SearchResults(
            hits,
            photos=len(self),
            searched=len(self),
            unknown_words=unknown,
            suggestions=dict.fromkeys(unknown, ("dog",)),
            readings=parse_query(sentence).readings if sentence else (),
        )

    def like(
        self,
        photo: object,
        top: int = 10,
        *,
        after: str | None = None,
        before: str | None = None,
        folder: str | None = None,
        everything: bool = False,
        **_: Any,
    ) -> SearchResults:
        hits = [Hit(each, score=1.0, probability=0.5) for each in self.known.values() if each != photo][:top]
        return SearchResults(hits, photos=len(self), searched=len(self))

    def explain(
        self, photo_id: str, sentence: str, propose: Callable[[], object] | None = None
    ) -> tuple[HitPhrase, ...]:
        try:
            _ = propose and propose()
        except PhotoError:
            return ()
        return _phrases(sentence, self.photo(photo_id))

    def browse(self, filters: str = "", count: int = 100, begin: int = 0) -> SearchResults:
        wanted = parse_query(filters).photo_filter if filters else PhotoFilter()
        in_album = self.albums.read(wanted.album) if wanted.album else None
        photos = [
            photo
            for photo in self.known.values()
            if (in_album is None or photo.path in in_album)
            and (not wanted.favourite or photo.photo_id in self.favourites())
            and wanted.folder != "nowhere"
        ]
        hits = [Hit(photo, 0.0, duplicates=self.alike) for photo in photos[begin : begin + count]]
        reason = "no folder is named nowhere" if wanted.folder == "nowhere" else None
        return SearchResults(hits, photos=len(self), searched=len(photos), filter_reason=reason)

    def overview(self, query: str = "") -> Overview:
        words = [] if ":" in query else query.casefold().split()
        count = sum(not words or any(word in photo.path.stem for word in words) for photo in self.known.values())
        folders = {"holiday": count, f"holiday/{self.odd_folder}": 1, "holiday/2024": count}
        return Overview(folders, {"2024-05": 1, "2024-06": count} if count else {}, self.undated)

    def favourites(self) -> list[str]:
        paths = self.found_favourites.read({photo.path.parent for photo in self.known.values()})
        return [photo.photo_id for photo in self.known.values() if photo.path in paths]

    def set_favourites(self, photos: Iterable[PhotoRecord], is_favourite: bool) -> None:
        self.found_favourites.change([photo.path for photo in photos], is_favourite)

    def photo(self, photo_id: str) -> PhotoRecord:
        if photo_id not in self.known:
            raise DeixisError(f"{self.folder}: there is no photo {photo_id}")
        return self.known[photo_id]

    def thumbnail(self, photo_id: str) -> bytes | None:
        return make_thumbnail(open_photo(self.known[photo_id].path))

    def regions(self, photo_id: str) -> list[Box]:
        width, height = self.known[photo_id].size
        return [(0, 0, width / 2, height / 2), (width / 4, height / 4, width, height)]


class FakeInference(InferenceService):
    """Grounds the first word in the left half and the last word in the right half, or also left if it is the same."""

    def __init__(self) -> None:
        super().__init__()
        self.presence_of_last = 0.9
        self.sure_of_caption = True

    def ground(self, photo: PhotoInput, sentence: str) -> Grounding:
        width, height = _size_of(photo)
        first, last = sentence.split()[0], sentence.split()[-1]
        begin = len(sentence.rstrip()) - len(last)
        place = (0 if first == last else width / 2, 0, width / 2 if first == last else width, height)
        is_guess = last.startswith("xyzzy")
        return Grounding.model_validate(
            {
                "photo": photo.id,
                "size": (width, height),
                "unknown_words": [word for word in sentence.split() if word.startswith("xyzzy")],
                "phrases": [
                    {
                        "text": first,
                        "span": (0, len(first)),
                        "type": "other",
                        "box": (0, 0, width / 2, height),
                        "boxes": [{"box": (0, 0, width / 2, height), "score": 0.6}],
                        "presence": 0.9,
                    },
                    {
                        "text": last,
                        "span": (begin, begin + len(last)),
                        "type": "other",
                        "box": place,
                        "boxes": [{"box": place, "score": None if is_guess else 0.4}],
                        "presence": None if is_guess else self.presence_of_last,
                        "absent": not is_guess and self.presence_of_last < ABSENT,
                        "guess": is_guess,
                    },
                ],
            }
        )

    def propose(self, photo: PhotoInput) -> PhotoProposals:
        _size_of(photo)  # opens it, as a model does
        return PhotoProposals(None, None)  # type: ignore[arg-type]

    def caption(self, photo: PhotoInput) -> Captions:
        _size_of(photo)  # opens it, as a model does
        return Captions.model_validate(
            {
                "photo": photo.id,
                "captions": [
                    {
                        "text": "a photo of something",
                        "logprob": -9.0,
                        "perplexity": 6.0,
                        "confidence": 0.8,
                        "sure": self.sure_of_caption,
                    }
                ],
            }
        )

    def describe(self, photo: PhotoInput, region: Box | None, top: int) -> Description:
        width, height = _size_of(photo)
        boxes = {"a brown thing": (0, 0, width / 2, height), "a corner": (0, 0, width / 4, height / 4)}
        regions = [{"box": box, "phrases": [{"text": text, "score": 0.7}]} for text, box in boxes.items()]
        if region is not None:
            regions = [{"box": region, "phrases": [{"text": "a part", "score": 0.5}]}]
        return Description.model_validate({"photo": photo.id, "size": (width, height), "regions": regions})

    def warm_up(self) -> None:
        pass


def photo_bytes(size: tuple[int, int] = (64, 48), form: str = "JPEG", colour: str = "teal") -> bytes:
    written = io.BytesIO()
    Image.new("RGB", size, colour).save(written, form)
    return written.getvalue()


def _id_of(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:20]


def _size_of(photo: PhotoInput) -> tuple[int, int]:
    return photo.photo.size if isinstance(photo.photo, Image.Image) else photo_size(Path(photo.photo))


def _known(path: Path) -> PhotoRecord:
    return PhotoRecord(_id_of(path), path, photo_size(path), "2024-06-01T12:30:00", "Camera 1")


def _phrases(sentence: str, photo: PhotoRecord) -> tuple[HitPhrase, ...]:
    word = sentence.split()[0]
    begin = sentence.index(word)
    width, height = photo.size
    return (HitPhrase(word, (begin, begin + len(word)), (width / 4, height / 4, width / 2, height / 2), 0.8),)
