"""The multimodal recurrent network (m-RNN) of Mao et al., *Deep Captioning with Multimodal Recurrent Neural Networks*.

In the order of the paper:

- `spec` and ``presets.toml``: settings, the networks of the paper, and the specifications;
- `network`: section 3, equations 2 to 4, and the functions of inference, one word at a time;
- `objective`: section 4, equation 6;
- `decoding`: generation of sentences (section 5); `retrieval`: likelihoods of all pairs (section 5, equation 7);
- `model`: the network with its vocabulary; `pipeline`: with an image encoder;
- `training`: the functions of the specifications;
- `evaluation`: perplexity (equation 5) and caption scores on a data set;
- `consensus`: consensus reranking (section 8).

`deixis.models.captioner` extends all of it to the captioner that deixis ships.
"""
