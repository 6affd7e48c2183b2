"""An index of photos and eyes that need no model, for tests of what lies around them."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from deixis.data.images import open_photo, size_of
from deixis.errors import DeixisError
from deixis.index.thumbnails import thumbnail_of
from deixis.server.answers import Captions, Description, Grounding
from deixis.server.eyes import Eyes, Subject
from deixis.tasks.grounding import ABSENT
from deixis.tasks.search.hits import BoxXyxy, Hit, HitPhrase, KnownPhoto


class FakeLibrary:
    """Finds the photos whose file names contain a word of the query."""

    def __init__(self, paths: Sequence[Path] = (), folder: Path = Path("/index")) -> None:
        self.folder = folder
        self.known = {_id_of(path): _known(path) for path in paths}
        self.alike: tuple[Hit, ...] = ()

    def __len__(self) -> int:
        return len(self.known)

    def search(
        self,
        sentence: str,
        top: int = 10,
        *,
        explain: bool = False,
        after: str | None = None,
        before: str | None = None,
        folder: str | None = None,
        everything: bool = False,
    ) -> list[Hit]:
        if after and not after[:4].isdecimal():
            raise DeixisError(f"{after!r}: not a date; write one like 2024, 2024-06 or 2024-06-01")
        if not self.looked_at(sentence, folder=folder):
            return []
        words = sentence.casefold().split()
        likely = {photo.photo_id: any(word in photo.path.stem for word in words) for photo in self.known.values()}
        hits = [
            Hit(
                photo,
                score=1.0 if likely[photo.photo_id] else 0.1,
                probability=0.9 if likely[photo.photo_id] else 0.01,
                phrases=_phrases(sentence, photo) if explain else (),
                duplicates=self.alike,
            )
            for photo in self.known.values()
            if likely[photo.photo_id] or everything
        ]
        return sorted(hits, key=lambda hit: -hit.score)[:top]

    def like(
        self,
        photo: object,
        top: int = 10,
        *,
        after: str | None = None,
        before: str | None = None,
        folder: str | None = None,
        everything: bool = False,
    ) -> list[Hit]:
        return [Hit(each, score=1.0, probability=0.5) for each in self.known.values()][:top]

    def looked_at(
        self,
        sentence: str = "",
        *,
        after: str | None = None,
        before: str | None = None,
        folder: str | None = None,
    ) -> int:
        return 0 if "in:nowhere" in sentence or folder == "nowhere" else len(self)

    def unknown_words(self, sentence: str) -> list[str]:
        return [word for word in sentence.split() if word.startswith("xyzzy")]

    def newest(self, count: int = 100, begin: int = 0) -> list[KnownPhoto]:
        return list(self.known.values())[begin : begin + count]

    def photo(self, photo_id: str) -> KnownPhoto:
        if photo_id not in self.known:
            raise DeixisError(f"{self.folder}: there is no photo {photo_id}")
        return self.known[photo_id]

    def thumbnail(self, photo_id: str) -> bytes | None:
        return thumbnail_of(open_photo(self.known[photo_id].path))

    def regions(self, photo_id: str) -> list[BoxXyxy]:
        width, height = self.known[photo_id].size
        return [(0, 0, width / 2, height / 2), (width / 4, height / 4, width, height)]


class FakeEyes(Eyes):
    """Points at the left half for the first word, at the right half for the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.presence_of_last = 0.9

    def ground(self, subject: Subject, sentence: str) -> Grounding:
        width, height = _size_of(subject)
        first, last = sentence.split()[0], sentence.split()[-1]
        begin = len(sentence.rstrip()) - len(last)
        return Grounding.model_validate(
            {
                "photo": subject.id,
                "size": (width, height),
                "unknown_words": [word for word in sentence.split() if word.startswith("xyzzy")],
                "phrases": [
                    {
                        "text": first,
                        "span": (0, len(first)),
                        "type": "other",
                        "boxes": [{"box": (0, 0, width / 2, height), "score": 0.6}],
                        "presence": 0.9,
                    },
                    {
                        "text": last,
                        "span": (begin, begin + len(last)),
                        "type": "other",
                        "boxes": [{"box": (width / 2, 0, width, height), "score": 0.4}],
                        "presence": self.presence_of_last,
                        "absent": self.presence_of_last < ABSENT,
                    },
                ],
            }
        )

    def caption(self, subject: Subject) -> Captions:
        return Captions.model_validate(
            {"photo": subject.id, "captions": [{"text": "a photo of something", "logprob": -9.0, "perplexity": 6.0}]}
        )

    def describe(self, subject: Subject, region: BoxXyxy | None, top: int) -> Description:
        width, height = _size_of(subject)
        boxes = {"a brown thing": (0, 0, width / 2, height), "a corner": (0, 0, width / 4, height / 4)}
        regions = [{"box": box, "phrases": [{"text": text, "score": 0.7}]} for text, box in boxes.items()]
        if region is not None:
            regions = [{"box": region, "phrases": [{"text": "a part", "score": 0.5}]}]
        return Description.model_validate({"photo": subject.id, "size": (width, height), "regions": regions})

    def warm_up(self) -> None:
        pass


def photo_bytes(size: tuple[int, int] = (64, 48), form: str = "JPEG", colour: str = "teal") -> bytes:
    written = io.BytesIO()
    Image.new("RGB", size, colour).save(written, form)
    return written.getvalue()


def _id_of(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:20]


def _size_of(subject: Subject) -> tuple[int, int]:
    return subject.photo.size if isinstance(subject.photo, Image.Image) else size_of(Path(subject.photo))


def _known(path: Path) -> KnownPhoto:
    return KnownPhoto(_id_of(path), path, size_of(path), "2024-06-01T12:30:00", "Camera 1")


def _phrases(sentence: str, photo: KnownPhoto) -> tuple[HitPhrase, ...]:
    word = sentence.split()[0]
    begin = sentence.index(word)
    width, height = photo.size
    return (HitPhrase(word, (begin, begin + len(word)), (width / 4, height / 4, width / 2, height / 2), 0.8),)
