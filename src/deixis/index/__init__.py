"""A person's photos, found again: a directory or a database that holds what a model saw in them, and searches it.

Paths of photos and somebody who sees (`PhotoSeer`) come in through `update_index`; vectors come in through
`search` and `search_regions`, and frozen `Match`es go out. In a directory SQLite holds the truth, and a memory-mapped
matrix is a cache of it; `postgres` keeps and searches the same in PostgreSQL. Knows of no particular model; may import
`data`, `vision`, `files`, `geometry` and `errors`.
"""

from __future__ import annotations

from deixis.index.copying import CopyReport, copy_index
from deixis.index.grouping import Grouping
from deixis.index.matches import Match
from deixis.index.photo_index import PhotoIndex, mixed
from deixis.index.seeing import PhotoSeer, Seen
from deixis.index.thumbnails import thumbnail_of
from deixis.index.updating import UpdateReport, update_index
from deixis.index.where import Where

__all__ = [
    "CopyReport",
    "Grouping",
    "Match",
    "PhotoIndex",
    "PhotoSeer",
    "Seen",
    "UpdateReport",
    "Where",
    "copy_index",
    "mixed",
    "thumbnail_of",
    "update_index",
]
