"""Coreference between the mentions of a photo's captions: a small pairwise network.

A mention becomes a vector: the learned embeddings of its words and their context, its types, its number and its
position. A pair is scored from the product and the difference of its vectors and from common properties. The model does
not see the photo. Like the link task, it never joins two mentions of one caption or mentions without a common type.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from deixis.annotate.material import Material
from deixis.arrays import Floats, IntArray, logistic
from deixis.data.records import ENTITY_TYPES
from deixis.language.entity_types import COLOURS
from deixis.language.words import singular
from deixis.storage.artifacts import Artifact, Storable
from deixis.tokens import tokenize

SHIPPED = Path(__file__).parent / "shipped" / "coreference"

Pair = tuple[int, int]

INSIDE, BEFORE, AFTER = 6, 2, 3
"""Maximum numbers of words inside, before and after a mention."""

_ARTICLES = frozenset({"a", "an", "the", "his", "her", "their", "its", "some"})
_AMOUNTS = {
    **dict.fromkeys(("a", "an", "one", "another", "single", "this", "lone"), 1),
    **dict.fromkeys(("two", "2", "pair", "couple", "both"), 2),
    **dict.fromkeys(("three", "3", "trio"), 3),
    **dict.fromkeys(("four", "4", "five", "5", "six", "6", "seven", "eight", "nine", "ten"), 4),
    **dict.fromkeys(("several", "many", "group", "crowd", "some", "few", "bunch", "team", "various", "multiple"), 4),
}
_MAX_RANK = 3

MENTION_FEATURES = len(ENTITY_TYPES) + 11
PAIR_FEATURES = 17

UNKNOWN = 1
"""Row of the embeddings for unknown words; row 0 is padding."""

_WEIGHTS = ("vectors", "mention_w", "mention_b", "pair_w", "pair_b", "last_w", "last_b")


@dataclass(frozen=True, slots=True)
class MentionFeatures:
    """Features of a mention; all words are in lower case."""

    caption: int
    head: str  # its last word
    inside: tuple[str, ...]  # its other words
    before: tuple[str, ...]
    after: tuple[str, ...]
    types: tuple[str, ...]
    lemma: str  # the singular of the head
    plural: bool
    amount: int  # how many things it names: 1, 2, 3, 4 for more, 0 if unknown
    position: float  # its start in the caption, from 0 to 1
    order: int  # its rank among the mentions of its first type in the caption, from 0
    same_type: int  # the number of those mentions

    @property
    def modifiers(self) -> frozenset[str]:
        return frozenset(self.inside) - _ARTICLES

    @property
    def colours(self) -> frozenset[str]:
        return frozenset((*self.inside, self.head)) & COLOURS


def mention_features(material: Material) -> list[MentionFeatures]:
    """Compute the features of the mentions of a photo, in their order."""
    captions = [
        [(token.text.lower(), token.start, token.end) for token in tokenize(text)] for text in material.captions
    ]
    typed = [(mention.caption, mention.types[0] if mention.types else "") for mention in material.mentions]
    totals = Counter(typed)
    seen: Counter[tuple[int, str]] = Counter()
    found = []
    for mention, key in zip(material.mentions, typed, strict=True):
        words = captions[mention.caption]
        covered = [index for index, (_, start, end) in enumerate(words) if start < mention.end and mention.start < end]
        first, last = (covered[0], covered[-1]) if covered else (0, 0)
        texts = [text for text, _, _ in words] or [mention.head]
        inside = tuple(texts[first:last])
        lemma = singular(texts[last])
        plural = lemma != texts[last]
        stated = next((_AMOUNTS[word] for word in inside if word in _AMOUNTS), 0)
        found.append(
            MentionFeatures(
                mention.caption,
                texts[last],
                inside,
                tuple(texts[max(first - BEFORE, 0) : first]),
                tuple(texts[last + 1 : last + 1 + AFTER]),
                mention.types,
                lemma,
                plural,
                4 if plural and stated in (0, 1) else stated,
                first / max(len(texts), 1),
                seen[key],
                totals[key],
            )
        )
        seen[key] += 1
    return found


def mention_vectors(mentions: Sequence[MentionFeatures]) -> Floats:
    """Return the features of mentions other than their words: (mentions, `MENTION_FEATURES`)."""
    table = np.zeros((len(mentions), MENTION_FEATURES), np.float32)
    for row, each in zip(table, mentions, strict=True):
        for name in each.types:
            if name in ENTITY_TYPES:
                row[ENTITY_TYPES.index(name)] = 1
        rest = row[len(ENTITY_TYPES) :]
        rest[0] = each.plural
        rest[1 + each.amount] = 1
        rest[6] = each.position
        rest[7 + min(each.order, _MAX_RANK - 1)] = 1
        rest[10] = each.same_type == 1
    return table


def pair_features(one: MentionFeatures, other: MentionFeatures) -> list[float]:
    """Return the symmetric features of a pair: `PAIR_FEATURES` numbers."""
    shared, either = one.modifiers & other.modifiers, one.modifiers | other.modifiers
    around = ({*one.before, *one.after} & {*other.before, *other.after}) - _ARTICLES
    return [
        one.head == other.head,
        one.lemma == other.lemma,
        one.head == other.head and one.modifiers == other.modifiers,
        len(shared) / len(either) if either else 0.5,
        bool(one.colours & other.colours),
        bool(one.colours and other.colours and not one.colours & other.colours),
        one.amount == other.amount,
        bool(one.amount and other.amount and one.amount != other.amount),
        one.plural == other.plural,
        abs(one.position - other.position),
        one.order == other.order,
        one.same_type == 1 and other.same_type == 1,
        one.same_type != other.same_type,
        set(one.types) == set(other.types),
        one.head in other.inside or other.head in one.inside,
        len(around) / (BEFORE + AFTER),
        one.lemma.endswith(other.lemma) or other.lemma.endswith(one.lemma),
    ]


def word_ids(mentions: Sequence[MentionFeatures], vocabulary: dict[str, int], unknown: int) -> tuple[IntArray, ...]:
    """Return the word ids of the heads (n,) and of the words inside, before and after (n, maximum), padded with 0."""

    def rows(words: Sequence[tuple[str, ...]], maximum: int) -> IntArray:
        table = np.zeros((len(words), maximum), np.int64)
        for row, found in zip(table, words, strict=True):
            last = found[-maximum:]
            row[: len(last)] = [vocabulary.get(word, unknown) for word in last]
        return table

    heads = np.array([vocabulary.get(each.head, unknown) for each in mentions], np.int64)
    return (
        heads,
        rows([each.inside for each in mentions], INSIDE),
        rows([each.before for each in mentions], BEFORE),
        rows([each.after for each in mentions], AFTER),
    )


class Coreference(Storable):
    """A trained coreference model; groups are joined from the mean probability `join_from` on, where they are made."""

    KIND: ClassVar[str] = "coreference"

    def __init__(
        self,
        words: Sequence[str],
        weights: Mapping[str, NDArray[np.float32]],
        *,
        join_from: float = 0.5,
    ) -> None:
        self.words = tuple(words)
        self.weights = {name: np.asarray(weights[name], np.float32) for name in _WEIGHTS}
        self.join_from = join_from
        self._vocabulary = {word: number for number, word in enumerate(self.words, start=2)}

    @classmethod
    @cache
    def shipped(cls) -> Coreference:
        """The model of the package, loaded once."""
        return Coreference.load(SHIPPED)

    @property
    def fingerprint(self) -> str:
        """A hash of the weights."""
        parts = [" ".join(self.words).encode()]
        parts += [np.ascontiguousarray(self.weights[name], np.float16).tobytes() for name in _WEIGHTS]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:12]

    def probabilities(self, material: Material) -> dict[Pair, float]:
        """Return the probabilities that two mentions name the same, by their indices, for all possible pairs."""
        features = mention_features(material)
        pairs = possible_pairs(features)
        if not pairs:
            return {}
        logits = self._logits(features, pairs)
        return dict(zip(pairs, logistic(logits).tolist(), strict=True))

    def _logits(self, features: Sequence[MentionFeatures], pairs: Sequence[Pair]) -> Floats:
        weights = self.weights
        vectors = self._mention_states(features)
        one, other = (vectors[[pair[side] for pair in pairs]] for side in (0, 1))
        common = np.array([pair_features(features[a], features[b]) for a, b in pairs], np.float32).reshape(
            -1, PAIR_FEATURES
        )
        both = np.concatenate([one * other, np.abs(one - other), common], axis=1)
        hidden = np.maximum(both @ weights["pair_w"] + weights["pair_b"], 0)
        return np.asarray(hidden @ weights["last_w"] + weights["last_b"][0])

    def _mention_states(self, features: Sequence[MentionFeatures]) -> Floats:
        vectors = self.weights["vectors"]
        heads, *around = word_ids(features, self._vocabulary, UNKNOWN)
        parts = [vectors[heads], *(_mean_vectors(vectors, ids) for ids in around), mention_vectors(features)]
        joined = np.concatenate(parts, axis=1)
        return np.asarray(np.maximum(joined @ self.weights["mention_w"] + self.weights["mention_b"], 0))

    def to_artifact(self) -> Artifact:
        settings = {"join_from": self.join_from, "words": " ".join(self.words)}
        return Artifact(self.KIND, settings, dict(self.weights))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings: dict[str, Any] = dict(artifact.settings)
        words = str(settings.pop("words")).split(" ")
        if artifact.arrays["vectors"].shape[0] != len(words) + 2:
            raise ValueError(f"{len(words)} words, but {artifact.arrays['vectors'].shape[0]} vectors")
        return cls(words, artifact.arrays, **settings)


def _mean_vectors(vectors: Floats, ids: IntArray) -> Floats:
    """Return the mean embedding of each row without padding."""
    is_word = (ids > 0).astype(np.float32)[..., None]
    return np.asarray((vectors[ids] * is_word).sum(axis=1) / np.maximum(is_word.sum(axis=1), 1))


def possible_pairs(features: Sequence[MentionFeatures]) -> list[Pair]:
    """List the pairs of mentions of different captions with a common type."""
    return [
        (a, b)
        for a, b in combinations(range(len(features)), 2)
        if features[a].caption != features[b].caption and set(features[a].types) & set(features[b].types)
    ]
