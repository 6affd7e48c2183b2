"""The training loop of all models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Generic

import torch
from torch import Tensor, nn

from deixis.errors import DeixisError, DivergedError
from deixis.models.training.checkpoints import (
    AVERAGE,
    OPTIMIZER,
    WEIGHTS,
    Position,
    add_prefix,
    best_epoch,
    explain_safetensors_errors,
    load_optimizer,
    load_weights,
    optimizer_tensors,
    read_checkpoint,
    trained_weights,
    with_prefix,
    write_checkpoint,
)
from deixis.models.training.curves import FILE as CURVES
from deixis.models.training.curves import write_curves
from deixis.models.training.objective import Batch, DevScores, Loss, Sampler
from deixis.models.training.reproducibility import chosen_device, epoch_generator, reproducible, seed_step
from deixis.models.training.run_record import (
    Log,
    Pace,
    RunDescription,
    format_duration,
    model_card,
    refuse_other_run,
    write_description,
)
from deixis.models.training.settings import TrainSettings
from deixis.storage.atomic import exclusive_lock, explain_os_errors, new_directory, remove_partial_files
from deixis.storage.progress import OnProgress, no_progress


def learning_rate_at(step: int, settings: TrainSettings, steps_per_epoch: int) -> float:
    """Return the learning rate of a step, counted from 0."""
    if step < settings.warmup_steps:
        return settings.learning_rate * (step + 1) / settings.warmup_steps
    if settings.lr_schedule == "cosine":
        total = max(settings.epochs * steps_per_epoch - settings.warmup_steps, 1)
        progress = min((step - settings.warmup_steps) / total, 1.0)
        return settings.learning_rate * (1 + math.cos(math.pi * progress)) / 2
    return settings.learning_rate


class MovingAverage:
    """Exponential moving average of the weights and running statistics of a network.

    `decay` is the fraction of the average that is kept at each step.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}

    @torch.no_grad()
    def update(self, network: nn.Module) -> None:
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - self.decay)
            else:
                self.weights[name].copy_(tensor)

    @torch.no_grad()
    def restore(self, weights: Mapping[str, Tensor]) -> None:
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])

    @contextmanager
    def applied(self, network: nn.Module) -> Iterator[None]:
        """Replace the weights of the network by their average within the block."""
        own = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        network.load_state_dict(self.weights)
        try:
            yield
        finally:
            network.load_state_dict(own)


Terms = Mapping[str, Tensor]

_OPTIMIZERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


class Stepper(Generic[Batch]):
    """Takes optimizer steps, and collects their losses. `optimizer` and `average` are state to save."""

    def __init__(
        self,
        network: nn.Module,
        loss: Loss[Batch],
        settings: TrainSettings,
        device: torch.device,
        steps_per_epoch: int,
    ) -> None:
        self.network = network
        self.optimizer = _OPTIMIZERS[settings.optimizer](
            [weight for _, weight in trained_weights(network)],
            lr=settings.learning_rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=device.type == "cuda",  # one kernel instead of dozens
        )
        self.average = MovingAverage(network, settings.ema_decay) if settings.ema_decay else None
        self._loss = loss
        self._settings = settings
        self._device = device
        self._steps_per_epoch = steps_per_epoch
        self._losses: dict[str, list[Tensor]] = {}

    def learning_rate(self, step: int) -> float:
        return learning_rate_at(step, self._settings, self._steps_per_epoch)

    def step(self, number: int, batches: Sequence[Batch]) -> None:
        """Take one step on the mean gradient of some batches."""
        self.network.train()
        seed_step(self._settings.seed, number, self._device)
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate(number)
        for each in self._train_batches(batches):
            for name, term in each.items():
                self._losses.setdefault(name, []).append(term)

    def _train_batches(self, batches: Sequence[Batch]) -> list[Terms]:
        """Average the gradients of batches, and step; return the losses and their terms."""
        self.optimizer.zero_grad(set_to_none=True)
        found: list[Terms] = []
        for batch in batches:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self._settings.precision == "bfloat16"):
                value = self._loss(self.network, batch)
            (value.total / len(batches)).backward()  # type: ignore[no-untyped-call]
            found.append({name: term.detach() for name, term in {"loss": value.total, **value.terms}.items()})
        if self._settings.max_grad_norm:
            nn.utils.clip_grad_norm_(self.network.parameters(), self._settings.max_grad_norm)
        self.optimizer.step()
        if self.average:
            self.average.update(self.network)
        return found

    def mean_losses(self) -> dict[str, float]:
        """Return the mean loss and terms since the last call; empty if there was no step.

        The only place where the CPU waits for the device.
        """
        means = {name: float(torch.stack(values).float().mean()) for name, values in self._losses.items()}
        self._losses = {}
        return means


RUN, LOG, MODEL, CARD = "run.json", "log.jsonl", "model", "README.md"
LAST, BEST = "last.safetensors", "best.safetensors"


def epoch_path(run: Path, epoch: int) -> Path:
    """File of the weights of an epoch, counted from 1, of a run with `keep_epochs`."""
    return run / "epochs" / f"{epoch}.safetensors"


@dataclass(frozen=True)
class Outcome:
    """Result of a training run."""

    model: Path  # directory of the best model and its card
    best: DevScores
    evaluations: Mapping[str, Sequence[DevScores]]  # by validation set
    steps: int
    stopped_early: bool
    seconds: float  # including interrupted runs that were resumed


@dataclass
class Trainer(Generic[Batch]):
    """Trains a network and writes the run directory `out`.

    After training the network has the best weights. Only a run with the same description and settings can be resumed.
    `keep` saves the model into an empty folder. `evaluate` scores the network on each validation set: the first set
    chooses the best epoch, and training stops early when it would stop for each of them; without any, the last weights
    are the best. `keep_epochs` saves the weights of every evaluated epoch too. The best epoch is chosen from
    `choose_from` on, counted from 0.
    """

    network: nn.Module
    sampler: Sampler[Batch]
    loss: Loss[Batch]
    settings: TrainSettings
    out: Path
    _: KW_ONLY
    about: RunDescription
    keep: Callable[[Path], None]
    evaluate: Mapping[str, Callable[[], DevScores] | None] = field(default_factory=lambda: {"": None})
    keep_epochs: bool = False
    on_progress: OnProgress = no_progress
    choose_from: int = 0

    def train(self, *, resume: bool = False) -> Outcome:
        """Train to the end.

        A resumed run continues from its last checkpoint. On the CPU, the result is bit-identical to that of an
        uninterrupted run.
        """
        device = chosen_device(self.settings.device)
        with self._directory(resume), reproducible(device, self.settings.threads):
            self._start(device)
            self._train()
            return self._finish()

    @contextmanager
    def _directory(self, resume: bool) -> Iterator[None]:
        """Lock the run directory, new or to resume."""
        run = self.out / RUN
        refuse_unusable(self.out, resume)
        with explain_os_errors(self.out):
            self.out.mkdir(parents=True, exist_ok=True)
            with exclusive_lock(run):
                remove_partial_files(run, self.out / LAST, self.out / BEST)
                refuse_unusable(self.out, resume)  # another process may have been faster
                if resume:
                    refuse_other_run(run, self.about, self.settings)
                else:
                    write_description(run, self.about, self.settings)
                yield

    def _start(self, device: torch.device) -> None:
        """Restore the last checkpoint, or start from the beginning."""
        self.network.to(device)
        steps_per_epoch = math.ceil(len(self.sampler) / self.settings.gradient_accumulation)
        if steps_per_epoch == 0:
            raise DeixisError(f"{self.about.data.name}: there is nothing to train on")
        self._steps = steps_per_epoch * self.settings.epochs
        self._stepper = Stepper(self.network, self.loss, self.settings, device, steps_per_epoch)
        self._position = self._restore() if (self.out / LAST).exists() else Position()
        self._log = Log(self.out / LOG)
        self._log.cut(self._position.log_bytes)
        self._pace = Pace(self._position.step, self._steps, self._position.seconds)
        self._doing = "training"

    def _restore(self) -> Position:
        path = self.out / LAST
        tensors, position = read_checkpoint(path)
        load_weights(self.network, with_prefix(WEIGHTS, tensors), path)
        load_optimizer(self.network, self._stepper.optimizer, with_prefix(OPTIMIZER, tensors))
        if self._stepper.average:
            self._stepper.average.restore(with_prefix(AVERAGE, tensors))
        return position

    def _train(self) -> None:
        while self._position.epoch < self.settings.epochs and not self._stopped:
            self._train_epoch()
            done = self._position.epoch + 1
            last = done == self.settings.epochs
            if last or (any(self.evaluate.values()) and done % self.settings.evaluate_every == 0):
                self._evaluate()
            self._position = replace(self._position, epoch=done, batches=0)
            self._save_last()
            self._pace.skip_pause()

    def _train_epoch(self) -> None:
        """Train on the batches of the epoch that are left."""
        epoch = self._position.epoch
        batches = self.sampler.epoch(epoch, epoch_generator(self.settings.seed, epoch))
        rest = islice(batches, self._position.batches, None)
        while group := list(islice(rest, self.settings.gradient_accumulation)):
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
            raise DivergedError(
                f"{self.out}: the loss is not finite (step {step:,}); "
                f"try a lower learning_rate than {self.settings.learning_rate:g}, warmup_steps, or max_grad_norm=1"
            )
        examples_per_s = self._pace.steps_per_s(step) * self.settings.batch_size * self.settings.gradient_accumulation
        loss = means.pop("loss")
        self._doing = (
            f"epoch {epoch} of {self.settings.epochs}, loss {loss:.4g}, {examples_per_s:,.0f} examples/s, "
            f"{format_duration(self._pace.left)} left"
        )
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

    def _best(self, name: str) -> tuple[DevScores | None, bool]:
        """Return the best epoch on a validation set, and whether training would stop for it."""
        return best_epoch(self._position.evaluations.get(name, ()), self.settings.patience)

    @property
    def _stopped(self) -> bool:
        return all(self._best(name)[1] for name in self.evaluate)

    def _evaluate(self) -> None:
        """Evaluate the model, and save it if it is the best so far."""
        eligible = self._position.epoch >= self.choose_from
        with self._averaged():
            for name, evaluate in self.evaluate.items():
                found = self._measure(evaluate)
                scores = {each: float(score) for each, score in found.scores.items()}
                new = DevScores(found.monitor, scores, self._position.step, self._position.epoch + 1)
                if eligible:
                    before = self._position.evaluations
                    evaluations = {**before, name: [*before.get(name, ()), new]}
                    self._position = replace(self._position, evaluations=evaluations)
                best = eligible and self._best(name)[0] is new
                if evaluate:
                    self._log_scores(name, new, best)
                if best and name == self._monitored:
                    self._save_best(new)
            if eligible and self.keep_epochs:
                self._save_weights(epoch_path(self.out, self._position.epoch + 1))

    @property
    def _monitored(self) -> str:
        """Name of the validation set that chooses the best epoch."""
        return next(iter(self.evaluate))

    def _measure(self, evaluate: Callable[[], DevScores] | None) -> DevScores:
        if evaluate is None:
            return DevScores("", {})
        self.network.eval()
        with torch.no_grad():
            found = evaluate()
        if not math.isfinite(found.value):
            raise DeixisError(
                f"{self.out}: {found.monitor} on dev is {found.value}, so it cannot choose the best epoch"
            )
        return found

    def _log_scores(self, name: str, found: DevScores, best: bool) -> None:
        self._log.append(
            {
                "step": found.step,
                "epoch": found.epoch,
                **({"validation": name} if len(self.evaluate) > 1 else {}),
                "dev": {each: score if math.isfinite(score) else None for each, score in found.scores.items()},
                "watched": found.monitor,
                "best": best,
                "seconds": round(self._pace.seconds, 3),
            }
        )

    def _averaged(self) -> AbstractContextManager[None]:
        """Use the moving average of the weights, if there is one."""
        return self._stepper.average.applied(self.network) if self._stepper.average else nullcontext()

    def _save_best(self, best: DevScores) -> None:
        """Save the best weights and the model. If the process is killed in between, `_finish` saves the model."""
        self._save_weights(self.out / BEST)
        self._save_model(best)

    def _save_weights(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        write_checkpoint(path, add_prefix(WEIGHTS, self.network.state_dict()), self._position)

    def _save_model(self, best: DevScores) -> None:
        card, path = model_card(self.about, self.settings, best, self._pace.seconds), self.out / MODEL
        with new_directory(path, replace=True) as folder, explain_safetensors_errors(path):
            self.keep(folder)
            (folder / CARD).write_text(card, encoding="utf-8")

    def _save_last(self) -> None:
        self._position = replace(self._position, seconds=self._pace.seconds, log_bytes=self._log.size)
        tensors: dict[str, Tensor] = {
            **add_prefix(WEIGHTS, self.network.state_dict()),
            **add_prefix(OPTIMIZER, optimizer_tensors(self.network, self._stepper.optimizer)),
            **add_prefix(AVERAGE, self._stepper.average.weights if self._stepper.average else {}),
        }
        write_checkpoint(self.out / LAST, tensors, self._position)
        if self.settings.tensorboard:
            write_curves(self._log.path, self.out / CURVES)

    def _finish(self) -> Outcome:
        """Restore the best weights, and save the model again with the final duration."""
        # On a GPU a resumed run is not bit-identical: the best weights of the interrupted one are in the file.
        tensors, then = read_checkpoint(self.out / BEST)
        load_weights(self.network, with_prefix(WEIGHTS, tensors), self.out / BEST)
        best, _ = best_epoch(then.evaluations[self._monitored])
        assert best is not None  # noqa: S101 - the last epoch is evaluated
        self._save_model(best)
        self.network.eval()
        position = self._position
        return Outcome(self.out / MODEL, best, position.evaluations, position.step, self._stopped, self._pace.seconds)


def refuse_unusable(out: Path, resume: bool) -> None:
    """Refuse a run directory that cannot be used, before hours of encoding."""
    if out.exists() and not out.is_dir():
        raise DeixisError(f"{out}: a file has this name; give another name")
    has_run = (out / RUN).is_file()
    if resume and not has_run:
        raise DeixisError(f"{out}: no run to resume ({RUN} is missing); start it without --resume")
    if not resume and out.is_dir() and {path.name for path in out.iterdir() if path.name[0] != "."} - {RUN, LOG}:
        hint = "continue it with --resume, or " if has_run else ""
        raise DeixisError(f"{out}: not empty; {hint}give another directory")
