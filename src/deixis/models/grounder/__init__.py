"""The grounder: a network that scores every region of a photo for every phrase of a sentence.

To read the package: `inputs` (arrays), `batches` (tensors), `network`, `model`, `data` (training examples),
`objective` (loss and accuracy), `training`, `pipeline`, `spec` (settings) and ``presets.toml``.
"""
