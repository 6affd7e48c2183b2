"""The feature cache of a data set: a folder of shards with one manifest.

`update_store` computes the features of photos with an encoder, `import_features` reads feature files of other programs,
and `FeatureStore` reads vectors, maps and proposals. One process writes at a time, any number read. A killed process or
a full disk loses at most one shard.
"""

from __future__ import annotations

from deixis.vision.feature_store.files import Contents
from deixis.vision.feature_store.imports import import_features
from deixis.vision.feature_store.store import FeatureStore, ShardLimits, default_store_path
from deixis.vision.feature_store.updates import FeatureOptions, UpdateReport, is_up_to_date, update_store

__all__ = [
    "Contents",
    "FeatureOptions",
    "FeatureStore",
    "ShardLimits",
    "UpdateReport",
    "default_store_path",
    "import_features",
    "is_up_to_date",
    "update_store",
]
