"""The relations in the captions of photos, for phrases that are augmented by them (E10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from deixis.data.records import Caption, Mention, Photo
from deixis.language.relations import Relation
from deixis.language.sentence import Sentence, parse_together

_PHOTOS_AT_ONCE = 200


class Relations:
    """The relations in captions, whose sentences are parsed many at a time: that is several times faster.

    Examples
    --------
    >>> related = Relations()
    >>> [photo] = related.parsed([Photo("7", (Caption.from_text("A dog chases a ball."),))])
    >>> related(photo.captions[0], ())
    []
    """

    def __init__(self) -> None:
        self._sentences: dict[int, Sentence] = {}

    def parsed(self, photos: Iterable[Photo]) -> Iterator[Photo]:
        """Pass photos on; the relations of each can be asked for until the next is taken."""
        rest = iter(photos)
        while some := list(islice(rest, _PHOTOS_AT_ONCE)):
            captions = [caption for photo in some for caption in photo.captions if caption.mentions]
            self._sentences = {id(caption): Sentence.of_caption(caption) for caption in captions}
            parse_together(self._sentences.values())
            yield from some

    def __call__(self, caption: Caption, mentions: Sequence[Mention]) -> list[Relation]:
        """The relations between these mentions of a caption."""
        sentence = self._sentences.get(id(caption))
        return sentence.relations(mentions) if sentence else []
