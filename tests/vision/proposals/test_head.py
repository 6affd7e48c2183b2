"""The proposal head: anchors, arithmetic, saving, and the shipped weights."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from deixis import geometry
from deixis.data.formats.entities import parse_annotation
from deixis.data.images import find_photos, open_photo
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.runtime import Functions
from deixis.storage.artifacts import CONFIG, read_config
from deixis.vision.encoder import FeatureMap, ImageEncoder
from deixis.vision.encoders import open_encoder
from deixis.vision.proposals import open_proposer
from deixis.vision.proposals.head import HeadProposer, HeadShape, open_head, save_head
from deixis.vision.proposals.head_network import ProposalHead, anchor_boxes, decode_boxes
from tests.unchecked import without_checksums

SHAPE = HeadShape(channels=8, width=16, anchors=((0.5, 0.25), (0.2, 0.9), (1.0, 1.0)))
BLANK = Image.new("RGB", (120, 80))


@pytest.fixture
def network() -> ProposalHead:
    """A head with random outputs."""
    torch.manual_seed(0)
    network = ProposalHead(SHAPE).eval()
    torch.nn.init.normal_(network.said.weight, std=0.5)
    return network


def proposer(network: ProposalHead) -> HeadProposer:
    return HeadProposer(Functions(network), network.shape, "")


@pytest.fixture
def path(tmp_path: Path, network: ProposalHead) -> Path:
    save_head(tmp_path / "a", network, {"dev": {"reach_100": 90.1}})
    return tmp_path / "a"


def some_map(channels: int = 8, rows: int = 4, columns: int = 5, size: tuple[int, int] = (120, 80)) -> FeatureMap:
    cells = np.random.default_rng(0).normal(size=(channels, rows, columns)).astype(np.float32)
    return FeatureMap(cells, cells.mean(axis=(1, 2)), size)


def test_every_cell_has_every_anchor_at_its_centre() -> None:
    expected = [
        ((column + 0.5) / 5, (row + 0.5) / 3, width, height)
        for row in range(3)
        for column in range(5)
        for width, height in SHAPE.anchors
    ]
    np.testing.assert_allclose(anchor_boxes(SHAPE, rows=3, columns=5).numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("anchor", [(0.4, 0.2), (0.9, 0.5)])
@pytest.mark.parametrize("deltas", [(0.0, 0.0, 0.0, 0.0), (0.5, -0.25, 0.3, -0.7), (-2.0, 1.0, 9.0, -9.0)])
def test_boxes_are_decoded_from_relative_offsets_and_clamped_log_scales(
    anchor: tuple[float, float], deltas: tuple[float, ...]
) -> None:
    (width, height), (right, down, wider, higher) = anchor, deltas
    x, y = 0.5 + right * width, 0.4 + down * height
    half_width = width * math.exp(max(-2.0, min(2.0, wider))) / 2
    half_height = height * math.exp(max(-2.0, min(2.0, higher))) / 2
    corners = (x - half_width, y - half_height, x + half_width, y + half_height)
    expected = [min(max(corner, 0.0), 1.0) for corner in corners]
    found = decode_boxes(torch.tensor([[0.5, 0.4, width, height]]), torch.tensor([[deltas]]))
    np.testing.assert_allclose(found[0, 0].numpy(), expected, atol=1e-6)


@torch.no_grad()
def test_the_output_of_an_anchor_belongs_to_its_cell() -> None:
    """If only one cell of the map changes, only the outputs of its anchors change."""
    network = ProposalHead(SHAPE).eval()
    torch.nn.init.normal_(network.said.weight)
    network.seen.weight.zero_()
    network.seen.weight[:, :, 1, 1] = 1.0  # no influence of neighbours
    cells = torch.zeros(1, 8, 4, 5)
    before, _ = network(cells)
    cells[0, :, 2, 3] = 5.0
    after, _ = network(cells)
    cell = 2 * 5 + 3
    changed = (after != before)[0].nonzero().flatten().tolist()
    assert changed == list(range(3 * cell, 3 * cell + 3))


def test_boxes_are_sorted_distinct_and_inside_the_photo(network: ProposalHead) -> None:
    found = proposer(network).propose(BLANK, some_map(), top=50)
    assert 1 < len(found.boxes) == len(found.scores) <= 50
    assert (found.boxes >= 0).all()
    assert (found.boxes <= [120, 80, 120, 80]).all()
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.scores > 0) & (found.scores < 1)).all()
    overlaps = geometry.iou(found.boxes, found.boxes)
    assert overlaps[~np.eye(len(overlaps), dtype=bool)].max() < 0.55


def test_a_saved_head_proposes_the_same_boxes(path: Path, network: ProposalHead) -> None:
    opened = open_head(path)
    assert opened.shape == SHAPE
    found = opened.propose(BLANK, some_map(), 20)
    for ours, theirs in zip(network.state_dict().values(), opened.functions.module.state_dict().values(), strict=True):
        assert torch.equal(ours.half().float(), theirs)
    halved = ProposalHead(SHAPE)
    halved.load_state_dict({name: tensor.half().float() for name, tensor in network.state_dict().items()})
    expected = proposer(halved).propose(BLANK, some_map(), 20)
    found = opened.propose(BLANK, some_map(), 20)
    assert np.array_equal(found.boxes, expected.boxes)
    assert np.array_equal(found.scores, expected.scores)


def test_the_weights_change_the_fingerprint(path: Path, tmp_path: Path, network: ProposalHead) -> None:
    before = open_head(path).fingerprint
    assert open_head(path).fingerprint == before
    with torch.no_grad():
        network.mixed.bias[0] += 1
    save_head(tmp_path / "b", network)
    assert open_head(tmp_path / "b").fingerprint != before


def test_the_fingerprint_of_the_shipped_head_does_not_change() -> None:
    assert open_head().fingerprint == "b4f9ac6bd8413388"  # feature stores on users' disks have it


def test_the_map_of_another_encoder_is_refused(network: ProposalHead) -> None:
    with pytest.raises(DeixisError, match="head.*8 channels.*5 channels"):
        proposer(network).propose(BLANK, some_map(channels=5), 10)


@pytest.mark.parametrize(
    "settings",
    [
        None,
        {},
        {"channels": 8, "width": 16, "anchors": 3},
        {"channels": 8, "width": 16, "anchors": [[0.5]]},
        {"channels": 8, "width": 2**17, "anchors": [[0.5, 0.25]] * 3},
        {"channels": 8, "width": 16, "anchors": [[0.5, 0.25]] * 4},
    ],
)
def test_inconsistent_settings_are_refused(path: Path, settings: object) -> None:
    without_checksums(path)
    (path / CONFIG).write_text(json.dumps(read_config(path) | {"settings": settings}))
    with pytest.raises(DeixisError, match=f"^{re.escape(str(path))}[^\n]*: [^\n]*$"):
        _ = open_head(path).functions.module


@cache
def encoder() -> ImageEncoder:
    return open_encoder("deixis", device="cpu")


@pytest.mark.parametrize("photo", find_photos(SAMPLES / "images"), ids=lambda path: path.stem)
def test_the_shipped_head_finds_the_annotated_boxes_of_the_sample_photos(photo: Path) -> None:
    pixels = open_photo(photo)
    [features] = encoder().encode([pixels])
    found = open_proposer("head").propose(pixels, features, top=100)
    marked = (SAMPLES / "entities" / "Annotations" / f"{photo.stem}.xml").read_bytes()
    gold = [box.xyxy for box in parse_annotation(marked, photo.stem, photo.stem).boxes]
    assert 1 <= len(found.boxes) <= 100
    assert geometry.iou(found.boxes, gold).max() > 0.5
