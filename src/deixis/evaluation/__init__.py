"""Scores for retrieval, phrase localization, captions and annotator agreement, usable on their own.

The functions take arrays and plain records and return frozen results with the protocol, the tie rule and bootstrap
intervals. The package imports neither torch nor the models.

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
    from deixis.evaluation.agreement import (
        box_agreement,
        chain_agreement,
        cohen_kappa,
        fleiss_kappa,
        krippendorff_alpha,
    )
    from deixis.evaluation.baselines import best_fixed_boxes
    from deixis.evaluation.captions import caption_scores, compare_captions, perplexity_scores
    from deixis.evaluation.items import localization_items
    from deixis.evaluation.phrase_localization import compare_localization, localization
    from deixis.evaluation.predictions import Prediction, read_predictions, write_predictions
    from deixis.evaluation.retrieval import compare_retrieval, recall_at_k, region_retrieval, sentence_retrieval

_MODULES = {
    "Prediction": "predictions",
    "best_fixed_boxes": "baselines",
    "box_agreement": "agreement",
    "caption_scores": "captions",
    "chain_agreement": "agreement",
    "cohen_kappa": "agreement",
    "compare_captions": "captions",
    "compare_localization": "phrase_localization",
    "compare_retrieval": "retrieval",
    "fleiss_kappa": "agreement",
    "krippendorff_alpha": "agreement",
    "localization": "phrase_localization",
    "localization_items": "items",
    "perplexity_scores": "captions",
    "read_predictions": "predictions",
    "recall_at_k": "retrieval",
    "region_retrieval": "retrieval",
    "sentence_retrieval": "retrieval",
    "write_predictions": "predictions",
}

__all__ = [
    "Prediction",
    "best_fixed_boxes",
    "box_agreement",
    "caption_scores",
    "chain_agreement",
    "cohen_kappa",
    "compare_captions",
    "compare_localization",
    "compare_retrieval",
    "fleiss_kappa",
    "krippendorff_alpha",
    "localization",
    "localization_items",
    "perplexity_scores",
    "read_predictions",
    "recall_at_k",
    "region_retrieval",
    "sentence_retrieval",
    "write_predictions",
]


def __getattr__(name: str) -> Any:
    """Import a score on first use, because each needs different tables and libraries."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
