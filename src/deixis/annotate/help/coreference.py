"""Which mentions of a photo's captions name the same thing: a small network that looks at two at a time, and groups.

A mention becomes a vector: its words and those around it, by vectors learned with the rest, its types, its number and
its place. Two mentions are compared by the product and the difference of their vectors and by what they have in common.
It sees no photo. Two mentions of one caption, or with no type in common, are never said to be the same, as people are
never asked about them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from deixis.annotate.help.mention_facts import (
    ABOUT_TWO,
    Floats,
    MentionFacts,
    about_each,
    about_two,
    facts_of,
    word_places,
)
from deixis.annotate.material import Material
from deixis.language.saved import Saved
from deixis.models.saved import StoredModel

SHIPPED = Path(__file__).parent / "shipped" / "coreference"

Pair = tuple[int, int]

UNKNOWN = 1
"""The row of the vectors for words that are not in the vocabulary; row 0 is no word."""

_WEIGHTS = ("vectors", "mention_w", "mention_b", "pair_w", "pair_b", "last_w", "last_b")


class Coreference(StoredModel):
    """A learned coreference model.

    Parameters
    ----------
    words
        The vocabulary; their vectors begin in row 2.
    weights
        By name: `vectors` (words + 2, d), and the two layers and the last row.
    join_from
        How likely, on average, two groups must name the same before they are made one.

    Examples
    --------
    >>> from deixis.annotate.material import material_of
    >>> from deixis.data.records import Caption, Photo
    >>> said = ("A man throws a ball.", "A guy with a ball.")
    >>> material = material_of(Photo("1", tuple(map(Caption.from_text, said)), width=4, height=3))
    >>> [[material.mentions[place].text for place in chain] for chain in Coreference.shipped().chains(material)]
    [['A man', 'A guy'], ['a ball', 'a ball']]
    """

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
        self._place_of = {word: place for place, word in enumerate(self.words, start=2)}

    @classmethod
    def shipped(cls) -> Coreference:
        """The model that comes with the package, loaded once."""
        return _shipped()

    @property
    def fingerprint(self) -> str:
        """Tells it from a model that was trained otherwise."""
        parts = [" ".join(self.words).encode()]
        parts += [np.ascontiguousarray(self.weights[name], np.float16).tobytes() for name in _WEIGHTS]
        return hashlib.sha256(b"".join(parts)).hexdigest()[:12]

    def probabilities(self, material: Material) -> dict[Pair, float]:
        """How likely two mentions are the same, for all that people could be asked about, by their places."""
        facts = facts_of(material)
        pairs = possible_pairs(facts)
        if not pairs:
            return {}
        logits = self._logits(facts, pairs)
        return dict(zip(pairs, (1 / (1 + np.exp(-logits))).tolist(), strict=True))

    def chains(self, material: Material) -> list[list[int]]:
        """The mentions in groups that name the same, by their places; in the order of the first of each."""
        return grouped(len(material.mentions), self.probabilities(material), self.join_from)

    def _logits(self, facts: Sequence[MentionFacts], pairs: Sequence[Pair]) -> Floats:
        weights = self.weights
        vectors = self._represented(facts)
        one, other = (vectors[[pair[side] for pair in pairs]] for side in (0, 1))
        common = np.array([about_two(facts[a], facts[b]) for a, b in pairs], np.float32).reshape(-1, ABOUT_TWO)
        both = np.concatenate([one * other, np.abs(one - other), common], axis=1)
        hidden = np.maximum(both @ weights["pair_w"] + weights["pair_b"], 0)
        return np.asarray(hidden @ weights["last_w"] + weights["last_b"][0])

    def _represented(self, facts: Sequence[MentionFacts]) -> Floats:
        """A vector for each mention."""
        vectors = self.weights["vectors"]
        heads, *around = word_places(facts, self._place_of, UNKNOWN)
        parts = [vectors[heads], *(_mean_vectors(vectors, places) for places in around), about_each(facts)]
        joined = np.concatenate(parts, axis=1)
        return np.asarray(np.maximum(joined @ self.weights["mention_w"] + self.weights["mention_b"], 0))

    def saved(self) -> Saved:
        """What `save` writes."""
        settings = {"join_from": self.join_from, "words": " ".join(self.words)}
        return Saved(self.KIND, settings, dict(self.weights))

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        settings: dict[str, Any] = dict(saved.settings)
        words = str(settings.pop("words")).split(" ")
        if saved.arrays["vectors"].shape[0] != len(words) + 2:
            raise ValueError(f"{len(words)} words, but {saved.arrays['vectors'].shape[0]} vectors")
        return cls(words, saved.arrays, **settings)


@cache
def _shipped() -> Coreference:
    return Coreference.load(SHIPPED)


def _mean_vectors(vectors: Floats, places: NDArray[np.int64]) -> Floats:
    """The mean of the vectors of each row; row 0 of the vectors is no word and is not counted."""
    there = (places > 0).astype(np.float32)[..., None]
    return np.asarray((vectors[places] * there).sum(axis=1) / np.maximum(there.sum(axis=1), 1))


def possible_pairs(facts: Sequence[MentionFacts]) -> list[Pair]:
    """The pairs that people could be asked about: of two captions, with a type in common."""
    return [
        (a, b)
        for a, b in combinations(range(len(facts)), 2)
        if facts[a].caption != facts[b].caption and set(facts[a].types) & set(facts[b].types)
    ]


def grouped(count: int, likely: Mapping[Pair, float], join_from: float) -> list[list[int]]:
    """Make groups one, the likeliest first, until no two are likely enough; a pair that is not listed keeps them apart.

    How likely two groups name the same is the mean over their pairs of the logarithm of the odds.

    Examples
    --------
    >>> grouped(3, {(0, 1): 0.9, (0, 2): 0.8, (1, 2): 0.6}, 0.5)
    [[0, 1, 2]]
    >>> grouped(3, {(0, 1): 0.9, (0, 2): 0.8}, 0.5)  # 1 and 2 are of one caption, say
    [[0, 1], [2]]
    """
    never = -np.inf
    odds = np.full((count, count), never)
    for (a, b), probability in likely.items():
        odds[a, b] = odds[b, a] = log_odds(probability)
    groups = [[place] for place in range(count)]
    bar = log_odds(join_from)
    while len(groups) > 1:
        means = [(odds[np.ix_(groups[a], groups[b])].mean(), a, b) for a, b in combinations(range(len(groups)), 2)]
        best, first, second = max(means, key=lambda each: each[0])
        if best < bar:
            break
        groups[first] = sorted(groups[first] + groups.pop(second))
    return sorted(groups)


def log_odds(probability: float) -> float:
    """The logarithm of the odds, finite also for 0 and 1.

    Examples
    --------
    >>> log_odds(0.5), round(log_odds(0.9), 2)
    (0.0, 2.2)
    """
    kept = min(max(probability, 1e-6), 1 - 1e-6)
    return float(np.log(kept / (1 - kept)))
