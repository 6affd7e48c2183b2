"""The table for the eye."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from deixis.annotate.workflow import WORKFLOW
from deixis.annotate.workflow_picture import _AT, draw_workflow, rows


def test_every_row_of_the_table_is_told() -> None:
    assert len(rows()) == len(WORKFLOW)
    assert ("verify", "no", "split by head noun", "", "ready for boxes") in rows()


def test_every_place_is_drawn(tmp_path: Path) -> None:
    assert set(_AT) >= {edge.at for edge in WORKFLOW} | {edge.to for edge in WORKFLOW}
    draw_workflow(tmp_path / "workflow.png")
    with Image.open(tmp_path / "workflow.png") as drawn:
        assert drawn.width > 1000
        assert len(set(drawn.convert("L").tobytes())) > 10
