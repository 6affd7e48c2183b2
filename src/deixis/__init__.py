"""deixis points at pictures with words: search, ground, caption and annotate photos.

Problems that users can fix raise `DeixisError` with a one-line message.

Examples
--------
>>> import deixis
>>> model = deixis.load("two-branch")
>>> photos = model.encode_images(["dog.jpg", "cat.jpg"])  # doctest: +SKIP
>>> model.similarity(photos, model.encode_sentences(["A dog runs."])).argmax()  # doctest: +SKIP
0
"""

import os
from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis import data as data
    from deixis import evaluation as evaluation
    from deixis.data.dataset import Dataset as Dataset
    from deixis.errors import DeixisError as DeixisError
    from deixis.models.describer.description import describe as describe
    from deixis.models.evaluation import evaluate as evaluate
    from deixis.models.grounding import ground as ground
    from deixis.models.installed import shipped_models
    from deixis.models.photo_score import photo_score as photo_score
    from deixis.models.photo_score import ref_photo_score as ref_photo_score
    from deixis.models.pipeline import caption as caption
    from deixis.models.pipeline import load as load
    from deixis.models.training.runner import train as train
    from deixis.search.collection import index_photos as index_photos
    from deixis.search.collection import open_index as open_index

    models = shipped_models

__version__ = "0.1.0"

# ONNX Runtime reads this variable when it is imported; without it, it writes a device id to the user's cache and sends
# usage events. Any import of a module of deixis comes through here first, in every process, and child processes inherit
# the variable. It overrides a value of the user's, such as 0, because deixis promises to work offline.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

__all__, __getattr__, _ = lazy_exports(
    __name__,
    {
        "": "data evaluation models",
        "data.dataset": "Dataset",
        "errors": "DeixisError",
        "models.describer.description": "describe",
        "models.evaluation": "evaluate",
        "models.grounding": "ground",
        "models.photo_score": "photo_score ref_photo_score",
        "models.pipeline": "caption load",
        "models.training.runner": "train",
        "search.collection": "index_photos open_index",
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
