"""Records of a data set: photos, captions, mentions, chains and boxes.

A *mention* is a span of a caption that refers to something in the photo. Mentions of the same entity, in all captions
of a photo, form a coreference *chain*. A *box* is the location of the entity of one or more chains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deixis import geometry
from deixis.tokens import Token, tokenize

ENTITY_TYPES = ("people", "clothing", "bodyparts", "animals", "vehicles", "instruments", "scene", "other")
"""The eight entity types of Flickr30k Entities, in the order of the paper's tables."""

NOT_VISUAL = "notvisual"
"""Entity type of mentions that no picture can show (chain 0 of Flickr30k Entities)."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A span of a caption that refers to an entity.

    Attributes
    ----------
    start, end
        Offsets in Unicode code points in the caption's text, end exclusive.
    chain
        Id of the chain, or None for a mention that is not visual (chain 0 of Entities).
    types
        Entity types. Flickr30k Entities has one or more of `ENTITY_TYPES`; other data may have others or none.

    Examples
    --------
    >>> Mention(0, 5, "1", ("animals",))
    Mention(start=0, end=5, chain='1', types=('animals',))
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
        The sentence, and its tokens with their offsets.
    mentions
        In the order of the text, without overlaps.
    related
        False if the data set marks the sentence as being about another photo.
    tree
        Constituency tree in brackets, if the data set has one.
    region_phrase
        True for a phrase that describes one region instead of the photo. Its only mention is the whole text.

    Examples
    --------
    >>> Caption.from_text("A dog runs.").tokens[1]
    Token(text='dog', start=2, end=5)
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
        """Tokenize `text` and return a caption.

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
        """Return the text of a mention."""
        return self.text[mention.start : mention.end]


@dataclass(frozen=True, slots=True)
class Chain:
    """Coreference chain: one entity, or one group of entities, that captions mention.

    Attributes
    ----------
    id
        Unique within its photo.
    scene, no_box
        Why a chain has no box: it is the scene as a whole; no box can be drawn.
    annotated
        False if captions mention the chain but the annotation file does not.

    Examples
    --------
    >>> Chain("7", scene=True)
    Chain(id='7', scene=True, no_box=False, annotated=True)
    """

    id: str
    scene: bool = False
    no_box: bool = False
    annotated: bool = True


def with_mentioned(chains: Iterable[Chain], captions: Iterable[Caption]) -> tuple[Chain, ...]:
    """Return chains, and those that only mentions refer to."""
    found = {chain.id: chain for chain in chains}
    for caption in captions:
        for mention in caption.mentions:
            if mention.chain is not None:
                found.setdefault(mention.chain, Chain(mention.chain, annotated=False))
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Box:
    """Bounding box of the entities of some chains.

    Attributes
    ----------
    xyxy
        ``x1, y1, x2, y2`` in pixels of the photo, 0-based, end exclusive.
    chains
        Ids of the chains that the box shows.
    label
        Category of the data set ("dog" in COCO), if it has one.

    Examples
    --------
    >>> Box((0, 0, 40, 30), ("7",)).chains
    ('7',)
    """

    xyxy: geometry.XYXY
    chains: tuple[str, ...] = ()
    label: str | None = None


@dataclass(frozen=True, slots=True)
class AnnotationSource:
    """File name and size of a photo in the annotation files, which may describe another copy of it."""

    id: str
    file: str
    width: int | None = None
    height: int | None = None
    depth: int | None = None


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo with its captions, chains and boxes.

    Attributes
    ----------
    id
        Unique within the data set: the stem of the file name.
    captions, chains, boxes
        Annotations. Boxes are in pixels of a `width` × `height` photo.
    width, height
        Size after EXIF rotation; None if unknown.
    file
        Path below the photo folder of the data set; None if there is no photo folder.
    splits
        Names of the splits that contain the photo.
    annotated
        File name and size in the annotation files.
    sha256
        Hash of the photo file.

    Examples
    --------
    >>> photo = Photo("1", (Caption.from_text("A dog runs."),), splits=("train",))
    >>> photo.sentences[0].text
    'A dog runs.'
    """

    id: str
    captions: tuple[Caption, ...] = ()
    chains: tuple[Chain, ...] = ()
    boxes: tuple[Box, ...] = ()
    width: int | None = None
    height: int | None = None
    file: str | None = None
    splits: tuple[str, ...] = ()
    annotated: AnnotationSource | None = None
    sha256: str | None = None

    @property
    def sentences(self) -> tuple[Caption, ...]:
        """Captions that describe this photo: without region phrases and captions about other photos."""
        return tuple(caption for caption in self.captions if caption.related and not caption.region_phrase)

    def boxes_of(self, chain: str) -> tuple[Box, ...]:
        """Return the boxes of a chain.

        Examples
        --------
        >>> photo = Photo("1", boxes=(Box((0, 0, 5, 5), ("7",)), Box((1, 1, 2, 2), ("8",))))
        >>> photo.boxes_of("7")
        (Box(xyxy=(0, 0, 5, 5), chains=('7',), label=None),)
        """
        return tuple(box for box in self.boxes if chain in box.chains)

    def union_boxes(self) -> dict[str, geometry.XYXY]:
        """Return the smallest box around all boxes of each chain that has boxes.

        Examples
        --------
        >>> Photo("1", boxes=(Box((0, 0, 5, 5), ("7",)), Box((1, 2, 9, 4), ("7",)))).union_boxes()
        {'7': (0, 0, 9, 5)}
        """
        found: dict[str, geometry.XYXY] = {}
        for box in self.boxes:
            for chain in box.chains:
                a, b = found.get(chain, box.xyxy), box.xyxy
                found[chain] = (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))
        return found

    def resized(self, width: int, height: int) -> Photo:
        """Return the photo at another size, with rescaled boxes.

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
        """Return the photo at the size at which it was annotated."""
        if self.annotated is None or self.annotated.width is None or self.annotated.height is None:
            return self
        return self.resized(self.annotated.width, self.annotated.height)
