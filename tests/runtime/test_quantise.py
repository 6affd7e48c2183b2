"""Quantised networks: nearly the same results, a quarter of the size, and torch reads them too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.runtime import Array, Function, Functions
from deixis.runtime.attention import attention
from deixis.runtime.quantise import quantise, quantise_rows
from deixis.storage.artifacts import WEIGHTS, read_artifact, write_artifact


class Block(nn.Module):
    """Attention with a bias, a product of rows, and a matrix that is also added to something."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.joined = nn.Linear(128, 3 * 128)
        self.outer = nn.Linear(128, 128)
        self.bias = nn.Parameter(torch.randn(4, 1, 1))
        self.shared = nn.Parameter(torch.randn(128, 128) / 11)

    def see(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        query, key, value = self.joined(tokens).chunk(3, dim=2)
        size = tokens.shape[1]
        seen = attention(query, key, value, 4, self.bias.expand(4, size, size)[None])
        rows = self.outer(seen.mean(dim=1))
        return seen, rows @ self.shared.T + self.shared.sum()

    def functions(self) -> list[Function]:
        tokens = Array("photos", "tokens", 128)
        return [Function("see", {"tokens": tokens}, {"seen": tokens, "rows": Array("photos", 128)})]


def make_block(folder: Path, *, largest: int | None = None) -> Functions:
    artifact = Functions(Block()).to_artifact("block", {})
    write_artifact(folder, artifact if largest is None else quantise(artifact, largest=largest), half=True)
    return Functions(artifact=read_artifact(folder), make_module=Block)


@pytest.mark.parametrize("size", [3, 7])
def test_attention_of_the_engine_is_that_of_torch(tmp_path: Path, size: int) -> None:
    saved = make_block(tmp_path / "block")
    tokens = np.random.default_rng(0).standard_normal((2, size, 128)).astype(np.float32)
    computed = saved("see", tokens)
    _ = saved.module  # from now on, torch computes
    for one, other in zip(computed, saved("see", tokens), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)


@pytest.mark.parametrize("largest", [127, 63])
def test_quantised_network_computes_nearly_the_same(tmp_path: Path, largest: int) -> None:
    tokens = np.random.default_rng(0).standard_normal((3, 5, 128)).astype(np.float32)
    plain = make_block(tmp_path / "plain")("see", tokens)
    quantised = make_block(tmp_path / "int8", largest=largest)
    for one, other in zip(plain, quantised("see", tokens), strict=True):
        assert np.linalg.norm(one - other) < 0.05 * np.linalg.norm(one)
        assert not np.array_equal(one, other)


def test_quantised_weights_take_half_of_half_precision(tmp_path: Path) -> None:
    make_block(tmp_path / "plain")
    make_block(tmp_path / "int8", largest=127)
    sizes = [(tmp_path / name / WEIGHTS).stat().st_size for name in ("plain", "int8")]
    assert sizes[1] < 0.65 * sizes[0]


def test_only_matrices_of_products_are_quantised(tmp_path: Path) -> None:
    artifact = quantise(Functions(Block()).to_artifact("block", {}))
    kinds = {name: array.dtype.kind for name, array in artifact.arrays.items()}
    assert kinds["joined.weight"] == kinds["outer.weight"] == "i"
    assert kinds["shared"] == kinds["joined.bias"] == "f"
    others = quantise(Functions(Block()).to_artifact("block", {}), exclude=["outer.weight"])
    assert others.arrays["outer.weight"].dtype.kind == "f"


class Reader(nn.Module):
    """A recurrent layer, and words that the graph does not read."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(50, 32)
        self.recurrent = nn.GRU(32, 64, batch_first=True, bidirectional=True)

    def read(self, words: Tensor) -> Tensor:
        states: Tensor = self.recurrent(words)[0]
        return states

    def functions(self) -> list[Function]:
        return [Function("read", {"words": Array("n", "m", 32)}, {"states": Array("n", "m", 128)})]


def test_weights_can_be_stored_as_int8_and_computed_with_in_single_precision(tmp_path: Path) -> None:
    words = np.random.default_rng(0).standard_normal((2, 6, 32)).astype(np.float32)
    artifact = Functions(Reader()).to_artifact("reader", {})
    stored = [name for name, array in artifact.arrays.items() if array.ndim == 2]
    write_artifact(tmp_path / "plain", artifact)
    write_artifact(tmp_path / "int8", quantise(artifact, stored=stored))
    plain, int8 = (Functions(artifact=read_artifact(tmp_path / name), make_module=Reader) for name in ("plain", "int8"))
    one, other = plain("read", words)[0], int8("read", words)[0]
    assert 0 < np.linalg.norm(one - other) < 0.02 * np.linalg.norm(one)
    table = read_artifact(tmp_path / "int8").arrays["words.weight"]
    np.testing.assert_allclose(table, artifact.arrays["words.weight"], atol=0.03)


def test_torch_reads_quantised_weights(tmp_path: Path) -> None:
    tokens = np.random.default_rng(1).standard_normal((2, 4, 128)).astype(np.float32)
    plain = make_block(tmp_path / "plain")("see", tokens)
    quantised = make_block(tmp_path / "int8", largest=127)
    _ = quantised.module
    for one, other in zip(plain, quantised("see", tokens), strict=True):
        assert np.linalg.norm(one - other) < 0.05 * np.linalg.norm(one)


def test_scales_make_the_error_small() -> None:
    rows = np.random.default_rng(0).standard_normal((4, 1000))
    codes, scales = quantise_rows(rows, largest=7)
    assert np.abs(codes).max() == 7
    error = ((codes * scales[:, None] - rows) ** 2).mean()
    plain = np.abs(rows).max(axis=1, keepdims=True) / 7
    assert error < 0.9 * ((np.round(rows / plain) * plain - rows) ** 2).mean()  # outliers are clipped
