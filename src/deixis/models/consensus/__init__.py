"""Consensus reranking of captions (m-RNN paper, section 8).

- `consensus`: nearest photos (8.1), BLEU and CIDEr of sentences and captions, scores, and the choice of k and m (8.2);
- `reranking`: training photos that are kept with a model, and the pipeline;
- `training`, `spec` and ``presets.toml``: the functions of the `ModelSpec`, settings and presets.
"""
