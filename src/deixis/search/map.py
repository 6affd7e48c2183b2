"""A map of photos and their sentences, laid out by t-SNE, as a picture or as an HTML page.

The page is one file without network requests, and stays responsive with 10,000 photos.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from deixis.arrays import Floats, to_unit_length
from deixis.data.dataset import Dataset, Photos
from deixis.data.images import open_photo
from deixis.errors import DatasetError, DeixisError
from deixis.models.grounding import EmbeddingPipeline
from deixis.pictures.style import PALETTE, WHITE, Colour, Rectangle, font, tint
from deixis.storage.progress import OnProgress, no_progress

MIN_PHOTOS = 4

_ONE_THREAD = 5_000
"""Up to this many points, one thread is faster than several."""

_APPROXIMATE = 20_000
"""From this many points on, neighbours are approximate."""


@dataclass(frozen=True)
class SemanticMap:
    """The positions of n photos and m sentences: x and y from 0 to 1, y downwards."""

    files: tuple[Path, ...]
    sentences: tuple[str, ...]
    owner: npt.NDArray[np.int64]  # the index of each sentence's photo
    photo_positions: Floats  # (n, 2)
    sentence_positions: Floats  # (m, 2)


def make_map(
    pipeline: EmbeddingPipeline,
    dataset: Dataset,
    photos: Photos,
    *,
    seed: int = 0,
    on_progress: OnProgress = no_progress,
) -> SemanticMap:
    """Lay out photos and their sentences by t-SNE."""
    pipeline.require("similarity")
    if not pipeline.has_common_space:
        raise DeixisError("this model has no common space of photos and sentences; use two-branch or cca")
    features = pipeline.features(dataset, photos, on_progress=on_progress)
    rows, owner = features.photos.sentence_rows()
    if len(features.photos) < MIN_PHOTOS or not len(rows):
        raise DatasetError(
            f"{dataset.path}: a map needs at least {MIN_PHOTOS} photos with sentences, there are "
            f"{len(features.photos)} photos with {len(rows)} sentences"
        )
    sentences = tuple(dataset.tables["captions"]["text"].take(rows).to_pylist())
    on_progress("reading sentences", 0, None)
    visual = pipeline.model.prepare_visual(features.vectors())
    on_progress("laying out", 0, None)
    positions = lay_out(np.concatenate([_centre(visual), _centre(pipeline.encode_sentences(sentences))]), seed=seed)
    files = tuple(dataset.path_of(photo) for photo in features.photos)
    return SemanticMap(files, sentences, owner, positions[: len(visual)], positions[len(visual) :])


def lay_out(vectors: Floats, *, seed: int = 0) -> Floats:
    """Return positions, (n, 2), from 0 to 1, by t-SNE with cosine distance; reproducible on one machine."""
    try:
        from openTSNE import TSNE
    except ImportError:
        raise DeixisError("the map needs openTSNE; install it with: pip install 'deixis[map]'") from None
    neighbours = "exact" if len(vectors) < _APPROXIMATE else "auto"
    layout = TSNE(
        perplexity=max(2.0, min(30.0, (len(vectors) - 1) / 3)),
        metric="cosine",
        neighbors=neighbours,
        random_state=seed,
        n_jobs=1 if len(vectors) < _ONE_THREAD else -1,
    )
    points = np.asarray(layout.fit(np.asarray(vectors, dtype=np.float64)))
    # Use one scale for x and y.
    low, high = points.min(axis=0), points.max(axis=0)
    middle, spread = (low + high) / 2, max(float((high - low).max()), 1e-9)
    return np.asarray((points - middle) / spread + 0.5, dtype=np.float32)


def _centre(vectors: Floats) -> Floats:
    """Subtract the mean: photos and sentences differ by a constant offset, which carries no information."""
    return to_unit_length(vectors - vectors.mean(axis=0))


def sample_photos(dataset: Dataset, photos: Photos, count: int, seed: int = 0) -> Photos:
    """Sample photos at random, in the order of the data; all if there are not enough."""
    if count >= len(photos):
        return photos
    chosen = np.random.default_rng(seed).choice(len(photos), count, replace=False)
    return Photos(dataset, photos.rows[np.sort(chosen)])


SIDE = 2400
"""Width and height of the picture in pixels."""

MAX_LABEL = 34
_THUMBNAIL = 0.05
_MARGIN = 0.06
_MAX_STEPS = 200
_INK: Colour = (40, 40, 40)


def draw_map(semantic_map: SemanticMap, *, side: int = SIDE, on_progress: OnProgress = no_progress) -> Image.Image:
    """Draw a map of a few dozen photos, `side` pixels wide and high. Photos that would overlap are moved apart."""
    size = max(24, round(side * _THUMBNAIL * min(1.0, (90 / max(1, len(semantic_map.files))) ** 0.5)))
    margin = round(side * _MARGIN)
    photos = margin + semantic_map.photo_positions * (side - 2 * margin)
    sentences = margin + semantic_map.sentence_positions * (side - 2 * margin)
    centres = move_apart(photos, size * 1.06, (size / 2, side - size / 2))
    # Drawn at twice the size and reduced, because Pillow does not smooth lines.
    canvas = Image.new("RGB", (2 * side, 2 * side), WHITE)
    pen = ImageDraw.Draw(canvas)
    for position, owner in zip(sentences, semantic_map.owner, strict=True):
        pen.line([*(2 * centres[owner]), *(2 * position)], fill=tint(_colour(owner), 0.45), width=max(2, side // 800))
    for position, owner in zip(sentences, semantic_map.owner, strict=True):
        _dot(pen, 2 * position, side / 500, _colour(owner))
    canvas = canvas.resize((side, side), Image.Resampling.LANCZOS)
    pen = ImageDraw.Draw(canvas)
    taken = list(_paste(canvas, semantic_map.files, centres, size, on_progress))
    _write_sentences(pen, semantic_map, sentences, taken, side)
    return canvas.crop(_content_box(taken, sentences, side))


def move_apart(positions: np.ndarray, distance: float, within: tuple[float, float]) -> np.ndarray:
    """Move squares apart, step by step, until they no longer overlap."""
    now = positions.astype(np.float64) + np.random.default_rng(0).normal(0, 1e-3, positions.shape)
    for _ in range(_MAX_STEPS):
        gap = now[:, None] - now[None]
        overlap = np.maximum(distance - np.abs(gap), 0)
        both = np.asarray((overlap > 0).all(axis=2))
        np.fill_diagonal(both, False)
        if not both.any():
            break
        # Squares move along the axis with the smaller overlap.
        across = overlap[..., 0] < overlap[..., 1]
        step = np.where(both[..., None] & np.stack([across, ~across], axis=-1), np.sign(gap) * overlap, 0)
        now = np.clip(now + 0.5 * step.sum(axis=1) / np.maximum(both.sum(axis=1), 1)[:, None], *within)
    return now


def shorten(sentence: str, max_length: int = MAX_LABEL) -> str:
    """Cut a sentence after a word."""
    text = " ".join(sentence.split()).removesuffix(" .")
    if len(text) <= max_length:
        return text
    cut = text[: max_length - 2].rsplit(" ", 1)[0]
    return f"{cut} …"


def _colour(owner: int) -> Colour:
    return PALETTE[int(owner) % (len(PALETTE) - 1)]  # all but black, the colour of text


def _dot(pen: ImageDraw.ImageDraw, position: np.ndarray, radius: float, colour: Colour) -> None:
    x, y, r = *position, 2 * radius
    pen.ellipse([x - r, y - r, x + r, y + r], fill=colour)


def _paste(
    canvas: Image.Image, files: Sequence[Path], centres: np.ndarray, size: int, on_progress: OnProgress
) -> Iterator[Rectangle]:
    """Paste the photos, each in a frame of its colour; yield their rectangles."""
    rim = max(2, size // 28)
    for number, (file, (x, y)) in enumerate(zip(files, centres, strict=True)):
        small = crop_square(open_photo(file), size - 2 * rim)
        left, top = round(x - size / 2), round(y - size / 2)
        canvas.paste(_colour(number), (left, top, left + size, top + size))
        canvas.paste(small, (left + rim, top + rim))
        on_progress("drawing photos", number + 1, len(files))
        yield left, top, left + size, top + size


def crop_square(photo: Image.Image, side: int) -> Image.Image:
    """Return the centre of a photo as a small square."""
    short = min(photo.size)
    left, top = (photo.width - short) // 2, (photo.height - short) // 2
    cut = photo.convert("RGB").resize(
        (side, side), Image.Resampling.LANCZOS, (left, top, left + short, top + short), reducing_gap=3.0
    )
    cut.info.clear()
    return cut


def _write_sentences(
    pen: ImageDraw.ImageDraw, semantic_map: SemanticMap, positions: np.ndarray, taken: list[Rectangle], side: int
) -> None:
    """Write sentences where they hide nothing: the first of each photo, then the second, and so on."""
    letters = font(max(9, round(side / 150)))
    order = sorted(range(len(positions)), key=lambda row: (_rank(semantic_map.owner, row), row))
    for row in order:
        text = shorten(semantic_map.sentences[row])
        width, height = letters.getlength(text), letters.size * 1.3
        x, y = positions[row]
        gap = side / 300
        beside = ((x + gap, y - height / 2), (x - gap - width, y - height / 2))
        for left, top in (*beside, (x - width / 2, y + gap), (x - width / 2, y - gap - height)):
            area = (left, top, left + width, top + height)
            inside = left >= 0 and top >= 0 and area[2] <= side and area[3] <= side
            if inside and not any(_overlap(area, other) for other in taken):
                pen.text((left, top), text, fill=_INK, font=letters, stroke_width=2, stroke_fill=WHITE)
                taken.append(area)
                break


def _content_box(taken: Sequence[Rectangle], positions: np.ndarray, side: int) -> tuple[int, int, int, int]:
    """Return the part of the picture that is not empty, with a margin."""
    edges = np.concatenate([np.array(taken), np.tile(positions, 2)])
    margin = side // 60
    low, high = edges[:, :2].min(axis=0) - margin, edges[:, 2:].max(axis=0) + margin
    left, top = np.maximum(low, 0).astype(int).tolist()
    right, bottom = np.minimum(high, side).astype(int).tolist()
    return left, top, right, bottom


def _rank(owner: np.ndarray, row: int) -> int:
    """Return the number of a sentence among those of its photo."""
    return row - int(np.searchsorted(owner, owner[row]))


def _overlap(one: Rectangle, other: Rectangle) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


PAGE = Path(__file__).parent / "pages" / "map.html"
_SHEET = 4032
"""Side of a sheet of small photos in pixels: below the limit of browsers, with many divisors."""

_TILES = ((150, 192), (1000, 112), (4000, 84), (1 << 60, 56))
"""Maximum number of photos, and the size of each in pixels."""


def map_page(semantic_map: SemanticMap, *, on_progress: OnProgress = no_progress) -> str:
    """Return the page in HTML. It contains the photos as small squares without metadata, about 2 kB each."""
    tile = next(side for maximum, side in _TILES if len(semantic_map.files) <= maximum)
    row = _SHEET // tile
    data = {
        "photos": _encode_base64(semantic_map.photo_positions.astype("<f4")),
        "sentences": _encode_base64(semantic_map.sentence_positions.astype("<f4")),
        "owner": _encode_base64(semantic_map.owner.astype("<i4")),
        "texts": list(semantic_map.sentences),
        "sheets": [_data_url(sheet) for sheet in _sheets(semantic_map.files, tile, row, on_progress)],
        "tile": tile,
        "row": row,
        "side": 0.07 * min(1.0, (60 / len(semantic_map.files)) ** 0.5),
        "colours": ["#{:02x}{:02x}{:02x}".format(*colour) for colour in PALETTE[:-1]],
    }
    # In a script, only this character could end it early.
    written = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return PAGE.read_text(encoding="utf-8").replace("__DATA__", written)


def _sheets(files: Sequence[Path], tile: int, row: int, on_progress: OnProgress) -> Iterator[Image.Image]:
    for begin in range(0, len(files), row * row):
        some = files[begin : begin + row * row]
        columns, rows = min(row, len(some)), -(-len(some) // row)
        sheet = Image.new("RGB", (columns * tile, rows * tile))
        for number, file in enumerate(some):
            sheet.paste(crop_square(open_photo(file), tile), (number % row * tile, number // row * tile))
            on_progress("reading photos", begin + number + 1, len(files))
        yield sheet


def _data_url(sheet: Image.Image) -> str:
    written = io.BytesIO()
    sheet.save(written, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()


def _encode_base64(numbers: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode()
