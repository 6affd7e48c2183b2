"""Image encoders: photos to feature maps. Every encoder is a network behind `ImageEncoder`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.vision.feature_map import FeatureMap

Pixels = NDArray[np.uint8]
"""A batch of photos of one size: (photos, height, width, 3)."""

# The ten crops of the papers: corners and centre of a square, each also mirrored, 224 of 256 pixels wide.
CROP_SHARE = 224 / 256
_CROP_POSITIONS = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))


class Network(Protocol):
    """Maps pixels to cells (photos, channels, rows, columns) and global vectors (photos, dimension)."""

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]: ...


@dataclass(frozen=True)
class InputSize:
    """Input size of a network: a square, or with `keep_aspect` about as many pixels in the aspect ratio of the photo.

    Both sides are then rounded to multiples of `multiple`.
    """

    side: int
    keep_aspect: bool = False
    multiple: int = 1

    def target_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the width and height to which a photo is resized."""
        if not self.keep_aspect:
            return self.side, self.side
        # Limit the aspect ratio to 3 : 1, beyond which networks were not trained.
        stretch = min(max((width / height) ** 0.5, 3**-0.5), 3**0.5)
        sides = (self.side * stretch, self.side / stretch)
        wide, high = (max(round(side / self.multiple), 1) * self.multiple for side in sides)
        return wide, high


@dataclass(frozen=True)
class PreparedPhoto:
    """A photo resized for a network, and the size of the original photo."""

    pixels: NDArray[np.uint8]
    size: tuple[int, int]


class ImageEncoder:
    """Encodes photos as feature maps.

    `channels` and `dimension` are the sizes of region vectors and of global vectors. The fingerprint is a hash of the
    weights and of everything else that affects the results; features of different fingerprints are never mixed.
    """

    def __init__(
        self, name: str, network: Network, input_size: InputSize, channels: int, dimension: int, fingerprint: str
    ) -> None:
        self.name = name
        self.network = network
        self.input_size = input_size
        self.channels = channels
        self.dimension = dimension
        self.fingerprint = fingerprint

    def prepare(self, photo: Image.Image, size: tuple[int, int] | None = None) -> PreparedPhoto:
        """Resize a decoded photo for the network. `size` is its full size if it was decoded at a reduced scale."""
        size = size or photo.size
        return PreparedPhoto(resize_photo(photo, self.input_size.target_size(*size)), size)

    def encode(self, photos: Sequence[Image.Image]) -> list[FeatureMap]:
        """Encode decoded photos."""
        return self.encode_prepared([self.prepare(photo) for photo in photos])

    def encode_prepared(self, photos: Sequence[PreparedPhoto]) -> list[FeatureMap]:
        """Encode prepared photos. Photos of the same input size form a batch."""
        shapes = [photo.pixels.shape for photo in photos]
        features: dict[int, FeatureMap] = {}
        for _, group in groupby(sorted(range(len(photos)), key=shapes.__getitem__), key=shapes.__getitem__):
            indices = list(group)
            cells, whole = self.network(np.stack([photos[index].pixels for index in indices]))
            for row, index in enumerate(indices):
                # Copies, so that features of one photo do not keep the batch in memory.
                features[index] = FeatureMap(cells[row].copy(), whole[row].copy(), photos[index].size)
        return [features[index] for index in range(len(photos))]

    def encode_crops(self, photos: Sequence[Image.Image]) -> NDArray[np.float32]:
        """Return global vectors as in the papers: the mean over ten crops of each photo, (photos, dimension)."""
        vectors = [self.network(ten_crops(photo, self.input_size.side))[1].mean(axis=0) for photo in photos]
        return np.stack(vectors) if vectors else np.zeros((0, self.dimension), dtype=np.float32)


def resize_photo(photo: Image.Image, size: tuple[int, int]) -> Pixels:
    """Return the RGB pixels of a photo at another size. Bicubic with antialiasing."""
    rgb = photo if photo.mode == "RGB" else photo.convert("RGB")
    return np.asarray(rgb.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0), dtype=np.uint8)


def ten_crops(photo: Image.Image, side: int) -> Pixels:
    """Return ten crops of a photo that is resized to a square: four corners, the centre, and these mirrored."""
    whole = round(side / CROP_SHARE)
    pixels = resize_photo(photo, (whole, whole))
    room = whole - side
    crops = []
    for x, y in _CROP_POSITIONS:
        left, top = round(x * room), round(y * room)
        crop = pixels[top : top + side, left : left + side]
        crops += [crop, crop[:, ::-1]]
    return np.stack(crops)
