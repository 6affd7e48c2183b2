"""Pooling of regions in training agrees with that of the encoder."""

from __future__ import annotations

import numpy as np
import torch
from encoder_towers import pool_batch
from hypothesis import given
from numpy.typing import NDArray

from deixis.vision.feature_map import pool_regions
from tests.vision.test_feature_map import photos_with_boxes


@given(photos_with_boxes())
def test_torch_and_numpy_agree(
    case: tuple[NDArray[np.float32], list[tuple[float, float, float, float]], tuple[int, int]],
) -> None:
    cells, boxes, size = case
    fractions = np.array(boxes) / [*size, *size]
    batch = pool_batch(torch.from_numpy(cells)[None], torch.from_numpy(fractions)[None].float())
    np.testing.assert_allclose(batch[0].numpy(), pool_regions(cells, np.array(boxes), size), atol=1e-4)


def test_photos_of_a_batch_do_not_mix() -> None:
    cells = torch.randn(3, 5, 4, 6)
    boxes = torch.rand(3, 7, 4).sort(dim=2).values[..., [0, 1, 2, 3]]
    together = pool_batch(cells, boxes)
    assert together.shape == (3, 7, 5)
    for photo in range(3):
        torch.testing.assert_close(pool_batch(cells[photo : photo + 1], boxes[photo : photo + 1])[0], together[photo])


def test_gradients_reach_the_map_and_agree_with_differences() -> None:
    torch.manual_seed(0)
    cells = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    boxes = torch.tensor([[[0.1, 0.2, 0.7, 0.9], [0.0, 0.0, 1.0, 1.0]]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda map_: pool_batch(map_, boxes), (cells,))
