"""HM-LSTM: dense embedding of sentences, phrases, photos and regions (Niu et al., ICCV 2017).

To read the package like the paper: `trees` (inputs, section 3.1), `network` (section 3.2.1 with eq. 2–8, section 3.2.2
and Figure 4), `model` (the same on arrays, and its pipeline, section 4), `correspondence` (sections 3.1 and 3.3),
`objective` (eq. 9 and 10), `training` (Figure 3), `spec` (settings) and ``presets.toml``.
"""
