"""Encoder names: ``NAME[:ARGUMENT][@OPTION=VALUE,…]``, several joined by ``+``.

A name contains all options that affect the features, so a comparison of resolutions, aspect ratios, blocks or joined
encoders is a list of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from deixis.errors import DeixisError

MIN_SIDE, MAX_SIDE = 32, 2048
_MAX_DIGITS = 9
_MAX_SHOWN = 40
_ASPECTS = ("squeeze", "keep")
_OPTIONS = re.compile(r"@((?:[a-z]+=[^@,=]*)(?:,[a-z]+=[^@,=]*)*)$")


@dataclass(frozen=True)
class Options:
    """Options after the ``@``. None if an encoder does not have the option.

    Attributes
    ----------
    side
        Side in pixels of the square that photos are resized to.
    aspect
        ``squeeze`` into the square, or ``keep`` the aspect ratio with about as many pixels.
    blocks
        Transformer blocks, from 1, whose output is the map. Several are concatenated.
    pixels
        Normalization: ``imagenet``, ``unit`` (0 to 1), ``signed`` (-1 to 1) or ``bytes`` (0 to 255).
    """

    side: int | None = None
    aspect: str | None = None
    blocks: tuple[int, ...] | None = None
    pixels: str | None = None

    @property
    def keep_aspect(self) -> bool:
        """Whether the aspect ratio is kept."""
        return self.aspect == "keep"


@dataclass(frozen=True)
class EncoderName:
    """Parsed name of one encoder.

    Attributes
    ----------
    architecture
        Name in the registry, such as ``efficientnet-lite2`` or ``timm``.
    argument
        Text after the colon: name of a network in a library, or a path. May be empty.
    options
        Keys and values, not yet checked.
    """

    architecture: str
    argument: str
    options: tuple[tuple[str, str], ...]


def split_joined(name: str, architectures: Iterable[str]) -> list[str]:
    """Split ``A+B``. A plus that no known architecture follows is part of a path or name.

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
    """Parse the name of one encoder.

    Examples
    --------
    >>> parse_name("timm:resnet50.a1_in1k@side=288,aspect=keep")
    EncoderName(architecture='timm', argument='resnet50.a1_in1k', options=(('side', '288'), ('aspect', 'keep')))
    """
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
    options = defaults
    for key, value in name.options:
        if key not in allowed:
            has = f"has only {', '.join(allowed)}" if allowed else "has none"
            raise DeixisError(f"encoder {name.architecture}: no option {key!r}; it {has}")
        options = _with_option(options, name.architecture, key, value)
    return options


def canonical_name(name: EncoderName, options: Options, defaults: Options) -> str:
    """Return the canonical name: options in a fixed order, without defaults.

    Examples
    --------
    >>> name = parse_name("focus-vit@side=224,blocks=8-9")
    >>> defaults = Options(side=224, blocks=(9,))
    >>> canonical_name(name, parse_options(name, defaults), defaults)
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
    # Check the length first: Python limits the digits of an integer.
    if not value.isdecimal() or len(value) > _MAX_DIGITS or not MIN_SIDE <= int(value) <= MAX_SIDE:
        shown = value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"
        raise DeixisError(f"encoder {encoder}: side={shown} is not a number from {MIN_SIDE} to {MAX_SIDE}")
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
