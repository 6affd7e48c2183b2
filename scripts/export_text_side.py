"""Export the shipped retrieval model from the results of ``scripts/train_encoder.py``.

python scripts/export_text_side.py examples.npz DIR --out two-branch.model

DIR contains `texts` and `rest`. The text side becomes the GRU encoder of a two-branch network,
the photo side a linear branch with its batch norm folded in. To reduce the size, rare words are left out, and word
vectors are rotated and truncated to `--word-size` dimensions, together with the input weights of the GRU.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from deixis.language.vocabulary import Vocabulary
from deixis.models.matching.pipeline import MatchingPipeline
from deixis.models.matching.spec import TwoBranchSettings
from deixis.models.matching.two_branch import TwoBranch
from deixis.models.pipeline import new_model
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.storage.artifacts import read_artifact
from deixis.vision.encoders import open_encoder

PADDING, UNKNOWN = 0, 1  # special rows of the word table


def read_sides(folder: Path) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the weights of the text side, and those of the photo side without the encoder."""
    texts, rest = (
        {name: torch.from_numpy(array) for name, array in read_artifact(folder / kind, kind).arrays.items()}
        for kind in ("texts", "rest")
    )
    return texts, rest


def known_words(arrays: dict[str, np.ndarray], least: int) -> tuple[Vocabulary, np.ndarray]:
    """Return the frequent words, and the row of each in the trained table."""
    numbers = np.concatenate([arrays[name].ravel() for name in ("train_captions", "text_captions")])
    counts = np.bincount(numbers, minlength=len(arrays["words"]))
    counts[[PADDING, UNKNOWN]] = 0
    rows = np.flatnonzero(counts >= least)
    words = arrays["words"]
    rows = np.array(sorted(rows, key=lambda row: (-counts[row], words[row])))
    return Vocabulary(tuple(map(str, words[rows])), tuple(map(int, counts[rows])), least), rows


def principal_basis(table: Tensor, size: int) -> Tensor:
    """Return an orthonormal basis (size, dimension) of the principal directions of the word vectors."""
    return torch.linalg.svd(table, full_matrices=False).Vh[:size]


def text_weights(texts: dict[str, Tensor], rows: np.ndarray, size: int) -> dict[str, Tensor]:
    """Return the weights of the GRU encoder and the text branch."""
    basis = principal_basis(texts["words.weight"], size)
    table = texts["words.weight"][np.concatenate([rows, [UNKNOWN, PADDING]])] @ basis.T
    read = {
        f"encoder.recurrent.{name.removeprefix('read.')}": tensor @ basis.T if "weight_ih" in name else tensor
        for name, tensor in texts.items()
        if name.startswith("read.")
    }
    head = {"text.layers.first.weight": texts["sentence.weight"], "text.layers.first.bias": texts["sentence.bias"]}
    return {"encoder.words.weight": table, **read, **head}


def visual_weights(rest: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the photo branch: batch norm and linear layer as one linear layer."""
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
    parser.add_argument("--encoder", type=Path, help="encoder weights; by default those of the package")
    parser.add_argument("--word-size", type=int, default=160)
    parser.add_argument("--least", type=int, default=5, help="minimum count of a word")
    chosen = parser.parse_args()
    texts, rest = read_sides(chosen.trained)
    vocabulary, rows = known_words(dict(np.load(chosen.examples)), chosen.least)
    word_size = min(chosen.word_size, texts["words.weight"].shape[1])
    dimension, width = rest["whole.2.weight"].shape
    settings = TwoBranchSettings(
        hidden_size=dimension,
        linear=True,
        text_encoder="gru",
        word_dim=word_size,
        text_hidden_size=texts["read.weight_hh_l0"].shape[1],
        loss="softmax",
    )
    model = TwoBranch(width, settings=settings, vocabulary=vocabulary)
    weights = text_weights(texts, rows, word_size) | visual_weights(rest)
    missing, unexpected = model.network.load_state_dict(weights, strict=False)
    if missing != ["log_temperature"] or unexpected:
        raise SystemExit(f"the weights do not match: missing {missing}, unexpected {unexpected}")
    encoder = open_encoder(f"deixis:{chosen.encoder.resolve()}" if chosen.encoder else "deixis", device="cpu")
    with new_model(chosen.out) as folder:
        MatchingPipeline(model, Provenance(EncoderInfo(encoder.name, encoder.fingerprint))).write(folder)
        model.save(folder / "model", half=True)


if __name__ == "__main__":
    main()
