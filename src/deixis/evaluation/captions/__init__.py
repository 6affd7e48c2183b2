"""Scores of captions: BLEU, CIDEr, ROUGE-L, METEOR, novelty, diversity and perplexity, without Java.

Captions of photos come in as text, or log-probabilities of words as numbers; frozen scores with intervals go out. The
numbers are those of COCO's caption evaluation (`docs/evaluation/captions.md` says how closely).
"""

from deixis.evaluation.captions.perplexity import PerplexityScores, perplexity_scores
from deixis.evaluation.captions.results_file import match_results, read_results
from deixis.evaluation.captions.scores import CaptionScores, caption_scores, compare_captions

__all__ = [
    "CaptionScores",
    "PerplexityScores",
    "caption_scores",
    "compare_captions",
    "match_results",
    "perplexity_scores",
    "read_results",
]
