"""The records that every room speaks: a photo, its captions, their mentions, the chains and boxes.

A *mention* is a span of a caption that names something; mentions of the same thing, over all captions
of a photo, form a *chain*; a *box* shows where the thing of one or more chains is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deixis import geometry
from deixis.tokens import Token, tokenize

ENTITY_TYPES = ("people", "clothing", "bodyparts", "animals", "vehicles", "instruments", "scene", "other")
"""The eight types of Flickr30k Entities, in the order of the paper's tables."""

NOT_VISUAL = "notvisual"
"""The type that Entities gives to mentions of chain 0: words that no picture can show."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of a caption that names a thing.

    Attributes
    ----------
    start, end
        Offsets in Unicode code points in the caption's text, end exclusive.
    chain
        The id of the chain, or None for a mention that is not visual (chain 0 of Entities).
    types
        One or more of `ENTITY_TYPES`, as the data has them; other data may have others or none.
    """

    start: int
    end: int
    chain: str | None
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Caption:
    """A sentence about a photo.

    Attributes
    ----------
    text, tokens
        The sentence as given, and its tokens with their places in it.
    mentions
        In the order of the text, not overlapping.
    related
        False where the data says that the sentence is about another photo.
    tree
        Its constituency tree in brackets, where the data has one.
    region_phrase
        True for a phrase that describes one region (its only mention is the whole text) and was never
        meant as a sentence about the photo.
    """

    text: str
    tokens: tuple[Token, ...]
    mentions: tuple[Mention, ...] = ()
    related: bool = True
    tree: str | None = None
    region_phrase: bool = False

    @classmethod
    def from_text(
        cls,
        text: str,
        mentions: tuple[Mention, ...] = (),
        *,
        related: bool = True,
        tree: str | None = None,
        region_phrase: bool = False,
    ) -> Caption:
        """Tokenise `text` and make a caption of it.

        Examples
        --------
        >>> caption = Caption.from_text("A dog runs.", (Mention(0, 5, "1", ("animals",)),))
        >>> [token.text for token in caption.tokens]
        ['A', 'dog', 'runs', '.']
        >>> caption.phrase(caption.mentions[0])
        'A dog'
        """
        return cls(text, tuple(tokenize(text)), mentions, related, tree, region_phrase)

    def phrase(self, mention: Mention) -> str:
        """The words of a mention."""
        return self.text[mention.start : mention.end]


@dataclass(frozen=True, slots=True)
class Chain:
    """One thing, or one group of things, that captions mention.

    Attributes
    ----------
    id
        Unique within its photo.
    scene, no_box
        What annotators said of a chain without boxes: it is the scene or a place; no box can be drawn.
    annotated
        False where captions mention the chain but the annotation file says nothing about it.
    """

    id: str
    scene: bool = False
    no_box: bool = False
    annotated: bool = True


@dataclass(frozen=True, slots=True)
class Box:
    """Where the things of some chains are, in pixels of the photo: 0-based, end exclusive.

    `label` is a category of the data set's own (COCO's "dog"), where it has one.
    """

    xyxy: tuple[float, float, float, float]
    chains: tuple[str, ...] = ()
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Annotated:
    """What a photo was called, and how large it was, when it was annotated."""

    id: str
    file: str
    width: int | None = None
    height: int | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo and all that was said of it.

    Attributes
    ----------
    id
        Unique within its data set: the stem of the photo's file name.
    captions, chains, boxes
        Boxes are in pixels of a `width` × `height` photo.
    width, height
        The photo as opened, after EXIF rotation; None where there is neither a photo nor a stated size.
    file
        Its path below the data set's folder of photos; None where the data set has text and boxes only.
    splits
        The splits that list it.
    annotated
        Name and size in the annotation files, which may be those of another copy of the photo.
    sha256
        Of the photo's file.
    """

    id: str
    captions: tuple[Caption, ...] = ()
    chains: tuple[Chain, ...] = ()
    boxes: tuple[Box, ...] = ()
    width: int | None = None
    height: int | None = None
    file: str | None = None
    splits: tuple[str, ...] = ()
    annotated: Annotated | None = None
    sha256: str | None = None

    @property
    def sentences(self) -> tuple[Caption, ...]:
        """The captions that are sentences about this photo: no phrases for regions, none about another photo."""
        return tuple(caption for caption in self.captions if caption.related and not caption.region_phrase)

    def boxes_of(self, chain: str) -> tuple[Box, ...]:
        """The boxes that show a chain.

        Examples
        --------
        >>> photo = Photo("1", boxes=(Box((0, 0, 5, 5), ("7",)), Box((1, 1, 2, 2), ("8",))))
        >>> photo.boxes_of("7")
        (Box(xyxy=(0, 0, 5, 5), chains=('7',), label=None),)
        """
        return tuple(box for box in self.boxes if chain in box.chains)

    def resized(self, width: int, height: int) -> Photo:
        """The same photo at another size, its boxes carried along.

        Examples
        --------
        >>> photo = Photo("1", width=100, height=100, boxes=(Box((0, 0, 50, 50)),))
        >>> photo.resized(200, 50).boxes[0].xyxy
        (0.0, 0.0, 100.0, 25.0)
        """
        if self.width is None or self.height is None or (self.width, self.height) == (width, height):
            return replace(self, width=width, height=height)
        size = (self.width, self.height)
        boxes = tuple(
            replace(box, xyxy=tuple(geometry.rescale(box.xyxy, size, (width, height)).tolist())) for box in self.boxes
        )
        return replace(self, width=width, height=height, boxes=boxes)

    def as_annotated(self) -> Photo:
        """The photo at the size it was annotated at, for formats that keep that size."""
        if self.annotated is None or self.annotated.width is None or self.annotated.height is None:
            return self
        return self.resized(self.annotated.width, self.annotated.height)
