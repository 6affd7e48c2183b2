"""The one loop that trains every model: it knows none of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Generic

import torch
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.files.atomic import clear_unfinished, explained, new_directory, only_one
from deixis.files.progress import OnProgress, silent
from deixis.training.about import About, refuse_another, write_about
from deixis.training.base import Batch, DevScores, Evaluate, Loss, Sampler
from deixis.training.batch_norm import share_batch_norm
from deixis.training.card import model_card
from deixis.training.checkpoints import (
    AVERAGE,
    OPTIMISER,
    WEIGHTS,
    Best,
    Position,
    load_optimiser,
    load_weights,
    named,
    of_prefix,
    optimiser_tensors,
    read_checkpoint,
    write_checkpoint,
    written,
)
from deixis.training.distributed import (
    chosen_device,
    from_first,
    number_from_first,
    process_count,
    process_number,
    processes,
)
from deixis.training.log import Log
from deixis.training.pace import Pace, in_words
from deixis.training.seeding import epoch_generator, reproducible
from deixis.training.settings import TrainSettings
from deixis.training.steps import Stepper

RUN, LOG, LAST, BEST, MODEL, CARD = (
    "run.json",
    "log.jsonl",
    "last.safetensors",
    "best.safetensors",
    "model",
    "README.md",
)


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    model
        The folder with the best model and its card.
    best
        The look at dev by which it was chosen; all its scores only in the first process.
    steps
        Steps in all.
    stopped_early
        Whether dev had not become better for too long.
    seconds
        How long it took, what was before a kill included.
    """

    model: Path
    best: Best
    steps: int
    stopped_early: bool
    seconds: float


class Trainer(Generic[Batch]):
    """Trains a network and leaves a run directory.

    Parameters
    ----------
    network
        What learns. When training has ended it holds the best weights.
    sampler, loss
        What it learns from, as `deixis.training.base` describes them.
    settings
        How.
    out
        The run directory: `docs/training.md` says what it holds.
    about
        What is trained on what: for the card, and to refuse going on as something else.
    keep
        Saves the model that the network belongs to into a folder: its `save`, as a rule.
    evaluate
        Measures dev; without it the weights after the last epoch are the best.
    on_progress
        Told of every step.

    Examples
    --------
    >>> import tempfile
    >>> from deixis.training.about import DataFacts
    >>> from deixis.training.base import LossValue
    >>> class Numbers:
    ...     def __len__(self):
    ...         return 10
    ...     def epoch(self, number, generator):
    ...         return (torch.from_numpy(generator.normal(size=(8, 1))).float() for _ in range(10))
    >>> def doubled(network, batch):
    ...     return LossValue((network(batch) - 2 * batch).square().mean())
    >>> about = About("line", {}, DataFacts("numbers", "", {}, "free for all"))
    >>> network, settings = nn.Linear(1, 1), TrainSettings(epochs=20, learning_rate=0.1, device="cpu")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     run = f"{folder}/run"
    ...     outcome = Trainer(network, Numbers(), doubled, settings, run, about=about, keep=lambda folder: None).train()
    >>> outcome.steps, round(network.weight.item(), 1)
    (200, 2.0)
    """

    def __init__(
        self,
        network: nn.Module,
        sampler: Sampler[Batch],
        loss: Loss[Batch],
        settings: TrainSettings,
        out: str | PathLike[str],
        *,
        about: About,
        keep: Callable[[Path], None],
        evaluate: Evaluate | None = None,
        on_progress: OnProgress = silent,
    ) -> None:
        self.network = network
        self.sampler = sampler
        self.loss = loss
        self.settings = settings
        self.out = Path(out)
        self.about = about
        self.keep = keep
        self.evaluate = evaluate
        self.on_progress = on_progress
        self._log = Log(self.out / LOG)

    def train(self, *, resume: bool = False) -> Outcome:
        """Train to the end.

        Parameters
        ----------
        resume
            Go on with the run in the directory, from its last checkpoint. On the processor it ends with the very bits
            that it would have ended with unbroken.
        """
        with processes(chosen_device(self.settings.device)) as device:
            first = process_number() == 0
            with self._directory(resume) if first else nullcontext(), reproducible(device, self.settings.threads):
                number_from_first(0, device)  # the others wait here until the directory is as it should be
                self._begin(device)
                self._learn()
                return self._end()

    @contextmanager
    def _directory(self, resume: bool) -> Iterator[None]:
        """Hold the run directory for this run, new or to go on with."""
        run = self.out / RUN
        if resume and not run.is_file():
            raise DeixisError(f"{self.out}: no run to go on with ({RUN} is missing); begin it without --resume")
        with explained(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
            with only_one(run):
                clear_unfinished(run, self.out / LAST, self.out / BEST)
                if resume:
                    refuse_another(run, self.about, self.settings)
                elif is_taken(self.out):
                    hint = "go on with it by --resume, or " if run.exists() else ""
                    raise DeixisError(f"{self.out}: not empty; {hint}give another directory")
                else:
                    write_about(run, self.about, self.settings)
                yield

    def _begin(self, device: torch.device) -> None:
        """Bring everything to where the last checkpoint was, or to the beginning."""
        self._device = device
        self.network.to(device)
        if process_count() > 1:
            share_batch_norm(self.network)
            from_first(self.network)
        steps_per_epoch = math.ceil(len(self.sampler) / self.settings.accumulate)
        if steps_per_epoch == 0:
            raise DeixisError(f"{self.about.data.name}: there is nothing to learn from")
        self._steps = steps_per_epoch * self.settings.epochs
        self._stepper = Stepper(self.network, self.loss, self.settings, device, steps_per_epoch)
        self._position = self._restored() if (self.out / LAST).exists() else Position()
        if process_number() == 0:
            self._log.cut(self._position.log_bytes)
        self._pace = Pace(self._position.step, self._steps, self._position.seconds)
        self._doing = "training"

    def _restored(self) -> Position:
        path = self.out / LAST
        tensors, position = read_checkpoint(path)
        load_weights(self.network, of_prefix(WEIGHTS, tensors), path)
        load_optimiser(self.network, self._stepper.optimiser, of_prefix(OPTIMISER, tensors))
        if self._stepper.average:
            self._stepper.average.restore(of_prefix(AVERAGE, tensors))
        return position

    def _learn(self) -> None:
        while self._position.epoch < self.settings.epochs and not self._position.stopped:
            self._learn_epoch()
            done = self._position.epoch + 1
            last = done == self.settings.epochs
            if last or (self.evaluate and done % self.settings.evaluate_every == 0):
                self._look_at_dev()
            self._position = replace(self._position, epoch=done, batches=0)
            self._save_last()
            self._pace.pause_ends()

    def _learn_epoch(self) -> None:
        """Learn from what the epoch still has to give."""
        epoch = self._position.epoch
        batches = self.sampler.epoch(epoch, epoch_generator(self.settings.seed, epoch))
        rest = islice(batches, self._position.batches, None)
        while group := list(islice(rest, self.settings.accumulate)):
            self._stepper.step(self._position.step, group)
            position = replace(
                self._position, step=self._position.step + 1, batches=self._position.batches + len(group)
            )
            self._position = position
            save = self.settings.save_every and position.step % self.settings.save_every == 0
            if save or position.step % self.settings.log_every == 0:
                self._log_losses()
            if save:
                self._save_last()
            self.on_progress(self._doing, position.step, self._steps)
        self._log_losses()

    def _log_losses(self) -> None:
        means = self._stepper.mean_losses()
        if not means:
            return
        step, epoch = self._position.step, self._position.epoch + 1
        if not all(map(math.isfinite, means.values())):
            raise DeixisError(
                f"{self.out}: the loss is no longer a number (step {step:,}); "
                f"try a lower learning_rate than {self.settings.learning_rate:g}, a warmup, or clip=1"
            )
        examples_per_s = self._pace.steps_per_s(step) * self.settings.batch_size * self.settings.accumulate
        loss = means.pop("loss")
        self._doing = (
            f"epoch {epoch} of {self.settings.epochs}, loss {loss:.4g}, {examples_per_s:,.0f} examples/s, "
            f"{in_words(self._pace.left)} left"
        )
        if process_number() == 0:
            self._log.append(
                {
                    "step": step,
                    "epoch": epoch,
                    "loss": loss,
                    **({"terms": means} if means else {}),
                    "learning_rate": self._stepper.learning_rate(step - 1),
                    "examples_per_s": round(examples_per_s, 1),
                    "seconds": round(self._pace.seconds, 3),
                }
            )

    def _look_at_dev(self) -> None:
        """Measure dev; keep the model if it is the best so far, and say when it is time to stop."""
        with self._as_kept():
            found = self._measured()
            before = self._position.best
            better = before is None or found.value > before.value
            if process_number() == 0 and self.evaluate:
                self._log_scores(found, better)
            if better:
                best = Best(
                    self._position.step,
                    self._position.epoch + 1,
                    found.watched,
                    {name: float(score) for name, score in found.scores.items()},
                )
                self._position = replace(self._position, best=best, looks_since_best=0)
                self._save_best()
            else:
                self._position = replace(self._position, looks_since_best=self._position.looks_since_best + 1)
        if 0 < self.settings.patience <= self._position.looks_since_best:
            self._position = replace(self._position, stopped=True)

    def _measured(self) -> DevScores:
        """What dev says. The first process measures; the others need only the score that is watched."""
        if self.evaluate is None:
            return DevScores("", {})
        found = DevScores("", {})
        if process_number() == 0:
            self.network.eval()
            with torch.no_grad():
                found = self.evaluate()
        value = number_from_first(found.value, self._device)
        if not math.isfinite(value):
            raise DeixisError(f"{self.out}: {found.watched} on dev is {value}, not a number to choose the best by")
        return found if process_number() == 0 else DevScores("watched", {"watched": value})

    def _log_scores(self, found: DevScores, better: bool) -> None:
        scores = {name: float(score) if math.isfinite(score) else None for name, score in found.scores.items()}
        self._log.append(
            {
                "step": self._position.step,
                "epoch": self._position.epoch + 1,
                "dev": scores,
                "watched": found.watched,
                "best": better,
                "seconds": round(self._pace.seconds, 3),
            }
        )

    def _as_kept(self) -> AbstractContextManager[None]:
        """Let the network be what is measured and kept: its moving average, if there is one."""
        return self._stepper.average.within(self.network) if self._stepper.average else nullcontext()

    def _save_best(self) -> None:
        """Keep the weights, and the model as people use it. A kill in between is made good at the end of the run."""
        if process_number() != 0:
            return
        write_checkpoint(self.out / BEST, named(WEIGHTS, self.network.state_dict()), self._position)
        self._save_model(_best_of(self._position))

    def _save_model(self, best: Best) -> None:
        card = model_card(self.about, self.settings, best, self._pace.seconds)
        with new_directory(self.out / MODEL, replace=True) as folder, written(self.out / MODEL):
            self.keep(folder)
            (folder / CARD).write_text(card, encoding="utf-8")

    def _save_last(self) -> None:
        if process_number() != 0:
            return
        self._position = replace(self._position, seconds=self._pace.seconds, log_bytes=self._log.size)
        tensors: dict[str, Tensor] = {
            **named(WEIGHTS, self.network.state_dict()),
            **named(OPTIMISER, optimiser_tensors(self.network, self._stepper.optimiser)),
            **named(AVERAGE, self._stepper.average.weights if self._stepper.average else {}),
        }
        write_checkpoint(self.out / LAST, tensors, self._position)

    def _end(self) -> Outcome:
        """Give the network its best weights, and write the model once more, with all that the run has taken."""
        best = _best_of(self._position)
        if process_number() == 0:
            # On a GPU a run that goes on is never quite the killed one, whose best may be the better: ask the file.
            tensors, then = read_checkpoint(self.out / BEST)
            load_weights(self.network, of_prefix(WEIGHTS, tensors), self.out / BEST)
            best = _best_of(then)
            self._save_model(best)
        from_first(self.network)
        self.network.eval()
        return Outcome(self.out / MODEL, best, self._position.step, self._position.stopped, self._pace.seconds)


def is_taken(out: Path) -> bool:
    """Whether a directory holds anything but a run that ended before it had learned anything."""
    there = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    return bool(there - {RUN, LOG})


def _best_of(position: Position) -> Best:
    """The best look at dev; whoever asks comes after a first one."""
    assert position.best is not None  # noqa: S101
    return position.best
