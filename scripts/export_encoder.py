"""Write the results of ``scripts/train_encoder.py`` as the encoder, the proposal head and the retrieval model.

python scripts/export_encoder.py examples.npz DIR --out OUT [--fast TINY]

DIR contains the towers; OUT receives `encoder`, `head` and `two-branch`. The text tower becomes the text encoder of a
two-branch network, the embedding of photos a linear branch with its batch norm folded in. ``--fast`` takes
the directory of ``scripts/distil_encoder.py`` and writes `fast`. ``--int8`` quantises matrix products of the encoders.
"""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encoder_towers import read_towers
from quantization import quantize_products, quantize_weights
from safetensors.torch import load_file
from torch import Tensor

from deixis.language.vectors import shipped_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.matching.model import MatchingPipeline, TwoBranch
from deixis.models.matching.spec import TwoBranchSettings
from deixis.models.pipeline import new_model
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.storage.artifacts import read_artifact, write_artifact
from deixis.vision.encoders import open_encoder
from deixis.vision.encoders.base import IMAGENET
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.encoders.saved import KIND, save_network
from deixis.vision.encoders.tiny_vit import TinyViT, TinyViTShape
from deixis.vision.encoders.torch_network import EncoderNetwork
from deixis.vision.proposals.head import HeadShape, save_head
from deixis.vision.proposals.head_network import ProposalHead

Weights = dict[str, Tensor]


def part(weights: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): tensor for name, tensor in weights.items() if name.startswith(prefix)}


def write_encoder(
    network: EncoderNetwork, weights: Weights, side: int, folder: Path, about: dict[str, Any], int8: bool
) -> None:
    network.load_state_dict(weights)
    if not int8:
        save_network(folder, network.eval(), side, IMAGENET, about)
        return
    plain = folder.with_name(folder.name + "-float")
    save_network(plain, network.eval(), side, IMAGENET, about)
    write_artifact(
        folder, replace(quantize_products(read_artifact(plain, KIND), largest=63), provenance=about), half=True
    )


def write_head(weights: Weights, shape: dict[str, Any], folder: Path, about: dict[str, Any]) -> None:
    anchors = tuple((float(width), float(height)) for width, height in shape["anchors"])
    head = ProposalHead(HeadShape(shape["channels"], shape["width"], anchors))
    head.load_state_dict(weights)
    save_head(folder, head, about)


def taught_words(arrays: dict[str, np.ndarray]) -> tuple[Vocabulary, np.ndarray]:
    """Return the words of the captions by count, and the row of each in the trained table."""
    rows = np.arange(2, int(arrays["taught"]) + 2)
    words, counts = arrays["words"], arrays["word_counts"]
    rows = np.array(sorted(rows, key=lambda row: (-counts[row], words[row])))
    return Vocabulary(tuple(map(str, words[rows])), tuple(map(int, counts[rows])), int(counts[rows].min())), rows


def text_weights(texts: Weights, rows: np.ndarray) -> Weights:
    """Return the weights of the text encoder and its branch; the last rows are unknown words and padding."""
    table = texts["words.delta.weight"][np.concatenate([rows, [1, 0]])]
    prefix = "encoder.recurrent." if "read.weight_hh_l0" in texts else "encoder."
    read = {prefix + name: tensor for name, tensor in part(texts, "read.").items()}
    head = {"text.layers.first.weight": texts["sentence.weight"], "text.layers.first.bias": texts["sentence.bias"]}
    return {"encoder.words.weight": table, **read, **head}


def visual_weights(whole: Weights) -> Weights:
    """Return the photo branch: batch norm and linear layer as one linear layer."""
    scale = whole["0.weight"] / (whole["0.running_var"] + 1e-5).sqrt()
    shift = whole["0.bias"] - scale * whole["0.running_mean"]
    return {
        "visual.layers.first.weight": whole["2.weight"] * scale,
        "visual.layers.first.bias": whole["2.bias"] + whole["2.weight"] @ shift,
    }


def write_two_branch(
    weights: Weights, training: dict[str, Any], arrays: dict[str, np.ndarray], encoder: Path, folder: Path
) -> None:
    texts, whole = part(weights, "texts."), part(weights, "photos.whole.")
    vocabulary, rows = taught_words(arrays)
    dimension, width = whole["2.weight"].shape
    settings = TwoBranchSettings(
        hidden_size=dimension,
        linear=True,
        text_encoder=training["text"],
        word_dim=texts["words.delta.weight"].shape[1],
        text_hidden_size=training["hidden"],
        text_layers=training["text_layers"],
        loss="softmax",
    )
    model = TwoBranch(width, settings=settings, vocabulary=vocabulary, frozen=shipped_vectors())
    missing, unexpected = model.network.load_state_dict(text_weights(texts, rows) | visual_weights(whole), strict=False)
    if missing != ["log_temperature"] or unexpected:
        raise SystemExit(f"the weights do not match: missing {missing}, unexpected {unexpected}")
    opened = open_encoder(f"deixis:{encoder.resolve()}", device="cpu")
    with new_model(folder) as made:
        MatchingPipeline(model, Provenance(EncoderInfo(opened.name, opened.fingerprint))).write(made, half=True)
    compress(folder)


def compress(folder: Path) -> None:
    """Store the words and the recurrent layer of a two-branch network as int8."""
    artifact = read_artifact(folder)
    stored = [name for name, array in artifact.arrays.items() if name.startswith("encoder.") and array.ndim == 2]
    shutil.rmtree(folder)
    write_artifact(folder, quantize_weights(artifact, stored), half=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("trained", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--fast", type=Path, help="directory of scripts/distil_encoder.py")
    parser.add_argument("--int8", action="store_true")
    chosen = parser.parse_args()
    weights, about = read_towers(chosen.trained)
    provenance = {name: about[name] for name in ("learned_from", "training", "dev")}
    encoder = part(weights, "photos.encoder.")
    network = VisionTransformer(ViTShape(grid=encoder["positions"].shape[-1]))
    side = int(about["training"]["side"])
    write_encoder(network, encoder, side, chosen.out / "encoder", provenance, chosen.int8)
    write_head(part(weights, "photos.head."), about["head"], chosen.out / "head", provenance)
    arrays = dict(np.load(chosen.examples))
    write_two_branch(weights, about["training"], arrays, chosen.out / "encoder", chosen.out / "two-branch")
    if chosen.fast:
        small = {name: tensor.float() for name, tensor in load_file(chosen.fast / "tiny.safetensors").items()}
        taught = json.loads((chosen.fast / "tiny.json").read_text()) | {"learned_from": about["learned_from"]}
        write_encoder(TinyViT(TinyViTShape()), small, 224, chosen.out / "fast", taught, chosen.int8)


if __name__ == "__main__":
    with torch.no_grad():
        main()
