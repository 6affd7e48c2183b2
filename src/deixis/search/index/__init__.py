"""The photo index: stores the vectors of photos and of their regions, and finds the nearest to a query.

In a folder, SQLite is the source of truth and a memory-mapped matrix is a cache of it. In PostgreSQL, pgvector stores
and searches the same. The index knows no particular model: a `PhotoEncoder` gives the vectors.
"""

from __future__ import annotations

from deixis.search.index.base import IndexInfo, IndexPath, PhotoEncoder, PhotoVectors
from deixis.search.index.copy import CopyReport, copy_index
from deixis.search.index.photo_files import make_thumbnail
from deixis.search.index.photo_index import PhotoIndex, combine_vectors
from deixis.search.index.records import PhotoFilter
from deixis.search.index.snapshot import Grouping, IndexSnapshot, Match
from deixis.search.index.update import IndexReport, update_index

__all__ = [
    "CopyReport",
    "Grouping",
    "IndexInfo",
    "IndexPath",
    "IndexReport",
    "IndexSnapshot",
    "Match",
    "PhotoEncoder",
    "PhotoFilter",
    "PhotoIndex",
    "PhotoVectors",
    "combine_vectors",
    "copy_index",
    "make_thumbnail",
    "update_index",
]
