"""What an encoder's name says: `NAME@OPTION=VALUE,…`, several joined by `+`.

A name alone tells everything that changes the numbers, so that a comparison of resolutions, proportions, blocks or
joined encoders is a list of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from deixis.errors import DeixisError

SMALLEST_SIDE, LARGEST_SIDE = 32, 2048
_MOST_DIGITS = 9
_MOST_SHOWN = 40
_ASPECTS = ("squeeze", "keep")
_OPTIONS = re.compile(r"@((?:[a-z]+=[^@,=]*)(?:,[a-z]+=[^@,=]*)*)$")


@dataclass(frozen=True)
class Options:
    """What can be set behind the `@`. None where an encoder has no such option.

    Attributes
    ----------
    side
        Of the square that a photo is squeezed into, in pixels.
    aspect
        `squeeze` into that square, or `keep` the photo's proportions with about as many pixels.
    blocks
        After which blocks of a transformer the map is taken, counted from 1; several are put one behind the other.
    pixels
        What numbers a network reads: `imagenet`, `unit` (0 to 1), `signed` (-1 to 1) or `bytes` (0 to 255).
    """

    side: int | None = None
    aspect: str | None = None
    blocks: tuple[int, ...] | None = None
    pixels: str | None = None

    @property
    def keep_aspect(self) -> bool:
        """Whether photos keep their proportions."""
        return self.aspect == "keep"


@dataclass(frozen=True)
class EncoderName:
    """One encoder's name, taken apart.

    Attributes
    ----------
    architecture
        As in the registry, for example `efficientnet-lite2` or `timm`.
    argument
        What follows a colon: a library's own name for a network, or a path. May be empty.
    options
        As they were written.
    """

    architecture: str
    argument: str
    options: tuple[tuple[str, str], ...]


def split_joined(name: str, architectures: Iterable[str]) -> list[str]:
    """The parts of `A+B`. A plus that no known architecture follows belongs to a path or to a library's name.

    Examples
    --------
    >>> split_joined("efficientnet-lite2@side=320+focus-vit@blocks=8-9", ["efficientnet-lite2", "focus-vit", "onnx"])
    ['efficientnet-lite2@side=320', 'focus-vit@blocks=8-9']
    >>> split_joined("onnx:c++/a.onnx", ["onnx"])
    ['onnx:c++/a.onnx']
    """
    known = "|".join(re.escape(each) for each in sorted(architectures, key=len, reverse=True))
    return re.split(rf"\+(?=(?:{known})(?:[:@+]|$))", name)


def parse_name(name: str) -> EncoderName:
    """Take the name of one encoder apart.

    Examples
    --------
    >>> parse_name("timm:resnet50.a1_in1k@side=288,aspect=keep")
    EncoderName(architecture='timm', argument='resnet50.a1_in1k', options=(('side', '288'), ('aspect', 'keep')))
    """
    found = _OPTIONS.search(name)
    plain = name[: found.start()] if found else name
    written = [option.partition("=")[::2] for option in found[1].split(",")] if found else []
    if len({key for key, _ in written}) < len(written):
        raise DeixisError(f"encoder {name}: an option stands there twice")
    architecture, _, argument = plain.partition(":")
    return EncoderName(architecture, argument, tuple(written))


def read_options(name: EncoderName, defaults: Options) -> Options:
    """The options of an encoder: its defaults, and what its name says otherwise."""
    allowed = [field.name for field in fields(Options) if getattr(defaults, field.name) is not None]
    options = defaults
    for key, value in name.options:
        if key not in allowed:
            has = f"has only {', '.join(allowed)}" if allowed else "has none"
            raise DeixisError(f"encoder {name.architecture}: no option {key!r}; it {has}")
        options = _with_option(options, name.architecture, key, value)
    return options


def spelled(name: EncoderName, options: Options, defaults: Options) -> str:
    """The one spelling of a name: options in one order, and only those that differ from the defaults.

    Examples
    --------
    >>> name = parse_name("focus-vit@side=224,blocks=8-9")
    >>> defaults = Options(side=224, blocks=(9,))
    >>> spelled(name, read_options(name, defaults), defaults)
    'focus-vit@blocks=8-9'
    """
    plain = f"{name.architecture}:{name.argument}" if name.argument else name.architecture
    written = []
    for key in (field.name for field in fields(Options)):
        value = getattr(options, key)
        if value != getattr(defaults, key):
            written.append(f"{key}={'-'.join(map(str, value)) if isinstance(value, tuple) else value}")
    return f"{plain}@{','.join(written)}" if written else plain


def _with_option(options: Options, encoder: str, key: str, value: str) -> Options:
    match key:
        case "side":
            return replace(options, side=_read_side(encoder, value))
        case "aspect":
            return replace(options, aspect=_read_aspect(encoder, value))
        case "blocks":
            return replace(options, blocks=_read_blocks(encoder, value))
        case _:
            return replace(options, pixels=value)


def _read_side(encoder: str, value: str) -> int:
    # The length first: Python refuses to read a number of thousands of digits.
    if not value.isdecimal() or len(value) > _MOST_DIGITS or not SMALLEST_SIDE <= int(value) <= LARGEST_SIDE:
        shown = value if len(value) <= _MOST_SHOWN else f"{value[:_MOST_SHOWN]}…"
        raise DeixisError(f"encoder {encoder}: side={shown} is not a number from {SMALLEST_SIDE} to {LARGEST_SIDE}")
    return int(value)


def _read_aspect(encoder: str, value: str) -> str:
    if value not in _ASPECTS:
        raise DeixisError(f"encoder {encoder}: aspect={value} is neither {' nor '.join(_ASPECTS)}")
    return value


def _read_blocks(encoder: str, value: str) -> tuple[int, ...]:
    written = value.split("-")
    numbers = tuple(int(number) for number in written if number.isdecimal() and len(number) < 4)
    if len(set(numbers)) < len(written):
        raise DeixisError(f"encoder {encoder}: blocks={value} is not a list of different blocks such as 8-9-10")
    return numbers
