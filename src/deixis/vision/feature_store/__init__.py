"""The feature cache of a data set: a folder of shards with one manifest.

`update_store` computes the features of photos with an encoder, `import_features` reads feature files of other programs,
and `FeatureStore` reads vectors, maps and proposals. One process writes at a time, any number read. A killed process or
a full disk loses at most one shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.vision.feature_store.files import Contents as Contents
    from deixis.vision.feature_store.imports import import_features as import_features
    from deixis.vision.feature_store.store import FeatureStore as FeatureStore
    from deixis.vision.feature_store.store import default_store_path as default_store_path
    from deixis.vision.feature_store.updates import FeatureOptions as FeatureOptions
    from deixis.vision.feature_store.updates import UpdateReport as UpdateReport
    from deixis.vision.feature_store.updates import is_up_to_date as is_up_to_date
    from deixis.vision.feature_store.updates import update_store as update_store

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "files": "Contents",
        "imports": "import_features",
        "store": "FeatureStore default_store_path",
        "updates": "FeatureOptions UpdateReport is_up_to_date update_store",
    },
)
