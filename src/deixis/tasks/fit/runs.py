"""What all trainings of networks have in common, around the loop itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import torch
import torch.distributed as dist

from deixis.data.dataset import Dataset
from deixis.errors import DeixisError
from deixis.files.progress import OnProgress
from deixis.tasks.bundle import EncoderOfBundle
from deixis.tasks.features_of import SeenPhotos
from deixis.tasks.learning import Learning, refuse_no_photos, see_photos, training_photos
from deixis.tasks.scores.scoring import DevScores, dev_split
from deixis.training.about import About, facts_of
from deixis.training.distributed import process_count, process_number
from deixis.training.settings import TrainSettings, settings_to_json
from deixis.training.trainer import RUN, Outcome, is_taken

if TYPE_CHECKING:
    from deixis.tasks.fit.chosen import Chosen

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


@dataclass(frozen=True)
class Run:
    """A run, as each process that takes part in it knows it.

    Attributes
    ----------
    model
        As ``deixis train`` calls it.
    dataset
        What is learned from.
    chosen
        All that was chosen.
    command
        What repeats the run.
    training
        How the loop goes.
    out
        The run directory; its folder ``model`` will hold the bundle.
    resume
        Go on with the run in the directory.
    device
        Of this process.
    told
        Told how the work goes on; silent in all processes but the first.
    """

    model: str
    dataset: Dataset
    chosen: Chosen
    command: str
    training: TrainSettings
    out: Path
    resume: bool
    device: torch.device
    told: OnProgress

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes."""
        return process_number() == 0

    @property
    def dev_split(self) -> str | None:
        """What is watched."""
        return dev_split(self.dataset, self.chosen.learning.train)

    def see(self, learning: Learning, *, boxes: bool = False) -> tuple[SeenPhotos, SeenPhotos | None]:
        """The photos to learn from as the model will see them, and those of dev where there is one."""
        photos = training_photos(self.dataset, learning.train, boxes=boxes)
        seen = in_turn(lambda: see_photos(self.dataset, photos, learning, on_progress=self.told))
        refuse_no_photos(self.dataset, seen, learning.train)
        split = self.dev_split
        if split is None:
            return seen, None
        dev = self.dataset.split(split)
        return seen, in_turn(lambda: see_photos(self.dataset, dev, learning, on_progress=self.told))

    def about(self, seen: SeenPhotos, texts: str, also: Mapping[str, str]) -> About:
        """What the run is of.

        Parameters
        ----------
        seen
            The photos to learn from.
        texts
            How many of what is learned from with them: 32 phrases.
        also
            What else the model is made from, by name.
        """
        used = {
            "photos learned from": f"{len(seen.photos):,}, with {texts}; {len(seen.left_out):,} left out",
            "encoder": f"{seen.store.contents.encoder} ({seen.store.contents.fingerprint})",
            **also,
        }
        settings = settings_to_json(self.chosen.learning) | settings_to_json(self.chosen.model)
        facts = facts_of(self.dataset, self.chosen.learning.train, *filter(None, [self.dev_split]))
        return About(self.model, settings, facts, self.command, used)

    def trained(
        self,
        outcome: Outcome,
        seen: SeenPhotos,
        dev: SeenPhotos | None,
        *,
        sentences: int = 0,
        phrases: int = 0,
        unsaid: Collection[str] = (),
    ) -> Trained | None:
        """What is said of the run in the end; None in all processes but the first.

        Parameters
        ----------
        outcome
            Of the loop.
        seen, dev
            The photos learned from, and those of dev; None where dev was not measured.
        sentences, phrases
            From how many it has learned.
        unsaid
            Scores that only choose the best epoch.
        """
        if not self.first:
            return None
        looked, split = None, self.dev_split
        if dev and split:
            scores = {name: value for name, value in outcome.best.scores.items() if name not in unsaid}
            looked = DevScores(split, len(dev.photos), scores, dev.left_out)
        return Trained(outcome, len(seen.photos), sentences, phrases, seen.left_out, looked)


def encoder_of(seen: SeenPhotos, crops: int = 0) -> EncoderOfBundle:
    """What a bundle remembers of the encoder of photos."""
    return EncoderOfBundle(seen.store.contents.encoder, seen.store.contents.fingerprint, crops)


def proposals_of(seen: SeenPhotos, top: int) -> str:
    """What a card says of the proposals."""
    return f"{top} of {seen.store.contents.proposer} ({seen.store.contents.proposer_fingerprint})"


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


def in_turn(work: Callable[[], T]) -> T:
    """Let one process after the other do what fills a folder: the first does the work, the others find it done."""
    done: list[T] = []
    for number in range(process_count()):
        if number == process_number():
            done.append(work())
        if process_count() > 1:
            dist.barrier()
    return done[0]
