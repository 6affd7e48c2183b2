"""Photos to annotate, which all use one sample image."""

from __future__ import annotations

from dataclasses import replace

from deixis.data.records import Caption, Photo
from tests.annotate.fakes import gold

SIZE = (451, 300)
_FILE = "cat.jpg"


def captioned(*captions: str, name: str = "cat") -> Photo:
    """A photo with these captions and no mentions."""
    return Photo(name, tuple(map(Caption.from_text, captions)), width=SIZE[0], height=SIZE[1], file=_FILE)


def two_people_with_a_dog(name: str = "walk") -> Photo:
    """A photo with several mentions, which gives many questions."""
    return replace(gold(name), width=SIZE[0], height=SIZE[1], file=_FILE)
