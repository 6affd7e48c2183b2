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

from typing import TYPE_CHECKING

from deixis.exports import lazy_exports

if TYPE_CHECKING:
    from deixis.evaluation.agreement import chain_agreement as chain_agreement
    from deixis.evaluation.agreement import krippendorff_alpha as krippendorff_alpha
    from deixis.evaluation.baselines import best_fixed_boxes as best_fixed_boxes
    from deixis.evaluation.box_sets import box_set_scores as box_set_scores
    from deixis.evaluation.captions import caption_scores as caption_scores
    from deixis.evaluation.captions import compare_captions as compare_captions
    from deixis.evaluation.captions import perplexity_scores as perplexity_scores
    from deixis.evaluation.items import localization_items as localization_items
    from deixis.evaluation.phrase_localization import compare_localization as compare_localization
    from deixis.evaluation.phrase_localization import localization as localization
    from deixis.evaluation.predictions import Prediction as Prediction
    from deixis.evaluation.predictions import read_predictions as read_predictions
    from deixis.evaluation.predictions import write_predictions as write_predictions
    from deixis.evaluation.retrieval import compare_retrieval as compare_retrieval
    from deixis.evaluation.retrieval import recall_at_k as recall_at_k
    from deixis.evaluation.retrieval import region_retrieval as region_retrieval
    from deixis.evaluation.retrieval import sentence_retrieval as sentence_retrieval

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "agreement": "chain_agreement krippendorff_alpha",
        "baselines": "best_fixed_boxes",
        "box_sets": "box_set_scores",
        "captions": "caption_scores compare_captions perplexity_scores",
        "items": "localization_items",
        "phrase_localization": "compare_localization localization",
        "predictions": "Prediction read_predictions write_predictions",
        "retrieval": "compare_retrieval recall_at_k region_retrieval sentence_retrieval",
    },
)
