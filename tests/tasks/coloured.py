"""A data set whose sentences name the colour of their photo, for models that must find out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from deixis.data.dataset import Dataset
from deixis.data.making import make_dataset
from deixis.data.records import Caption, Photo
from deixis.tasks.bundle import Bundle
from deixis.tasks.fit.cca import CCATraining, fit_cca

COLOURS = {"red": (220, 30, 30), "green": (30, 200, 40), "blue": (30, 40, 220), "yellow": (230, 220, 40)}
SMALL = CCATraining(components=2, regularisation=0.01)
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


def fitted_bundle(dataset: Dataset) -> Bundle:
    """A bundle that has learned the colours; needs an encoder in place of the real ones."""
    return fit_cca(dataset, SMALL).bundle
