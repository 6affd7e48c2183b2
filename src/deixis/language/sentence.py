"""`Sentence`: an English sentence that is tokenized, tagged, chunked and parsed on demand, each at most once.

A `Phrase` is a span of a sentence; `Sentence.whole` is the phrase that spans all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from deixis.data.records import Caption, Mention
from deixis.errors import DeixisError
from deixis.language.entity_types import EntityTypes
from deixis.language.tagger import Chunker, Span, tag
from deixis.tokens import Token, tokenize, words

if TYPE_CHECKING:  # trees are needed less often than phrases
    from deixis.language.relations import Relation
    from deixis.language.trees import Tree


class Sentence:
    """An English sentence with its tokens, tags, noun phrases and constituency tree.

    Parameters
    ----------
    text : str
        The text of the sentence. Offsets are in Unicode code points.
    tokens : sequence of Token, optional
        The tokens if known; otherwise the text is tokenized.
    tree : str, optional
        The bracketed constituency tree if known; otherwise the text is parsed.

    Examples
    --------
    >>> sentence = Sentence("A man in an orange hat pets his dog.")
    >>> [(phrase.text, phrase.span, *phrase.types) for phrase in sentence.phrases]
    [('A man', (0, 5), 'people'), ('an orange hat', (9, 22), 'clothing'), ('his dog', (28, 35), 'animals')]
    >>> sentence.tags[:2], sentence.tree.label, sentence.whole.text
    (('DT', 'NN'), 'S', 'A man in an orange hat pets his dog.')
    """

    def __init__(self, text: str, tokens: Sequence[Token] | None = None, tree: str | None = None) -> None:
        self.text = text
        self._tree_text = tree
        if tokens is not None:
            self.tokens = tuple(tokens)

    @classmethod
    def from_caption(cls, caption: Caption) -> Sentence:
        """Create the sentence of a caption, with its tokens and its tree if it has one."""
        return cls(caption.text, caption.tokens, caption.tree)

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Penn Treebank tokens with their offsets in the text."""
        return tuple(tokenize(self.text))

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The lower-case tokens without punctuation, as vocabularies and text features use them."""
        return tuple(words(self.tokens))

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Part of speech of each token, by the tagger. The leaves of the tree have those of the parser."""
        return tuple(tag(self._texts))

    @cached_property
    def chunks(self) -> tuple[Span, ...]:
        """All noun phrase chunks as token spans, including pronouns and non-visual phrases."""
        return tuple(Chunker.shipped().chunks(self._texts, self.tags))

    @cached_property
    def phrases(self) -> tuple[Phrase, ...]:
        """The visual noun phrases with their types, in order."""
        types_of = EntityTypes.shipped().types_of
        typed = ((start, end, types_of(self._texts[start:end])) for start, end in self.chunks)
        return tuple(Phrase(self, start, end, types) for start, end, types in typed if types)

    @cached_property
    def nested_phrases(self) -> tuple[Phrase, ...]:
        """The visual noun phrases, and the noun phrases of the tree that begin with one and go on.

        The longer ones have the types of the phrase that they begin with. In order; a phrase comes before those inside
        it.
        """
        found = {(phrase.start, phrase.end): phrase for phrase in self.phrases}
        by_start = {phrase.start: phrase for phrase in self.phrases}
        for node in self.tree.phrases():
            first = by_start.get(node.start)
            end = node.end
            while end > node.start and not any(character.isalnum() for character in self.tokens[end - 1].text):
                end -= 1  # punctuation
            if node.label == "NP" and first is not None and end > first.end:
                found.setdefault((node.start, end), Phrase(self, node.start, end, first.types))
        return tuple(sorted(found.values(), key=lambda phrase: (phrase.start, -phrase.end)))

    @cached_property
    def tree(self) -> Tree:
        """The constituency tree: the one that was passed, or that of the parser."""
        from deixis.language.parser import parse
        from deixis.language.trees import read_tree

        if self._tree_text is None:
            return parse(self.tokens)
        return read_tree(self._tree_text, self.tokens, name=f"the tree of {self.text!r}")

    @property
    def whole(self) -> Phrase:
        """The phrase that spans all tokens."""
        return Phrase(self, 0, len(self.tokens))

    def relations(self, mentions: Sequence[Mention] | None = None) -> list[Relation]:
        """Return the relations between entities; see `deixis.language.relations.relations`."""
        from deixis.language.relations import relations

        return relations(self.tree, mentions)

    def phrase(self, start: int, end: int, types: tuple[str, ...] = ()) -> Phrase:
        """Return the phrase of all tokens that overlap the code points from `start` to `end`, at least one."""
        if not 0 <= start <= end <= len(self.text):
            raise DeixisError(f"{self.text!r}: offsets {start} to {end} are outside the sentence")
        overlapping = [i for i, token in enumerate(self.tokens) if token.start < end and start < token.end]
        if not overlapping:
            raise DeixisError(f"{self.text!r}: no token at offsets {start} to {end}")
        return Phrase(self, overlapping[0], overlapping[-1] + 1, types)

    def phrase_of(self, mention: Mention) -> Phrase:
        """Return the phrase of a mention of this sentence, with its types."""
        return self.phrase(mention.start, mention.end, mention.types)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.tokens)

    @property
    def has_tree(self) -> bool:
        """Whether the tree was passed or has already been parsed."""
        return self._tree_text is not None or "tree" in vars(self)

    def __repr__(self) -> str:
        return f"Sentence({self.text!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sentence):
            return NotImplemented
        return (self.text, self._tree_text, self.tokens) == (other.text, other._tree_text, other.tokens)

    def __hash__(self) -> int:
        return hash(self.text)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A span of a sentence.

    Examples
    --------
    >>> phrase = Sentence("Two dogs in snow.").phrases[1]
    >>> phrase.text, phrase.span, phrase.node, phrase.is_node
    ('snow', (12, 16), <Tree (NP (NN snow))>, True)
    """

    sentence: Sentence  # the sentence
    # Token span, end exclusive
    start: int
    end: int
    types: tuple[str, ...] = ()  # entity types (`deixis.data.records.ENTITY_TYPES`) if known

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens, with their offsets in the sentence."""
        return self.sentence.tokens[self.start : self.end]

    @property
    def span(self) -> tuple[int, int]:
        """Offsets in the text of the sentence in Unicode code points, end exclusive."""
        return (self.tokens[0].start, self.tokens[-1].end) if self.tokens else (0, 0)

    @property
    def text(self) -> str:
        """The text from the first to the last token."""
        start, end = self.span
        return self.sentence.text[start:end]

    @property
    def words(self) -> tuple[str, ...]:
        """The lower-case tokens without punctuation, as vocabularies and text features use them."""
        return tuple(words(self.tokens))

    @property
    def node(self) -> Tree:
        """The highest node of the tree that spans exactly its tokens.

        If there is none, `is_node` is False and this is the smallest noun phrase that covers the tokens, or the root.
        """
        return self._exact_node or self.sentence.tree.covering(self.start, self.end, "NP") or self.sentence.tree

    @property
    def is_node(self) -> bool:
        """Whether the tree has a node for exactly these tokens; a single word always has."""
        return self._exact_node is not None

    @property
    def _exact_node(self) -> Tree | None:
        return self.sentence.tree.spanning(self.start, self.end)


def parents(spans: Sequence[Span]) -> list[int | None]:
    """For each span, the index of the smallest longer one that contains it, or None."""
    found: list[int | None] = []
    for start, end in spans:
        around = [
            (other_end - other_start, index)
            for index, (other_start, other_end) in enumerate(spans)
            if other_start <= start and end <= other_end and other_end - other_start > end - start
        ]
        found.append(min(around)[1] if around else None)
    return found


def parse_sentences(sentences: Iterable[Sentence]) -> None:
    """Parse many sentences in batches, about three times as fast as one by one.

    Parameters
    ----------
    sentences : iterable of Sentence
        Sentences that already have a tree are skipped.

    Examples
    --------
    >>> sentences = [Sentence("A dog runs."), Sentence("A cat sleeps.")]
    >>> parse_sentences(sentences)
    >>> [sentence.has_tree for sentence in sentences]
    [True, True]
    """
    from deixis.language.parser import Parser

    unparsed = [sentence for sentence in sentences if not sentence.has_tree]
    trees = Parser.shipped().parse_all([sentence.tokens for sentence in unparsed])
    for sentence, tree in zip(unparsed, trees, strict=True):
        sentence.tree = tree


def find_mentions(text: str) -> tuple[Phrase, ...]:
    """Find the visual noun phrases of an English caption, the `phrases` of its `Sentence`.

    Pronouns and some non-visual phrases ("the background", "a trick") are left out.

    Parameters
    ----------
    text : str
        A caption, tokenized or not.

    Returns
    -------
    tuple of Phrase
        In order, without overlaps, each with one or more of `deixis.data.records.ENTITY_TYPES`.

    Examples
    --------
    >>> [(found.text, *found.types) for found in find_mentions("A dog, a cat and they watch a man in red.")]
    [('A dog', 'animals'), ('a cat', 'animals'), ('a man', 'people'), ('red', 'clothing')]
    """
    return Sentence(text).phrases
