"""Sample photos with captions, phrases and boxes, in the format of Flickr30k Entities."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).parent
"""Folder with ``images/``, ``entities/`` and a README.md with authors and licences."""
