"""The map as a page of its own: one file that asks the network for nothing, and stays smooth with 10,000 photos."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from deixis.data.images import open_photo
from deixis.files.progress import OnProgress, silent
from deixis.tasks.map.layout import SemanticMap
from deixis.tasks.map.picture import square
from deixis.tasks.pictures.style import PALETTE

PAGE = Path(__file__).parent / "pages" / "map.html"
_SHEET = 4032
"""Pixels on a side of a sheet of small photos: less than what browsers refuse, and many sizes go into it."""

_TILES = ((150, 192), (1000, 112), (4000, 84), (1 << 60, 56))
"""Up to so many photos, and how many pixels each then gets."""


def map_page(shown: SemanticMap, *, on_progress: OnProgress = silent) -> str:
    """The page, in HTML.

    Photos are in it as sheets of small squares, about 2 kB each; nothing of their files, such as the place where they
    were taken, comes with them.

    Parameters
    ----------
    shown
        The map.
    on_progress
        Called as the work goes on.
    """
    tile = next(side for most, side in _TILES if len(shown.files) <= most)
    row = _SHEET // tile
    data = {
        "photos": _encoded(shown.photo_places.astype("<f4")),
        "sentences": _encoded(shown.sentence_places.astype("<f4")),
        "owner": _encoded(shown.owner.astype("<i4")),
        "texts": list(shown.sentences),
        "sheets": [_address(sheet) for sheet in _sheets(shown.files, tile, row, on_progress)],
        "tile": tile,
        "row": row,
        "side": 0.07 * min(1.0, (60 / len(shown.files)) ** 0.5),
        "colours": ["#{:02x}{:02x}{:02x}".format(*colour) for colour in PALETTE[:-1]],
    }
    # Within a script only this sign could end it early.
    written = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return PAGE.read_text(encoding="utf-8").replace("__DATA__", written)


def _sheets(files: Sequence[Path], tile: int, row: int, on_progress: OnProgress) -> Iterator[Image.Image]:
    for begin in range(0, len(files), row * row):
        some = files[begin : begin + row * row]
        columns, rows = min(row, len(some)), -(-len(some) // row)
        sheet = Image.new("RGB", (columns * tile, rows * tile))
        for place, file in enumerate(some):
            sheet.paste(square(open_photo(file), tile), (place % row * tile, place // row * tile))
            on_progress("reading photos", begin + place + 1, len(files))
        yield sheet


def _address(sheet: Image.Image) -> str:
    written = io.BytesIO()
    sheet.save(written, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()


def _encoded(numbers: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode()
