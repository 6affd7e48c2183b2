"""Weights stored as int8: what is computed, with or without int8 products, what is stored, what stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from quantization import quantize_products, quantize_weights
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.runtime import Array, Function, Functions
from deixis.runtime.modules import attention
from deixis.storage.artifacts import WEIGHTS, read_artifact, write_artifact

SIZE = 80


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, SIZE)
        self.layer = nn.Linear(SIZE, SIZE)
        self.cube = nn.Parameter(torch.randn(3, SIZE, SIZE))
        self.narrow = nn.Linear(SIZE, 5)
        self.wide = nn.Linear(5, SIZE)

    def embed(self, rows: Tensor) -> Tensor:
        found: Tensor = self.wide(self.narrow((self.layer(rows) @ self.cube.flatten(0, 1).T)[:, -SIZE:].tanh()))
        return found

    def look_up(self, ids: Tensor) -> Tensor:
        found: Tensor = self.words(ids)
        return found

    def functions(self) -> list[Function]:
        rows = Array("n", SIZE)
        return [
            Function("embed", {"rows": rows}, {"vectors": rows}),
            Function("look_up", {"ids": Array("n", dtype="int64")}, {"vectors": rows}),
        ]


@pytest.fixture
def module() -> Network:
    torch.manual_seed(0)
    return Network()


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Length of the difference, as a share of the length of the first."""
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


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
    write_artifact(folder, artifact if largest is None else quantize_products(artifact, largest=largest), half=True)
    return Functions(artifact=read_artifact(folder), make_module=Block)


@pytest.mark.parametrize("largest", [127, 63])
def test_a_quantised_network_computes_nearly_the_same_and_is_smaller(tmp_path: Path, largest: int) -> None:
    tokens = np.random.default_rng(0).standard_normal((3, 5, 128)).astype(np.float32)
    plain = make_block(tmp_path / "plain")("see", tokens)
    quantised = make_block(tmp_path / "int8", largest=largest)
    by_session = quantised("see", tokens)
    _ = quantised.module  # from now on, torch computes
    for found in (by_session, quantised("see", tokens)):
        assert all(0 < distance(one, other) < 0.05 for one, other in zip(plain, found, strict=True))
    sizes = [(tmp_path / name / WEIGHTS).stat().st_size for name in ("plain", "int8")]
    assert sizes[1] < 0.65 * sizes[0]


class Speaker(nn.Module):
    """Words that are read and, less the last of them, compared with; products with and without a bias."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(50, 128)
        self.next = nn.Linear(128, 192)
        self.back = nn.Linear(192, 128, bias=False)
        self.odd = nn.Linear(100, 128)

    def look_up(self, ids: Tensor) -> Tensor:
        found: Tensor = self.words(ids)
        return found

    def say(self, words: Tensor, rows: Tensor) -> Tensor:
        states = self.back(self.next(words).tanh())[:, None] + self.odd(rows)[:, None]
        scores: Tensor = states @ self.words.weight[:-1].T
        return scores

    def functions(self) -> list[Function]:
        words, rows = Array("n", 128), Array("n", 100)
        return [
            Function("look_up", {"ids": Array("n", dtype="int64")}, {"words": words}),
            Function("say", {"words": words, "rows": rows}, {"scores": Array("n", 1, 49)}),
        ]


def make_speaker(folder: Path, *, products: bool | None) -> Functions:
    artifact = Functions(Speaker()).to_artifact("speaker", {})
    write_artifact(folder, artifact if products is None else quantize_weights(artifact, products=products), half=True)
    return Functions(artifact=read_artifact(folder), make_module=Speaker)


@pytest.fixture
def spoken() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((24, 128), np.float32), rng.standard_normal((24, 100), np.float32)


def test_block_products_are_nearly_those_of_single_precision(
    tmp_path: Path, spoken: tuple[np.ndarray, np.ndarray]
) -> None:
    plain, blocks = (make_speaker(tmp_path / str(products), products=products) for products in (None, True))
    ids, by_blocks = np.array([3, 49, 3]), blocks("say", *spoken)[0]
    assert 0 < distance(plain("say", *spoken)[0], by_blocks) < 0.02
    assert 0 < distance(plain("look_up", ids)[0], blocks("look_up", ids)[0]) < 0.02
    _ = blocks.module  # from now on, torch computes
    assert 0 < distance(blocks("say", *spoken)[0], by_blocks) < 0.02


def test_a_block_product_of_a_row_does_not_depend_on_the_others(
    tmp_path: Path, spoken: tuple[np.ndarray, np.ndarray]
) -> None:
    blocks = make_speaker(tmp_path / "blocks", products=True)
    words, rows = spoken
    words[1:] *= 100
    among = blocks("say", words, rows)[0]
    for count in (1, 2, 5):
        alone = blocks("say", words[:count], rows[:count])[0]
        np.testing.assert_allclose(alone, among[:count], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("products", [False, True])
def test_a_quantised_model_is_saved_again_unchanged(tmp_path: Path, products: bool) -> None:
    again = replace(make_speaker(tmp_path / "a", products=products).to_artifact("speaker", {}), half=True)
    write_artifact(tmp_path / "b", quantize_weights(again, products=products))
    for file in (WEIGHTS, "say.onnx", "look_up.onnx"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_an_operator_of_another_domain_is_refused(tmp_path: Path, spoken: tuple[np.ndarray, np.ndarray]) -> None:
    artifact = quantize_weights(Functions(Speaker()).to_artifact("speaker", {}), products=True)
    changed = {name: graph.replace(b"com.microsoft", b"com.elsewhere") for name, graph in artifact.graphs.items()}
    write_artifact(tmp_path / "other", replace(artifact, graphs=changed))
    with pytest.raises(DeixisError, match=r"operators of 'com\.elsewhere'"):
        Functions(artifact=read_artifact(tmp_path / "other"), make_module=Speaker)("say", *spoken)
