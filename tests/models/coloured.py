"""A data set whose sentences name the colour of their photo, for models that must find out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.models.cca.spec import CCATrainSettings
from deixis.models.cca.training import build, prepare_data
from deixis.models.matching.model import MatchingPipeline
from deixis.models.registry import get_spec
from deixis.models.training.data import MatchingDataSettings
from deixis.models.training.runner import Run
from deixis.models.training.settings import Settings

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220), "yellow": (230, 220, 40)}
SMALL = CCATrainSettings(embedding_dim=2, regularization=0.01)
"""Settings that fit so little data."""


def paint(path: Path, colour: tuple[int, int, int], seed: int) -> None:
    noise = np.random.default_rng(seed).normal(0, 20, (12, 16, 3))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)


def captions_of(colour: str) -> tuple[Caption, ...]:
    return (
        Caption.from_text(f"A {colour} wall."),
        Caption.from_text("Somebody else's photo.", related=False),
        Caption.from_text(f"Everything here is {colour}."),
        Caption.from_text(f"{colour} thing", region_phrase=True),
    )


def coloured_photos(images: Path, count: int, dev: str = "dev") -> list[Photo]:
    """Paint photos, each third round of colours for the dev split."""
    images.mkdir(parents=True, exist_ok=True)
    photos = []
    for number in range(count):
        colour = list(COLOURS)[number % 4]
        paint(images / f"{number:04d}.png", COLOURS[colour], number)
        split = dev if number // 4 % 3 == 2 else "train"
        photos.append(Photo(f"{number:04d}", captions_of(colour), file=f"{number:04d}.png", splits=(split,)))
    return photos


def make_coloured(folder: Path, count: int = 24, dev: str = "dev") -> Dataset:
    images = folder / "images"
    make_dataset(folder / "data", coloured_photos(images, count, dev), images=images)
    return Dataset(folder / "data")


def fit_cca(
    dataset: Dataset, settings: CCATrainSettings = SMALL, data: MatchingDataSettings | None = None
) -> MatchingPipeline:
    """Fit a CCA without saving it, and without reading the validation split."""
    parts = Settings((data or MatchingDataSettings(), settings))
    run = Run(get_spec("cca"), parts, dataset, Path("unused"))
    return build(run, prepare_data(run))
