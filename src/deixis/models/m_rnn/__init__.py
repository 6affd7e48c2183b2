"""The multimodal recurrent network (m-RNN) of Mao et al., *Deep Captioning with Multimodal Recurrent Neural Networks*.

In the order of the paper:

- `spec` and ``presets.toml``: settings, the networks of the paper and our own, and the `ModelSpec`;
- `network`: section 3, equations 2 to 4, and the functions of inference, one word at a time;
- `objective`: section 4, equation 6; `self_critical`: training on CIDEr-D, which the paper does not have;
- `decoding`: generation of sentences (section 5); `prefix_tree`: likelihoods for retrieval (section 5, equation 7);
- `model`: the network with its vocabulary; `captioning`: with an image encoder;
- `evaluation`: perplexity (equation 5) and caption scores on a data set; `caption_page`: a page that shows captions;
- `training`: the functions of the `ModelSpec`.

Consensus reranking (section 8) is `deixis.models.consensus`.
"""
