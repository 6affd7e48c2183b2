"""The diagram of the transition table."""

from __future__ import annotations

from pathlib import Path

from deixis.annotate.workflow import Status, Task
from deixis.annotate.workflow_diagram import draw_workflow


def test_every_stage_is_drawn(tmp_path: Path) -> None:
    draw_workflow(tmp_path / "workflow.svg")
    drawn = (tmp_path / "workflow.svg").read_text()
    assert all(f">{stage.value}<" in drawn for stage in (*Task, *Status))
