"""Memory that the C library keeps after it was freed (glibc on Linux; elsewhere these functions do nothing)."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 2**20
_SPARE_BYTES = 2**23
"""Free memory that a server keeps: with less, every search would return memory and ask for it again."""
_ARENAS = 2


def return_freed_memory() -> None:
    """Return freed memory to the system, after work that takes much more than it keeps."""
    with suppress(OSError, AttributeError):  # another C library
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Return blocks of a megabyte or more whenever they are freed; for servers, whose threads would each keep some."""
    with suppress(OSError, AttributeError):
        if sys.platform == "linux":
            mallopt = ctypes.CDLL(None).mallopt
            for parameter, value in (
                (_MMAP_THRESHOLD, _LARGE_BYTES),
                (_TRIM_THRESHOLD, _SPARE_BYTES),
                (_ARENA_MAX, _ARENAS),
            ):
                mallopt(parameter, value)
