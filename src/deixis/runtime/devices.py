"""The machine: the CPU, or a GPU by the CUDA provider of ONNX Runtime or by torch; threads, and freed memory."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

from deixis.errors import DeixisError

CPU = "cpu"
CUDA_PROVIDER = "CUDAExecutionProvider"
INSTALL_TRAIN = "pip install 'deixis[train]'"
_NAME = re.compile(r"cpu|cuda(:\d+)?|mps|xpu(:\d+)?")
_DRIVERS = ("libcuda.so.1", "nvcuda.dll")

# Parameters of glibc's mallopt, and their values.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_LARGE_BYTES = 2**20
_SPARE_BYTES = 2**23
"""Free memory that a server keeps: with less, every search would return memory and ask for it again."""
_ARENAS = 2


def choose_device(device: str | None) -> str:
    """Return the name of a device that is there; by default, or for auto, the GPU if there is one."""
    if device is None or (isinstance(device, str) and device == "auto"):
        return "cuda" if _has_driver() and (has_cuda_provider() or _torch_has("cuda")) else CPU
    if not isinstance(device, str) or not _NAME.fullmatch(device):
        raise DeixisError(f"no such device: {device}; try cpu or cuda")
    if device == CPU or (device.startswith("cuda") and _has_driver() and has_cuda_provider()):
        return device
    if not has_torch():
        raise DeixisError(f"device {device} needs torch or ONNX Runtime's CUDA provider: {INSTALL_TRAIN}")
    if not _torch_has(device):
        raise DeixisError(f"no such device here: {device}; try cpu")
    return device


def has_torch() -> bool:
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):
        return False


def require_torch(purpose: str) -> None:
    """Refuse what needs torch if it is not installed."""
    if not has_torch():
        raise DeixisError(f"{purpose} needs torch: {INSTALL_TRAIN}")


@cache
def onnx_runtime() -> Any:
    """Import ONNX Runtime without telemetry; no other function imports it.

    `deixis` sets the variable that prevents telemetry. The call is for programs that import ONNX Runtime before deixis.
    """
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    return onnxruntime


@cache
def has_cuda_provider() -> bool:
    """Whether the installed ONNX Runtime has the CUDA provider."""
    return CUDA_PROVIDER in onnx_runtime().get_available_providers()


@cache
def _has_driver() -> bool:
    """Whether the driver of a GPU is installed; torch is imported only if it is."""
    for name in _DRIVERS:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def _torch_has(device: str) -> bool:
    if not has_torch():
        return False
    import torch

    try:
        # torch accepts names of devices that are not available, so try one.
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError):
        return False
    return True


def cpu_threads() -> int:
    """Return the number of threads that share photos: as many as cores may be used, or OMP_NUM_THREADS."""
    stated = os.environ.get("OMP_NUM_THREADS", "")
    if stated.isdecimal() and int(stated) > 0:
        return int(stated)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        return os.cpu_count() or 1


def use_one_thread() -> None:
    """Use one thread from now on, in `cpu_threads` and in torch."""
    os.environ["OMP_NUM_THREADS"] = "1"
    if "torch" in sys.modules:
        import torch

        torch.set_num_threads(1)


def return_freed_memory() -> None:
    """Return freed memory to the system, after work that takes much more than it keeps."""
    with suppress(OSError, AttributeError):  # another C library
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)


def return_large_blocks() -> None:
    """Return blocks of a megabyte or more whenever they are freed; for servers, whose threads would each keep some."""
    with suppress(OSError, AttributeError):
        if sys.platform == "linux":
            mallopt = ctypes.CDLL(None).mallopt
            for parameter, value in (
                (_MMAP_THRESHOLD, _LARGE_BYTES),
                (_TRIM_THRESHOLD, _SPARE_BYTES),
                (_ARENA_MAX, _ARENAS),
            ):
                mallopt(parameter, value)
