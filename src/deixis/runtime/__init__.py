"""Inference without torch: the functions of a network, computed by ONNX Runtime or by torch.

A torch module declares its inference functions (`Function`). When a model is saved, `export_functions` writes each of
them as an ONNX graph beside the weights. `Functions` calls them on arrays: a model that was loaded from a directory
opens sessions of ONNX Runtime, one that is being trained uses its module. Only this package knows the two engines.
"""

from deixis.runtime.functions import Array, Function, Functions

__all__ = ["Array", "Function", "Functions"]
