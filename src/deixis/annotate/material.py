"""The input of annotation: a photo with its captions and the mentions that workers are asked about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from deixis.data.records import Caption, Photo
from deixis.errors import DeixisError
from deixis.language.sentence import Sentence

MAX_CAPTION_LENGTH = 2000
"""Characters; pages cannot show longer captions."""


@dataclass(frozen=True, slots=True)
class CaptionMention:
    """A mention that workers are asked about."""

    id: str  # its location: "2:5-12" are the characters 5 to 12 of caption 2, both counted from 0
    caption: int
    start: int
    end: int
    types: tuple[str, ...]  # one or more of `deixis.data.records.ENTITY_TYPES`
    text: str
    head: str  # the last word of `text`, in lower case


@dataclass(frozen=True, slots=True)
class Material:
    """A photo prepared for annotation. `photo` is its id; `file`, `splits` and `sha256` are those of the data set."""

    photo: str
    captions: tuple[str, ...]
    mentions: tuple[CaptionMention, ...]
    width: int
    height: int
    file: str | None = None
    splits: tuple[str, ...] = ()
    sha256: str | None = None
    folder: int = 0  # number of its photo folder: `deixis.annotate.project.Project.image_folder`

    def mention_at(self, mention_id: str, types: tuple[str, ...] = ()) -> CaptionMention:
        """Build the mention at a location, whether or not it is one of `mentions`."""
        caption, start, end = parse_mention_id(mention_id)
        if caption >= len(self.captions) or not start < end <= len(self.captions[caption]):
            raise DeixisError(f"photo {self.photo}: no caption has a mention at {mention_id}")
        return _make_mention(self.captions[caption], caption, start, end, types)

    def text_of(self, mention_id: str) -> str:
        """Return the words of a mention; "the photo" for the empty id of a question about all of it."""
        return self.mention_at(mention_id).text if mention_id else "the photo"

    def as_json(self) -> dict[str, Any]:
        """Return JSON values, with mentions as pairs of id and types."""
        plain = {name: getattr(self, name) for name in ("photo", "captions", "width", "height", "file", "sha256")}
        mentions = [[mention.id, list(mention.types)] for mention in self.mentions]
        plain |= {"folder": self.folder} if self.folder else {}
        return plain | {"splits": list(self.splits), "captions": list(self.captions), "mentions": mentions}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Material:
        captions, splits = tuple(plain["captions"]), tuple(plain["splits"])
        size = (plain["width"], plain["height"])
        bare = cls(plain["photo"], captions, (), *size, plain["file"], splits, plain["sha256"], plain.get("folder", 0))
        return replace(bare, mentions=tuple(bare.mention_at(name, tuple(types)) for name, types in plain["mentions"]))


def parse_mention_id(mention_id: str) -> tuple[int, int, int]:
    """Split a mention id into caption, start and end."""
    caption, _, span = mention_id.partition(":")
    start, _, end = span.partition("-")
    try:
        if not mention_id.isascii():  # int() accepts the digits of all scripts
            raise ValueError(mention_id)
        location = int(caption), int(start), int(end)
    except ValueError:
        raise DeixisError(f"{mention_id!r} is not a mention; use CAPTION:START-END, such as 0:2-7") from None
    if min(location) < 0:
        raise DeixisError(f"{mention_id!r} is not a mention; captions and characters count from 0")
    return location


def chains_by_mention(photo: Photo, material: Material) -> dict[str, str]:
    """Map the mentions of a photo that its material has to their annotated chains."""
    present = {mention.id for mention in material.mentions}
    return {
        name: mention.chain
        for number, caption in enumerate(photo.sentences)
        for mention in caption.mentions
        if mention.chain is not None and (name := f"{number}:{mention.start}-{mention.end}") in present
    }


def prepare_photo(photo: Photo, *, keep_mentions: bool = True, folder: int = 0) -> Material:
    """Prepare a photo, with the mentions of its captions if `keep_mentions`, or else with the phrases found in them."""
    if photo.width is None or photo.height is None:
        raise DeixisError(f"photo {photo.id}: unknown size, so no box can be drawn; import the data with --images")
    for number, caption in enumerate(photo.sentences):
        if len(caption.text) > MAX_CAPTION_LENGTH:
            raise DeixisError(
                f"photo {photo.id}: caption {number} has {len(caption.text):,} characters; "
                f"the maximum is {MAX_CAPTION_LENGTH:,}"
            )
    mentions = [
        _make_mention(caption.text, number, *location)
        for number, caption in enumerate(photo.sentences)
        for location in _locate_mentions(caption, keep_mentions)
    ]
    return Material(
        photo.id,
        tuple(caption.text for caption in photo.sentences),
        tuple(mentions),
        photo.width,
        photo.height,
        photo.file,
        photo.splits,
        photo.sha256,
        folder,
    )


def _locate_mentions(caption: Caption, keep_mentions: bool) -> Iterable[tuple[int, int, tuple[str, ...]]]:
    if keep_mentions and caption.mentions:
        visual = [mention for mention in caption.mentions if mention.chain is not None]
        return [(mention.start, mention.end, mention.types) for mention in visual]
    return [(*phrase.span, phrase.types) for phrase in Sentence.from_caption(caption).phrases]


def _make_mention(text: str, caption: int, start: int, end: int, types: tuple[str, ...]) -> CaptionMention:
    words = [token.text.lower() for token in Sentence(text[start:end]).tokens]
    if not types:
        from deixis.language.entity_types import EntityTypes

        types = EntityTypes.shipped().types_of(words) or ("other",)
    head = words[-1] if words else text[start:end]
    return CaptionMention(f"{caption}:{start}-{end}", caption, start, end, types, text[start:end], head)
