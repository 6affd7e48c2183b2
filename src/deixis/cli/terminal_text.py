"""Text for terminals: control characters in file names and other data are shown, not obeyed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

_ALLOWED = "\0\t\n"
_MARKS = [0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
_CONTROL = [*range(0x20), *range(0x7F, 0xA0), *_MARKS]
"""The control characters of ASCII and Latin-1, line separators, and marks that change the direction of text."""

_SHOWN = {code: f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}" for code in _CONTROL if chr(code) not in _ALLOWED}


def show_control(text: str) -> str:
    r"""Replace control characters by their escapes; new lines and tabs stay.

    Examples
    --------
    >>> print(show_control("dog\x1b]0;evil\x07.jpg"))
    dog\x1b]0;evil\x07.jpg
    """
    return text.translate(_SHOWN)


class TerminalText:
    """A stream to a terminal that obeys no control characters of what is printed.

    `own` is the stream itself, for sequences that deixis writes on purpose.
    """

    def __init__(self, own: TextIO) -> None:
        self.own = own

    def write(self, text: str) -> int:
        self.own.write(show_control(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


def protect_terminals() -> None:
    """Let everything that is printed to a terminal from now on pass through `TerminalText`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty() and not isinstance(stream, TerminalText):
            setattr(sys, name, TerminalText(stream))


def own_stream(stream: TextIO) -> TextIO:
    """Return the stream for sequences of our own: colours, progress bars and pictures."""
    return stream.own if isinstance(stream, TerminalText) else stream
