"""Text and JSON of files from unknown sources. A `Value` knows its path in the document, for messages of errors."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from deixis.data.names import quote_text
from deixis.errors import DatasetError
from deixis.geometry import XYXY

LARGEST_SIDE = 2**31 - 1
"""Maximum width or height of a photo: the largest int32."""

_BLANK_TO_END = re.compile(r"\s*\Z")
_DECODER = json.JSONDecoder()


class Value:
    """A value inside a JSON document, with its path."""

    __slots__ = ("_key", "_parent", "value")

    def __init__(self, value: object, parent: Value | str | Path, key: str | int = "") -> None:
        self.value = value
        self._parent = parent
        self._key = key

    def error(self, message: str) -> DatasetError:
        """Return an error with the file, the path of this value and a message."""
        path, above = "", self
        while isinstance(above._parent, Value):
            key = above._key
            path = (f"[{key}]" if isinstance(key, int) else f".{key}") + path
            above = above._parent
        parts = [str(above._parent), path.removeprefix("."), message]
        return DatasetError(": ".join(filter(None, parts)))

    def get(self, key: str) -> Value | None:
        """Return the value of a key of an object; None if it is missing or null."""
        if not isinstance(self.value, dict):
            raise self._expected("an object")
        found = self.value.get(key)
        return None if found is None else Value(found, self, key)

    def __getitem__(self, key: str) -> Value:
        found = self.get(key)
        if found is None:
            raise self.error(f'"{key}" is missing')
        return found

    def first_of(self, keys: tuple[str, ...]) -> Value | None:
        """Return the value of the first key that an object has, or None."""
        return next((found for key in keys if (found := self.get(key)) is not None), None)

    def allow_keys(self, keys: set[str]) -> None:
        """Refuse other keys, which may be misspelled."""
        if not isinstance(self.value, dict):
            raise self._expected("an object")
        for key in self.value:
            if key not in keys:
                raise self.error(f"unknown key {quote_text(key)}")

    def items(self) -> list[Value]:
        if not isinstance(self.value, list):
            raise self._expected("a list")
        return [Value(item, self, index) for index, item in enumerate(self.value)]

    def items_at(self, key: str) -> list[Value]:
        """Return the items of the list of a key; empty if it is missing."""
        found = self.get(key)
        return [] if found is None else found.items()

    def text(self) -> str:
        """Return a string. Refuses single surrogates, which JSON can encode but UTF-8 cannot."""
        if not isinstance(self.value, str):
            raise self._expected("a text")
        if not self.value.isascii():
            try:
                self.value.encode()
            except UnicodeEncodeError as error:
                half = self.value[error.start]
                raise self.error(f"contains a single surrogate ({half!r}), which is not a character") from None
        return self.value

    def nonblank_text(self) -> str:
        text = self.text().strip()
        if not text:
            raise self.error("is empty")
        return text

    def text_at(self, key: str) -> str | None:
        """Return the string of a key; None if it is missing."""
        found = self.get(key)
        return None if found is None else found.text()

    def flag_at(self, key: str, default: bool) -> bool:
        """Return true or false of a key; `default` if it is missing."""
        found = self.get(key)
        if found is None:
            return default
        if not isinstance(found.value, bool):
            raise found._expected("true or false")
        return found.value

    def integer(self, minimum: int = 0, maximum: int = LARGEST_SIDE) -> int:
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self._expected("an integer")
        if not minimum <= self.value <= maximum:
            raise self.error(f"expected an integer from {minimum} to {maximum}")
        return self.value

    def side(self, key: str) -> int | None:
        """Return a width or height in pixels, or None."""
        found = self.get(key)
        return None if found is None else found.integer(minimum=1)

    def key(self) -> int | str:
        """Return an id: an integer or a string."""
        if not isinstance(self.value, str):
            return self.integer(-(2**63), 2**63 - 1)
        if not self.value.strip():
            raise self.error("is empty")
        return self.text()

    def numbers(self, count: int) -> list[float]:
        if not isinstance(self.value, list) or len(self.value) != count:
            raise self._expected(f"a list of {count} numbers")
        floats = [number for number in self.value if type(number) is float and math.isfinite(number)]
        if len(floats) == count:  # fast path
            return floats
        return [item.number() for item in self.items()]

    def corners(self) -> XYXY:
        x1, y1, x2, y2 = self.numbers(4)
        if x2 < x1 or y2 < y1:
            raise self.error("the box ends before it begins")
        return x1, y1, x2, y2

    def number(self) -> float:
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self._expected("a number")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error("expected a finite number")
        return number

    def _expected(self, what: str) -> DatasetError:
        return self.error(f"expected {what}, found {_in_words(self.value)}")


def _in_words(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return f"a list of {len(value)}"
        case _:
            return "an object"


def first_json(text: str, file: Path) -> tuple[object, bool]:
    """Return the first JSON value of a text, and whether it is the only one."""
    start = len(text) - len(text.lstrip())
    value, end = _decode(text, start, file)
    return value, _BLANK_TO_END.match(text, end) is not None


def read_document(path: Path) -> Value:
    """Read a file with one JSON value."""
    value, is_whole = first_json(read_text(path), path)
    if not is_whole:
        raise DatasetError(f"{path}: unexpected text after the JSON value")
    return Value(value, path)


def parse_line(line: str, number: int, file: Path) -> Value:
    start = len(line) - len(line.lstrip())
    value, end = _decode(line, start, file, number)
    more = line[end:].lstrip()
    if more:
        column = len(line) - len(more) + 1
        raise DatasetError(f"{file}: line {number} column {column}: unexpected text after the JSON value")
    return Value(value, f"{file}: line {number}")


def _decode(text: str, start: int, file: Path, line: int = 1) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        position = f"line {error.lineno + line - 1} column {error.colno}"
        reason = error.msg[:1].lower() + error.msg[1:]
        if error.msg.startswith("Unterminated") or _may_be_truncated(text[error.pos :].strip()):
            reason += "; the file may be truncated"
        raise DatasetError(f"{file}: {position}: not JSON: {reason}") from None
    except RecursionError:
        raise DatasetError(f"{file}: line {line}: JSON nested too deeply") from None
    except ValueError:  # Python limits the number of digits of an integer
        raise DatasetError(f"{file}: line {line}: a number has too many digits") from None


def _may_be_truncated(rest: str) -> bool:
    """Return whether the unparsed rest is empty or the start of a literal or of a part of a number."""
    return any(word.startswith(rest) for word in ("true", "false", "null", "-", ".", "e+", "e-", "E+", "E-"))


def decode(data: bytes, name: str | Path) -> str:
    """Decode UTF-8, with or without a byte order mark. The error names the line of the first invalid byte."""
    if data.startswith(b"PAR1"):
        raise DatasetError(f"{name}: Parquet files are not read; give the captions in another format")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DatasetError(
            f"{name}: line {line}: not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        ) from error


def read_text(path: Path) -> str:
    if path.is_char_device() or path.is_block_device():  # /dev/zero has no end
        raise DatasetError(f"{path}: a device, not a file")
    try:
        return decode(path.read_bytes(), path)
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror})") from error
