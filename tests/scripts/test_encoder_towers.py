"""Pooling of regions in training agrees with that of the encoder; saved towers are read again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from encoder_towers import PhotoTower, TextTower, WordTable, load_towers, pool_batch, read_towers, save_towers
from hypothesis import given
from numpy.typing import NDArray
from torch import nn

from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.feature_map import pool_regions
from deixis.vision.proposals.head import HeadShape
from deixis.vision.proposals.head_network import ProposalHead
from tests.vision.test_feature_map import photos_with_boxes


@given(photos_with_boxes())
def test_torch_and_numpy_agree(
    case: tuple[NDArray[np.float32], list[tuple[float, float, float, float]], tuple[int, int]],
) -> None:
    cells, boxes, size = case
    fractions = np.array(boxes) / [*size, *size]
    batch = pool_batch(torch.from_numpy(cells)[None], torch.from_numpy(fractions)[None].float())
    np.testing.assert_allclose(batch[0].numpy(), pool_regions(cells, np.array(boxes), size), atol=1e-4)


def test_gradients_reach_the_map_and_agree_with_differences() -> None:
    torch.manual_seed(0)
    cells = torch.randn(1, 2, 3, 4, dtype=torch.float64, requires_grad=True)
    boxes = torch.tensor([[[0.1, 0.2, 0.7, 0.9], [0.0, 0.0, 1.0, 1.0]]], dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda map_: pool_batch(map_, boxes), (cells,))


def test_saved_towers_are_read_with_int8_matrices(tmp_path: Path) -> None:
    torch.manual_seed(0)
    arrays = {
        "vectors": np.random.default_rng(0).normal(size=(4, 6)).astype(np.float16),
        "word_rows": np.array([-1, -1, 0, 1, 2, 3], dtype=np.int32),
        "taught": np.array(3),
    }
    encoder = VisionTransformer(ViTShape(grid=18))
    head = ProposalHead(HeadShape(384, 8, ((0.2, 0.3), (0.5, 0.6))))
    photos = PhotoTower(encoder, 384, head, 10)
    texts = TextTower(WordTable(arrays["vectors"].astype(np.float32), arrays["word_rows"], 3, 0.0), 5, 10, 0.0)
    about = {"training": {"embedding": 10, "hidden": 5}, "head": asdict(head.shape)}
    save_towers(photos, texts, about, tmp_path)
    weights, described = read_towers(tmp_path)
    assert described["head"]["width"] == 8
    before = nn.ModuleDict({"photos": photos, "texts": texts}).state_dict()
    assert weights.keys() == before.keys()
    for name, tensor in before.items():
        assert (weights[name] - tensor).abs().max() <= tensor.abs().max() / 250 + 1e-3, name
    numbers = torch.tensor([[2, 3, 0]])
    _, loaded = load_towers(arrays, tmp_path)
    torch.testing.assert_close(loaded.sentences(numbers), texts.eval().sentences(numbers), atol=0.05, rtol=0)
