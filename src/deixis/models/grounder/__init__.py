"""The grounder: a network that scores every region of a photo for every phrase of a sentence.

To read the package: `model` (inputs as arrays, the model, boxes of single things, its pipeline), `network`, `data`
(training examples), `objective` (loss and accuracy), `training`, `spec` (settings) and ``presets.toml``.
"""
