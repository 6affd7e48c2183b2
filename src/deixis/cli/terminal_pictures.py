"""Pictures in the terminal: the protocols of kitty, iTerm2 and sixel, or coloured half blocks."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Mapping

from PIL import Image

VARIABLE = "DEIXIS_PREVIEW"
_CHUNK = 4096
_BLOCK_COLUMNS = 40
_ROWS = 10
_PIXELS_PER_ROW = 20
_SIXEL_COLOURS = 128


def choose_protocol(environment: Mapping[str, str] = os.environ) -> str:
    """Return the protocol of this terminal, by its variables; DEIXIS_PREVIEW overrides them."""
    if (chosen := environment.get(VARIABLE, "")) in PROTOCOLS:
        return chosen
    terminal, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if "kitty" in terminal or "ghostty" in terminal or environment.get("KITTY_WINDOW_ID"):
        return "kitty"
    if program in ("iTerm.app", "WezTerm", "mintty"):
        return "iterm"
    return "sixel" if any(name in terminal for name in ("sixel", "foot", "mlterm", "contour")) else "blocks"


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
        head = f"f=100,a=T,r={_ROWS}," if number == 0 else ""
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
            parts.append(f"#{colour}{bytes(codes.astype(np.uint8)).decode('ascii')}$")
        parts.append("-")
    return "".join(parts) + "\x1b\\\n"


def _blocks(image: Image.Image) -> str:
    """Draw two pixels per character: the upper half in the foreground colour, the lower one in the background's."""
    width = min(_BLOCK_COLUMNS, max(1, image.width * 2 * _ROWS // image.height))
    small = image.resize((width, 2 * _ROWS))
    lines = []
    for row in range(0, small.height, 2):
        line = []
        for column in range(small.width):
            upper, lower = small.getpixel((column, row)), small.getpixel((column, row + 1))
            line.append("\x1b[38;2;{};{};{}m\x1b[48;2;{};{};{}m▀".format(*upper, *lower))  # type: ignore[misc]
        lines.append("".join(line) + "\x1b[0m")
    return "\n".join(lines) + "\n"


PROTOCOLS: dict[str, Callable[[Image.Image], str]] = {
    "kitty": _kitty,
    "iterm": _iterm,
    "sixel": _sixel,
    "blocks": _blocks,
}
