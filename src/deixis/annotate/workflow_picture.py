"""The table of the workflow for the eye: as rows of text, and as a picture."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from deixis.annotate.steps import always
from deixis.annotate.walks import Place, Stop, Task
from deixis.annotate.workflow import WORKFLOW, Edge

_AT: dict[Place, tuple[float, float]] = {
    Stop.NEW: (0.0, 6.2),
    Task.LINK: (2.8, 6.2),
    Stop.PLACED: (6.6, 6.2),
    Stop.CHAIN: (9.0, 6.2),
    Task.VERIFY: (12.2, 6.2),
    Stop.READY: (12.2, 4.2),
    Task.REQUIREMENT: (9.0, 4.2),
    Stop.NOT_VISUAL: (9.0, 1.9),
    Task.DRAWING: (4.2, 4.2),
    Task.QUALITY: (0.0, 4.2),
    Task.COVERAGE: (0.0, 1.2),
    Stop.REVIEW: (5.6, 0.0),
    Stop.COMPLETE: (0.0, -0.9),
}
_BENT: dict[tuple[Place, Place], float] = {
    (Stop.NEW, Stop.PLACED): -0.2,
    (Stop.CHAIN, Stop.READY): 0.0,
    (Task.VERIFY, Task.LINK): -0.11,
    (Stop.READY, Task.DRAWING): 0.2,
    (Task.REQUIREMENT, Task.DRAWING): 0.12,
    (Task.DRAWING, Task.REQUIREMENT): 0.12,
    (Task.QUALITY, Task.DRAWING): -0.22,
    (Task.DRAWING, Task.COVERAGE): 0.1,
    (Task.COVERAGE, Task.DRAWING): 0.1,
    (Task.QUALITY, Stop.REVIEW): 0.0,
    (Stop.REVIEW, Task.DRAWING): -0.15,
    (Stop.REVIEW, Stop.COMPLETE): -0.1,
    (Task.COVERAGE, Stop.REVIEW): 0.0,
    (Task.REQUIREMENT, Stop.REVIEW): 0.1,
}
_TASK_COLOUR, _STOP_COLOUR, _END_COLOUR = "#d6e6f5", "#f1f1f1", "#dcefd9"


def rows() -> list[tuple[str, str, str, str, str]]:
    """The table in words: in, told, does, if, goes to.

    Examples
    --------
    >>> rows()[2]
    ('link', 'yes', 'join the chain', '', 'in a chain')
    """
    return [
        (
            edge.at.value,
            ", ".join(answer.value for answer in edge.answers),
            "" if edge.deed == "nothing" else edge.deed,
            "" if edge.when is always else edge.condition,
            edge.to.value,
        )
        for edge in WORKFLOW
    ]


def draw_workflow(path: Path) -> None:
    """Draw the table as places and arrows (png, svg or pdf)."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch

    from deixis.files.atomic import new_file

    figure = Figure(figsize=(15, 8.4), dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-1.6, 14.0)
    axes.set_ylim(-1.4, 7.3)
    axes.axis("off")
    shapes = {}
    for place, (x, y) in _AT.items():
        task, ends = isinstance(place, Task), place in (Stop.COMPLETE, Stop.NOT_VISUAL)
        colour = _TASK_COLOUR if task else _END_COLOUR if ends else _STOP_COLOUR
        box = {"boxstyle": "round,pad=0.5", "facecolor": colour, "edgecolor": "#555555"}
        weight = "bold" if task else "normal"
        shapes[place] = axes.text(
            x, y, place.value, ha="center", va="center", fontsize=12, weight=weight, bbox=box, zorder=3
        )
    figure.canvas.draw()  # only now the shapes know how large they are, and arrows can end at their borders

    def arrow(start: Place, end: Place, bent: float, words: str, line: str = "-") -> None:
        (x1, y1), (x2, y2) = _AT[start], _AT[end]
        axes.add_patch(
            FancyArrowPatch(
                (x1, y1),
                (x2, y2),
                connectionstyle=f"arc3,rad={bent}",
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
        # The middle of the bent line, as arc3 draws it.
        middle = ((x1 + x2) / 2 + bent * (y2 - y1) / 2, (y1 + y2) / 2 - bent * (x2 - x1) / 2)
        plain = {"facecolor": "white", "edgecolor": "none", "pad": 1.0}
        axes.text(*middle, words, ha="center", va="center", fontsize=8.5, color="#222222", bbox=plain, zorder=2)

    for (start, end), edges in _between(WORKFLOW).items():
        words = "\n".join(map(_words, edges))
        if start is end:
            x, y = _AT[start]
            axes.text(x + 0.15, y - 0.34, f"↺ {words}", ha="left", va="top", fontsize=8.5, color="#222222", zorder=2)
        else:
            arrow(start, end, _BENT.get((start, end), 0.0), words)
    arrow(Stop.PLACED, Stop.CHAIN, 0.0, "no other\nmay join", line="--")
    with new_file(path) as unfinished, rc_context({"svg.fonttype": "none"}):
        figure.savefig(unfinished)


def _between(edges: Iterable[Edge]) -> dict[tuple[Place, Place], list[Edge]]:
    found: dict[tuple[Place, Place], list[Edge]] = defaultdict(list)
    for edge in edges:
        found[edge.at, edge.to].append(edge)
    return found


def _words(edge: Edge) -> str:
    """What to write beside an arrow: the answer, and what else tells this row from its neighbours."""
    told = " / ".join(f"“{answer.value}”" for answer in edge.answers)
    condition = "" if edge.when is always else edge.condition
    if edge.at is edge.to:
        return f"{told}, {condition}" if condition else "no majority yet"
    if not edge.answers:
        return condition or "otherwise"
    if len(edge.answers) > 1 and condition:  # a vote: what counts is how it stands
        return condition
    deed = edge.deed if edge.at in (Task.LINK, Task.VERIFY) and edge.deed != "nothing" else ""
    return ", ".join(filter(None, (told, deed, condition)))
