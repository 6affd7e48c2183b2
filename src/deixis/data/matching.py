"""Which annotation belongs to which photo: by the stem of its name, or by its Flickr number.

Flickr8k calls a photo ``1000268201_693b08cb0e.jpg``; Flickr30k Entities calls the same photo ``1000268201``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Generic, TypeVar

_FLICKR_NAME = re.compile(r"(\d+)_[0-9a-f]{8,12}(?:_[a-z])?")
_SUFFIX = re.compile(r"\.(?:jpe?g|jpe|jfif|png|webp|hei[cf]|tiff?|bmp|gif)", re.IGNORECASE)

T = TypeVar("T")


def stem_of(name: str) -> str:
    """The name of a photo without folders and without the ending of a photo.

    Examples
    --------
    >>> stem_of("Images/1000268201_693b08cb0e.jpg"), stem_of("img.v2"), stem_of("25")
    ('1000268201_693b08cb0e', 'img.v2', '25')
    """
    path = PurePosixPath(name.replace("\\", "/"))
    return path.stem if _SUFFIX.fullmatch(path.suffix) else path.name


def flickr_number(stem: str) -> str | None:
    """The Flickr number in a photo's stem.

    Examples
    --------
    >>> flickr_number("1000268201_693b08cb0e"), flickr_number("1000268201"), flickr_number("holiday")
    ('1000268201', '1000268201', None)
    """
    if stem.isdecimal():
        return stem
    found = _FLICKR_NAME.fullmatch(stem)
    return found[1] if found else None


class ByName(Generic[T]):
    """Things found by the stem of a photo's name or, failing that, by a Flickr number that only one of them has.

    Examples
    --------
    >>> photos = ByName({"1000268201_693b08cb0e": "a", "holiday": "b"})
    >>> photos.find("1000268201"), photos.find("holiday"), photos.find("2")
    ('a', 'b', None)
    """

    def __init__(self, things: Mapping[str, T]) -> None:
        self.things = things
        self._stem_of_number: dict[str, str | None] = {}
        for stem in things:
            number = flickr_number(stem)
            if number is not None:
                self._stem_of_number[number] = None if number in self._stem_of_number else stem

    def stem(self, name: str) -> str | None:
        """The stem under which a name is found."""
        if name in self.things:
            return name
        number = flickr_number(name)
        return self._stem_of_number.get(number) if number is not None else None

    def find(self, name: str) -> T | None:
        """What is there under a name."""
        stem = self.stem(name)
        return None if stem is None else self.things[stem]


def names_in_list(lines: Iterable[str]) -> list[str]:
    """The stems in a split's list, one name a line; blank lines and lines that begin with # are passed over.

    Examples
    --------
    >>> names_in_list(["a.jpg", "", "# no", "1000268201"])
    ['a', '1000268201']
    """
    return [stem_of(line.strip()) for line in lines if line.strip() and not line.startswith("#")]
