"""Functions of a network: torch and ONNX Runtime compute the same, and damaged graphs give one line."""

from __future__ import annotations

import sys
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.models.networks import Kind, TextEncoderShape, make_text_encoder
from deixis.runtime import Array, Function, Functions
from deixis.runtime import functions as functions_module
from deixis.runtime import modules as export_module
from deixis.runtime.modules import attention, export_functions
from deixis.storage.artifacts import WEIGHTS, read_artifact, write_artifact


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.layer = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.unused = nn.Linear(2, 2)

    def embed(self, rows: Tensor) -> Tensor:
        found: Tensor = self.norm(self.layer(rows))
        return found

    def ignore(self, rows: Tensor, ids: Tensor) -> Tensor:
        found: Tensor = self.layer(rows)
        return found

    def look_up(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.words(ids), ids + 1

    def functions(self) -> list[Function]:
        ids = Array("n", "m", dtype="int64")
        return [
            Function("embed", {"rows": Array("n", 4)}, {"vectors": Array("n", 3)}),
            Function("ignore", {"rows": Array("n", 4), "ids": ids}, {"vectors": Array("n", 3)}),
            Function("look_up", {"ids": ids}, {"vectors": Array("n", "m", 4), "next": ids}),
        ]


@pytest.fixture
def module() -> Small:
    torch.manual_seed(0)
    module = Small()
    module.norm.running_mean.normal_()
    return module


def stored(module: nn.Module, folder: Path, *, half: bool = False) -> Functions:
    write_artifact(folder, Functions(module).to_artifact("small", {}), half=half)
    return Functions(artifact=read_artifact(folder), make_module=Small)


ROWS = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)


@pytest.mark.parametrize("half", [False, True])
def test_a_session_computes_what_the_module_does(module: Small, tmp_path: Path, half: bool) -> None:
    loaded = stored(module, tmp_path / "a", half=half)
    if half:
        module = module.half().float()
    expected = Functions(module)
    np.testing.assert_allclose(loaded("embed", ROWS)[0], expected("embed", ROWS)[0], atol=1e-6)
    ids = np.array([[1, 2, 6]])
    np.testing.assert_allclose(loaded("ignore", ROWS, ids)[0], expected("ignore", ROWS, ids)[0], atol=1e-6)
    for ours, theirs in zip(loaded("look_up", ids), expected("look_up", ids), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.array_equal(ours, theirs)


def test_a_training_module_is_called_in_evaluation_mode_and_stays_in_training(module: Small) -> None:
    before = module.norm.running_mean.clone()
    Functions(module)("embed", ROWS)
    assert module.training
    assert torch.equal(module.norm.running_mean, before)


def test_blocks_are_put_together(module: Small, tmp_path: Path) -> None:
    for functions in (Functions(module), stored(module, tmp_path / "a")):
        np.testing.assert_allclose(functions.in_blocks("embed", ROWS, rows=2), functions("embed", ROWS)[0], atol=1e-6)
        assert functions.in_blocks("embed", ROWS[:0]).shape == (0, 3)


@pytest.mark.parametrize(("rows", "threads"), [(5, 2), (5, 8), (1, 2), (5, 1), (0, 2)])
def test_rows_are_shared_among_threads(
    module: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, threads: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    loaded = stored(module, tmp_path / "a")
    names: set[str] = set()
    call = Functions.__call__

    def spy(self: Functions, function: str, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        names.add(threading.current_thread().name)
        return call(self, function, *arrays)

    monkeypatch.setattr(Functions, "__call__", spy)
    ids = np.arange(7).repeat(5).reshape(7, 5)[:rows]
    for found, expected in zip(loaded.in_parallel("look_up", ids), Functions(module)("look_up", ids), strict=True):
        assert np.array_equal(found, expected)
    shared = {name for name in names if name.startswith("look_up")}
    assert bool(shared) == (min(rows, threads) > 1)


def test_inputs_take_the_type_of_the_function(module: Small, tmp_path: Path) -> None:
    expected = Functions(module)("embed", ROWS)[0]
    read_only = ROWS.astype(np.float64)
    read_only.flags.writeable = False
    for functions in (Functions(module), stored(module, tmp_path / "a")):
        np.testing.assert_allclose(functions("embed", read_only)[0], expected, atol=1e-6)
        np.testing.assert_allclose(functions("embed", ROWS[::-1][4:])[0], expected[:1], atol=1e-6)
        np.testing.assert_allclose(functions("embed", ROWS.astype(np.float16))[0], expected, atol=1e-2)


def test_the_module_computes_once_it_was_asked_for(module: Small, tmp_path: Path) -> None:
    loaded = stored(module, tmp_path / "a")
    with torch.no_grad():
        loaded.module.layer.weight += 1
    assert np.abs(loaded("embed", ROWS)[0] - Functions(module)("embed", ROWS)[0]).max() > 0.1


def test_a_weight_is_that_of_the_file_or_of_the_module_as_it_is_now(module: Small, tmp_path: Path) -> None:
    functions = stored(module, tmp_path / "saved", half=True)
    np.testing.assert_allclose(functions.weight("words.weight"), module.words.weight.detach(), atol=1e-3)
    assert functions._module is None
    with pytest.raises(DeixisError, match="saved"):
        functions.weight("no.weight")
    with torch.no_grad():
        functions.module.words.weight.fill_(3)
    np.testing.assert_array_equal(functions.weight("words.weight"), np.full((7, 4), 3))


def test_a_loaded_network_is_saved_again_without_its_module(module: Small, tmp_path: Path) -> None:
    loaded = stored(module, tmp_path / "a")
    write_artifact(tmp_path / "b", loaded.to_artifact("small", {}))
    for file in (WEIGHTS, "embed.onnx", "look_up.onnx", "config.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
    assert loaded._module is None


def test_training_between_two_saves_changes_the_weights_and_not_the_graphs(module: Small, tmp_path: Path) -> None:
    functions = Functions(module)
    write_artifact(tmp_path / "a", functions.to_artifact("small", {}))
    with torch.no_grad():
        module.layer.weight += 1
    write_artifact(tmp_path / "b", functions.to_artifact("small", {}))
    loaded = Functions(artifact=read_artifact(tmp_path / "b"), make_module=Small)
    np.testing.assert_allclose(loaded("embed", ROWS)[0], functions("embed", ROWS)[0], atol=1e-6)
    assert (tmp_path / "a" / "embed.onnx").read_bytes() == (tmp_path / "b" / "embed.onnx").read_bytes()


def test_a_module_without_functions_has_no_graphs_and_computes_itself(tmp_path: Path) -> None:
    module = nn.Linear(4, 3)
    artifact = Functions(module).to_artifact("linear", {})
    assert not artifact.graphs
    write_artifact(tmp_path / "a", artifact)
    loaded = Functions(artifact=read_artifact(tmp_path / "a"), make_module=lambda: nn.Linear(4, 3))
    np.testing.assert_allclose(loaded("forward", ROWS)[0], Functions(module)("forward", ROWS)[0], atol=1e-6)


def test_the_export_writes_no_warnings(module: Small, capfd: pytest.CaptureFixture[str]) -> None:
    export_functions(module)
    sys.stderr.write("still here")
    assert capfd.readouterr() == ("", "still here")


def test_without_the_package_onnx_weights_are_saved_for_torch(
    module: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "find_spec", lambda name: None)
    with pytest.warns(UserWarning, match=r"without graphs.*deixis\[train\]"):
        loaded = stored(module, tmp_path / "a")
    assert not list(tmp_path.rglob("*.onnx"))
    np.testing.assert_allclose(loaded("embed", ROWS)[0], Functions(module)("embed", ROWS)[0], atol=1e-6)
    monkeypatch.undo()
    write_artifact(tmp_path / "b", loaded.to_artifact("small", {}))
    assert (tmp_path / "b" / "embed.onnx").is_file()


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "embed.onnx").write_bytes(b"no graph"),
        lambda folder: (folder / "embed.onnx").write_bytes((folder / "embed.onnx").read_bytes()[:-20]),
        lambda folder: (folder / WEIGHTS).write_bytes((folder / "a" / WEIGHTS).read_bytes()),
        lambda folder: (folder / WEIGHTS).unlink(),
        lambda folder: (folder / "embed.onnx").write_bytes((folder / "a" / "embed.onnx").read_bytes()),
        lambda folder: (folder / "embed.onnx").unlink(),
    ],
)
def test_damaged_files_give_one_line(module: Small, tmp_path: Path, damage: object) -> None:
    loaded = stored(module, tmp_path)
    other = nn.Sequential(nn.Linear(4, 9), nn.Linear(9, 3))
    rows = Function("forward", {"rows": Array("n", 4)}, {"vectors": Array("n", 3)})
    artifact = Functions(other).to_artifact("small", {})
    write_artifact(tmp_path / "a", artifact)
    (tmp_path / "a" / "embed.onnx").write_bytes(export_functions(other, [rows])["forward"])
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(DeixisError, match=r"^[^\n]*embed\.onnx: [^\n]*$"):
        loaded("embed", ROWS)


def test_wrong_inputs_give_one_line(module: Small, tmp_path: Path) -> None:
    loaded = stored(module, tmp_path)
    with pytest.raises(DeixisError, match=r"^[^\n]*embed\.onnx: cannot be run [^\n]*$"):
        loaded("embed", ROWS[:, :2])


@pytest.mark.parametrize("kind", ["lstm", "gru", "transformer"])
@pytest.mark.parametrize("layers", [1, 2])
def test_text_encoders_are_exported_with_any_number_and_length_of_texts(
    tmp_path: Path, kind: Kind, layers: int
) -> None:
    torch.manual_seed(0)
    encoder = make_text_encoder(TextEncoderShape(kind, 20, word_dim=6, hidden_size=8, num_layers=layers, dropout=0.5))
    inputs = {"ids": Array("rows", "words", dtype="int64"), "lengths": Array("rows", dtype="int64", example=2)}
    graphs = export_functions(encoder, [Function("forward", inputs, {"vectors": Array("rows", encoder.size)})])
    artifact = Functions(encoder).to_artifact("text", {})
    write_artifact(tmp_path / "a", replace(artifact, graphs=graphs))
    loaded = Functions(artifact=read_artifact(tmp_path / "a"), make_module=lambda: encoder)
    rng = np.random.default_rng(0)
    for lengths in ([3, 1, 7, 2], [1], [4, 4], [1, 1, 2]):
        ids = rng.integers(0, 20, (len(lengths), max(lengths)))
        for row, length in enumerate(lengths):
            ids[row, length:] = 21
        expected = Functions(encoder)("forward", ids, np.array(lengths))[0]
        np.testing.assert_allclose(loaded("forward", ids, np.array(lengths))[0], expected, atol=1e-5)


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 24)

    def attend(self, rows: Tensor) -> Tensor:
        return attention(*self.layer(rows).split(8, dim=2), heads=2)


def test_attention_is_one_operator_and_any_number_of_positions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = Attending()
    function = Function("attend", {"rows": Array("n", "m", 8)}, {"attended": Array("n", "m", 8)})
    graphs = export_functions(module, [function])
    assert b"MultiHeadAttention" in graphs["attend"]
    write_artifact(tmp_path / "a", replace(Functions(module).to_artifact("attending", {}), graphs=graphs))
    loaded = Functions(artifact=read_artifact(tmp_path / "a"), make_module=Attending)
    for shape in ((1, 1, 8), (3, 7, 8), (2, 40, 8)):
        rows = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        np.testing.assert_allclose(loaded("attend", rows)[0], Functions(module)("attend", rows)[0], atol=1e-5)


def test_on_a_gpu_torch_computes_unless_the_engine_can(
    module: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []
    monkeypatch.setattr(functions_module, "choose_device", lambda device: device)
    monkeypatch.setattr(Small, "to", lambda self, device: moved.append(device))
    monkeypatch.setattr(functions_module, "has_cuda_provider", lambda: True)
    with_provider = stored(module, tmp_path / "a")
    with_provider.to("cuda:1")
    assert [session._device for session in with_provider._sessions.values()] == ["cuda:1"] * 3
    assert not moved
    monkeypatch.setattr(functions_module, "has_cuda_provider", lambda: False)
    without = stored(module, tmp_path / "a")
    without.to("cpu")
    assert not moved
    without.to("cuda")
    assert moved == ["cuda"]
    assert (
        np.abs(without("embed", ROWS)[0] - with_provider.module.embed(torch.from_numpy(ROWS)).detach().numpy()).max()
        < 1e-5
    )


@pytest.mark.parametrize("is_used", [True, False])
def test_a_gpu_that_the_engine_cannot_use_is_a_warning(
    module: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_used: bool
) -> None:
    """ONNX Runtime itself goes on without a word: its log is off, and the provider may lack a library."""
    monkeypatch.setattr(functions_module, "choose_device", lambda device: device)
    monkeypatch.setattr(functions_module, "has_cuda_provider", lambda: True)
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"] if is_used else ["CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime.InferenceSession, "get_providers", lambda _: providers)
    functions = stored(module, tmp_path / "a")
    functions.to("cuda")
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        found = functions("embed", ROWS)[0]
    assert any("cuDNN" in str(each.message) for each in given) is not is_used
    np.testing.assert_allclose(found, Functions(module)("embed", ROWS)[0], atol=1e-5)
