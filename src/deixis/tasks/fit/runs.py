"""What all trainings of networks have in common, around the loop itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch.distributed as dist

from deixis.data.dataset import Dataset, Photos
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.learning import Learning, refuse_no_photos, see_photos
from deixis.tasks.scores.scoring import DevScores, dev_split
from deixis.training.distributed import process_count, process_number
from deixis.training.trainer import RUN, Outcome, is_taken

T = TypeVar("T")


@dataclass(frozen=True)
class Trained:
    """How a training has ended.

    Attributes
    ----------
    outcome
        Of the run.
    photos, sentences, phrases
        From how many it has learned.
    left_out
        Why other photos of the split were left out, a line for each.
    dev
        The best look at dev; None where there is no dev.
    """

    outcome: Outcome
    photos: int
    sentences: int
    phrases: int
    left_out: tuple[str, ...]
    dev: DevScores | None


def refuse_unusable(out: Path, resume: bool) -> None:
    """Say at once, and not after hours of encoding, that the run could not begin."""
    if out.exists() and not out.is_dir():
        raise DeixisError(f"{out}: a file has this name; give another name")
    there = out.is_dir() and is_taken(out)
    run = (out / RUN).is_file()
    if resume and not run:
        raise DeixisError(f"{out}: no run to go on with ({RUN} is missing); begin it without --resume")
    if there and not resume:
        hint = "go on with it by --resume, or " if run else ""
        raise DeixisError(f"{out}: not empty; {hint}give another directory")


def see_train_and_dev(
    dataset: Dataset, photos: Photos, learning: Learning, on_progress: OnProgress
) -> tuple[SeenPhotos, SeenPhotos | None]:
    """The photos to learn from as the model will see them, and those of dev where there is one, for every process."""
    seen = in_turn(lambda: see_photos(dataset, photos, learning, on_progress=on_progress))
    refuse_no_photos(dataset, seen, learning.train)
    split = dev_split(dataset, learning.train)
    if split is None:
        return seen, None
    return seen, in_turn(lambda: see_photos(dataset, dataset.split(split), learning, on_progress=on_progress))


def in_turn(work: Callable[[], T]) -> T:
    """Let one process after the other do what fills a folder: the first does the work, the others find it done."""
    done: list[T] = []
    for number in range(process_count()):
        if number == process_number():
            done.append(work())
        if process_count() > 1:
            dist.barrier()
    return done[0]
