"""The baseline of fixed boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from deixis.errors import DeixisError
from deixis.vision.proposals.fixed import FixedProposer, shipped_boxes


def test_boxes_are_fractions_of_the_photo() -> None:
    found = FixedProposer([[0.1, 0.5, 0.2, 1.0]]).propose(Image.new("L", (50, 8)), None, top=5)
    assert np.allclose(found.boxes, [[5, 4, 10, 8]])


@pytest.mark.parametrize(
    "text",
    [None, "", "[]", "{}", '{"boxes": [[0, 0, 1]]}', '{"boxes": [[0, 0, 1, 2]]}', '{"boxes": [["a", 0, 1, 1]]}',
     '{"boxes": [[0.5, 0, 0.5, 1]]}', '{"boxes": []}', '{"boxes": [[0, 0, NaN, 1]]}', '{"boxes": 3}'],
)  # fmt: skip
def test_an_invalid_or_missing_file_is_named(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "boxes.json").write_text(text)
    with pytest.raises(DeixisError, match=r"boxes\.json"):
        FixedProposer.load(tmp_path / "boxes.json")


def test_two_hundred_boxes_come_with_the_package() -> None:
    boxes = shipped_boxes().boxes
    assert boxes.shape == (200, 4)
    assert len(np.unique(boxes, axis=0)) == 200
