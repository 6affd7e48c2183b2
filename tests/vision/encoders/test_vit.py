"""The vision transformer against a plain implementation, for photos of any shape."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from deixis.vision.encoders.vit import Block, VisionTransformer, ViTShape

SHAPE = ViTShape(width=24, heads=3, blocks=4, patch=14, grid=4)


@pytest.fixture
def network() -> VisionTransformer:
    torch.manual_seed(0)
    network = VisionTransformer(SHAPE)
    for weights in network.parameters():
        torch.nn.init.normal_(weights, std=0.2)
    return network.eval()


def plain_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x - x.mean()) / (x.var(unbiased=False) + 1e-6).sqrt() * weight + bias


def plain_block(block: Block, tokens: Tensor) -> Tensor:
    """One photo, one token and one head at a time."""
    width = tokens.shape[1]
    size = width // block.heads
    normed = torch.stack([plain_norm(token, block.norm_1.weight, block.norm_1.bias) for token in tokens])
    query, key, value = (normed @ block.query_key_value.weight.T + block.query_key_value.bias).split(width, dim=1)
    heads = []
    for head in range(block.heads):
        part = slice(head * size, (head + 1) * size)
        weights = torch.softmax(query[:, part] @ key[:, part].T / math.sqrt(size), dim=1)
        heads.append(weights @ value[:, part])
    attended = torch.cat(heads, dim=1) @ block.attended.weight.T + block.attended.bias
    tokens = tokens + block.scale_1 * attended
    normed = torch.stack([plain_norm(token, block.norm_2.weight, block.norm_2.bias) for token in tokens])
    inner = normed @ block.wider.weight.T + block.wider.bias
    inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    return tokens + block.scale_2 * (inner @ block.narrower.weight.T + block.narrower.bias)


def plain_network(network: VisionTransformer, pixels: Tensor, blocks: int) -> Tensor:
    """The tokens (1 + rows × columns, width) of one square photo whose grid is that of the learned positions."""
    tokens = [network.first_token[0, 0]]
    for row in range(SHAPE.grid):
        for column in range(SHAPE.grid):
            patch = pixels[:, row * 14 : (row + 1) * 14, column * 14 : (column + 1) * 14]
            embedded = (network.patches.weight * patch).sum(dim=(1, 2, 3)) + network.patches.bias
            tokens.append(embedded + network.positions[0, :, row, column])
    found = torch.stack(tokens)
    for block in list(network.blocks)[:blocks]:
        assert isinstance(block, Block)
        found = plain_block(block, found)
    return found


@torch.no_grad()
def test_maps_are_those_of_a_plain_transformer(network: VisionTransformer) -> None:
    pixels = torch.randn(2, 3, 56, 56)
    maps = network.maps(pixels, [2, 4])
    for photo in range(2):
        for found, blocks in zip(maps, (2, 4), strict=True):
            expected = plain_network(network, pixels[photo], blocks)[1:].T.reshape(24, 4, 4)
            torch.testing.assert_close(found[photo], expected, rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_the_last_map_is_normalised_cell_by_cell(network: VisionTransformer) -> None:
    pixels = torch.randn(1, 3, 28, 42)
    [last] = network.maps(pixels, [4])
    expected = plain_norm(last[0, :, 1, 2], network.norm.weight, network.norm.bias)
    torch.testing.assert_close(network(pixels)[0, :, 1, 2], expected, rtol=1e-3, atol=1e-4)


@torch.no_grad()
def test_blocks_are_returned_in_the_requested_order(network: VisionTransformer) -> None:
    pixels = torch.randn(1, 3, 28, 28)
    third, first = network.maps(pixels, [3, 1])
    torch.testing.assert_close(third, network.maps(pixels, [3])[0])
    torch.testing.assert_close(first, network.maps(pixels, [1])[0])


@torch.no_grad()
@pytest.mark.parametrize(("height", "width"), [(14, 14), (28, 70), (112, 42)])
def test_photos_of_any_shape_have_a_cell_for_each_patch(network: VisionTransformer, height: int, width: int) -> None:
    assert network(torch.randn(2, 3, height, width)).shape == (2, 24, height // 14, width // 14)


@torch.no_grad()
def test_a_photo_that_is_not_square_is_not_turned(network: VisionTransformer) -> None:
    """With no attention and no positions a cell knows its own patch only, wherever it is."""
    network.positions.zero_()
    for block in network.blocks:
        assert isinstance(block, Block)
        block.scale_1.zero_()
    pixels = torch.randn(1, 3, 28, 56)
    [cells] = network.maps(pixels, [4])
    for row in range(2):
        for column in range(4):
            patch = pixels[:, :, row * 14 : (row + 1) * 14, column * 14 : (column + 1) * 14]
            torch.testing.assert_close(cells[:, :, row, column], network.maps(patch, [4])[0][:, :, 0, 0])


@torch.no_grad()
def test_positions_are_interpolated_between_the_learned_ones(network: VisionTransformer) -> None:
    across = torch.arange(4.0).reshape(1, 1, 1, 4).expand(1, 24, 4, 4)
    network.positions.copy_(across)
    wide = network._positions_for(2, 8)
    assert wide.shape == (1, 24, 2, 8)
    assert (wide[..., 1:] > wide[..., :-1]).all()
    torch.testing.assert_close(wide[:, :, 0], wide[:, :, 1])
    assert network._positions_for(4, 4) is network.positions


def test_skipping_blocks_is_for_training_only() -> None:
    torch.manual_seed(0)
    network = VisionTransformer(SHAPE, drop_path=0.9)
    pixels = torch.randn(1, 3, 28, 28)
    network.eval()
    torch.testing.assert_close(network(pixels), network(pixels))
    network.train()
    assert not torch.equal(network(pixels), network(pixels))


def test_a_block_skipped_by_chance_keeps_its_mean() -> None:
    block = Block(8, 2, drop_path=0.5).train()
    torch.manual_seed(0)
    kept = block._kept(torch.zeros(4000, 1, 8))
    assert isinstance(kept, Tensor)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    assert abs(kept.mean().item() - 1) < 0.1
