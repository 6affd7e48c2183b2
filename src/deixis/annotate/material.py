"""What is annotated: a photo's captions and the phrases that may name something, under names that never change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence

LONGEST_CAPTION = 2000
"""Characters; a longer text is no caption, and no page could show it."""


@dataclass(frozen=True, slots=True)
class Marked:
    """A mention that people are asked about.

    Attributes
    ----------
    id
        Its place: ``"2:5-12"`` are the characters 5 to 12 of caption 2, both counted from 0.
    caption, start, end
        The same as numbers.
    types
        One or more of `deixis.data.records.ENTITY_TYPES`.
    text, head
        Its words, and the last of them in lower case.
    """

    id: str
    caption: int
    start: int
    end: int
    types: tuple[str, ...]
    text: str
    head: str


@dataclass(frozen=True, slots=True)
class Material:
    """A photo as it enters annotation.

    Attributes
    ----------
    photo
        Its id.
    captions
        The sentences about it.
    mentions
        In the order of the captions.
    width, height
        In pixels, as opened.
    file, splits, sha256
        As the data set has them.
    """

    photo: str
    captions: tuple[str, ...]
    mentions: tuple[Marked, ...]
    width: int
    height: int
    file: str | None = None
    splits: tuple[str, ...] = ()
    sha256: str | None = None

    def marked(self, mention_id: str, types: tuple[str, ...] = ()) -> Marked:
        """The mention of a place, whether it is among the mentions or not.

        Raises
        ------
        DeixisError
            Where the captions have no such place.

        Examples
        --------
        >>> material = Material("1", ("A dog runs.",), (), 4, 3)
        >>> material.marked("0:0-5").text, material.marked("0:0-5").types
        ('A dog', ('animals',))
        """
        caption, start, end = place_of(mention_id)
        if caption >= len(self.captions) or not start < end <= len(self.captions[caption]):
            raise DeixisError(f"photo {self.photo}: no caption has a mention at {mention_id}")
        return _marked(self.captions[caption], caption, start, end, types)

    def as_json(self) -> dict[str, Any]:
        """Plain values; mentions as their places and types."""
        plain = {name: getattr(self, name) for name in ("photo", "captions", "width", "height", "file", "sha256")}
        mentions = [[mention.id, list(mention.types)] for mention in self.mentions]
        return plain | {"splits": list(self.splits), "captions": list(self.captions), "mentions": mentions}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Material:
        """What `as_json` gave."""
        bare = cls(
            plain["photo"],
            tuple(plain["captions"]),
            (),
            plain["width"],
            plain["height"],
            plain["file"],
            tuple(plain["splits"]),
            plain["sha256"],
        )
        return replace(bare, mentions=tuple(bare.marked(place, tuple(types)) for place, types in plain["mentions"]))


def place_of(mention_id: str) -> tuple[int, int, int]:
    """Caption, start and end of a mention's name.

    Examples
    --------
    >>> place_of("2:5-12")
    (2, 5, 12)
    """
    try:
        caption, _, span = mention_id.partition(":")
        start, _, end = span.partition("-")
        if not (caption.isascii() and start.isascii() and end.isascii()):
            raise ValueError(mention_id)
        place = int(caption), int(start), int(end)
    except ValueError:
        raise DeixisError(f"{mention_id!r} is no mention; give CAPTION:START-END, such as 0:2-7") from None
    if min(place) < 0:
        raise DeixisError(f"{mention_id!r} is no mention; its numbers count from 0")
    return place


def material_of(photo: Photo, *, given: bool = True) -> Material:
    """Prepare a photo for annotation.

    Parameters
    ----------
    photo
        With captions; its chains and boxes are not looked at.
    given
        Take the mentions that a caption has, and find them only in captions that have none; False finds them in all.

    Examples
    --------
    >>> dog = Photo("1", (Caption.from_text("A dog watches a man in red."),), width=4, height=3)
    >>> [(mention.id, mention.text, *mention.types) for mention in material_of(dog).mentions]
    [('0:0-5', 'A dog', 'animals'), ('0:14-19', 'a man', 'people'), ('0:23-26', 'red', 'clothing')]
    """
    if photo.width is None or photo.height is None:
        raise DeixisError(f"photo {photo.id}: its size is not known, so no box can be drawn; import it with --images")
    sentences = photo.sentences
    for number, caption in enumerate(sentences):
        if len(caption.text) > LONGEST_CAPTION:
            raise DeixisError(
                f"photo {photo.id}: caption {number} has {len(caption.text):,} characters; "
                f"{LONGEST_CAPTION:,} are the most that can be annotated"
            )
    mentions = [
        _marked(caption.text, number, *found)
        for number, caption in enumerate(sentences)
        for found in _found(caption, given)
    ]
    captions = tuple(caption.text for caption in sentences)
    return Material(
        photo.id, captions, tuple(mentions), photo.width, photo.height, photo.file, photo.splits, photo.sha256
    )


def _found(caption: Caption, given: bool) -> Iterable[tuple[int, int, tuple[str, ...]]]:
    visual = [mention for mention in caption.mentions if mention.chain is not None]
    if given and caption.mentions:
        return [(mention.start, mention.end, mention.types) for mention in visual]
    return [(*phrase.span, phrase.types) for phrase in Sentence.of_caption(caption).phrases]


def _marked(text: str, caption: int, start: int, end: int, types: tuple[str, ...]) -> Marked:
    phrase = Sentence(text[start:end])
    words = [token.text.lower() for token in phrase.tokens]
    if not types:
        from deixis.language.entity_types import EntityTypes

        types = EntityTypes.shipped().types_of(words) or ("other",)
    return Marked(
        f"{caption}:{start}-{end}", caption, start, end, types, text[start:end], words[-1] if words else text[start:end]
    )
