"""Scores that others can import: retrieval, localisation, captions and agreement.

Arrays and plain records come in, frozen results go out, each with its protocol, its tie rule and a bootstrap interval.
Needs neither torch nor the models; imports `geometry`, `tokens`, `errors` and `data` only.

Examples
--------
>>> from deixis.evaluation import recall_at_k
>>> recall_at_k([[0.9, 0.1], [0.2, 0.8]]).i2t_r1
100.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deixis.evaluation.captions import caption_scores, compare_captions
    from deixis.evaluation.grounding import compare_localization, localization
    from deixis.evaluation.retrieval import (
        compare_retrieval,
        recall_at_k,
        region_retrieval,
        sentence_retrieval,
    )

__all__ = [
    "caption_scores",
    "compare_captions",
    "compare_localization",
    "compare_retrieval",
    "localization",
    "recall_at_k",
    "region_retrieval",
    "sentence_retrieval",
]

_MODULES = {
    "caption_scores": "captions",
    "compare_captions": "captions",
    "compare_localization": "grounding",
    "compare_retrieval": "retrieval",
    "localization": "grounding",
    "recall_at_k": "retrieval",
    "region_retrieval": "retrieval",
    "sentence_retrieval": "retrieval",
}


def __getattr__(name: str) -> Any:
    """Import a score when it is first used: each needs other tables, and nobody needs all."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
