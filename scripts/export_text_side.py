"""Make the retrieval model that ships from what ``scripts/train_encoder.py`` left beside the encoder.

python scripts/export_text_side.py examples.npz DIR --out two-branch.model

DIR holds `texts.safetensors` and `rest.safetensors`. The text side becomes the GRU encoder of a two-branch network,
the photo side a linear branch into which its batch norm is folded. To be small, rare words are left out, and word
vectors are turned so that the first `--word-size` of their numbers carry most: the GRU's own weights turn with them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor

from deixis.language.vocabulary import Vocabulary
from deixis.models.two_branch import TwoBranch, TwoBranchSettings
from deixis.tasks.bundle import Bundle, EncoderOfBundle, new_bundle
from deixis.vision.encoders import open_encoder

PADDING, UNKNOWN = 0, 1  # rows of the word table that stand for no word


def known_words(arrays: dict[str, np.ndarray], least: int) -> tuple[Vocabulary, np.ndarray]:
    """The words seen often enough, and the row of each in the table that was trained."""
    numbers = np.concatenate([arrays[name].ravel() for name in ("train_captions", "text_captions")])
    counts = np.bincount(numbers, minlength=len(arrays["words"]))
    counts[[PADDING, UNKNOWN]] = 0
    rows = np.flatnonzero(counts >= least)
    words = arrays["words"]
    rows = np.array(sorted(rows, key=lambda row: (-counts[row], words[row])))
    return Vocabulary(tuple(map(str, words[rows])), tuple(map(int, counts[rows])), least), rows


def turned(table: Tensor, size: int) -> Tensor:
    """An orthonormal basis, (size, numbers), in which the first axes carry most of the word vectors."""
    return torch.linalg.svd(table, full_matrices=False).Vh[:size]


def text_weights(texts: dict[str, Tensor], rows: np.ndarray, size: int) -> dict[str, Tensor]:
    """The GRU encoder and the text branch."""
    basis = turned(texts["words.weight"], size)
    table = texts["words.weight"][np.concatenate([rows, [UNKNOWN, PADDING]])] @ basis.T
    read = {
        f"encoder.recurrent.{name.removeprefix('read.')}": tensor @ basis.T if "weight_ih" in name else tensor
        for name, tensor in texts.items()
        if name.startswith("read.")
    }
    head = {"text.layers.first.weight": texts["sentence.weight"], "text.layers.first.bias": texts["sentence.bias"]}
    return {"encoder.words.weight": table, **read, **head}


def visual_weights(rest: dict[str, Tensor]) -> dict[str, Tensor]:
    """The photo branch: a batch norm and a linear layer as one linear layer."""
    scale = rest["whole.0.weight"] / (rest["whole.0.running_var"] + 1e-5).sqrt()
    shift = rest["whole.0.bias"] - scale * rest["whole.0.running_mean"]
    weight = rest["whole.2.weight"]
    return {
        "visual.layers.first.weight": weight * scale,
        "visual.layers.first.bias": rest["whole.2.bias"] + weight @ shift,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("trained", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--encoder", type=Path, help="instead of the package's")
    parser.add_argument("--word-size", type=int, default=160)
    parser.add_argument("--least", type=int, default=5, help="leave out words that were seen less often")
    chosen = parser.parse_args()
    texts, rest = (
        {name: tensor.float() for name, tensor in load_file(chosen.trained / f"{file}.safetensors").items()}
        for file in ("texts", "rest")
    )
    vocabulary, rows = known_words(dict(np.load(chosen.examples)), chosen.least)
    word_size = min(chosen.word_size, texts["words.weight"].shape[1])
    dimension, width = rest["whole.2.weight"].shape
    settings = TwoBranchSettings(
        hidden=dimension,
        linear=True,
        reader="gru",
        word_size=word_size,
        text_hidden=texts["read.weight_hh_l0"].shape[1],
        loss="softmax",
    )
    model = TwoBranch(width, settings=settings, vocabulary=vocabulary)
    weights = text_weights(texts, rows, word_size) | visual_weights(rest)
    missing, unexpected = model.network.load_state_dict(weights, strict=False)
    if missing != ["log_temperature"] or unexpected:
        raise SystemExit(f"the parts do not fit: missing {missing}, too many {unexpected}")
    encoder = open_encoder(f"deixis:{chosen.encoder.resolve()}" if chosen.encoder else "deixis", device="cpu")
    with new_bundle(chosen.out) as folder:
        Bundle(EncoderOfBundle(encoder.name, encoder.fingerprint), None, model).write(folder)
        model.save(folder / "model", half=True)


if __name__ == "__main__":
    main()
