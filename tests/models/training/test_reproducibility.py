"""Reproducible training: the device."""

from __future__ import annotations

import pytest
import torch

from deixis.errors import DeixisError
from deixis.models.training.reproducibility import chosen_device


@pytest.mark.parametrize("device", ["abacus", *([] if torch.cuda.is_available() else ["cuda"])])
def test_a_missing_device_is_refused(device: str) -> None:
    with pytest.raises(DeixisError, match=f"device={device}") as refusal:
        chosen_device(device)
    assert "\n" not in str(refusal.value)
