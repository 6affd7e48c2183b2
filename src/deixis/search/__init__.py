"""Search: an index of photos, found by sentences and by similar photos, each result with a calibrated probability.

`index_photos` fills an index and `open_index` opens it as a `PhotoCollection`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis.search.collection import PhotoCollection, index_photos, open_index
    from deixis.search.index import IndexReport, PhotoFilter, copy_index
    from deixis.search.results import Hit, HitPhrase, PhotoRecord, SearchResults

__all__ = [
    "DEFAULT_INDEX",
    "Hit",
    "HitPhrase",
    "IndexReport",
    "PhotoCollection",
    "PhotoFilter",
    "PhotoRecord",
    "SearchResults",
    "copy_index",
    "index_photos",
    "open_index",
]

DEFAULT_INDEX = "photos.deixis"
"""The folder of the index, in the current directory, unless another one is named."""

_MODULES = {
    "Hit": "results",
    "HitPhrase": "results",
    "PhotoCollection": "collection",
    "PhotoFilter": "index",
    "PhotoRecord": "results",
    "SearchResults": "results",
    "IndexReport": "index",
    "copy_index": "index",
    "index_photos": "collection",
    "open_index": "collection",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the models take seconds to import."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
