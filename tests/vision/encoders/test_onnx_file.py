"""ONNX files with all combinations of outputs and sizes, and invalid files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from deixis.errors import DeixisError
from deixis.vision.encoders import open_encoder

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
from onnx import TensorProto, helper  # noqa: E402

PIXELS = np.random.default_rng(0).integers(0, 256, (3, 8, 8, 3), dtype=np.uint8)
# (photos, 3, height, width) → ReLU → the map; its mean → the vector.
NODES = {
    "cells": [helper.make_node("Relu", ["photos"], ["cells"])],
    "whole": [helper.make_node("ReduceMax", ["photos"], ["whole"], axes=[2, 3], keepdims=0)],
    "flat": [helper.make_node("ReduceMax", ["photos"], ["flat"], axes=[1, 2, 3], keepdims=0)],
}
RANKS = {"cells": 4, "whole": 2, "flat": 1}


def save(path: Path, outputs: list[str], shape: list[Any], kind: int = TensorProto.FLOAT) -> str:
    graph = helper.make_graph(
        [node for output in outputs for node in NODES[output]],
        "net",
        [helper.make_tensor_value_info("photos", kind, shape)],
        [helper.make_tensor_value_info(name, kind, [None] * RANKS[name]) for name in outputs],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, str(path))
    return f"onnx:{path}"


def scaled(mean: float = 0.0, deviation: float = 1.0) -> Any:
    return ((PIXELS / 255 - mean) / deviation).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("outputs", [["cells", "whole"], ["whole", "cells"], ["cells"], ["whole"]])
def test_outputs_are_distinguished_by_rank_and_either_may_be_missing(tmp_path: Path, outputs: list[str]) -> None:
    encoder = open_encoder(save(tmp_path / "a.onnx", outputs, ["n", 3, 8, 8]) + "@pixels=unit")
    cells, whole = encoder.network(PIXELS)
    expected_whole = scaled().max(axis=(2, 3)) if "whole" in outputs else scaled().mean(axis=(2, 3))
    expected_cells = scaled() if "cells" in outputs else expected_whole[:, :, None, None]
    np.testing.assert_allclose(cells, expected_cells, atol=1e-5)
    np.testing.assert_allclose(whole, expected_whole, atol=1e-5)
    assert encoder.input_size.side == 8


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [("unit", scaled()), ("signed", scaled(0.5, 0.5)), ("bytes", scaled() * 255), ("imagenet", None)],
)
def test_the_scale_of_pixels_is_an_option(tmp_path: Path, pixels: str, expected: Any) -> None:
    encoder = open_encoder(save(tmp_path / "a.onnx", ["whole"], ["n", 3, 8, 8]) + f"@pixels={pixels}")
    if expected is None:
        expected = ((PIXELS / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(encoder.network(PIXELS)[1], expected.max(axis=(2, 3)), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 2])
def test_a_graph_of_fixed_batch_size_is_run_in_pieces(tmp_path: Path, batch: int) -> None:
    one = open_encoder(save(tmp_path / "a.onnx", ["cells"], [batch, 3, 8, 8])).network(PIXELS)[0]
    any_number = open_encoder(save(tmp_path / "b.onnx", ["cells"], ["n", 3, 8, 8])).network(PIXELS)[0]
    np.testing.assert_allclose(one, any_number, rtol=1e-4, atol=1e-5)


def test_a_graph_of_variable_size_has_an_input_size_of_224_by_default(tmp_path: Path) -> None:
    name = save(tmp_path / "a.onnx", ["cells"], ["n", 3, "h", "w"])
    assert open_encoder(name).input_size.side == 224
    [features] = open_encoder(f"{name}@side=96,aspect=keep").encode([Image.new("RGB", (200, 100))])
    assert features.cells.shape == (3, 64, 128)


@pytest.mark.parametrize(
    ("output", "shape", "options", "line"),
    [
        ("cells", ["n", 3, 64, 64], "@side=96", "64 × 64"),
        ("cells", ["n", 3, 64, 64], "@aspect=keep", "64 × 64"),
        ("cells", ["n", 3, 64, 32], "", "['n', 3, 64, 32]"),
        ("cells", ["n", 64, 64, 3], "", "['n', 64, 64, 3]"),
        ("cells", ["n", 3], "", "input"),
        ("flat", ["n", 3, 64, 64], "", "output"),
    ],
)
def test_a_graph_with_an_unsuitable_input_or_output_is_named(
    tmp_path: Path, output: str, shape: list[Any], options: str, line: str
) -> None:
    path = tmp_path / "a.onnx"
    save(path, [output], shape)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}: .*{re.escape(line)}"):
        open_encoder(f"onnx:{path}{options}")


@pytest.mark.parametrize("content", [b"", b"no graph at all"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.onnx"
    path.write_bytes(content)
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}: [^\n]*$"):
        open_encoder(f"onnx:{path}")


def test_errors_name_the_option_or_the_file(tmp_path: Path) -> None:
    name = save(tmp_path / "a.onnx", ["cells"], ["n", 3, 64, 64])
    with pytest.raises(DeixisError, match="onnx: pixels=warm.*imagenet, unit, signed, bytes"):
        open_encoder(f"{name}@pixels=warm")
    gone = tmp_path / "b.onnx"
    with pytest.raises(DeixisError, match=f"^{re.escape(str(gone))}: "):
        open_encoder(f"onnx:{gone}")


def test_weights_and_pixel_scale_change_the_fingerprint(tmp_path: Path) -> None:
    names = [save(tmp_path / f"{outputs[0]}.onnx", outputs, ["n", 3, 8, 8]) for outputs in (["cells"], ["whole"])]
    names.append(f"{names[0]}@pixels=unit")
    assert len({open_encoder(name).fingerprint for name in names}) == 3
