"""Small made-up scenes: coloured shapes, five captions each, and the exact truth about both.

Every model can learn them in seconds, so a test that trains on them tells learning from luck. Each thing of
a scene has a colour of its own and stands in one of five places; a thing may be a pair ("two green stars").

Plain shapes are of type `other`; four shapes are pictograms of what other types of Flickr30k Entities name
(man: people, hat: clothing, fish: animals, boat: vehicles), and the background is a `scene` without a box.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data.records import Box, Chain, Photo
from deixis.data.scene_captions import PLACES, TYPES, Thing, captions_of
from deixis.data.writers import jsonl
from deixis.errors import DeixisError
from deixis.files.atomic import explained
from deixis.files.progress import OnProgress, silent, told

COLOURS = {
    "red": (214, 39, 40),
    "orange": (255, 140, 0),
    "yellow": (240, 225, 30),
    "green": (30, 150, 50),
    "blue": (30, 80, 220),
    "purple": (130, 40, 170),
    "pink": (255, 120, 200),
    "brown": (110, 60, 30),
}
BACKGROUNDS = {"white": (248, 248, 248), "grey": (160, 160, 160), "beige": (232, 216, 184)}
"""No black: on it the soft edge of an orange shape is brown."""

_SMALLEST_SCENE = 48
_TEXTURE = 5
"""How far a textured background strays from its colour, of 255."""

_STEP = 0.32
_SIDES = {"large": (26 / 96, 30 / 96), "small": (16 / 96, 18 / 96)}
_PAIR_SIDE = 14 / 96
_FINER = 4
_HALF_COVERED = 120 / 255
"""Between two of the 17 shades that drawing four times finer can give, so that no pixel is in doubt."""

_Polygon = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Scene:
    """A made-up photo: its record, whose boxes and captions are exact, and its pixels (height, width, 3)."""

    photo: Photo
    pixels: npt.NDArray[np.uint8]


def make_scenes(count: int, *, seed: int = 0, size: int = 96, things: tuple[int, int] = (2, 3)) -> Iterator[Scene]:
    """Make scenes, no two of them with the same things in the same places.

    Boxes are tight around the pixels that a shape covers by half or more, and never overlap.

    Parameters
    ----------
    count
        How many; a longer run of the same seed begins with the same scenes.
    seed
        The same seed gives the same scenes, pixel for pixel.
    size
        Width and height in pixels, at least 48.
    things
        The fewest and the most things of a scene, 1 to 4; a pair counts as one.

    Examples
    --------
    >>> scene = next(make_scenes(1, seed=1))
    >>> scene.pixels.shape
    (96, 96, 3)
    >>> scene.photo.captions[0].text
    'A large green boat and a small pink square are on a grey background .'
    """
    if size < _SMALLEST_SCENE:
        raise DeixisError(f"scenes of {size} pixels show no shapes; take {_SMALLEST_SCENE} or more")
    if not 1 <= things[0] <= things[1] <= 4:
        raise DeixisError(f"a scene has 1 to 4 things, not {things[0]} to {things[1]}")
    rng = np.random.default_rng(seed)
    seen: set[frozenset[Thing]] = set()
    while len(seen) < count:
        here = _choose_things(rng, things)
        if frozenset(here) not in seen:
            yield _make_scene(f"scene-{seed}-{len(seen):05d}", here, size, rng)
            seen.add(frozenset(here))


def write_scenes(
    folder: Path,
    count: int,
    *,
    seed: int = 0,
    size: int = 96,
    splits: Mapping[str, float] | None = None,
    on_progress: OnProgress = silent,
) -> None:
    """Write scenes as a data set: ``images/ID.png`` and ``photos.jsonl``.

    Parameters
    ----------
    folder
        Made if need be.
    count, seed, size
        As for `make_scenes`.
    splits
        The part of the scenes that goes to each split; 0.8 to train, 0.1 to dev and 0.1 to test unless said.
        What they leave over is in no split.
    on_progress
        Called as the work goes on.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as parent:
    ...     write_scenes(Path(parent), 10)
    ...     sorted(path.name for path in Path(parent).iterdir())
    ['images', 'photos.jsonl']
    """
    names = _split_names(count, {"train": 0.8, "dev": 0.1, "test": 0.1} if splits is None else splits)
    with explained(folder):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        scenes = told(make_scenes(count, seed=seed, size=size), "drawing scenes", count, on_progress)
        photos = (_write_photo(scene, folder, split) for scene, split in zip(scenes, names, strict=True))
        jsonl.write(photos, folder)


def _write_photo(scene: Scene, folder: Path, split: str | None) -> Photo:
    """Write the photo's file, and give its record with what is known of it now."""
    file = f"{scene.photo.id}.png"
    data = _png(scene.pixels)
    (folder / "images" / file).write_bytes(data)
    splits = (split,) if split else ()
    return replace(scene.photo, file=file, splits=splits, sha256=hashlib.sha256(data).hexdigest())


def _split_names(count: int, splits: Mapping[str, float]) -> list[str | None]:
    if min(splits.values(), default=0) < 0 or sum(splits.values()) > 1 + 1e-9:
        raise DeixisError(f"splits are parts of the whole, not {dict(splits)}")
    names: list[str | None] = []
    total = 0.0
    for name, part in splits.items():
        total += part
        names += [name] * (round(total * count) - len(names))
    return names + [None] * (count - len(names))


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="PNG")
    return out.getvalue()


def _choose_things(rng: np.random.Generator, fewest_most: tuple[int, int]) -> tuple[Thing, ...]:
    number = int(rng.integers(fewest_most[0], fewest_most[1] + 1))
    colours = rng.choice(list(COLOURS), number, replace=False).tolist()
    places = rng.choice(list(PLACES), number, replace=False).tolist()
    shapes = rng.choice(list(TYPES), number).tolist()
    sizes = rng.choice(list(_SIDES), number).tolist()
    pair = int(rng.integers(number)) if rng.random() < 0.4 else None
    return tuple(
        Thing(colour, shape, "small" if i == pair else size, place, pair=i == pair)
        for i, (colour, shape, size, place) in enumerate(zip(colours, shapes, sizes, places, strict=True))
    )


def _make_scene(name: str, things: Sequence[Thing], size: int, rng: np.random.Generator) -> Scene:
    background = str(rng.choice(list(BACKGROUNDS)))
    canvas = _background(background, size, rng)
    boxes = [
        Box(_draw(canvas, thing, corner, side), (str(chain),))
        for chain, thing in enumerate(things, start=1)
        for corner, side in _stand(thing, size, rng)
    ]
    captions = captions_of(things, background, rng)
    chains = [Chain(str(chain)) for chain in range(1, len(things) + 1)]
    if any("scene" in mention.types for caption in captions for mention in caption.mentions):
        chains.append(Chain(str(len(things) + 1), scene=True, no_box=True))
    photo = Photo(name, captions, tuple(chains), tuple(boxes), width=size, height=size)
    return Scene(photo, np.rint(canvas).astype(np.uint8))


def _background(colour: str, size: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Plain, or with soft waves."""
    canvas = np.tile(np.array(BACKGROUNDS[colour], dtype=np.float64), (size, size, 1))
    if rng.random() < 0.5:
        right, down, phase = rng.uniform([-40, -40, 0], [40, 40, 2 * np.pi])
        along = np.arange(size) / size
        canvas += _TEXTURE * np.sin(right * along + down * along[:, None] + phase)[..., None]
    return canvas


def _stand(thing: Thing, size: int, rng: np.random.Generator) -> list[tuple[tuple[int, int], int]]:
    """The top left corner and the side, in pixels, of each shape of a thing."""
    right, down = PLACES[thing.place]
    middle = np.array([0.5 + _STEP * right, 0.5 + _STEP * down])
    if thing.pair:
        side = round(_PAIR_SIDE * size)
        apart = np.array([0.08, rng.uniform(-0.06, 0.06)])
        middles = [middle - apart, middle + apart]
    else:
        side = round(rng.uniform(*_SIDES[thing.size]) * size)
        # As far from its place as it can without leaving the room that a large shape takes.
        room = max(_SIDES["large"][1] - side / size, 0) / 2 + 0.005
        middles = [middle + rng.uniform(-room, room, 2)]
    return [((round(x * size - side / 2), round(y * size - side / 2)), side) for x, y in middles]


def _draw(
    canvas: npt.NDArray[np.float64], thing: Thing, corner: tuple[int, int], side: int
) -> tuple[float, float, float, float]:
    """Draw a shape with its top left corner at (x, y), and tell its box."""
    x, y = corner
    cover = _coverage(thing.shape, side)
    patch = canvas[y : y + side, x : x + side]
    patch += cover[..., None] * (np.array(COLOURS[thing.colour]) - patch)
    rows, columns = np.nonzero(cover > _HALF_COVERED)
    left, top = x + columns.min(), y + rows.min()
    return float(left), float(top), float(x + columns.max() + 1), float(y + rows.max() + 1)


@lru_cache(maxsize=1024)
def _coverage(shape: str, side: int) -> npt.NDArray[np.float64]:
    """How much of each pixel of a (side, side) square a shape covers."""
    from PIL import Image, ImageDraw

    fine = Image.new("L", (side * _FINER, side * _FINER))
    pen = ImageDraw.Draw(fine)
    for polygon in _OUTLINES[shape]:
        pen.polygon([(px * side * _FINER - 0.5, py * side * _FINER - 0.5) for px, py in polygon], fill=255)
    return np.asarray(fine.reduce(_FINER), dtype=np.float64) / 255


def _ellipse(x: float, y: float, width: float, height: float, corners: int = 48) -> _Polygon:
    turns = [2 * math.pi * i / corners for i in range(corners)]
    return tuple((x + width / 2 * math.cos(turn), y + height / 2 * math.sin(turn)) for turn in turns)


def _star() -> _Polygon:
    turns = [math.pi * (i / 5 - 0.5) for i in range(10)]
    reach = [0.53, 0.23] * 5
    return tuple((0.5 + r * math.cos(t), 0.53 + r * math.sin(t)) for t, r in zip(turns, reach, strict=True))


def _rectangle(x1: float, y1: float, x2: float, y2: float) -> _Polygon:
    return (x1, y1), (x2, y1), (x2, y2), (x1, y2)


_OUTLINES: dict[str, tuple[_Polygon, ...]] = {
    "circle": (_ellipse(0.5, 0.5, 1, 1),),
    "square": (_rectangle(0.06, 0.06, 0.94, 0.94),),
    "triangle": (((0.5, 0), (1, 0.95), (0, 0.95)),),
    "star": (_star(),),
    "man": (
        _ellipse(0.5, 0.15, 0.3, 0.3),
        _rectangle(0.2, 0.33, 0.8, 0.45),
        _rectangle(0.34, 0.33, 0.66, 0.68),
        _rectangle(0.34, 0.66, 0.46, 1),
        _rectangle(0.54, 0.66, 0.66, 1),
    ),
    "hat": (_rectangle(0.24, 0.15, 0.76, 0.72), _rectangle(0, 0.68, 1, 0.86)),
    "fish": (_ellipse(0.4, 0.5, 0.8, 0.5), ((0.68, 0.5), (1, 0.22), (1, 0.78))),
    "boat": (
        ((0, 0.68), (1, 0.68), (0.8, 1), (0.2, 1)),
        ((0.46, 0), (0.92, 0.58), (0.46, 0.58)),
        _rectangle(0.38, 0, 0.48, 0.7),
    ),
}
"""Polygons in the unit square, y downwards; together they are the shape."""
