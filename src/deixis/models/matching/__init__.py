"""Two-branch networks (Wang et al., *Learning Two-Branch Neural Networks for Image-Text Matching Tasks*).

To read the package like the paper: `two_branch` (embedding network, section 3.1), `losses` (eq. 1 to 7), `samplers`
(Algorithm 1 and neighbourhood sampling), `similarity` (similarity network, section 3.3), `training`, `pipeline`, `spec`
(settings) and the two files of presets (the variants of Tables 1 to 3).
"""
