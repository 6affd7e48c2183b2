"""Random views of photos: a model that sees another one each time learns less of a photo by heart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from deixis.data.images import open_photo
from deixis.vision.encoder import ImageEncoder, PreparedPhoto
from deixis.vision.extraction import map_ahead
from deixis.vision.feature_map import FeatureMap

SIDES = frozenset({"left", "right"})
"""Words of captions that are wrong for a mirrored photo."""

_MIN_AREA = 0.5  # share of the photo that a view shows at least
_STRETCH = 0.2  # a side of a view is at most exp(this) times as long as that of a view of the same shape and area
_LIGHT = 0.3  # largest change of brightness and contrast

_READERS = 8
_BATCH = 64  # views


@dataclass(frozen=True)
class View:
    """A part of a photo in another light; by default the whole photo as it is.

    `box` has its left, top, right and bottom as shares of the photo. `brightness` and `contrast` are factors.
    """

    box: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 1.0)
    mirrored: bool = False
    brightness: float = 1.0
    contrast: float = 1.0

    def of(self, photo: Image.Image) -> Image.Image:
        """The view of a photo."""
        width, height = photo.size
        left, top, right, bottom = self.box
        x, y = int(left * width), int(top * height)
        seen = photo.convert("RGB").crop((x, y, max(x + 1, round(right * width)), max(y + 1, round(bottom * height))))
        if self.mirrored:
            seen = ImageOps.mirror(seen)
        if self.contrast != 1:
            seen = ImageEnhance.Contrast(seen).enhance(self.contrast)
        return ImageEnhance.Brightness(seen).enhance(self.brightness) if self.brightness != 1 else seen


def random_views(count: int, generator: np.random.Generator, *, mirror: bool = True) -> list[View]:
    """The whole photo, the mirrored whole photo, then random parts of it; without `mirror`, none is mirrored."""
    views = [View(), View(mirrored=mirror)][:count]
    while len(views) < count:
        scale = np.sqrt(generator.uniform(_MIN_AREA, 1))
        stretch = np.exp(generator.uniform(-_STRETCH, _STRETCH) / 2)
        width, height = min(1.0, scale * stretch), min(1.0, scale / stretch)
        left, top = generator.uniform(0, 1 - width), generator.uniform(0, 1 - height)
        mirrored = mirror and generator.random() < 0.5
        brightness, contrast = generator.uniform(1 - _LIGHT, 1 + _LIGHT, 2).tolist()
        views.append(View((left, top, left + width, top + height), mirrored, brightness, contrast))
    return views


def encode_views(
    encoder: ImageEncoder, paths: Iterable[Path], views: Iterable[Sequence[View]]
) -> Iterator[list[FeatureMap]]:
    """Encode some views of each photo. Threads decode ahead; a photo that cannot be read raises `PhotoError`."""

    def read(photo: tuple[Path, Sequence[View]]) -> list[PreparedPhoto]:
        path, wanted = photo
        image = open_photo(path)
        return [encoder.prepare(view.of(image)) for view in wanted]

    with closing(map_ahead(read, zip(paths, views, strict=True), _READERS, 2 * _READERS, "views")) as prepared:
        while group := list(islice(prepared, max(1, _BATCH // _READERS))):
            maps = iter(encoder.encode_prepared([view for photo in group for view in photo]))
            for photo in group:
                yield list(islice(maps, len(photo)))
