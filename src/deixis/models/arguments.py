"""Checks of the arguments of public functions: a wrong type is a one-line `DeixisError`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.errors import DeixisError

T = TypeVar("T")

PhotoLike = str | PathLike[str] | Image.Image
"""A photo: a path, or a Pillow image that is open already."""

OnePhotoOrMore = PhotoLike | Sequence[PhotoLike]


def check_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise DeixisError(f"{name}: give a text, not {type_name(value)}")
    return value


def check_list(values: Iterable[T], name: str) -> Sequence[T]:
    """Check that an argument is a list: a string is a sequence of letters, which is never meant."""
    if isinstance(values, str | bytes | PathLike) or not isinstance(values, Iterable):
        raise DeixisError(f"{name}: give a list of them, not one {type_name(values)}")
    return values if isinstance(values, Sequence) else list(values)


def check_count(value: object, name: str, maximum: int | None = None) -> int:
    """Check that a value is a whole number of at least 1, and at most `maximum`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= (maximum or value):
        expected = "of 1 or more" if maximum is None else f"from 1 to {maximum:,}"
        raise DeixisError(f"{name}={value!r}: give a whole number {expected}")
    return value


def check_share(value: object, name: str) -> float:
    """Check that a value is a number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise DeixisError(f"{name}={value!r}: give a number from 0 to 1")
    return float(value)


def check_flag(value: object, name: str) -> bool:
    """Check that a value is true or false."""
    if not isinstance(value, bool | np.bool_ | int):
        raise DeixisError(f"{name}: give True or False, not {type_name(value)}")
    return bool(value)


def check_vectors(values: object, name: str, dimension: int | None = None) -> NDArray[Any]:
    """Check that a value is an array of vectors, one per row, of a number of dimensions."""
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind != "f":
        raise DeixisError(f"{name}: give an array of vectors as encode_images and encode_sentences return it")
    if dimension is not None and values.shape[1] != dimension:
        raise DeixisError(f"{name}: vectors of {values.shape[1]} numbers do not fit those of {dimension}")
    return values


def check_path(value: str | PathLike[str], name: str) -> str:
    """Check that a value is a path or a name, and return it as a string."""
    try:
        path = fspath(value)
    except TypeError:
        path = None
    if not isinstance(path, str):
        raise DeixisError(f"{name}: give a path, not {type_name(value)}")
    return path


def type_name(value: object) -> str:
    """The name of the type of a value, for messages."""
    return "None" if value is None else type(value).__name__


def is_one_photo(photo: OnePhotoOrMore) -> TypeGuard[PhotoLike]:
    """Whether this is a photo, and not a list of photos."""
    return isinstance(photo, str | PathLike | Image.Image)


def as_list(photo: OnePhotoOrMore) -> Sequence[PhotoLike]:
    """One photo or several as a list; `open_image` refuses what is neither."""
    is_list = isinstance(photo, Iterable) and not is_one_photo(photo)
    return check_list(cast("Sequence[PhotoLike]", photo), "photo") if is_list else [cast(PhotoLike, photo)]


def open_image(photo: PhotoLike) -> Image.Image:
    """Open a photo, upright; a Pillow image is returned unchanged."""
    from deixis.data.images import open_photo

    return photo if isinstance(photo, Image.Image) else open_photo(Path(check_path(photo, "photo")))
