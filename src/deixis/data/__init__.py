"""Data sets: records, readers and writers of many formats, statistics, checks and synthetic scenes.

Examples
--------
>>> from deixis.data import Caption, Mention
>>> caption = Caption.from_text("A dog runs.", (Mention(0, 5, "1", ("animals",)),))
>>> caption.phrase(caption.mentions[0])
'A dog'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis.data.checks import check_dataset
    from deixis.data.creation import make_dataset
    from deixis.data.dataset import Dataset, Photos
    from deixis.data.imports import CaptionFile, ImportReport, import_dataset
    from deixis.data.records import ENTITY_TYPES, Box, Caption, Chain, Mention, Photo
    from deixis.data.statistics import compute_statistics
    from deixis.data.writers import convert_dataset

__all__ = [
    "ENTITY_TYPES",
    "Box",
    "Caption",
    "CaptionFile",
    "Chain",
    "Dataset",
    "ImportReport",
    "Mention",
    "Photo",
    "Photos",
    "check_dataset",
    "compute_statistics",
    "convert_dataset",
    "import_dataset",
    "make_dataset",
]

_MODULES = {
    "Dataset": "dataset",
    "Photos": "dataset",
    "CaptionFile": "imports",
    "ImportReport": "imports",
    "import_dataset": "imports",
    "make_dataset": "creation",
    "convert_dataset": "writers",
    "check_dataset": "checks",
    "compute_statistics": "statistics",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use: pyarrow is slow to import."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'records')}"), name)


def __dir__() -> list[str]:
    return __all__
