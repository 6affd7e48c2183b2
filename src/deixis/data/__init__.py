"""Data sets: records, readers and writers of many formats, statistics and checks.

Examples
--------
>>> from deixis.data import Caption, Mention
>>> caption = Caption.from_text("A dog runs.", (Mention(0, 5, "1", ("animals",)),))
>>> caption.phrase(caption.mentions[0])
'A dog'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.data.checks import check_dataset as check_dataset
    from deixis.data.dataset import Dataset as Dataset
    from deixis.data.dataset import Photos as Photos
    from deixis.data.dataset import make_dataset as make_dataset
    from deixis.data.derived import MergeReport as MergeReport
    from deixis.data.derived import merge_datasets as merge_datasets
    from deixis.data.formats import convert_dataset as convert_dataset
    from deixis.data.imports import CaptionFile as CaptionFile
    from deixis.data.imports import ImportReport as ImportReport
    from deixis.data.imports import import_dataset as import_dataset
    from deixis.data.records import ENTITY_TYPES as ENTITY_TYPES
    from deixis.data.records import Box as Box
    from deixis.data.records import Caption as Caption
    from deixis.data.records import Chain as Chain
    from deixis.data.records import Mention as Mention
    from deixis.data.records import Photo as Photo
    from deixis.data.statistics import compute_statistics as compute_statistics

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "checks": "check_dataset",
        "dataset": "Dataset Photos make_dataset",
        "imports": "CaptionFile ImportReport import_dataset",
        "derived": "MergeReport merge_datasets",
        "records": "ENTITY_TYPES Box Caption Chain Mention Photo",
        "statistics": "compute_statistics",
        "formats": "convert_dataset",
    },
)
