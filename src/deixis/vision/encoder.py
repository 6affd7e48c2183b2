"""From photos to feature maps: every encoder is one network behind this one small class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.vision.features import FeatureMap
from deixis.vision.pooling import resample_cells

Pixels = NDArray[np.uint8]
"""Photos of one size: (photos, height, width, 3)."""

# The papers' ten crops: the corners and the middle of a square, each as it is and mirrored, 224 of 256 pixels wide.
CROP_SHARE = 224 / 256
_CROP_PLACES = ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 0.5))


class Network(Protocol):
    """Pixels in; cells (photos, channels, rows, columns) and whole vectors (photos, dimension) out."""

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Encode one batch."""
        ...


@dataclass(frozen=True)
class InputSize:
    """How large a photo is made before a network reads it.

    Attributes
    ----------
    side
        Of the square that a photo is squeezed into, in pixels.
    keep_aspect
        Keep the photo's proportions instead, with about as many pixels as the square has.
    multiple
        Both sides are made a multiple of this.
    """

    side: int
    keep_aspect: bool = False
    multiple: int = 1

    def of(self, width: int, height: int) -> tuple[int, int]:
        """The size to which a photo of this size is brought.

        Examples
        --------
        >>> InputSize(224, keep_aspect=True, multiple=14).of(600, 400)
        (280, 182)
        """
        if not self.keep_aspect:
            return self.side, self.side
        # Very long photos are squeezed: a network has seen nothing beyond 3 : 1.
        stretch = min(max((width / height) ** 0.5, 3**-0.5), 3**0.5)
        wanted = (self.side * stretch, self.side / stretch)
        wide, high = (max(round(side / self.multiple), 1) * self.multiple for side in wanted)
        return wide, high


@dataclass(frozen=True)
class Prepared:
    """A photo as pixels that a network can read.

    Attributes
    ----------
    pixels : arrays of uint8, (height, width, 3)
        One; one for each part where encoders are joined.
    size : (width, height)
        Of the photo itself.
    """

    pixels: tuple[NDArray[np.uint8], ...]
    size: tuple[int, int]


class ImageEncoder:
    """Photos to feature maps.

    Attributes
    ----------
    name : str
        What users type.
    channels, dimension : int
        The numbers in a region's vector and in a whole photo's.
    fingerprint : str
        Of the weights and of everything else that changes the numbers: features with different ones do not mix.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        input_size: InputSize,
        channels: int,
        dimension: int,
        fingerprint: str,
    ) -> None:
        self.name = name
        self.network = network
        self.input_size = input_size
        self.channels = channels
        self.dimension = dimension
        self.fingerprint = fingerprint

    def prepare(self, photo: Image.Image, size: tuple[int, int] | None = None) -> Prepared:
        """Bring a decoded photo to the size that the network reads: the part of the work that needs no network.

        Parameters
        ----------
        photo
            Decoded, perhaps at a reduced scale.
        size : (width, height)
            Of the photo at its full scale; without it, the photo's own.
        """
        size = size or photo.size
        return Prepared((resized(photo, self.input_size.of(*size)),), size)

    def reading_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """The width and height in pixels that are read of a photo of this size: decoding more of them is in vain."""
        return self.input_size.of(*size)

    def encode(self, photos: Sequence[Image.Image]) -> list[FeatureMap]:
        """Encode decoded photos, each in one pass through the network.

        Examples
        --------
        >>> def colours(pixels):
        ...     cells = pixels.transpose(0, 3, 1, 2).astype(np.float32)
        ...     return cells, cells.mean(axis=(2, 3))
        >>> encoder = ImageEncoder("colours", colours, InputSize(4), channels=3, dimension=3, fingerprint="1")
        >>> [red] = encoder.encode([Image.new("RGB", (40, 30), "red")])
        >>> red.whole.tolist(), red.cells.shape, red.size
        ([255.0, 0.0, 0.0], (3, 4, 4), (40, 30))
        """
        return self.encode_prepared([self.prepare(photo) for photo in photos])

    def encode_prepared(self, photos: Sequence[Prepared]) -> list[FeatureMap]:
        """Encode what `prepare` gave; photos that ended up equally large go through the network together."""
        shapes = [photo.pixels[0].shape for photo in photos]
        features: dict[int, FeatureMap] = {}
        for _, group in groupby(sorted(range(len(photos)), key=lambda place: shapes[place]), key=lambda p: shapes[p]):
            places = list(group)
            cells, whole = self.network(np.stack([photos[place].pixels[0] for place in places]))
            for row, place in enumerate(places):
                # A copy, so that keeping one photo's features does not keep the whole batch's.
                features[place] = FeatureMap(cells[row].copy(), whole[row].copy(), photos[place].size)
        return [features[place] for place in range(len(photos))]

    def encode_crops(self, photos: Sequence[Image.Image]) -> NDArray[np.float32]:
        """Whole-photo vectors as in the papers: the mean over ten crops of each photo, shape (photos, dimension)."""
        vectors = [self.network(ten_crops(photo, self.input_size.side))[1].mean(axis=0) for photo in photos]
        return np.stack(vectors) if vectors else np.zeros((0, self.dimension), dtype=np.float32)


class JoinedEncoder(ImageEncoder):
    """Several encoders as one: the cells of all on the grid of the first, the vectors one behind the other."""

    def __init__(self, parts: Sequence[ImageEncoder]) -> None:
        super().__init__(
            name="+".join(part.name for part in parts),
            network=parts[0].network,
            input_size=parts[0].input_size,
            channels=sum(part.channels for part in parts),
            dimension=sum(part.dimension for part in parts),
            fingerprint="+".join(part.fingerprint for part in parts),
        )
        self.parts = tuple(parts)

    def prepare(self, photo: Image.Image, size: tuple[int, int] | None = None) -> Prepared:
        """The photo at the size of each part."""
        size = size or photo.size
        return Prepared(tuple(part.prepare(photo, size).pixels[0] for part in self.parts), size)

    def reading_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """What the part that reads most reads."""
        widths, heights = zip(*(part.reading_size(size) for part in self.parts), strict=True)
        return max(widths), max(heights)

    def encode_prepared(self, photos: Sequence[Prepared]) -> list[FeatureMap]:
        """Encode with each part."""
        by_part = [
            part.encode_prepared([Prepared((photo.pixels[number],), photo.size) for photo in photos])
            for number, part in enumerate(self.parts)
        ]
        return [_joined(maps) for maps in zip(*by_part, strict=True)]

    def encode_crops(self, photos: Sequence[Image.Image]) -> NDArray[np.float32]:
        """Ten crops with each part."""
        return np.concatenate([part.encode_crops(photos) for part in self.parts], axis=1)


def _joined(maps: Sequence[FeatureMap]) -> FeatureMap:
    _, rows, columns = maps[0].cells.shape
    cells = np.concatenate([resample_cells(each.cells, rows, columns) for each in maps])
    return FeatureMap(cells, np.concatenate([each.whole for each in maps]), maps[0].size)


def resized(photo: Image.Image, size: tuple[int, int]) -> Pixels:
    """A photo's pixels at another size, in red, green and blue. Bicubic with antialiasing."""
    coloured = photo if photo.mode == "RGB" else photo.convert("RGB")
    return np.asarray(coloured.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0), dtype=np.uint8)


def ten_crops(photo: Image.Image, side: int) -> Pixels:
    """Four corners and the middle of the photo, squeezed to a square, and the mirror images of these five."""
    whole = round(side / CROP_SHARE)
    pixels = resized(photo, (whole, whole))
    room = whole - side
    crops = []
    for x, y in _CROP_PLACES:
        left, top = round(x * room), round(y * room)
        crop = pixels[top : top + side, left : left + side]
        crops += [crop, crop[:, ::-1]]
    return np.stack(crops)
