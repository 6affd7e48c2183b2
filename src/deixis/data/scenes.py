"""Synthetic scenes of coloured shapes, with five captions each and exact boxes, mentions, chains and parse trees.

Every model learns them in seconds, so tests can train on them. Each object of a scene has a colour of its own and one
of five locations. An object may be a pair ("two green stars").

Plain shapes have the entity type `other`. Four shapes are pictograms of other types of Flickr30k Entities (man: people,
hat: clothing, fish: animals, boat: vehicles). The background is a `scene` without a box.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data.formats import jsonl
from deixis.data.records import NOT_VISUAL, Box, Caption, Chain, Mention, Photo
from deixis.storage.atomic import explain_os_errors
from deixis.storage.files import hash_file
from deixis.storage.progress import OnProgress, no_progress, track

SHAPE_TYPES = {
    "circle": "other",
    "square": "other",
    "triangle": "other",
    "star": "other",
    "man": "people",
    "hat": "clothing",
    "fish": "animals",
    "boat": "vehicles",
}
"""Entity type of each shape."""

LOCATIONS = {"left": (-1, 0), "right": (1, 0), "top": (0, -1), "bottom": (0, 1), "middle": (0, 0)}
"""Steps from the middle to the right and down."""

_PREPOSITIONS = {"left": "on", "right": "on", "top": "at", "bottom": "at", "middle": "in"}
_SIZE_WORDS = {"large": ("large", "big"), "small": ("small", "little")}
_PLURALS = {"man": "men", "fish": "fish"}


@dataclass(frozen=True)
class SceneObject:
    """One shape, or a pair of small ones, at one of the five locations."""

    colour: str
    shape: str
    size: str
    location: str
    pair: bool

    def steps_to(self, other: SceneObject) -> tuple[int, int]:
        (x, y), (other_x, other_y) = LOCATIONS[self.location], LOCATIONS[other.location]
        return other_x - x, other_y - y


def describe_objects(objects: Sequence[SceneObject], background: str, rng: np.random.Generator) -> tuple[Caption, ...]:
    """Write five captions by different templates; chains are numbered from 1 as `objects`, the background is last."""
    chosen = rng.permutation(len(_TEMPLATES))[:5]
    return tuple(_caption(_TEMPLATES[index](_Describer(objects, background, rng))) for index in chosen)


# Templates return trees in brackets. The label of a mention also has its chain and type: ``(NP@1/other (DT the) …)``.

_NOT_VISUAL = f"NP@/{NOT_VISUAL}"
_FIRST_WORD = re.compile(r"(?<= )[a-z]")
_MARK = re.compile(r"@\d*/\w+")
_PIECE = re.compile(r"\((?P<label>[^ @]+)(?:@(?P<chain>\d*)/(?P<type>\w+))? (?:(?P<word>[^()]+)\))?|\)")


def _caption(clause: str) -> Caption:
    marked = _FIRST_WORD.sub(lambda word: word[0].upper(), f"{clause[:-1]} (. .))", count=1)
    text = ""
    mentions: list[Mention] = []
    begun: list[tuple[re.Match[str], int]] = []  # phrases, with their first character
    for piece in _PIECE.finditer(marked):
        if piece["word"]:
            text += f" {piece['word']}" if text else piece["word"]
        elif piece["label"]:
            begun.append((piece, len(text) + bool(text)))
        else:
            phrase, start = begun.pop()
            if phrase["type"]:
                mentions.append(Mention(start, len(text), phrase["chain"] or None, (phrase["type"],)))
    return Caption.from_text(text, tuple(mentions), tree=_MARK.sub("", marked))


@cache
def _words(tagged: str) -> str:
    """Leaves of tagged words: ``"the/DT left/NN"`` gives ``(DT the) (NN left)``."""
    return " ".join(f"({tag} {word})" for word, tag in (item.split("/") for item in tagged.split()))


def _phrase(label: str, tagged: str, *rest: str) -> str:
    return f"({label} {' '.join([_words(tagged), *rest])})"


def _joined(label: str, parts: Sequence[str], last: str = "and/CC") -> str:
    """``a``, ``a and b``, or ``a , b and c``."""
    if len(parts) == 1:
        return parts[0]
    *most, end = parts
    return f"({label} {' (, ,) '.join(most)} {_words(last)} {end})"


def _clauses(parts: Sequence[str]) -> str:
    return _joined("S", parts, last=",/, and/CC")


def _location_phrase(item: SceneObject) -> str:
    return _phrase("PP", f"{_PREPOSITIONS[item.location]}/IN", _phrase("NP", f"the/DT {item.location}/NN"))


class _Describer:
    """Phrases for the objects of a scene, in random order."""

    def __init__(self, objects: Sequence[SceneObject], background: str, rng: np.random.Generator) -> None:
        self._chains = {item: number for number, item in enumerate(objects, start=1)}
        self._background = background
        self._rng = rng
        self.objects = [objects[i] for i in rng.permutation(len(objects))]

    def pick(self, *options: str) -> str:
        return options[int(self._rng.integers(len(options)))]

    def name(self, item: SceneObject, *, sized: bool = False) -> str:
        """Mention of an object, optionally with its size."""
        size = f"{self.pick(*_SIZE_WORDS[item.size])}/JJ " if sized else ""
        described = f"{size}{item.colour}/JJ"
        label = f"NP@{self._chains[item]}/{SHAPE_TYPES[item.shape]}"
        if not item.pair:
            article = self.pick("the", *["an" if described[0] in "aeiou" else "a"] * 3)
            return _phrase(label, f"{article}/DT {described} {item.shape}/NN")
        described += f" {_PLURALS.get(item.shape, item.shape + 's')}/NNS"
        if self.pick("two", "two", "a pair") == "two":
            return _phrase(label, f"two/CD {described}")
        return f"({label} {_phrase('NP', 'a/DT pair/NN')} {_phrase('PP', 'of/IN', _phrase('NP', described))})"

    def located(self, item: SceneObject, *, sized: bool = False) -> str:
        """Mention with location: ``a red circle on the left``."""
        return f"(NP {self.name(item, sized=sized)} {_location_phrase(item)})"

    def near(self, item: SceneObject, other: SceneObject) -> str:
        """Location relative to another object: ``above a blue square``."""
        right, down = other.steps_to(item)
        relations = {
            "above/IN": down < 0,
            "below/IN": down > 0,
            "left": right < 0,
            "right": right > 0,
            "next/JJ": abs(right) == 1 and down == 0,
        }
        relation = self.pick(*(name for name, holds in relations.items() if holds))
        name = self.name(other, sized=True)
        if relation == "next/JJ":
            return _phrase("ADJP", relation, _phrase("PP", "to/TO", name))
        if "/" in relation:
            return _phrase("PP", relation, name)
        side = _phrase("NP", f"the/DT {relation}/NN")
        return _phrase("PP", "to/TO", f"(NP {side} {_phrase('PP', 'of/IN', name)})")

    def background(self) -> str:
        label = f"NP@{len(self.objects) + 1}/scene"
        return _phrase(label, f"{self.pick('a', 'the')}/DT {self._background}/JJ background/NN")


def _verb(item: SceneObject) -> str:
    return "are/VBP" if item.pair else "is/VBZ"


def _relation(describer: _Describer) -> str:
    """A large red circle is above a small blue square , and two green stars are on the left ."""
    first, second, *others = describer.objects
    where = describer.near(first, second)
    clauses = [f"(S {describer.name(first, sized=True)} {_phrase('VP', _verb(first), where)})"]
    for item in others:
        clauses.append(f"(S {describer.name(item)} {_phrase('VP', _verb(item), _location_phrase(item))})")
    return _clauses(clauses)


def _existence(describer: _Describer) -> str:
    """There is a large red circle above a small blue square and two green stars on the left ."""
    first, second, *others = describer.objects
    where = describer.near(first, second)
    seen = [f"(NP {describer.name(first, sized=True)} {where})", *map(describer.located, others)]
    return f"(S {_phrase(_NOT_VISUAL, 'there/EX')} {_phrase('VP', _verb(first), _joined('NP', seen))})"


def _list(describer: _Describer) -> str:
    """The red circle on the left , a blue square at the top and two green stars in the middle ."""
    return _joined("NP", [describer.located(item) for item in describer.objects])


def _on_background(describer: _Describer) -> str:
    """A large red circle and two small green stars are on a grey background ."""
    names = _joined("NP", [describer.name(item, sized=True) for item in describer.objects])
    return f"(S {names} {_phrase('VP', 'are/VBP', _phrase('PP', 'on/IN', describer.background()))})"


def _against_background(describer: _Describer) -> str:
    """The red circle on the left and two green stars in the middle against a grey background ."""
    return f"(NP {_list(describer)} {_phrase('PP', 'against/IN', describer.background())})"


def _picture(describer: _Describer) -> str:
    """The picture shows a large red circle on the left and two small green stars in the middle ."""
    shown = _joined("NP", [describer.located(item, sized=True) for item in describer.objects])
    subject = _phrase("NP", f"{describer.pick('the', 'this')}/DT picture/NN")
    verb = f"{describer.pick('shows', 'has')}/VBZ"
    return f"(S {subject} {_phrase('VP', verb, shown)})"


def _locations_first(describer: _Describer) -> str:
    """On the left is a red circle , and in the middle are two green stars ."""
    return _clauses(
        [
            f"(SINV {_location_phrase(item)} {_phrase('VP', _verb(item))} {describer.name(item)})"
            for item in describer.objects
        ]
    )


def _each_other(describer: _Describer) -> str:
    """The red circle on the left and two green stars in the middle are near each other ."""
    each_other = _phrase(_NOT_VISUAL, "each/DT other/JJ")
    where = _phrase("PP", "near/IN", each_other)
    if any(2 in np.abs(one.steps_to(other)) for one, other in combinations(describer.objects, 2)):
        where = _phrase("ADVP", "apart/RB", _phrase("PP", "from/IN", each_other))
    return f"(S {_list(describer)} {_phrase('VP', 'are/VBP', where)})"


_TEMPLATES: tuple[Callable[[_Describer], str], ...] = (
    _relation,
    _existence,
    _list,
    _on_background,
    _against_background,
    _picture,
    _locations_first,
    _each_other,
)


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
"""No black background: the soft edge of an orange shape on it is brown."""

SIZE = 96
"""Width and height of a scene."""

SPLITS = {"train": 0.8, "dev": 0.1, "test": 0.1}

_TEXTURE = 5
"""Amplitude of the background texture, of 255."""

_STEP = 0.32
_SIDES = {"large": (26 / 96, 30 / 96), "small": (16 / 96, 18 / 96)}
_PAIR_SIDE = 14 / 96
_SUPERSAMPLING = 4
_HALF_COVERED = 120 / 255
"""Between two of the 17 shades that 4 × 4 supersampling gives, so that rounding decides nothing."""

_Polygon = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Scene:
    """A synthetic photo: its record with exact boxes and captions, and its pixels (height, width, 3)."""

    photo: Photo
    pixels: npt.NDArray[np.uint8]


def make_scenes(count: int, *, seed: int = 0) -> Iterator[Scene]:
    """Generate scenes of two or three objects, no two with the same objects at the same locations.

    Boxes enclose the pixels that a shape covers by half or more. They never overlap. The same seed gives the same
    pixels; a longer run starts with the same scenes.
    """
    rng = np.random.default_rng(seed)
    seen: set[frozenset[SceneObject]] = set()
    while len(seen) < count:
        here = _choose_objects(rng)
        if frozenset(here) not in seen:
            yield _make_scene(f"scene-{seed}-{len(seen):05d}", here, rng)
            seen.add(frozenset(here))


def write_scenes(
    folder: Path,
    count: int,
    *,
    seed: int = 0,
    splits: Mapping[str, float] = SPLITS,
    on_progress: OnProgress = no_progress,
) -> None:
    """Write ``images/ID.png`` and ``photos.jsonl``; `splits` gives the fraction of each split."""
    names: list[str | None] = []
    for name, end in zip(splits, accumulate(splits.values()), strict=True):
        names += [name] * (round(end * count) - len(names))
    names += [None] * (count - len(names))
    with explain_os_errors(folder):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        scenes = track(make_scenes(count, seed=seed), "drawing scenes", count, on_progress)
        photos = (_write_photo(scene, folder, split) for scene, split in zip(scenes, names, strict=True))
        jsonl.write(photos, folder)


def _write_photo(scene: Scene, folder: Path, split: str | None) -> Photo:
    """Write the image file and return the record with file name, split and hash."""
    from PIL import Image

    file = f"{scene.photo.id}.png"
    path = folder / "images" / file
    Image.fromarray(scene.pixels).save(path)
    return replace(scene.photo, file=file, splits=(split,) if split else (), sha256=hash_file(path))


def _choose_objects(rng: np.random.Generator) -> tuple[SceneObject, ...]:
    number = int(rng.integers(2, 4))
    colours = rng.choice(list(COLOURS), number, replace=False).tolist()
    locations = rng.choice(list(LOCATIONS), number, replace=False).tolist()
    shapes = rng.choice(list(SHAPE_TYPES), number).tolist()
    sizes = rng.choice(list(_SIDES), number).tolist()
    pair = int(rng.integers(number)) if rng.random() < 0.4 else None
    return tuple(
        SceneObject(colour, shape, "small" if i == pair else size, location, pair=i == pair)
        for i, (colour, shape, size, location) in enumerate(zip(colours, shapes, sizes, locations, strict=True))
    )


def _make_scene(name: str, objects: Sequence[SceneObject], rng: np.random.Generator) -> Scene:
    background = str(rng.choice(list(BACKGROUNDS)))
    canvas = _background(background, rng)
    boxes = [
        Box(_draw(canvas, item, corner, side), (str(chain),))
        for chain, item in enumerate(objects, start=1)
        for corner, side in _positions(item, rng)
    ]
    captions = describe_objects(objects, background, rng)
    chains = [Chain(str(chain)) for chain in range(1, len(objects) + 1)]
    if any("scene" in mention.types for caption in captions for mention in caption.mentions):
        chains.append(Chain(str(len(objects) + 1), scene=True, no_box=True))
    photo = Photo(name, captions, tuple(chains), tuple(boxes), width=SIZE, height=SIZE)
    return Scene(photo, np.rint(canvas).astype(np.uint8))


def _background(colour: str, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Plain background, or one with soft waves."""
    canvas = np.tile(np.array(BACKGROUNDS[colour], dtype=np.float64), (SIZE, SIZE, 1))
    if rng.random() < 0.5:
        right, down, phase = rng.uniform([-40, -40, 0], [40, 40, 2 * np.pi])
        along = np.arange(SIZE) / SIZE
        canvas += _TEXTURE * np.sin(right * along + down * along[:, None] + phase)[..., None]
    return canvas


def _positions(item: SceneObject, rng: np.random.Generator) -> list[tuple[tuple[int, int], int]]:
    """Top left corner and side, in pixels, of each shape of an object."""
    right, down = LOCATIONS[item.location]
    middle = np.array([0.5 + _STEP * right, 0.5 + _STEP * down])
    if item.pair:
        side = round(_PAIR_SIDE * SIZE)
        apart = np.array([0.08, rng.uniform(-0.06, 0.06)])
        middles = [middle - apart, middle + apart]
    else:
        side = round(rng.uniform(*_SIDES[item.size]) * SIZE)
        # As far from the centre of its location as possible within the area of a large shape.
        room = max(_SIDES["large"][1] - side / SIZE, 0) / 2 + 0.005
        middles = [middle + rng.uniform(-room, room, 2)]
    return [((round(x * SIZE - side / 2), round(y * SIZE - side / 2)), side) for x, y in middles]


def _draw(
    canvas: npt.NDArray[np.float64], item: SceneObject, corner: tuple[int, int], side: int
) -> tuple[float, float, float, float]:
    """Draw a shape with its top left corner at (x, y) and return its box."""
    x, y = corner
    cover = _coverage(item.shape, side)
    patch = canvas[y : y + side, x : x + side]
    patch += cover[..., None] * (np.array(COLOURS[item.colour]) - patch)
    rows, columns = np.nonzero(cover > _HALF_COVERED)
    left, top = x + columns.min(), y + rows.min()
    return float(left), float(top), float(x + columns.max() + 1), float(y + rows.max() + 1)


@cache
def _coverage(shape: str, side: int) -> npt.NDArray[np.float64]:
    """Coverage of each pixel of a (side, side) square by a shape."""
    from PIL import Image, ImageDraw

    scale = side * _SUPERSAMPLING
    fine = Image.new("L", (scale, scale))
    pen = ImageDraw.Draw(fine)
    for polygon in _OUTLINES[shape]:
        pen.polygon([(px * side * _SUPERSAMPLING - 0.5, py * side * _SUPERSAMPLING - 0.5) for px, py in polygon], 255)
    return np.asarray(fine.reduce(_SUPERSAMPLING), dtype=np.float64) / 255


def _ellipse(x: float, y: float, width: float, height: float) -> _Polygon:
    turns = [math.pi * i / 24 for i in range(48)]
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
"""Polygons of each shape in the unit square, y downwards."""
