"""A network in an ONNX file: NCHW float input; output is a map (4-d), a vector (2-d) or both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError, short_reason
from deixis.runtime.devices import onnx_runtime
from deixis.storage.files import hash_file
from deixis.vision.encoder import Pixels
from deixis.vision.encoders.base import IMAGENET, EncoderName, LoadedNetwork, Options, PixelScale

SIDE, STRIDE = 224, 32
SCALES = {
    "imagenet": IMAGENET,
    "unit": PixelScale((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "signed": PixelScale((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "bytes": PixelScale((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)),
}


def open_network(name: EncoderName, options: Options, device: str | None) -> LoadedNetwork:
    path = Path(name.argument)
    if options.pixels not in SCALES:
        raise DeixisError(f"encoder onnx: pixels={options.pixels} is not one of {', '.join(SCALES)}")
    if not path.is_file():
        raise DeixisError(f"{path}: no such file")
    network = OnnxNetwork(path, SCALES[options.pixels], device)
    size = options.input_size(network.side or SIDE, STRIDE)
    if network.side not in (None, size.side) or (network.side and size.keep_aspect):
        raise DeixisError(f"{path}: its input size is fixed to {network.side} × {network.side} pixels")
    return LoadedNetwork(network, size, SCALES[options.pixels], hash_file(path))


class OnnxNetwork:
    """Runs the graph. A missing vector is the mean of the map; a missing map is the vector as one cell."""

    def __init__(self, path: Path, scale: PixelScale, device: str | None) -> None:
        self.path = path
        self.session = _open_session(path, device)
        self.mean, self.deviation = (
            np.array(each, np.float32).reshape(3, 1, 1) * 255 for each in (scale.mean, scale.deviation)
        )
        inputs = self.session.get_inputs()
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].type != "tensor(float)":
            raise DeixisError(f"{path}: its input is not one array of floats (photos, 3, height, width)")
        self.input = inputs[0].name
        batch, colours, height, width = inputs[0].shape
        if _fixed(colours) not in (3, None) or _fixed(height) != _fixed(width):
            raise DeixisError(f"{path}: its input is not (photos, 3, side, side) but {inputs[0].shape}")
        self.side = _fixed(height)
        self.batch = _fixed(batch)

    def __call__(self, pixels: Pixels) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        # Split the batch if the graph has a fixed batch size.
        scaled = (pixels.transpose(0, 3, 1, 2).astype(np.float32) - self.mean) / self.deviation
        step = self.batch or len(scaled)
        pieces = [self._run(scaled[start : start + step], step) for start in range(0, len(scaled), step)]
        cells, wholes = zip(*pieces, strict=True)
        return np.concatenate(cells), np.concatenate(wholes)

    def _run(self, scaled: NDArray[np.float32], step: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        photos = len(scaled)
        if photos < step:
            scaled = np.concatenate([scaled, np.zeros((step - photos, *scaled.shape[1:]), np.float32)])
        outputs = [output[:photos] for output in self._outputs(scaled)]
        cells = next((output for output in outputs if output.ndim == 4), None)
        whole = next((output for output in outputs if output.ndim == 2), None)
        if cells is None and whole is None:
            raise DeixisError(f"{self.path}: its output is neither a map (4-d) nor a vector (2-d)")
        if cells is None and whole is not None:
            cells = whole[:, :, None, None]
        elif whole is None and cells is not None:
            whole = cells.mean(axis=(2, 3))
        return np.asarray(cells, np.float32), np.asarray(whole, np.float32)

    def _outputs(self, scaled: NDArray[np.float32]) -> list[NDArray[Any]]:
        try:
            return [np.asarray(output) for output in self.session.run(None, {self.input: scaled})]
        except Exception as error:  # the only common base class of onnxruntime errors
            raise DeixisError(f"{self.path}: cannot be run ({short_reason(error)})") from error


def _open_session(path: Path, device: str | None) -> Any:
    runtime = onnx_runtime()
    providers = ["CPUExecutionProvider"]
    if device != "cpu" and "CUDAExecutionProvider" in runtime.get_available_providers():
        providers.insert(0, "CUDAExecutionProvider")
    try:
        return runtime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # as above
        raise DeixisError(f"{path}: not an ONNX network, or damaged ({short_reason(error)})") from error


def _fixed(dimension: object) -> int | None:
    """Return a fixed dimension, or None if it is symbolic or open."""
    return dimension if isinstance(dimension, int) and dimension > 0 else None
