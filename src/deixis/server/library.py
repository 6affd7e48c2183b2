"""What the server asks of an index of photos."""

from __future__ import annotations

from typing import Protocol

from deixis.server.answers import FoundPhrase, HitEntry, PhotoDetails, PhotoEntry, Region
from deixis.tasks.bundle import PhotoLike
from deixis.tasks.search.hits import BoxXyxy, Hit, KnownPhoto


class Library(Protocol):
    """A person's photos, as `deixis.open_index` gives them; asked from many threads."""

    def __len__(self) -> int:
        """How many photos there are."""
        ...

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
        """Photos for a sentence."""
        ...

    def like(
        self,
        photo: PhotoLike | KnownPhoto,
        top: int = 10,
        *,
        after: str | None = None,
        before: str | None = None,
        folder: str | None = None,
        everything: bool = False,
    ) -> list[Hit]:
        """Photos that look like another one."""
        ...

    def looked_at(
        self,
        sentence: str = "",
        *,
        after: str | None = None,
        before: str | None = None,
        folder: str | None = None,
    ) -> int:
        """How many photos the filters leave to be searched."""
        ...

    def unknown_words(self, sentence: str) -> list[str]:
        """Words that cannot be looked for."""
        ...

    def newest(self, count: int = 100, begin: int = 0) -> list[KnownPhoto]:
        """A page of photos."""
        ...

    def photo(self, photo_id: str) -> KnownPhoto:
        """The photo of an opaque id."""
        ...

    def thumbnail(self, photo_id: str) -> bytes | None:
        """A small JPEG."""
        ...

    def regions(self, photo_id: str) -> list[BoxXyxy]:
        """Regions that can be searched."""
        ...


def entry_of(photo: KnownPhoto) -> PhotoEntry:
    """A photo without its path."""
    return PhotoEntry(
        id=photo.photo_id,
        name=_readable(photo.path.name),
        width=photo.size[0],
        height=photo.size[1],
        taken=photo.taken,
    )


def details_of(photo: KnownPhoto, regions: list[BoxXyxy]) -> PhotoDetails:
    """The same with what else the index knows."""
    boxes = [Region(box=_rounded(box)) for box in regions]
    return PhotoDetails(**entry_of(photo).model_dump(), camera=photo.camera, regions=boxes)


def hit_of(hit: Hit) -> HitEntry:
    """A hit without paths."""
    return HitEntry(
        **entry_of(hit.photo).model_dump(),
        score=round(hit.score, 4),
        probability=None if hit.probability is None else round(hit.probability, 4),
        phrases=[
            FoundPhrase(
                text=each.text,
                span=each.span,
                box=_rounded(each.box),
                score=round(each.score, 4),
                absent=each.absent,
            )
            for each in hit.phrases
        ],
        duplicates=[entry_of(other.photo) for other in hit.duplicates],
    )


def _rounded(box: BoxXyxy) -> BoxXyxy:
    x1, y1, x2, y2 = (round(float(side), 1) for side in box)
    return x1, y1, x2, y2


def _readable(name: str) -> str:
    """A name need not be text; what is not cannot be shown."""
    return name.encode("utf-8", "replace").decode()
