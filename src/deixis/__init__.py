"""deixis points at pictures with words. What its user can mend is raised as a `DeixisError`, in one line.

Examples
--------
>>> import deixis
>>> model = deixis.load("two-branch")
>>> photos = model.encode_images(["dog.jpg", "cat.jpg"])  # doctest: +SKIP
>>> model.similarity(photos, model.encode_sentences(["A dog runs."])).argmax()  # doctest: +SKIP
0
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_PLACES = {
    "DeixisError": "deixis.errors",
    "caption": "deixis.tasks.captions.captioning",
    "describe": "deixis.tasks.describe.describing",
    "ground": "deixis.tasks.grounding",
    "load": "deixis.tasks.bundle",
    "open_index": "deixis.tasks.search.searching",
}
"""In which module each public name is."""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: what it needs takes longer than `import deixis` may."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(_PLACES)}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
