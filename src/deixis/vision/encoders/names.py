"""Encoder names: ``NAME[:ARGUMENT][@OPTION=VALUE,…]``, several joined by ``+``.

A name contains all options that affect the features, so a comparison of resolutions, aspect ratios, blocks or joined
encoders is a list of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from deixis.errors import DeixisError

MIN_SIDE, MAX_SIDE = 32, 2048
_MAX_DIGITS = 9
_MAX_SHOWN = 40
_ASPECTS = ("squeeze", "keep")
_OPTIONS = re.compile(r"@((?:[a-z]+=[^@,=]*)(?:,[a-z]+=[^@,=]*)*)$")


@dataclass(frozen=True)
class Options:
    """Options after the ``@``. None if an encoder does not have the option."""

    side: int | None = None
    """Side in pixels of the square that photos are resized to."""
    aspect: str | None = None
    """``squeeze`` into the square, or ``keep`` the aspect ratio with about as many pixels."""
    blocks: tuple[int, ...] | None = None
    """Transformer blocks, from 1, whose output is the map. Several are concatenated."""
    pixels: str | None = None
    """Normalization: ``imagenet``, ``unit`` (0 to 1), ``signed`` (-1 to 1) or ``bytes`` (0 to 255)."""

    @property
    def keep_aspect(self) -> bool:
        return self.aspect == "keep"


@dataclass(frozen=True)
class EncoderName:
    """Parsed name of one encoder; the options are not yet checked.

    `architecture` is a name in the registry, `argument` the text after the colon: a network of a library, or a path.
    """

    architecture: str
    argument: str
    options: tuple[tuple[str, str], ...]


def split_joined(name: str, architectures: Iterable[str]) -> list[str]:
    """Split ``A+B``. A plus that no known architecture follows is part of a path or name."""
    known = "|".join(re.escape(each) for each in sorted(architectures, key=len, reverse=True))
    return re.split(rf"\+(?=(?:{known})(?:[:@+]|$))", name)


def parse_name(name: str) -> EncoderName:
    found = _OPTIONS.search(name)
    plain = name[: found.start()] if found else name
    written = [option.partition("=")[::2] for option in found[1].split(",")] if found else []
    if len({key for key, _ in written}) < len(written):
        raise DeixisError(f"encoder {name}: an option occurs twice")
    architecture, _, argument = plain.partition(":")
    return EncoderName(architecture, argument, tuple(written))


def parse_options(name: EncoderName, defaults: Options) -> Options:
    """Return the options of an encoder: its defaults, changed by its name."""
    allowed = [field.name for field in fields(Options) if getattr(defaults, field.name) is not None]
    options: dict[str, Any] = {}
    for key, value in name.options:
        if key not in allowed:
            has = f"has only {', '.join(allowed)}" if allowed else "has none"
            raise DeixisError(f"encoder {name.architecture}: no option {key!r}; it {has}")
        options[key] = _read_option(name.architecture, key, value)
    return replace(defaults, **options)


def canonical_name(name: EncoderName, options: Options, defaults: Options) -> str:
    """Return the name with options in a fixed order and without defaults."""
    plain = f"{name.architecture}:{name.argument}" if name.argument else name.architecture
    written = []
    for key in (field.name for field in fields(Options)):
        value = getattr(options, key)
        if value != getattr(defaults, key):
            written.append(f"{key}={'-'.join(map(str, value)) if isinstance(value, tuple) else value}")
    return f"{plain}@{','.join(written)}" if written else plain


def _read_option(encoder: str, key: str, value: str) -> int | str | tuple[int, ...]:
    match key:
        case "side":
            # Check the length first: Python limits the digits of an integer.
            if not value.isdecimal() or len(value) > _MAX_DIGITS or not MIN_SIDE <= int(value) <= MAX_SIDE:
                shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
                raise DeixisError(f"encoder {encoder}: side={shown} is not a number from {MIN_SIDE} to {MAX_SIDE}")
            return int(value)
        case "aspect":
            if value not in _ASPECTS:
                raise DeixisError(f"encoder {encoder}: aspect={value} is neither {' nor '.join(_ASPECTS)}")
            return value
        case "blocks":
            written = value.split("-")
            numbers = tuple(int(number) for number in written if number.isdecimal() and len(number) < 4)
            if len(set(numbers)) < len(written):
                raise DeixisError(f"encoder {encoder}: blocks={value} is not a list of different blocks such as 8-9-10")
            return numbers
        case _:
            return value
