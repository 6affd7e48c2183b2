"""One step of learning, against torch by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from deixis.training.base import LossValue
from deixis.training.settings import TrainSettings
from deixis.training.steps import Stepper

CPU = torch.device("cpu")


class Squares:
    def __call__(self, network: nn.Module, batch: torch.Tensor) -> LossValue:
        out = network(batch)
        self.dtype = out.dtype
        return LossValue(out.float().square().mean(), {"mean": out.detach().mean()})


def stepper(**chosen: object) -> Stepper[torch.Tensor]:
    torch.manual_seed(0)
    return Stepper(nn.Linear(3, 2), Squares(), TrainSettings(**chosen), CPU, 10)


def weights(made: Stepper[torch.Tensor]) -> torch.Tensor:
    return torch.cat([weight.detach().flatten() for weight in made.network.parameters()])


def test_batches_taken_together_are_the_mean_of_their_gradients() -> None:
    batches = list(torch.randn(3, 4, 3))
    together, apart = stepper(), stepper()
    together.step(0, batches)
    apart.step(0, [torch.cat(batches)])
    torch.testing.assert_close(weights(together), weights(apart))


def test_a_step_is_adams_with_the_rate_of_the_schedule_and_the_gradient_clipped() -> None:
    made, batch = stepper(learning_rate=0.1, warmup=4, clip=0.01, betas=(0.8, 0.9)), torch.randn(4, 3)
    torch.manual_seed(0)
    expected = nn.Linear(3, 2)
    adam = torch.optim.Adam(expected.parameters(), lr=0.1 / 4, betas=(0.8, 0.9))
    expected(batch).square().mean().backward()
    assert nn.utils.clip_grad_norm_(expected.parameters(), 0.01) > 0.01
    adam.step()
    made.step(0, [batch])
    torch.testing.assert_close(weights(made), torch.cat([w.detach().flatten() for w in expected.parameters()]))


def test_losses_are_means_since_they_were_last_asked_for() -> None:
    made = stepper(learning_rate=1e-9)
    one, two = torch.randn(2, 4, 3)
    made.step(0, [one])
    first = made.mean_losses()
    made.step(1, [one])
    made.step(2, [two])
    both = made.mean_losses()
    made.step(3, [two])
    second = made.mean_losses()
    assert both["loss"] == pytest.approx((first["loss"] + second["loss"]) / 2, rel=1e-4)
    assert both.keys() == {"loss", "mean"}
    assert made.mean_losses() == {}


@pytest.mark.parametrize(("precision", "dtype"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_precision_is_that_of_the_products_and_never_of_the_weights(precision: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    loss = Squares()
    made = Stepper(nn.Linear(3, 2), loss, TrainSettings(precision=precision), CPU, 10)
    made.step(0, [torch.randn(4, 3)])
    assert loss.dtype == dtype
    assert weights(made).dtype == torch.float32
