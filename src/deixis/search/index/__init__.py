"""The photo index: stores the vectors of photos and of their regions, and finds the nearest to a query.

In a folder, SQLite is the source of truth and a memory-mapped matrix is a cache of it. In PostgreSQL, pgvector stores
and searches the same. The index knows no particular model: a `PhotoEncoder` gives the vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.search.index.base import IndexInfo as IndexInfo
    from deixis.search.index.base import IndexPath as IndexPath
    from deixis.search.index.base import PhotoEncoder as PhotoEncoder
    from deixis.search.index.base import PhotoVectors as PhotoVectors
    from deixis.search.index.copy import CopyReport as CopyReport
    from deixis.search.index.copy import copy_index as copy_index
    from deixis.search.index.photo_files import make_thumbnail as make_thumbnail
    from deixis.search.index.photo_index import PhotoIndex as PhotoIndex
    from deixis.search.index.records import PhotoFilter as PhotoFilter
    from deixis.search.index.snapshot import Grouping as Grouping
    from deixis.search.index.snapshot import IndexSnapshot as IndexSnapshot
    from deixis.search.index.snapshot import Match as Match
    from deixis.search.index.update import IndexReport as IndexReport
    from deixis.search.index.update import update_index as update_index

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "base": "IndexInfo IndexPath PhotoEncoder PhotoVectors",
        "copy": "CopyReport copy_index",
        "photo_files": "make_thumbnail",
        "photo_index": "PhotoIndex",
        "records": "PhotoFilter",
        "snapshot": "Grouping IndexSnapshot Match",
        "update": "IndexReport update_index",
    },
)
