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

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis import data as data
    from deixis import evaluation as evaluation
    from deixis.data.dataset import Dataset as Dataset
    from deixis.errors import DeixisError as DeixisError
    from deixis.models.evaluation import evaluate as evaluate
    from deixis.models.pipeline import caption as caption
    from deixis.models.pipeline import describe as describe
    from deixis.models.pipeline import ground as ground
    from deixis.models.pipeline import load as load
    from deixis.models.pipeline import shipped_models as models
    from deixis.models.training.runner import train as train
    from deixis.search.collection import index_photos as index_photos
    from deixis.search.collection import open_index as open_index

__version__ = "0.1.0"

__all__ = [
    "Dataset",
    "DeixisError",
    "caption",
    "data",
    "describe",
    "evaluate",
    "evaluation",
    "ground",
    "index_photos",
    "load",
    "models",
    "open_index",
    "train",
]

_MODULES = {
    "Dataset": "deixis.data.dataset",
    "DeixisError": "deixis.errors",
    "caption": "deixis.models.pipeline",
    "describe": "deixis.models.pipeline",
    "evaluate": "deixis.models.evaluation",
    "ground": "deixis.models.pipeline",
    "index_photos": "deixis.search.collection",
    "load": "deixis.models.pipeline",
    "open_index": "deixis.search.collection",
    "train": "deixis.models.training.runner",
}
"""Where public names are defined. They are imported on first use, because what they need takes long to import."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    if name in __all__:
        return import_module(f"deixis.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
