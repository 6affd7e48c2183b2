"""Two-branch networks (Wang et al., *Learning Two-Branch Neural Networks for Image-Text Matching Tasks*).

To read the package like the paper: `networks` (sections 3.1 and 3.3) and `model` (the same on arrays), `losses`,
`samplers` (Algorithm 1 and neighbourhood sampling), `combined` (eq. 8), `training`, `pipeline`, `spec` (settings) and
the two files of presets (the variants of Tables 1 to 3).
"""
