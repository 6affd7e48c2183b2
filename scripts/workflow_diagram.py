"""Draw the transition table of the annotation tasks for the guide.

python scripts/workflow_diagram.py docs/pictures/annotate-workflow.svg
"""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path

from deixis.annotate.workflow import WORKFLOW, Stage, Status, Task, Transition, always, nothing

_POSITIONS: dict[Stage, tuple[float, float]] = {
    Status.NEW: (0.0, 6.2),
    Task.LINK: (2.8, 6.2),
    Task.GROUP: (6.6, 7.0),
    Status.PLACED: (6.6, 6.2),
    Status.CHAIN: (9.0, 6.2),
    Task.VERIFY: (12.2, 6.2),
    Status.READY: (12.2, 4.2),
    Task.REQUIREMENT: (9.0, 4.2),
    Status.NOT_VISUAL: (9.0, 1.9),
    Task.DRAWING: (4.2, 4.2),
    Task.QUALITY: (0.0, 4.2),
    Task.COVERAGE: (0.0, 1.2),
    Status.REVIEW: (5.6, 0.0),
    Status.COMPLETE: (0.0, -0.9),
    Task.PAIR: (5.6, -0.9),
    Task.OWN: (5.6, -2.0),
}
_CURVATURE: dict[tuple[Stage, Stage], float] = {
    (Status.NEW, Status.PLACED): -0.2,
    (Status.CHAIN, Status.READY): 0.0,
    (Task.VERIFY, Task.LINK): -0.11,
    (Status.READY, Task.DRAWING): 0.2,
    (Task.REQUIREMENT, Task.DRAWING): 0.12,
    (Task.DRAWING, Task.REQUIREMENT): 0.12,
    (Task.QUALITY, Task.DRAWING): -0.22,
    (Task.QUALITY, Task.COVERAGE): -0.1,
    (Task.COVERAGE, Task.QUALITY): -0.1,
    (Task.QUALITY, Status.COMPLETE): 0.42,
    (Task.DRAWING, Task.COVERAGE): 0.1,
    (Task.COVERAGE, Task.DRAWING): 0.1,
    (Task.QUALITY, Status.REVIEW): 0.0,
    (Status.REVIEW, Task.DRAWING): -0.15,
    (Status.REVIEW, Status.COMPLETE): -0.1,
    (Task.COVERAGE, Status.REVIEW): 0.0,
    (Task.REQUIREMENT, Status.REVIEW): 0.1,
}
_TASK_COLOUR, _STATUS_COLOUR, _END_COLOUR = "#d6e6f5", "#f1f1f1", "#dcefd9"


def draw_workflow(path: Path) -> None:
    """Draw the stages and transitions as a PNG, SVG or PDF file."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

    from deixis.storage.atomic import new_file

    figure = Figure(figsize=(15, 9.5), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-2.4, 14.0)
    axes.set_ylim(-2.5, 7.3)
    axes.axis("off")
    shapes = {}
    for stage, (x, y) in _POSITIONS.items():
        task, ends = isinstance(stage, Task), stage in (Status.COMPLETE, Status.NOT_VISUAL)
        colour = _TASK_COLOUR if task else _END_COLOUR if ends else _STATUS_COLOUR
        box = {"boxstyle": "round,pad=0.5", "facecolor": colour, "edgecolor": "#555555"}
        weight = "bold" if task else "normal"
        shapes[stage] = axes.text(
            x, y, stage.value, ha="center", va="center", fontsize=12, weight=weight, bbox=box, zorder=3
        )
    figure.canvas.draw()  # computes the sizes of the shapes, at whose borders the arrows end

    def arrow(start: Stage, end: Stage, curvature: float, text: str, line: str = "-") -> None:
        (x1, y1), (x2, y2) = _POSITIONS[start], _POSITIONS[end]
        axes.add_patch(
            FancyArrowPatch(
                (x1, y1),
                (x2, y2),
                connectionstyle=f"arc3,rad={curvature}",
                patchA=shapes[start].get_bbox_patch(),
                patchB=shapes[end].get_bbox_patch(),
                arrowstyle="-|>",
                mutation_scale=14,
                shrinkA=1,
                shrinkB=3,
                color="#777777",
                linewidth=1.1,
                linestyle=line,
            )
        )
        # The middle of the curve that arc3 draws.
        middle = ((x1 + x2) / 2 + curvature * (y2 - y1) / 2, (y1 + y2) / 2 - curvature * (x2 - x1) / 2)
        plain = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        axes.text(*middle, text, ha="center", va="center", fontsize=8.5, color="#222222", bbox=plain, zorder=2)

    between: dict[tuple[Stage, Stage], list[Transition]] = defaultdict(list)
    for row in WORKFLOW:
        between[row.stage, row.target].append(row)
    for (start, end), rows in between.items():
        label = "\n".join(map(_label, rows))
        if start is end:
            x, y = _POSITIONS[start]
            axes.text(x + 0.15, y - 0.34, f"↺ {label}", ha="left", va="top", fontsize=8.5, color="#222222", zorder=2)
        else:
            arrow(start, end, _CURVATURE.get((start, end), 0.0), label)
    arrow(Status.PLACED, Status.CHAIN, 0.0, "no other\nmay join", line="--")
    with new_file(path) as unfinished, rc_context({"svg.fonttype": "none"}):
        figure.savefig(unfinished)


def _label(row: Transition) -> str:
    """Return the answers of a transition and what distinguishes it from the others."""
    answers = " / ".join(f"“{answer.value}”" for answer in row.answers)
    condition = "" if row.condition is always else row.condition_text
    if row.stage is row.target:
        if condition or len(row.answers) == 1:
            return ", ".join(filter(None, (answers, condition)))
        return "no majority yet"
    if not row.answers:
        return condition or "otherwise"
    if len(row.answers) > 1 and condition:  # a vote: its result matters, not the single answer
        return condition
    action = row.action_text if row.stage in (Task.LINK, Task.VERIFY) and row.action is not nothing else ""
    return ", ".join(filter(None, (answers, action, condition)))


if __name__ == "__main__":
    draw_workflow(Path(sys.argv[1]))
