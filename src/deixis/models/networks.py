"""Networks on arrays: input checks, and inference in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deixis.arrays import Floats
from deixis.errors import DeixisError

BLOCK_ROWS = 4096


def check_rows(features: Any, size: int, name: str) -> Tensor:
    """Return features as a tensor with one row each; refuse those of another size."""
    rows = np.asarray(features)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise DeixisError(f"features of shape {rows.shape}: a {name} has {size:,} features here, one row each")
    return torch.from_numpy(np.ascontiguousarray(rows))


@torch.inference_mode()
def apply_in_blocks(network: nn.Module, embed: Any, *inputs: Tensor) -> Floats:
    """Apply a part of a network to many rows, a block at a time, in `eval` mode."""
    weight = next(network.parameters())
    was_training = network.training
    network.eval()
    try:
        blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, max(len(inputs[0]), 1), BLOCK_ROWS)]
        outputs = [embed(*(_move(rows[block], weight) for rows in inputs)).float().cpu() for block in blocks]
    finally:
        network.train(was_training)
    array: Floats = torch.cat(outputs).numpy()
    return array


def _move(rows: Tensor, like: Tensor) -> Tensor:
    return rows.to(like.device, like.dtype if rows.is_floating_point() else None)
