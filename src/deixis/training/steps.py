"""One step of learning: gradients of a few batches, from all processes, and what the optimiser makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic

import torch
from torch import Tensor, nn

from deixis.training.averaging import MovingAverage
from deixis.training.base import Batch, Loss
from deixis.training.checkpoints import learnt_weights
from deixis.training.distributed import average_gradients, process_count
from deixis.training.replaying import Replayer
from deixis.training.schedule import learning_rate_at
from deixis.training.seeding import seed_step
from deixis.training.settings import TrainSettings

_OPTIMISERS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}


class Stepper(Generic[Batch]):
    """Takes steps, and remembers the losses on the way.

    Parameters
    ----------
    network, loss
        What learns, and from what.
    settings
        How.
    device
        Where the network is.
    steps_per_epoch
        What the schedule of the learning rate counts in.

    Attributes
    ----------
    optimiser, average
        What there is to save besides the weights.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: Loss[Batch],
        settings: TrainSettings,
        device: torch.device,
        steps_per_epoch: int,
    ) -> None:
        self.network = network
        alone = settings.accumulate == 1 and process_count() == 1
        self._replayed = device.type == "cuda" and alone and bool(getattr(loss, "static", False))
        rate = settings.learning_rate
        self.optimiser = _OPTIMISERS[settings.optimiser](
            [weight for _, weight in learnt_weights(network)],
            lr=torch.tensor(rate, device=device) if self._replayed else rate,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=device.type == "cuda",  # one launch instead of dozens; on the processor the plain one stays the same
            capturable=self._replayed,
        )
        self.average = MovingAverage(network, settings.average) if settings.average else None
        self._loss = loss
        self._settings = settings
        self._device = device
        self._steps_per_epoch = steps_per_epoch
        self._losses: dict[str, list[Tensor]] = {}
        self._learn_one: Callable[[Batch], Mapping[str, Tensor]] = (
            Replayer(self._learn, device) if self._replayed else self._learn
        )

    def learning_rate(self, step: int) -> float:
        """Of a step; the first is number 0."""
        return learning_rate_at(step, self._settings, self._steps_per_epoch)

    def step(self, number: int, batches: Sequence[Batch]) -> None:
        """Learn from some batches at once."""
        self.network.train()
        seed_step(self._settings.seed, number, self._device)
        self._set_rate(self.learning_rate(number))
        terms = [self._learn_one(batches[0])] if len(batches) == 1 else self._learn_all(batches)
        for each in terms:
            for name, term in each.items():
                self._losses.setdefault(name, []).append(term)

    def _set_rate(self, rate: float) -> None:
        for group in self.optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def _learn(self, batch: Batch) -> Mapping[str, Tensor]:
        return self._learn_all([batch])[0]

    def _learn_all(self, batches: Sequence[Batch]) -> list[Mapping[str, Tensor]]:
        """Gradients of batches, their mean over all processes, and a step of the optimiser; the losses and terms."""
        self.optimiser.zero_grad(set_to_none=True)
        found: list[Mapping[str, Tensor]] = []
        for batch in batches:
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self._settings.precision == "bfloat16"):
                value = self._loss(self.network, batch)
            (value.total / len(batches)).backward()  # type: ignore[no-untyped-call]
            found.append({name: term.detach() for name, term in {"loss": value.total, **value.terms}.items()})
        average_gradients(self.network)
        if self._settings.clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self._settings.clip)
        self.optimiser.step()
        if self.average:
            self.average.update(self.network)
        return found

    def mean_losses(self) -> dict[str, float]:
        """The means of the loss and its terms since this was last asked; empty where there was no step.

        Only here does the processor wait for the device.
        """
        means = {name: float(torch.stack(values).float().mean()) for name, values in self._losses.items()}
        self._losses = {}
        return means
