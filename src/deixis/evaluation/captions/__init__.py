"""Scores of captions: BLEU, CIDEr, ROUGE-L, METEOR, novelty, diversity and perplexity, without Java.

The scores are those of COCO's caption evaluation, with bootstrap intervals; `docs/reference/evaluation/captions.md`
compares them.
"""

from deixis.evaluation.captions.results_file import match_results, read_results
from deixis.evaluation.captions.scores import CaptionScores, caption_scores, compare_captions, perplexity_scores

__all__ = ["CaptionScores", "caption_scores", "compare_captions", "match_results", "perplexity_scores", "read_results"]
