"""OpenCV, which only two of the proposers need and which not everybody has."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from deixis.errors import DeixisError
from deixis.vision.encoder import InputSize, resized
from deixis.vision.proposals.proposer import fingerprint_of

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def opencv(proposer: str) -> Any:
    """The module `cv2` with its contributed part, or one line that says what to install.

    It is imported late: it is slow to load, and it brings image libraries of its own, which should come second to
    Pillow's.
    """
    try:
        import cv2

        cv2.ximgproc  # noqa: B018  the plain package lacks it
    except (ImportError, AttributeError):
        raise DeixisError(
            f"the proposer {proposer} needs OpenCV with its contributed modules: pip install 'deixis[proposals]'"
        ) from None
    return cv2


def fingerprint_with_opencv(proposer: str, settings: DataclassInstance) -> str:
    """What tells the boxes of a proposer from others': its settings, and which OpenCV searches."""
    return fingerprint_of(proposer, {"settings": asdict(settings), "opencv": opencv(proposer).__version__})


def pixels_at(photo: Image.Image, size: InputSize) -> NDArray[np.uint8]:
    """The photo in RGB at the size a proposer works at, shape (height, width, 3)."""
    return resized(photo.convert("RGB"), size.of(*photo.size))
