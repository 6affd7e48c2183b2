"""HM-LSTM: dense embedding of sentences, phrases, photos and regions (Niu et al., ICCV 2017).

To read the package like the paper: `trees` and `data` (inputs, section 3.1), `network` (section 3.2.1 with eq. 2–8,
section 3.2.2 and Figure 4) and `model` (the same on arrays), `correspondence` (section 3.3), `objective` (eq. 9 and
10), `training` (Figure 3), `pipeline` (section 4), `spec` (settings) and ``presets.toml``.
"""
