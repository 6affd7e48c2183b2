"""The diagram of the transition table."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from deixis.annotate.workflow import WORKFLOW, workflow_rows
from deixis.annotate.workflow_diagram import _POSITIONS, draw_workflow


def test_every_row_of_the_table_is_described() -> None:
    assert len(workflow_rows()) == len(WORKFLOW)
    assert ("verify", "no", "split by head noun", "", "ready for boxes") in workflow_rows()


def test_every_stage_is_drawn(tmp_path: Path) -> None:
    assert set(_POSITIONS) >= {transition.stage for transition in WORKFLOW} | {
        transition.target for transition in WORKFLOW
    }
    draw_workflow(tmp_path / "workflow.png")
    with Image.open(tmp_path / "workflow.png") as drawn:
        assert drawn.width > 1000
        assert len(set(drawn.convert("L").tobytes())) > 10
