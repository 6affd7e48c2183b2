"""The captioner that deixis ships: an m-RNN with what the paper does not have.

- `spec` and ``presets.toml``: settings, and the `ModelSpec`;
- `network`: an LSTM, attention to the cells of the feature map, a second attention;
- `training`: views of photos, likelihood training and training on CIDEr-D; `self_critical`: its reward and objective;
- `pipeline`: the network with its vocabulary and its image encoder; captions of photos;
- `ranking`: their order by how well they match the photo, which of them are shown, and how sure they are;
  `confidence_fitting`: the fit of that.

Decoding, retrieval, evaluation and consensus reranking are those of `deixis.models.m_rnn`.
"""
