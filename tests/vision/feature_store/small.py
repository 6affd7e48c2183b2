"""Data sets of small photos, and an encoder and a proposer without weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from deixis.data.dataset import Dataset, make_dataset
from deixis.data.records import Caption, Photo
from deixis.vision.encoder import ImageEncoder, InputSize, Pixels
from deixis.vision.feature_store import FeatureStore
from deixis.vision.proposals import Proposals


def colours(pixels: Pixels) -> tuple[np.ndarray, np.ndarray]:
    """A trivial network: the map is the photo itself.

    The mean is a sum of integers and therefore exact, so vectors do not depend on the batch and may be compared bit
    for bit.
    """
    cells = pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255
    return cells, (pixels.mean(axis=(1, 2), dtype=np.float64) / 255).astype(np.float32)


def colour_encoder(fingerprint: str = "colours-1", *, network=colours) -> ImageEncoder:
    size = InputSize(8, keep_aspect=True, multiple=2)
    return ImageEncoder("colours", network, size, channels=3, dimension=3, fingerprint=fingerprint)


def draw(path: Path, seed: int) -> None:
    """A photo of noise, wide or tall."""
    noise = np.random.default_rng(seed)
    shape = (12, 16 + 8 * (seed % 3), 3) if seed % 2 else (24, 16, 3)
    Image.fromarray(noise.integers(0, 255, shape, dtype=np.uint8)).save(path)


def make_data(folder: Path, count: int, *, begin: int = 0, replace: bool = False) -> Dataset:
    """A data set of small photos; every fourth is of the dev split."""
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    photos = []
    for seed in range(begin, begin + count):
        file = f"{seed:04d}.png"
        if not (images / file).exists():
            draw(images / file, seed)
        split = "train" if seed % 4 else "dev"
        photos.append(Photo(f"{seed:04d}", (Caption.from_text(f"Noise {seed}."),), file=file, splits=(split,)))
    make_dataset(folder / "data", photos, images=images, replace_old=replace)
    return Dataset(folder / "data")


def everything(store: FeatureStore) -> dict[str, tuple]:
    """All that a store holds, to compare it with another."""
    maps = {name: store.map(name) for name in store.ids}
    return {name: (m.size, m.cells.shape, m.cells.tobytes(), m.whole.tobytes()) for name, m in maps.items()}


class Corners:
    """Proposes the quarters of a photo."""

    name = "corners"

    def __init__(self, fingerprint: str = "corners-1") -> None:
        self.fingerprint = fingerprint

    def propose(self, photo: Image.Image, features: object, top: int) -> Proposals:
        w, h = photo.width / 2, photo.height / 2
        boxes = np.array([[x, y, x + w, y + h] for x in (0, w) for y in (0, h)])[:top]
        return Proposals(boxes, np.linspace(1, 0.5, len(boxes)))


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
