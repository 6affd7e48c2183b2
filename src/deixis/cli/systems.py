"""Whose scores `deixis evaluate` is asked for: a file that holds them, or a model that computes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deixis.cli.output import progress, working
from deixis.cli.scores import About, answer
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.evaluation.retrieval_result import RetrievalResult
    from deixis.evaluation.scores import Scores as Matrix
    from deixis.files.progress import OnProgress

OfModel = Callable[[Path, "OnProgress"], "Matrix"]
"""The scores of a model on the data that was asked for."""


@dataclass(frozen=True)
class System:
    """Whose scores are wanted: a file that holds them, or the directory of a model."""

    path: Path
    is_model: bool


def systems_asked(
    scores: Path | None, model: Path | None, against: Path | None, option: str = "--scores FILE.npy"
) -> list[System]:
    """The system to score, and another to compare it with where there is one."""
    from deixis.tasks.shipped_models import place_of

    if (scores is None) == (model is None):
        raise DeixisError(f"give one of {option} and --model DIR")
    systems = [System(model, True)] if model else [System(scores, False)] if scores else []
    return [*systems, *([System(against, place_of(against).is_dir())] if against else [])]


def answer_from_matrices(
    task: str,
    score: Callable[[Matrix], RetrievalResult],
    systems: Sequence[System],
    of_model: OfModel | None,
    about: About,
) -> list[RetrievalResult]:
    """Score one system, or two and their difference."""
    from deixis.evaluation.retrieval_result import compare_results

    matrices = [_matrix(system, of_model) for system in systems]
    with working("ranking"):
        results = [score(matrix) for matrix in matrices]
        compared = compare_results(*results) if len(results) == 2 else {}
        scores = results[0].as_json()
    answer(task, systems[0].path, about, scores, compared)
    return results


def _matrix(system: System, of_model: OfModel | None) -> Matrix:
    if not system.is_model:
        from deixis.evaluation.scores import scores_from_file

        return scores_from_file(system.path)
    if of_model is None:
        raise DeixisError(f"{system.path}: a model is scored on the photos and sentences of a data set")
    with progress() as on_progress:
        return of_model(system.path, on_progress)
