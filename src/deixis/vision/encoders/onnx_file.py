"""Anybody's network in an ONNX file: photos in as NCHW floats, a map (4-d), a vector (2-d) or both out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deixis.errors import DeixisError
from deixis.files.hashes import hash_of_file
from deixis.vision.encoder import InputSize, Pixels
from deixis.vision.encoders.names import EncoderName, Options
from deixis.vision.encoders.opened import IMAGENET, Opened, PixelScale, need_package

SIDE, STRIDE = 224, 32
SCALES = {
    "imagenet": IMAGENET,
    "unit": PixelScale((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "signed": PixelScale((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "bytes": PixelScale((0.0, 0.0, 0.0), (1 / 255, 1 / 255, 1 / 255)),
}


def defaults(architecture: str) -> Options:
    """The graph's own side, or 224 where it takes any."""
    return Options(side=0, aspect="squeeze", pixels="imagenet")


def open_network(name: EncoderName, options: Options, device: str | None) -> Opened:
    """Open the file with onnxruntime, on the GPU where its own package has one."""
    path = Path(name.argument)
    if options.pixels not in SCALES:
        raise DeixisError(f"encoder onnx: pixels={options.pixels} is none of {', '.join(SCALES)}")
    if not path.is_file():
        raise DeixisError(f"{path}: no such file")
    network = OnnxNetwork(path, SCALES[options.pixels], device)
    side = options.side or network.side or SIDE
    if network.side not in (None, side) or (network.side and options.keep_aspect):
        raise DeixisError(f"{path}: takes photos of {network.side} × {network.side} pixels only")
    size = InputSize(side, options.keep_aspect, STRIDE)
    return Opened(network, size, SCALES[options.pixels], hash_of_file(path))


class OnnxNetwork:
    """Runs the graph; what it does not give is made from what it gives.

    Attributes
    ----------
    side : int or None
        Of the photos that the graph takes; None where it takes any.
    """

    def __init__(self, path: Path, scale: PixelScale, device: str | None) -> None:
        self.path = path
        self.session = _opened(path, device)
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
        """Encode one batch, in pieces where the graph fixes how many photos it takes."""
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
            raise DeixisError(f"{self.path}: gives neither a map (4-d) nor a vector (2-d) for each photo")
        if cells is None and whole is not None:
            cells = whole[:, :, None, None]
        elif whole is None and cells is not None:
            whole = cells.mean(axis=(2, 3))
        return np.asarray(cells, np.float32), np.asarray(whole, np.float32)

    def _outputs(self, scaled: NDArray[np.float32]) -> list[NDArray[Any]]:
        try:
            return [np.asarray(output) for output in self.session.run(None, {self.input: scaled})]
        except Exception as error:  # onnxruntime's errors have no class in common but this one
            raise DeixisError(f"{self.path}: cannot be run ({_first_line(error)})") from error


def _opened(path: Path, device: str | None) -> Any:
    runtime = need_package("onnxruntime", "onnx", "pip install 'deixis[onnx]'")
    providers = ["CPUExecutionProvider"]
    if device != "cpu" and "CUDAExecutionProvider" in runtime.get_available_providers():
        providers.insert(0, "CUDAExecutionProvider")
    try:
        return runtime.InferenceSession(str(path), providers=providers)
    except Exception as error:  # the same
        raise DeixisError(f"{path}: no ONNX network, or a damaged one ({_first_line(error)})") from error


def _fixed(dimension: object) -> int | None:
    """A graph names its dimensions, leaves them open, or fixes them."""
    return dimension if isinstance(dimension, int) and dimension > 0 else None


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
