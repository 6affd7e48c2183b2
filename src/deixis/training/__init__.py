"""Where models learn: one loop for all of them, and the samplers and losses that they bring to it.

A network, a `Sampler` of batches, a `Loss` and a measure of dev come in; a run directory with checkpoints, a log and
the best model, with its card, goes out. The loop knows none of the models. May import `models`, `evaluation` and what
stands below them; torch is imported only by the modules that compute.
"""
