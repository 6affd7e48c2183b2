"""Regions and phrases made by hypothesis or by hand, for the tests of samplers and of pairs."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from deixis.data.pairs import RegionPhrasePairs
from deixis.data.records import Box, Caption, Chain, Mention, Photo

WORDS = ("a dog", "A  dog", "the dog", "a man", "two men", "a red hat", "snow")


def photo_of(number: int, mentions: list[list[tuple[str, str]]], boxes: dict[str, list[tuple[float, ...]]]) -> Photo:
    """A photo whose captions are lists of phrases, each with its chain."""
    captions = []
    for phrases in mentions:
        text, spans = "", []
        for words, chain in phrases:
            spans.append(Mention(len(text), len(text) + len(words), chain))
            text += words + " , "
        captions.append(Caption.from_text(text, tuple(spans)))
    every = tuple(Box(box, (chain,)) for chain, some in boxes.items() for box in some)  # type: ignore[arg-type]
    chains = {chain for phrases in mentions for _, chain in phrases} | set(boxes)
    return Photo(str(number), tuple(captions), tuple(map(Chain, sorted(chains))), every)


@st.composite
def boxes(draw: st.DrawFn) -> tuple[float, float, float, float]:
    """Few places, so that boxes overlap in every way."""
    x, y = draw(st.integers(0, 6)), draw(st.integers(0, 6))
    return float(x), float(y), float(x + draw(st.integers(1, 6))), float(y + draw(st.integers(1, 6)))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Photo], dict[str, np.ndarray]]:
    """Photos with at least one pair in all, and proposals for each."""
    photos, proposals = [], {}
    phrase = st.tuples(st.sampled_from(WORDS), st.sampled_from("123"))
    for number in range(draw(st.integers(1, 4))):
        mentions = draw(st.lists(st.lists(phrase, min_size=1, max_size=3), min_size=1, max_size=4))
        shown = {chain: draw(st.lists(boxes(), min_size=chain == "1", max_size=2)) for chain in "123"}
        photos.append(photo_of(number, [[("it", "1")], *mentions], shown))
        proposals[str(number)] = np.array(draw(st.lists(boxes(), max_size=8)), dtype=float).reshape(-1, 4)
    return photos, proposals


def made(world: tuple[list[Photo], dict[str, np.ndarray]]) -> RegionPhrasePairs:
    photos, proposals = world
    return RegionPhrasePairs.from_photos(photos, lambda photo_id: proposals[photo_id])


def random_pairs(photos: int = 12, proposals: int = 40, seed: int = 0) -> RegionPhrasePairs:
    """A larger set, the same each time."""
    rng = np.random.default_rng(seed)

    def some_boxes(count: int) -> np.ndarray:
        corner, size = rng.uniform(0, 60, (count, 2)), rng.uniform(5, 60, (count, 2))
        return np.hstack([corner, corner + size])

    records, proposed = [], {}
    for number in range(photos):
        gold = some_boxes(3)
        mentions = [[(str(rng.choice(WORDS)), chain) for chain in "123"] for _ in range(5)]
        records.append(photo_of(number, mentions, {c: [tuple(b)] for c, b in zip("123", gold.tolist(), strict=True)}))
        near = gold[rng.integers(3, size=proposals // 4)] + rng.normal(0, 1, (proposals // 4, 4))
        proposed[str(number)] = np.vstack([near, some_boxes(proposals - len(near))])
    return RegionPhrasePairs.from_photos(records, lambda photo_id: proposed[photo_id])
