"""Search: an index of photos, found by sentences and by similar photos, each result with a calibrated probability.

`index_photos` fills an index and `open_index` opens it as a `PhotoCollection`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.search.collection import PhotoCollection as PhotoCollection
    from deixis.search.collection import index_photos as index_photos
    from deixis.search.collection import open_index as open_index
    from deixis.search.index import IndexReport as IndexReport
    from deixis.search.index import PhotoFilter as PhotoFilter
    from deixis.search.index import copy_index as copy_index
    from deixis.search.query import Reading as Reading
    from deixis.search.results import Hit as Hit
    from deixis.search.results import HitPhrase as HitPhrase
    from deixis.search.results import PhotoRecord as PhotoRecord
    from deixis.search.results import SearchResults as SearchResults

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "collection": "PhotoCollection index_photos open_index",
        "index": "IndexReport PhotoFilter copy_index",
        "query": "Reading",
        "results": "Hit HitPhrase PhotoRecord SearchResults",
    },
)
