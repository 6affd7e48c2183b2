"""JSON from strangers: values that know where they stand, so that each complaint names its place."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

from deixis.data.readers.names import shown
from deixis.errors import DatasetError

LARGEST_SIDE = 2**31 - 1
"""No photo is wider or higher; more would not fit the columns that keep it."""

_BLANK_TO_END = re.compile(r"\s*\Z")
_DECODER = json.JSONDecoder()


class Value:
    """A value inside a JSON document, and its place there.

    Examples
    --------
    >>> document = Value({"images": [{"file_name": 7}]}, "captions.json")
    >>> document["images"].items()[0]["file_name"].text()
    Traceback (most recent call last):
    deixis.errors.DatasetError: captions.json: images[0].file_name: expected a text, found a number
    """

    __slots__ = ("_key", "_parent", "value")

    def __init__(self, value: object, place: Value | str | Path, key: str | int = "") -> None:
        self.value = value
        self._parent = place
        self._key = key

    def wrong(self, what: str) -> DatasetError:
        """An error about this value: the file, the path down to it, and what is wrong."""
        path, above = "", self
        while isinstance(above._parent, Value):
            key = above._key
            path = (f"[{key}]" if isinstance(key, int) else f".{key}") + path
            above = above._parent
        places = [str(above._parent), path.removeprefix("."), what]
        return DatasetError(": ".join(filter(None, places)))

    def get(self, key: str) -> Value | None:
        """What an object has under a key; None where it has nothing or null."""
        if not isinstance(self.value, dict):
            raise self._expected("an object")
        found = self.value.get(key)
        return None if found is None else Value(found, self, key)

    def __getitem__(self, key: str) -> Value:
        found = self.get(key)
        if found is None:
            raise self.wrong(f'there is no "{key}"')
        return found

    def first_of(self, keys: tuple[str, ...]) -> Value | None:
        """What an object has under the first of some keys that it has."""
        return next((found for key in keys if (found := self.get(key)) is not None), None)

    def only(self, keys: set[str]) -> None:
        """Refuse an object with other keys, which may be slips of the pen for those that it lacks."""
        if not isinstance(self.value, dict):
            raise self._expected("an object")
        for key in self.value:
            if key not in keys:
                raise self.wrong(f"there is no such key here: {shown(key)}")

    def items(self) -> list[Value]:
        """The values of a list."""
        if not isinstance(self.value, list):
            raise self._expected("a list")
        return [Value(item, self, index) for index, item in enumerate(self.value)]

    def items_of(self, key: str) -> list[Value]:
        """The values of the list under a key; none where there is no such key."""
        found = self.get(key)
        return [] if found is None else found.items()

    def text(self) -> str:
        """A string that can be stored: JSON can spell half a surrogate pair, UTF-8 cannot."""
        if not isinstance(self.value, str):
            raise self._expected("a text")
        if not self.value.isascii():
            try:
                self.value.encode()
            except UnicodeEncodeError as error:
                half = self.value[error.start]
                raise self.wrong(f"holds half of a surrogate pair ({half!r}), which is no character") from None
        return self.value

    def sentence(self) -> str:
        """A text without the white space around it, and not empty."""
        text = self.text().strip()
        if not text:
            raise self.wrong("is empty")
        return text

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self._expected("true or false")
        return self.value

    def whole(self, least: int = 0, most: int = LARGEST_SIDE) -> int:
        """A whole number within limits."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self._expected("a whole number")
        if not least <= self.value <= most:
            raise self.wrong(f"expected a whole number from {least} to {most}")
        return self.value

    def side(self, key: str) -> int | None:
        """The width or height that an object states under a key, in pixels."""
        found = self.get(key)
        return None if found is None else found.whole(least=1)

    def key(self) -> int | str:
        """What one list names the things of another by: a whole number or a text."""
        return self.text() if isinstance(self.value, str) else self.whole(-(2**63), 2**63 - 1)

    def numbers(self, count: int) -> list[float]:
        """A list of so many finite numbers."""
        if not isinstance(self.value, list) or len(self.value) != count:
            raise self._expected(f"a list of {count} numbers")
        floats = [number for number in self.value if type(number) is float and math.isfinite(number)]
        if len(floats) == count:  # as most files have it, and there are many
            return floats
        return [item.number() for item in self.items()]

    def number(self) -> float:
        """A finite number."""
        if not isinstance(self.value, int | float) or isinstance(self.value, bool):
            raise self._expected("a number")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.wrong("expected a finite number")
        return number

    def _expected(self, what: str) -> DatasetError:
        return self.wrong(f"expected {what}, found {_in_words(self.value)}")


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
    """The JSON value that a text begins with, and whether the text ends with it.

    Examples
    --------
    >>> first_json('{"a": 1} {"a": 2}', Path("a.jsonl"))
    ({'a': 1}, False)
    """
    start = len(text) - len(text.lstrip())
    value, end = _decode(text, start, file)
    return value, _BLANK_TO_END.match(text, end) is not None


def parse_line(line: str, number: int, file: Path) -> Value:
    """The JSON value that fills a line."""
    start = len(line) - len(line.lstrip())
    value, end = _decode(line, start, file, number)
    more = line[end:].lstrip()
    if more:
        column = len(line) - len(more) + 1
        raise DatasetError(f"{file}: line {number} column {column}: more text after the JSON value")
    return Value(value, f"{file}: line {number}")


def _decode(text: str, start: int, file: Path, line: int = 1) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno + line - 1} column {error.colno}"
        reason = error.msg[:1].lower() + error.msg[1:]
        if error.msg.startswith("Unterminated") or _may_go_on(text[error.pos :].strip()):
            reason += "; the file may be truncated"
        raise DatasetError(f"{file}: {place}: not JSON: {reason}") from None
    except RecursionError:
        raise DatasetError(f"{file}: line {line}: JSON nested too deeply") from None
    except ValueError:  # Python refuses to read integers of thousands of digits
        raise DatasetError(f"{file}: line {line}: a number has thousands of digits") from None


def _may_go_on(rest: str) -> bool:
    """Whether what could not be read is nothing, or the beginning of a word or number."""
    return any(word.startswith(rest) for word in ("true", "false", "null", "-"))
