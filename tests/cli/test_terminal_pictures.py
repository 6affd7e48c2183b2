"""Pictures in the terminal, decoded by plain readers of the protocols' definitions."""

from __future__ import annotations

import base64
import io
import re

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from deixis.cli.terminal_pictures import choose_protocol, draw_picture
from deixis.errors import DeixisError

Pixels = NDArray[np.uint8]


def read_kitty(text: str) -> Pixels:
    """The payloads of graphics commands ``ESC _ G keys ; payload ESC \\``, joined while m=1."""
    commands = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text)
    assert re.sub(r"\x1b_G[^\x1b]*\x1b\\", "", text) == "\n"
    keys = [dict(pair.split("=") for pair in each.split(",")) for each, _ in commands]
    assert (keys[0]["a"], keys[0]["f"]) == ("T", "100")  # transmit and display; PNG
    assert [each["m"] for each in keys] == ["1"] * (len(keys) - 1) + ["0"]
    assert all(len(payload) <= 4096 for _, payload in commands)
    assert all(len(payload) % 4 == 0 for _, payload in commands[:-1])
    return _pixels(base64.b64decode("".join(payload for _, payload in commands)))


def read_iterm(text: str) -> Pixels:
    """``ESC ] 1337 ; File = arguments : payload BEL``."""
    found = re.fullmatch(r"\x1b\]1337;File=([^:]*):([A-Za-z0-9+/=]*)\x07\n", text)
    assert found
    arguments = dict(pair.split("=") for pair in found[1].split(";"))
    data = base64.b64decode(found[2])
    assert (arguments["inline"], int(arguments["size"])) == ("1", len(data))
    return _pixels(data)


def _pixels(data: bytes) -> Pixels:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def read_sixel(text: str) -> Pixels:
    """An interpreter of DEC's sixel graphics: colours in percent, runs, new bands and returns to the start of one."""
    found = re.fullmatch(r'\x1bPq"1;1;(\d+);(\d+)(.*)\x1b\\\n', text, re.DOTALL)
    assert found
    width, height = int(found[1]), int(found[2])
    picture = np.zeros((height + 6, width, 3), dtype=np.uint8)
    is_drawn = np.zeros((height + 6, width), dtype=bool)
    colours: dict[int, tuple[int, ...]] = {}
    colour = left = top = 0
    tokens = r"#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([?-~])|(\$)|(-)"
    read = 0
    for token in re.finditer(tokens, found[3]):
        read += len(token[0])
        if token[1]:
            colours[int(token[1])] = tuple(round(int(part) * 255 / 100) for part in token.group(2, 3, 4))
        elif token[5]:
            colour = int(token[5])
        elif token[9]:
            left = 0
        elif token[10]:
            left, top = 0, top + 6
        else:
            count, bits = int(token[6] or 1), ord(token[7] or token[8]) - 63
            for row in range(6):
                if bits >> row & 1:
                    picture[top + row, left : left + count] = colours[colour]
                    is_drawn[top + row, left : left + count] = True
            left += count
            assert left <= width
    assert read == len(found[3])
    assert is_drawn[:height].all()
    assert not is_drawn[height:].any()
    return picture[:height]


def read_blocks(text: str) -> Pixels:
    """Upper half blocks: two pixels per character, in colours of 24 bits or of the 256-colour palette."""
    rows = []
    for line in text.removesuffix("\n").split("\n"):
        assert line.endswith("\x1b[0m")
        cells = re.findall(r"\x1b\[38;([\d;]+)m\x1b\[48;([\d;]+)m▀", line)
        assert "".join(f"\x1b[38;{upper}m\x1b[48;{lower}m▀" for upper, lower in cells) + "\x1b[0m" == line
        rows += [[_colour(cell[half]) for cell in cells] for half in range(2)]
    return np.array(rows, dtype=np.uint8)


def _colour(parameters: str) -> tuple[int, ...]:
    kind, *values = map(int, parameters.split(";"))
    if kind == 2:
        return tuple(values)
    levels = [0, 95, 135, 175, 215, 255]
    [number] = values
    assert 16 <= number < 232
    return levels[(number - 16) // 36], levels[(number - 16) // 6 % 6], levels[(number - 16) % 6]


READERS = {
    "kitty": read_kitty,
    "iterm": read_iterm,
    "sixel": read_sixel,
    "blocks": read_blocks,
    "blocks-256": read_blocks,
}


def photo(width: int, height: int) -> bytes:
    """Four quarters in different colours, so that a mirrored or shifted picture is noticed."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[: height // 2, : width // 2] = (250, 20, 10)
    pixels[: height // 2, width // 2 :] = (10, 200, 30)
    pixels[height // 2 :, : width // 2] = (20, 30, 220)
    pixels[height // 2 :, width // 2 :] = (240, 240, 235)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


@pytest.mark.parametrize("protocol", READERS)
@pytest.mark.parametrize("size", [(320, 240), (180, 320), (400, 90), (37, 41)])
def test_a_terminal_shows_the_photo(protocol: str, size: tuple[int, int]) -> None:
    width, height = size
    shown = READERS[protocol](draw_picture(photo(width, height), protocol))
    rows, columns = shown.shape[:2]
    slack = 0.1 if rows > 40 else 0.25  # blocks have few rows
    assert columns / rows == pytest.approx(width / height, rel=slack)
    expected = _pixels(photo(width, height))
    for y in (0.25, 0.75):
        for x in (0.25, 0.75):
            ours = shown[int(rows * y), int(columns * x)].astype(int)
            theirs = expected[int(height * y), int(width * x)].astype(int)
            assert np.abs(ours - theirs).max() <= (30 if protocol == "blocks-256" else 8)


def test_a_sixel_picture_is_short() -> None:
    noisy = np.random.default_rng(0).integers(0, 60, (240, 320, 3), dtype=np.uint8)
    noisy[:, :160] = (90, 90, 90)
    buffer = io.BytesIO()
    Image.fromarray(noisy).resize((80, 60)).resize((320, 240)).save(buffer, "JPEG")
    assert len(draw_picture(buffer.getvalue(), "sixel")) < 400_000
    assert len(draw_picture(photo(320, 240), "sixel")) < 20_000


@pytest.mark.parametrize(
    ("variables", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "foot"}, "sixel"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "blocks"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, "blocks-256"),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/tmux", "KITTY_WINDOW_ID": "1", "COLORTERM": "truecolor"}, "blocks"),
        ({"TERM": "tmux-256color", "DEIXIS_PREVIEW": "sixel"}, "sixel"),
    ],
)
def test_the_protocol_is_chosen_by_the_terminal(variables: dict[str, str], protocol: str) -> None:
    assert choose_protocol(variables) == protocol


def test_an_unknown_protocol_is_an_error() -> None:
    with pytest.raises(DeixisError, match=r"DEIXIS_PREVIEW=png.*kitty, iterm, sixel, blocks"):
        choose_protocol({"DEIXIS_PREVIEW": "png"})
