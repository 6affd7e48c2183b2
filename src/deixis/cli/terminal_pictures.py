"""Pictures in the terminal: the protocols of kitty, iTerm2 and sixel, or coloured half blocks."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import cast

from PIL import Image

from deixis.errors import DeixisError

VARIABLE = "DEIXIS_PREVIEW"
_CHUNK = 4096
_BLOCK_COLUMNS = 40
_ROWS = 10
_PIXELS_PER_ROW = 20
_SIXEL_COLOURS = 128
_NO_PIXEL = "?"
_MIN_RUN = 3
_CUBE = (0, 95, 135, 175, 215, 255)

Colour = tuple[int, int, int]


def choose_protocol(environment: Mapping[str, str] = os.environ) -> str:
    """Return the protocol of this terminal, by its variables; DEIXIS_PREVIEW overrides them."""
    if chosen := environment.get(VARIABLE, ""):
        if chosen not in PROTOCOLS:
            raise DeixisError(f"{VARIABLE}={chosen}: not a protocol; use {', '.join(PROTOCOLS)}")
        return chosen
    terminal, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or terminal.startswith(("screen", "tmux")):  # they do not pass pictures on
        return _blocks_for(environment)
    if "kitty" in terminal or "ghostty" in terminal or environment.get("KITTY_WINDOW_ID"):
        return "kitty"
    if program in ("iTerm.app", "WezTerm", "mintty"):
        return "iterm"
    if any(name in terminal for name in ("sixel", "foot", "mlterm", "contour")):
        return "sixel"
    return _blocks_for(environment)


def _blocks_for(environment: Mapping[str, str]) -> str:
    return "blocks" if environment.get("COLORTERM") in ("truecolor", "24bit") else "blocks-256"


def draw_picture(jpeg: bytes, protocol: str) -> str:
    """Return a picture as text for the terminal, ending with a new line."""
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as image:
        return PROTOCOLS[protocol](image.convert("RGB"))


def _kitty(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    chunks = [data[begin : begin + _CHUNK] for begin in range(0, len(data), _CHUNK)]
    parts = []
    for number, chunk in enumerate(chunks):
        head = f"f=100,a=T,q=2,r={_ROWS}," if number == 0 else ""  # q=2: the terminal does not answer
        parts.append(f"\x1b_G{head}m={int(number < len(chunks) - 1)};{chunk}\x1b\\")
    return "".join(parts) + "\n"


def _iterm(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f"\x1b]1337;File=inline=1;size={len(buffer.getvalue())};height={_ROWS};preserveAspectRatio=1:{data}\a\n"


def _sixel(image: Image.Image) -> str:
    """Encode rows of six pixels: for each colour, a character for each column with a bit for each row."""
    import numpy as np

    height = _ROWS * _PIXELS_PER_ROW
    small = image.resize((max(1, image.width * height // image.height), height)).quantize(_SIXEL_COLOURS)
    palette, pixels = small.getpalette() or [], np.asarray(small)
    used = np.unique(pixels).tolist()
    parts = ["\x1bPq", f'"1;1;{small.width};{small.height}']
    for colour in used:
        red, green, blue = (round(value * 100 / 255) for value in palette[3 * colour : 3 * colour + 3])
        parts.append(f"#{colour};2;{red};{green};{blue}")
    for top in range(0, small.height, 6):
        band = pixels[top : top + 6]
        bits = (1 << np.arange(len(band)))[:, None]
        for colour in np.unique(band).tolist():
            codes = ((band == colour) * bits).sum(axis=0) + 63
            runs = groupby(bytes(codes.astype(np.uint8)).decode("ascii").rstrip(_NO_PIXEL))
            parts.append(f"#{colour}{''.join(_run(code, len(list(run))) for code, run in runs)}$")
        parts.append("-")
    return "".join(parts) + "\x1b\\\n"


def _run(code: str, length: int) -> str:
    return f"!{length}{code}" if length > _MIN_RUN else code * length


def _blocks(image: Image.Image, colour: Callable[[Colour], str] = lambda rgb: "2;{};{};{}".format(*rgb)) -> str:
    """Draw two pixels per character: the upper half in the foreground colour, the lower one in the background's."""
    scale = min(2 * _ROWS / image.height, _BLOCK_COLUMNS / image.width)
    small = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale / 2)) * 2))
    lines = []
    for row in range(0, small.height, 2):
        line = []
        for column in range(small.width):
            upper, lower = (cast(Colour, small.getpixel((column, row + half))) for half in range(2))
            line.append(f"\x1b[38;{colour(upper)}m\x1b[48;{colour(lower)}m▀")
        lines.append("".join(line) + "\x1b[0m")
    return "\n".join(lines) + "\n"


def _blocks_256(image: Image.Image) -> str:
    """Draw in the 256 colours of terminals without others: a cube of 6 × 6 × 6."""

    def nearest(rgb: Colour) -> str:
        red, green, blue = (min(range(6), key=lambda step: abs(_CUBE[step] - value)) for value in rgb)
        return f"5;{16 + 36 * red + 6 * green + blue}"

    return _blocks(image, nearest)


PROTOCOLS: dict[str, Callable[[Image.Image], str]] = {
    "kitty": _kitty,
    "iterm": _iterm,
    "sixel": _sixel,
    "blocks": _blocks,
    "blocks-256": _blocks_256,
}
