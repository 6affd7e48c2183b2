"""Agreement of annotators on boxes, on judgements, and on which mentions refer to the same thing.

The results have bootstrap intervals over photos.
"""

from deixis.evaluation.agreement.boxes import BoxAgreement, DrawnBoxes, box_agreement, giou, set_distance
from deixis.evaluation.agreement.chains import ChainAgreement, PrecisionRecall, chain_agreement, chains_of
from deixis.evaluation.agreement.judgements import (
    Judgement,
    JudgementAgreement,
    NoCategory,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
)

__all__ = [
    "BoxAgreement",
    "ChainAgreement",
    "DrawnBoxes",
    "Judgement",
    "JudgementAgreement",
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
