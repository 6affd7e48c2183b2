"""The grounder: a network that scores every region of a photo for every phrase of a sentence.

To read the package: `model`, `network`, `data` (training examples),
`objective` (loss and accuracy), `training`, `pipeline`, `spec` (settings) and ``presets.toml``.
"""
