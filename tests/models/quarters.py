"""A data set of photos whose four quarters have colours of their own, and of captions that name two of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Box, Caption, Chain, Mention, Photo
from deixis.vision import encoders, proposals
from deixis.vision.feature_store import FeatureOptions, update_store
from tests.models.coloured import COLOURS
from tests.vision.feature_store.small import Corners, colour_encoder

SIDE = 8
SYNONYMS = {"dog": "puppy", "refrigerator": "fridge", "sofa": "couch", "bicycle": "bike"}
"""Words to call the four colours, and for each a word that no caption has."""

QUARTERS = [(x, y, x + SIDE, y + SIDE) for x in (0, SIDE) for y in (0, SIDE)]


def use_small_encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """An encoder and a proposer that need no weights."""
    monkeypatch.setattr(encoders, "open_encoder", lambda name, device=None: colour_encoder())
    monkeypatch.setattr(proposals, "open_proposer", lambda name, encoder=None: Corners())


def caption_of(names: list[str]) -> Caption:
    """What names two quarters: the chain of a quarter is its place."""
    text = f"A {names[0]} square beside the {names[1]} one."
    second = text.index("the")
    mentions = (Mention(0, 2 + len(names[0]) + 7, "0"), Mention(second, second + 4 + len(names[1]) + 4, "1"))
    return Caption.from_text(text, mentions)


def quarter_photo(images: Path, number: int, words: Sequence[str] = tuple(COLOURS)) -> Photo:
    """A photo of the colours, which captions call by the given words."""
    rng = np.random.default_rng(number)
    colour_of = dict(zip(words, COLOURS.values(), strict=True))
    names = [words[place] for place in rng.permutation(4)]
    pixels = np.zeros((2 * SIDE, 2 * SIDE, 3))
    for name, (x1, y1, x2, y2) in zip(names, QUARTERS, strict=True):
        pixels[y1:y2, x1:x2] = colour_of[name]
    noisy = np.clip(pixels + rng.normal(0, 8, pixels.shape), 0, 255).astype(np.uint8)
    Image.fromarray(noisy).save(images / f"{number:04d}.png")
    return Photo(
        f"{number:04d}",
        (caption_of(names[:2]), Caption.from_text(f"A {names[3]} corner.")),
        (Chain("0"), Chain("1")),
        (Box(QUARTERS[0], ("0",)), Box(QUARTERS[1], ("1",))),
        width=2 * SIDE,
        height=2 * SIDE,
        file=f"{number:04d}.png",
        splits=("dev" if number % 3 == 2 else "train",),
    )


def make_quarters(folder: Path, count: int = 24, words: Sequence[str] = tuple(COLOURS)) -> Dataset:
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    make_dataset(folder / "data", [quarter_photo(images, number, words) for number in range(count)], images=images)
    return Dataset(folder / "data")


def check_synonyms(embed: Callable[[list[str]], np.ndarray]) -> None:
    """Words that no caption has are embedded near their synonyms in captions, and far from the other words."""
    known, unseen = (embed([f"a {word} square" for word in words]) for words in (SYNONYMS, SYNONYMS.values()))
    similar = (unseen @ known.T) / np.linalg.norm(unseen, axis=1)[:, None] / np.linalg.norm(known, axis=1)
    others = similar[~np.eye(len(similar), dtype=bool)]
    assert similar.diagonal().min() > 0.6
    assert similar.diagonal().mean() > others.mean() + 0.2


def make_store(dataset: Dataset, path: Path, top: int = 4) -> None:
    """Features that commands in other processes can use."""
    update_store(path, dataset, colour_encoder(), options=FeatureOptions(proposer=Corners(), top=top))
