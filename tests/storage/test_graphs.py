"""Graphs beside weights: where their initializers point, and which graphs are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper
from safetensors.numpy import save_file

from deixis.storage.artifacts import WEIGHTS, Artifact, read_artifact, write_artifact
from deixis.storage.checksums import CheckedFile, TensorFile
from deixis.storage.graphs import check_graph, link_graph

ROWS = np.arange(6, dtype=np.float32).reshape(2, 3)


def external(name: str, dims: tuple[int, ...]) -> TensorProto:
    return TensorProto(name=name, dims=dims, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)


def model() -> ModelProto:
    """x + rows, whatever the precision of the rows."""
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in "xy"]
    cast = helper.make_node("Cast", ["rows"], ["single"], to=TensorProto.FLOAT)
    nodes = [cast, helper.make_node("Add", ["x", "single"], ["y"])]
    graph = helper.make_graph(nodes, "add", value[:1], value[1:], [external("rows", (2, 3))])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def saved(folder: Path, *, half: bool = False) -> Path:
    arrays = {"rows": ROWS, "another": np.ones(5, np.float32)}
    write_artifact(folder, Artifact("thing", {}, arrays, graphs={"add": model().SerializeToString()}), half=half)
    return folder


@pytest.mark.parametrize("half", [False, True])
def test_a_saved_graph_reads_its_weights_from_the_weights_file(tmp_path: Path, half: bool) -> None:
    path = saved(tmp_path / "a", half=half) / "add.onnx"
    assert path.stat().st_size < 1000
    (found,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": np.ones((2, 3), np.float32)})
    assert np.array_equal(found, ROWS + 1)
    loaded = onnx.load(str(path))
    assert np.array_equal(onnx.numpy_helper.to_array(loaded.graph.initializer[0]), ROWS)
    check_graph(path.read_bytes(), TensorFile(CheckedFile(tmp_path / "a" / WEIGHTS, None)).layout, WEIGHTS)


def test_an_artifact_can_be_saved_again_in_another_precision(tmp_path: Path) -> None:
    write_artifact(tmp_path / "b", replace(read_artifact(saved(tmp_path / "a", half=True)), half=False))
    write_artifact(tmp_path / "c", read_artifact(saved(tmp_path / "a")), half=True)
    for name in "bc":
        session = onnxruntime.InferenceSession(str(tmp_path / name / "add.onnx"))
        assert np.array_equal(session.run(None, {"x": np.zeros((2, 3), np.float32)})[0], ROWS)
    assert TensorFile(CheckedFile(tmp_path / "b" / WEIGHTS, None)).layout["rows"].dtype == "F32"
    assert TensorFile(CheckedFile(tmp_path / "c" / WEIGHTS, None)).layout["rows"].dtype == "F16"


def test_a_graph_that_needs_another_array_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="rows"):
        write_artifact(tmp_path / "a", Artifact("thing", {}, {"a": ROWS}, graphs={"add": model().SerializeToString()}))
    assert not (tmp_path / "a").exists()


def entry(model: ModelProto, key: str) -> onnx.StringStringEntryProto:
    return next(each for each in model.graph.initializer[0].external_data if each.key == key)


def set_entry(key: str, value: str) -> Callable[[ModelProto], None]:
    return lambda model: setattr(entry(model, key), "value", value)


def add_subgraph(model: ModelProto) -> None:
    node = model.graph.node.add(op_type="Loop", input=["", ""], output=["z"])
    node.attribute.append(AttributeProto(name="body", type=AttributeProto.GRAPH, g=model.graph))


def add_constant_outside(model: ModelProto) -> None:
    outside = external("secret", (2,))
    outside.external_data.add(key="location", value="/etc/passwd")
    model.graph.node.append(helper.make_node("Constant", [], ["secret"], value=outside))


def add_second_initializer(model: ModelProto) -> None:
    outside = external("secret", (2,))
    outside.external_data.add(key="location", value="../secret")
    model.graph.initializer.append(outside)


def add_sparse(model: ModelProto) -> None:
    model.graph.sparse_initializer.add()


def set_domain(model: ModelProto) -> None:
    model.graph.node[1].domain = "evil.ops"


def import_domain(model: ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("evil.ops", 1))


def add_function(model: ModelProto) -> None:
    model.functions.add(name="f", domain="ai.onnx")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (set_entry("location", "/etc/passwd"), "rows"),
        (set_entry("location", "../weights.safetensors"), "rows"),
        (set_entry("offset", "0"), "rows"),
        (set_entry("length", "999999"), "rows"),
        (lambda model: model.graph.initializer[0].external_data.add(key="location", value="/etc/passwd"), "rows"),
        (lambda model: setattr(model.graph.initializer[0], "name", "elsewhere"), "elsewhere"),
        (lambda model: setattr(model.graph.initializer[0], "data_type", TensorProto.INT32), "type"),
        (add_second_initializer, "secret"),
        (add_constant_outside, "constant"),
        (add_subgraph, "subgraph"),
        (add_sparse, "sparse"),
        (set_domain, "evil"),
        (import_domain, "evil"),
        (add_function, "functions"),
        (lambda model: model.ClearField("graph"), "not an ONNX"),
    ],
)
def test_a_graph_that_could_read_or_run_anything_else_is_refused(
    tmp_path: Path, change: Callable[[ModelProto], None], reason: str
) -> None:
    folder = saved(tmp_path / "a")
    changed = onnx.load(str(folder / "add.onnx"), load_external_data=False)
    change(changed)
    with pytest.raises(ValueError, match=reason):
        check_graph(changed.SerializeToString(), TensorFile(CheckedFile(folder / WEIGHTS, None)).layout, WEIGHTS)


@pytest.mark.parametrize("content", [b"\xff" * 100, b"PK\x03\x04", b"\x3a\xff\xff\x03a", b"", b"\x0b\x0c"])
def test_bytes_that_are_no_graph_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_graph(content, {}, WEIGHTS)


def test_every_cut_of_a_graph_is_refused_or_harmless(tmp_path: Path) -> None:
    save_file({"rows": ROWS}, tmp_path / WEIGHTS)
    layout = TensorFile(CheckedFile(tmp_path / WEIGHTS, None)).layout
    whole = link_graph(model().SerializeToString(), layout, WEIGHTS)
    check_graph(whole, layout, WEIGHTS)
    refused = 0
    for end in range(len(whole)):
        try:
            check_graph(whole[:end], layout, WEIGHTS)
        except ValueError:
            refused += 1
    assert refused > len(whole) * 0.9


def test_linking_keeps_everything_else(tmp_path: Path) -> None:
    save_file({"rows": ROWS}, tmp_path / WEIGHTS)
    layout = TensorFile(CheckedFile(tmp_path / WEIGHTS, None)).layout
    before = model()
    before.graph.node.append(helper.make_node("LeakyRelu", ["y"], ["z"], alpha=0.25))
    after = onnx.load_from_string(link_graph(before.SerializeToString(), layout, WEIGHTS))
    assert after.graph.node == before.graph.node
    assert (after.graph.input, after.graph.output) == (before.graph.input, before.graph.output)
    assert after.opset_import == before.opset_import


def test_quantised_arrays_are_read_as_float_and_saved_as_they_are(tmp_path: Path) -> None:
    arrays = {
        "w": np.array([[-128, 127], [1, 2]], np.int8),
        "w.scale": np.array([0.5, 2.0], np.float32),
        "u": np.array([0, 255], np.uint8),
        "u.scale": np.array([0.1], np.float32),
        "u.zero_point": np.array([128], np.uint8),
        "ids": np.array([1, 2], np.uint8),
    }
    write_artifact(tmp_path / "a", Artifact("thing", {}, arrays), half=True)
    read = read_artifact(tmp_path / "a")
    assert set(read.arrays) == {"w", "u", "ids"}
    assert np.array_equal(read.arrays["w"], [[-64, 63.5], [2, 4]])
    np.testing.assert_allclose(read.arrays["u"], [-12.8, 12.7], rtol=1e-6)
    assert read.arrays["ids"].dtype == np.uint8
    write_artifact(tmp_path / "b", read, half=True)
    assert (tmp_path / "a" / WEIGHTS).read_bytes() == (tmp_path / "b" / WEIGHTS).read_bytes()
    assert TensorFile(CheckedFile(tmp_path / "b" / WEIGHTS, None)).layout["w.scale"].dtype == "F32"
