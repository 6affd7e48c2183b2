"""Which device computes, and what a missing one says."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from deixis.errors import DeixisError
from deixis.runtime import devices
from deixis.runtime.devices import choose_device, cpu_threads, require_torch


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a GPU, as far as torch says."""
    monkeypatch.setattr(devices, "_has_driver", lambda: True)
    monkeypatch.setattr(torch, "zeros", lambda count, device: torch.ones(count))


@pytest.mark.parametrize("device", [None, "auto"])
@pytest.mark.usefixtures("gpu")
def test_the_gpu_is_the_default_if_there_is_one(device: str | None) -> None:
    assert choose_device(device) == "cuda"
    assert choose_device("cpu") == "cpu"


@pytest.mark.usefixtures("gpu")
def test_a_gpu_that_torch_cannot_use_is_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def zeros(count: int, device: str) -> Tensor:
        raise RuntimeError("no kernel image is available")

    monkeypatch.setattr(torch, "zeros", zeros)
    assert choose_device(None) == "cpu"


@pytest.mark.usefixtures("gpu")
def test_the_provider_of_onnx_runtime_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_cuda_provider", lambda: True)
    monkeypatch.setattr(devices, "has_torch", lambda: False)
    assert choose_device(None) == "cuda"
    assert choose_device("cuda:1") == "cuda:1"


def test_without_a_gpu_torch_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_has_driver", lambda: False)
    monkeypatch.setattr(devices, "_torch_has", lambda device: pytest.fail("torch was asked"))
    assert choose_device(None) == "cpu"
    assert choose_device("cpu") == "cpu"


NO_MPS = pytest.param("mps", marks=pytest.mark.skipif(torch.backends.mps.is_available(), reason="has the device"))


@pytest.mark.parametrize("device", ["meta", "cuda:99", "vulkan", "privateuseone", "abacus", NO_MPS])
def test_a_missing_device_is_named(device: str) -> None:
    with pytest.raises(DeixisError, match=device):
        choose_device(device)


def test_without_torch_a_gpu_and_training_name_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_torch", lambda: False)
    monkeypatch.setattr(devices, "has_cuda_provider", lambda: False)
    for refused in (lambda: choose_device("cuda"), lambda: require_torch("training")):
        with pytest.raises(DeixisError, match=r"pip install 'deixis\[train\]'$"):
            refused()


def test_the_environment_sets_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert cpu_threads() == 3
    for ignored in ("0", "many", ""):
        monkeypatch.setenv("OMP_NUM_THREADS", ignored)
        assert cpu_threads() >= 1
