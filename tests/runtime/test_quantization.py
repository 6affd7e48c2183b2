"""Weights stored as int8: what is computed, what is stored, and what stays as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from deixis.runtime import Array, Function, Functions
from deixis.runtime.quantization import quantize_rows, quantize_weights
from deixis.storage.artifacts import WEIGHTS, read_artifact, write_artifact
from deixis.storage.checksums import CheckedFile
from deixis.storage.tensors import TensorFile

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


def save(module: Network, folder: Path) -> Functions:
    artifact = Functions(module).to_artifact("network", {}, {"other": np.ones((2, 3), np.float32)})
    write_artifact(folder, quantize_weights(artifact), half=True)
    return Functions(artifact=read_artifact(folder), make_module=Network, other_arrays=["other"])


def test_a_session_and_the_module_compute_with_the_stored_weights(module: Network, tmp_path: Path) -> None:
    loaded, rows = save(module, tmp_path / "a"), np.random.default_rng(0).normal(size=(7, SIZE)).astype(np.float32)
    by_session, exact = loaded("embed", rows)[0], Functions(module)("embed", rows)[0]
    by_module = Functions(loaded.module)("embed", rows)[0]
    np.testing.assert_allclose(by_session, by_module, atol=1e-4)
    assert 0 < np.abs(by_session - exact).max() < 0.1 * np.abs(exact).max()


def test_matrices_are_stored_as_int8_and_gathered_tables_and_small_arrays_are_not(
    module: Network, tmp_path: Path
) -> None:
    loaded = save(module, tmp_path / "a")
    types = {
        name: tensor.dtype for name, tensor in TensorFile(CheckedFile(tmp_path / "a" / WEIGHTS, None)).layout.items()
    }
    quantized = {name for name, dtype in types.items() if dtype == "I8"}
    assert quantized == {"layer.weight", "cube", "narrow.weight"}
    assert {types[f"{name}.scale"] for name in quantized} == {"F32"}
    assert types["words.weight"] == types["wide.weight"] == types["other"] == "F16"
    ids = np.array([3, 0, 8])
    np.testing.assert_allclose(loaded("look_up", ids)[0], module.words.weight.detach()[ids], atol=1e-3)


def test_a_quantised_model_is_saved_again_unchanged(module: Network, tmp_path: Path) -> None:
    loaded = save(module, tmp_path / "a")
    again = replace(loaded.to_artifact("network", {}), half=True)
    write_artifact(tmp_path / "b", quantize_weights(again))
    for file in (WEIGHTS, "embed.onnx", "look_up.onnx"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_rows_are_rounded_to_127_steps_of_their_own(module: Network) -> None:
    array = np.array([[1.0, -0.5, 0.004], [100, 0, 40], [0, 0, 0]], dtype=np.float32)
    values, scale = quantize_rows(array)
    assert values.tolist() == [[127, -64, 1], [127, 0, 51], [0, 0, 0]]
    assert np.all(np.abs(values * scale - array) <= scale / 2 + 1e-6)
