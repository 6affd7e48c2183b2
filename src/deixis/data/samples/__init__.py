"""A few real photos with captions, phrases and boxes of our own, in the form of Flickr30k Entities."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).parent
"""The folder that holds ``images/`` and ``entities/``; its README.md names authors and licences."""
