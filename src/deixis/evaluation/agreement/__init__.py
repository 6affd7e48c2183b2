"""Agreement of annotators on boxes, on judgements, and on which mentions refer to the same thing.

The results have bootstrap intervals over photos.
"""

from deixis.evaluation.agreement.boxes import DrawnBoxes, box_agreement, giou, set_distance
from deixis.evaluation.agreement.chains import PrecisionRecall, chain_agreement, chains_of
from deixis.evaluation.agreement.judgements import (
    Judgement,
    NoCategory,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
)

__all__ = [
    "DrawnBoxes",
    "Judgement",
    "NoCategory",
    "PrecisionRecall",
    "box_agreement",
    "chain_agreement",
    "chains_of",
    "cohen_kappa",
    "fleiss_kappa",
    "giou",
    "krippendorff_alpha",
    "set_distance",
]
