"""How much one visitor may ask for."""

from __future__ import annotations

from dataclasses import dataclass

JSON_BYTES = 64 * 2**10
"""Bytes of a request that brings no photo."""

SHORTEST_TOKEN = 12
"""Characters that cannot be guessed by trying."""


@dataclass(frozen=True)
class Limits:
    """What the server takes and gives at most.

    Attributes
    ----------
    upload_bytes, upload_pixels
        Of a photo that somebody sends.
    sentence
        Characters of a sentence.
    quick_threads, quick_waiting
        Searches and pictures at work at once, and those that may wait; one more is told to come again.
    quick_patience_s
        Seconds after which nobody else may queue behind one who still waits.
    model_threads, model_waiting, model_patience_s
        The same for what looks at a photo, which takes a second.
    looks
        Photos whose features are kept, so that a second sentence about one is answered at once.
    """

    upload_bytes: int = 32 * 2**20
    upload_pixels: int = 50_000_000
    sentence: int = 500
    quick_threads: int = 4
    quick_waiting: int = 400
    quick_patience_s: float = 0.5
    model_threads: int = 2
    model_waiting: int = 16
    model_patience_s: float = 2.0
    looks: int = 16
