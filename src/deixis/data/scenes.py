"""Synthetic scenes of coloured shapes, with five captions each and exact boxes, mentions, chains and parse trees.

Every model learns them in seconds, so tests can train on them. Each object of a scene has a colour of its own and one
of five locations. An object may be a pair ("two green stars").

Plain shapes have the entity type `other`. Four shapes are pictograms of other types of Flickr30k Entities (man: people,
hat: clothing, fish: animals, boat: vehicles). The background is a `scene` without a box.
"""

from __future__ import annotations

import hashlib
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt

from deixis.data.formats import jsonl
from deixis.data.records import NOT_VISUAL, Box, Caption, Chain, Mention, Photo
from deixis.errors import DeixisError
from deixis.storage.atomic import explain_os_errors
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


@dataclass(frozen=True)
class _Node:
    """Node of a constituency tree: a word, or a phrase. A mention is (chain, type)."""

    label: str
    children: tuple[_Node, ...] = ()
    word: str = ""
    mention: tuple[str | None, str] | None = None


def describe_objects(objects: Sequence[SceneObject], background: str, rng: np.random.Generator) -> tuple[Caption, ...]:
    """Write five captions that mention all objects of a scene, each from a different template (of eight).

    Chains are numbered from 1 in the order of `objects`; the background is the last.
    """
    chosen = rng.permutation(len(_TEMPLATES))[:5]
    return tuple(_caption(_TEMPLATES[index](_Describer(objects, background, rng))) for index in chosen)


def _caption(sentence: _Node) -> Caption:
    words: list[str] = []
    mentions: list[Mention] = []
    tree = _brackets(replace(sentence, children=(*sentence.children, _Node(".", word="."))), words, mentions)
    return Caption.from_text(" ".join(words), tuple(mentions), tree=tree)


def _brackets(node: _Node, words: list[str], mentions: list[Mention]) -> str:
    """Return the tree in brackets; append its words and mentions to the lists."""
    if node.word:
        words.append(node.word if words else node.word.capitalize())
        return f"({node.label} {words[-1]})"
    start = len(" ".join([*words, ""]))
    inside = " ".join([_brackets(child, words, mentions) for child in node.children])
    if node.mention:
        chain, kind = node.mention
        mentions.append(Mention(start, len(" ".join(words)), chain, (kind,)))
    return f"({node.label} {inside})"


@lru_cache(maxsize=1024)
def _words(tagged: str) -> tuple[_Node, ...]:
    """Leaves of tagged words: ``"the/DT left/NN"``."""
    return tuple(_Node(tag, word=word) for word, tag in (item.split("/") for item in tagged.split()))


def _phrase(label: str, tagged: str, *rest: _Node, mention: tuple[str | None, str] | None = None) -> _Node:
    return _Node(label, (*_words(tagged), *rest), mention=mention)


def _joined(label: str, parts: Sequence[_Node], last: str = "and/CC") -> _Node:
    """``a``, ``a and b``, or ``a , b and c``."""
    if len(parts) == 1:
        return parts[0]
    children = [parts[0]]
    for part in parts[1:-1]:
        children += [*_words(",/,"), part]
    return _Node(label, (*children, *_words(last), parts[-1]))


def _clauses(parts: Sequence[_Node]) -> _Node:
    return _joined("S", parts, last=",/, and/CC")


def _location_phrase(item: SceneObject) -> _Node:
    return _phrase("PP", f"{_PREPOSITIONS[item.location]}/IN", _phrase("NP", f"the/DT {item.location}/NN"))


class _Describer:
    """Phrases for the objects of a scene, in random order."""

    def __init__(self, objects: Sequence[SceneObject], background: str, rng: np.random.Generator) -> None:
        self._chains = {item: str(number) for number, item in enumerate(objects, start=1)}
        self._background = background
        self._rng = rng
        self.objects = [objects[i] for i in rng.permutation(len(objects))]

    def pick(self, *options: str) -> str:
        return options[int(self._rng.integers(len(options)))]

    def name(self, item: SceneObject, *, sized: bool = False) -> _Node:
        """Mention of an object, optionally with its size."""
        size = f"{self.pick(*_SIZE_WORDS[item.size])}/JJ " if sized else ""
        described = f"{size}{item.colour}/JJ"
        mention = (self._chains[item], SHAPE_TYPES[item.shape])
        if not item.pair:
            article = self.pick("the", *["an" if described[0] in "aeiou" else "a"] * 3)
            return _phrase("NP", f"{article}/DT {described} {item.shape}/NN", mention=mention)
        described += f" {_PLURALS.get(item.shape, item.shape + 's')}/NNS"
        if self.pick("two", "two", "a pair") == "two":
            return _phrase("NP", f"two/CD {described}", mention=mention)
        of_them = _phrase("PP", "of/IN", _phrase("NP", described))
        return _Node("NP", (_phrase("NP", "a/DT pair/NN"), of_them), mention=mention)

    def located(self, item: SceneObject, *, sized: bool = False) -> _Node:
        """Mention with location: ``a red circle on the left``."""
        return _Node("NP", (self.name(item, sized=sized), _location_phrase(item)))

    def near(self, item: SceneObject, other: SceneObject) -> _Node:
        """Location relative to another object: ``above a blue square``."""
        right, down = other.steps_to(item)
        relations = [
            *(["above/IN"] if down < 0 else []),
            *(["below/IN"] if down > 0 else []),
            *(["left"] if right < 0 else []),
            *(["right"] if right > 0 else []),
            *(["next/JJ"] if abs(right) == 1 and down == 0 else []),
        ]
        relation = self.pick(*relations)
        name = self.name(other, sized=True)
        if relation == "next/JJ":
            return _phrase("ADJP", relation, _phrase("PP", "to/TO", name))
        if "/" in relation:
            return _phrase("PP", relation, name)
        of_it = _Node("NP", (_phrase("NP", f"the/DT {relation}/NN"), _phrase("PP", "of/IN", name)))
        return _phrase("PP", "to/TO", of_it)

    def background(self) -> _Node:
        chain = str(len(self.objects) + 1)
        words = f"{self.pick('a', 'the')}/DT {self._background}/JJ background/NN"
        return _phrase("NP", words, mention=(chain, "scene"))


def _verb(objects: Sequence[SceneObject]) -> str:
    return "are/VBP" if len(objects) > 1 or objects[0].pair else "is/VBZ"


def _not_visual(words: str) -> _Node:
    return _phrase("NP", words, mention=(None, NOT_VISUAL))


def _relation(describer: _Describer) -> _Node:
    """A large red circle is above a small blue square , and two green stars are on the left ."""
    first, *others = describer.objects
    where = describer.near(first, others[0]) if others else _location_phrase(first)
    clauses = [_Node("S", (describer.name(first, sized=True), _phrase("VP", _verb([first]), where)))]
    for item in others[1:]:
        clauses.append(_Node("S", (describer.name(item), _phrase("VP", _verb([item]), _location_phrase(item)))))
    return _clauses(clauses)


def _existence(describer: _Describer) -> _Node:
    """There is a large red circle above a small blue square and two green stars on the left ."""
    first, *others = describer.objects
    where = describer.near(first, others[0]) if others else _location_phrase(first)
    seen = [_Node("NP", (describer.name(first, sized=True), where))]
    seen += [describer.located(item) for item in others[1:]]
    return _Node("S", (_not_visual("there/EX"), _phrase("VP", _verb([first]), _joined("NP", seen))))


def _list(describer: _Describer) -> _Node:
    """The red circle on the left , a blue square at the top and two green stars in the middle ."""
    return _joined("NP", [describer.located(item) for item in describer.objects])


def _on_background(describer: _Describer) -> _Node:
    """A large red circle and two small green stars are on a grey background ."""
    names = _joined("NP", [describer.name(item, sized=True) for item in describer.objects])
    return _Node("S", (names, _phrase("VP", _verb(describer.objects), _phrase("PP", "on/IN", describer.background()))))


def _against_background(describer: _Describer) -> _Node:
    """The red circle on the left and two green stars in the middle against a grey background ."""
    return _Node("NP", (_list(describer), _phrase("PP", "against/IN", describer.background())))


def _picture(describer: _Describer) -> _Node:
    """The picture shows a large red circle on the left and two small green stars in the middle ."""
    shown = _joined("NP", [describer.located(item, sized=True) for item in describer.objects])
    subject = _phrase("NP", f"{describer.pick('the', 'this')}/DT picture/NN")
    return _Node("S", (subject, _phrase("VP", f"{describer.pick('shows', 'has')}/VBZ", shown)))


def _locations_first(describer: _Describer) -> _Node:
    """On the left is a red circle , and in the middle are two green stars ."""
    return _clauses(
        [
            _Node("SINV", (_location_phrase(item), _phrase("VP", _verb([item])), describer.name(item)))
            for item in describer.objects
        ]
    )


def _each_other(describer: _Describer) -> _Node:
    """The red circle on the left and two green stars in the middle are near each other ."""
    objects = describer.objects
    if len(objects) == 1 and not objects[0].pair:
        return _list(describer)
    far = any(2 in np.abs(one.steps_to(other)) for one, other in combinations(objects, 2))
    each_other = _not_visual("each/DT other/JJ")
    where = (
        _phrase("ADVP", "apart/RB", _phrase("PP", "from/IN", each_other))
        if far
        else _phrase("PP", "near/IN", each_other)
    )
    return _Node("S", (_list(describer), _phrase("VP", _verb(objects), where)))


_TEMPLATES: tuple[Callable[[_Describer], _Node], ...] = (
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

_MIN_SIZE = 48
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


def make_scenes(count: int, *, seed: int = 0, size: int = 96, objects: tuple[int, int] = (2, 3)) -> Iterator[Scene]:
    """Generate scenes, no two with the same objects at the same locations.

    Boxes enclose the pixels that a shape covers by half or more. They never overlap. The same seed gives the same
    pixels; a longer run starts with the same scenes. `objects` is the minimum and maximum number per scene.
    """
    if size < _MIN_SIZE:
        raise DeixisError(f"scenes of {size} pixels are too small; use a size of at least {_MIN_SIZE}")
    if not 1 <= objects[0] <= objects[1] <= 4:
        raise DeixisError(f"a scene has 1 to 4 objects, not {objects[0]} to {objects[1]}")
    rng = np.random.default_rng(seed)
    seen: set[frozenset[SceneObject]] = set()
    while len(seen) < count:
        here = _choose_objects(rng, objects)
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
    on_progress: OnProgress = no_progress,
) -> None:
    """Write scenes as a data set: ``images/ID.png`` and ``photos.jsonl``.

    `splits` gives the fraction of each split; by default 0.8 train, 0.1 dev, 0.1 test. Other scenes are in no split.
    """
    names = _split_names(count, {"train": 0.8, "dev": 0.1, "test": 0.1} if splits is None else splits)
    with explain_os_errors(folder):
        (folder / "images").mkdir(parents=True, exist_ok=True)
        scenes = track(make_scenes(count, seed=seed, size=size), "drawing scenes", count, on_progress)
        photos = (_write_photo(scene, folder, split) for scene, split in zip(scenes, names, strict=True))
        jsonl.write(photos, folder)


def _write_photo(scene: Scene, folder: Path, split: str | None) -> Photo:
    """Write the image file and return the record with file name, split and hash."""
    file = f"{scene.photo.id}.png"
    data = _png(scene.pixels)
    (folder / "images" / file).write_bytes(data)
    splits = (split,) if split else ()
    return replace(scene.photo, file=file, splits=splits, sha256=hashlib.sha256(data).hexdigest())


def _split_names(count: int, splits: Mapping[str, float]) -> list[str | None]:
    if min(splits.values(), default=0) < 0 or sum(splits.values()) > 1 + 1e-9:
        raise DeixisError(f"splits must be fractions that sum to at most 1, not {dict(splits)}")
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


def _choose_objects(rng: np.random.Generator, count_range: tuple[int, int]) -> tuple[SceneObject, ...]:
    number = int(rng.integers(count_range[0], count_range[1] + 1))
    colours = rng.choice(list(COLOURS), number, replace=False).tolist()
    locations = rng.choice(list(LOCATIONS), number, replace=False).tolist()
    shapes = rng.choice(list(SHAPE_TYPES), number).tolist()
    sizes = rng.choice(list(_SIDES), number).tolist()
    pair = int(rng.integers(number)) if rng.random() < 0.4 else None
    return tuple(
        SceneObject(colour, shape, "small" if i == pair else size, location, pair=i == pair)
        for i, (colour, shape, size, location) in enumerate(zip(colours, shapes, sizes, locations, strict=True))
    )


def _make_scene(name: str, objects: Sequence[SceneObject], size: int, rng: np.random.Generator) -> Scene:
    background = str(rng.choice(list(BACKGROUNDS)))
    canvas = _background(background, size, rng)
    boxes = [
        Box(_draw(canvas, item, corner, side), (str(chain),))
        for chain, item in enumerate(objects, start=1)
        for corner, side in _positions(item, size, rng)
    ]
    captions = describe_objects(objects, background, rng)
    chains = [Chain(str(chain)) for chain in range(1, len(objects) + 1)]
    if any("scene" in mention.types for caption in captions for mention in caption.mentions):
        chains.append(Chain(str(len(objects) + 1), scene=True, no_box=True))
    photo = Photo(name, captions, tuple(chains), tuple(boxes), width=size, height=size)
    return Scene(photo, np.rint(canvas).astype(np.uint8))


def _background(colour: str, size: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Plain background, or one with soft waves."""
    canvas = np.tile(np.array(BACKGROUNDS[colour], dtype=np.float64), (size, size, 1))
    if rng.random() < 0.5:
        right, down, phase = rng.uniform([-40, -40, 0], [40, 40, 2 * np.pi])
        along = np.arange(size) / size
        canvas += _TEXTURE * np.sin(right * along + down * along[:, None] + phase)[..., None]
    return canvas


def _positions(item: SceneObject, size: int, rng: np.random.Generator) -> list[tuple[tuple[int, int], int]]:
    """Top left corner and side, in pixels, of each shape of an object."""
    right, down = LOCATIONS[item.location]
    middle = np.array([0.5 + _STEP * right, 0.5 + _STEP * down])
    if item.pair:
        side = round(_PAIR_SIDE * size)
        apart = np.array([0.08, rng.uniform(-0.06, 0.06)])
        middles = [middle - apart, middle + apart]
    else:
        side = round(rng.uniform(*_SIDES[item.size]) * size)
        # As far from the centre of its location as possible within the area of a large shape.
        room = max(_SIDES["large"][1] - side / size, 0) / 2 + 0.005
        middles = [middle + rng.uniform(-room, room, 2)]
    return [((round(x * size - side / 2), round(y * size - side / 2)), side) for x, y in middles]


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


@lru_cache(maxsize=1024)
def _coverage(shape: str, side: int) -> npt.NDArray[np.float64]:
    """Coverage of each pixel of a (side, side) square by a shape."""
    from PIL import Image, ImageDraw

    scale = side * _SUPERSAMPLING
    fine = Image.new("L", (scale, scale))
    pen = ImageDraw.Draw(fine)
    for polygon in _OUTLINES[shape]:
        pen.polygon([(px * side * _SUPERSAMPLING - 0.5, py * side * _SUPERSAMPLING - 0.5) for px, py in polygon], 255)
    return np.asarray(fine.reduce(_SUPERSAMPLING), dtype=np.float64) / 255


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
"""Polygons of each shape in the unit square, y downwards."""
