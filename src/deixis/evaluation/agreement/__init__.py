"""Agreement of annotators on answers, and on which mentions refer to the same thing.

The results have bootstrap intervals over photos.
"""

from deixis.evaluation.agreement.chains import PrecisionRecall, chain_agreement, chains_of
from deixis.evaluation.agreement.judgements import Judgement, krippendorff_alpha

__all__ = ["Judgement", "PrecisionRecall", "chain_agreement", "chains_of", "krippendorff_alpha"]
