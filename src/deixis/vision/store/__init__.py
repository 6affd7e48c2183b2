"""What was computed of the photos of a data set, for which photos and by whom: a folder of shards and one manifest.

Photos of a data set and an encoder, or other people's feature files, come in (`fill_store`, `import_features`);
`FeatureStore` hands out vectors, maps and boxes as they are asked for. Written by one process at a time, through kills
and full disks, and read by any number. May import the rest of `vision`, and `data`.
"""

from __future__ import annotations

from deixis.vision.store.computing import Extras
from deixis.vision.store.feature_store import FeatureStore, default_place
from deixis.vision.store.filling import FillReport, fill_store, is_filled
from deixis.vision.store.importing import import_features
from deixis.vision.store.manifest import Contents
from deixis.vision.store.writing import ShardLimits

__all__ = [
    "Contents",
    "Extras",
    "FeatureStore",
    "FillReport",
    "ShardLimits",
    "default_place",
    "fill_store",
    "import_features",
    "is_filled",
]
