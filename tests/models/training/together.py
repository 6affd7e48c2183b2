"""What must hold when several processes compute together: a program for torchrun, which fails when one does not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.models.training.distributed import (
    SharedBatchNorm,
    average_gradients,
    broadcast_number,
    broadcast_weights,
    gather_with_gradient,
    leave,
    own_share,
    process_count,
    process_number,
    processes,
    sharded_forward,
    share_batch_norm,
)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3), nn.BatchNorm1d(3, momentum=None)
    )


def close(ours: Tensor | None, expected: Tensor | None) -> None:
    if ours is None or expected is None:
        assert ours is expected
    else:
        torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


def rows_are_gathered_in_order(rows: int) -> None:
    everything = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
    assert torch.equal(gather_with_gradient(everything[own_share(rows)], rows), everything)


def gradients_flow_to_the_rows_of_all_processes(rows: int) -> None:
    everything = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows), requires_grad=True)
    own = everything.detach()[own_share(rows)].requires_grad_()
    (everything @ everything.T).sin().sum().backward()
    gathered = gather_with_gradient(own, rows)
    (gathered @ gathered.T).sin().sum().backward()
    # Each process has that loss, so that the mean over processes, taken later, is its gradient.
    close(own.grad / process_count(), everything.grad[own_share(rows)])


def contrastive(compute: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    found = functional.normalize(compute(inputs))
    return functional.cross_entropy(3 * found @ found.flip(0).T, torch.arange(len(inputs)))


def a_network_learns_as_if_alone(rows: int) -> None:
    inputs = 5 + 3 * torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
    alone, together = network(), share_batch_norm(network())
    assert isinstance(together[1], SharedBatchNorm)
    for _ in range(3):
        for one in (alone, together):
            one.zero_grad()
        expected = contrastive(alone, inputs)
        expected.backward()
        found = contrastive(lambda some: sharded_forward(together, some), inputs)
        found.backward()
        average_gradients(together)
        close(found, expected)
        for ours, theirs in zip(together.parameters(), alone.parameters(), strict=True):
            close(ours.grad, theirs.grad)
        for (name, ours), theirs in zip(together.named_buffers(), alone.buffers(), strict=True):
            assert ours.dtype == theirs.dtype, name
            close(ours, theirs)
    close(together.eval()(inputs), alone.eval()(inputs))


def what_was_shared_can_be_shared_again(rows: int) -> None:
    """As a similarity network does: vectors of both sides, then a score for each of many pairs of them."""
    inputs = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
    left, right = torch.randint(rows, (2, 3 * rows + 1), generator=torch.Generator().manual_seed(1))
    gradients = []
    for shared in (False, True):
        torch.manual_seed(0)
        first, second = network(), nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh())
        both = nn.ModuleList([first, second])
        if shared:
            share_batch_norm(both)
            found = sharded_forward(both[0], inputs)
            scores = sharded_forward(lambda a, b: both[1](a * b), found[left], found[right])  # noqa: B023
        else:
            found = first(inputs)
            scores = second(found[left] * found[right])
        scores.square().sin().mean().backward()
        if shared:
            average_gradients(both)
        gradients.append([weight.grad for weight in both.parameters()])
    for expected, ours in zip(*gradients, strict=True):
        close(ours, expected)


def batch_norm_is_that_of_the_joined_rows(shape: tuple[int, ...], affine: bool) -> None:
    kind = {2: nn.BatchNorm1d, 3: nn.BatchNorm1d, 4: nn.BatchNorm2d}[len(shape)]
    alone, together = kind(shape[1], affine=affine), share_batch_norm(kind(shape[1], affine=affine))
    inputs = 100 + torch.randn(shape, generator=torch.Generator().manual_seed(1))
    weights = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    joined = inputs.clone().requires_grad_()
    (alone(joined) * weights).sum().backward()
    own = inputs[own_share(len(inputs))].clone().requires_grad_()
    found = together(own)
    (found * weights[own_share(len(inputs))]).sum().backward()
    torch.testing.assert_close(found, alone(inputs)[own_share(len(inputs))], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(own.grad, joined.grad[own_share(len(inputs))], rtol=1e-9, atol=1e-9)


def weights_that_take_no_part_are_left_alone() -> None:
    learner = nn.ModuleDict({"used": nn.Linear(2, 2), "idle": nn.Linear(2, 2), "of one": nn.Linear(2, 1)})
    learner["used"](torch.ones(1, 2)).sum().backward()
    if process_number() == process_count() - 1:
        learner["of one"](torch.ones(1, 2)).sum().backward()
    average_gradients(learner)
    assert learner["idle"].weight.grad is None
    close(learner["of one"].weight.grad, torch.full((1, 2), 1 / process_count()))


def the_first_process_is_listened_to() -> None:
    torch.manual_seed(process_number())
    one = nn.Linear(2, 2)
    broadcast_weights(one)
    torch.manual_seed(0)
    close(one.weight, nn.Linear(2, 2).weight)
    assert broadcast_number(float(process_number()) + 0.1, torch.device("cpu")) == 0.1


def main() -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)  # so that what is equal in the mathematics is equal here, to nine digits
    with processes(torch.device("cpu")):
        assert process_count() > 1
        for rows in (12, 7, 2):  # shared evenly, unevenly, and with nothing for one of three
            rows_are_gathered_in_order(rows)
            gradients_flow_to_the_rows_of_all_processes(rows)
            a_network_learns_as_if_alone(rows)
            what_was_shared_can_be_shared_again(rows)
        for shape in ((9, 4), (5, 4, 3), (5, 4, 3, 2)):
            batch_norm_is_that_of_the_joined_rows(shape, affine=True)
            batch_norm_is_that_of_the_joined_rows(shape, affine=False)
        weights_that_take_no_part_are_left_alone()
        the_first_process_is_listened_to()


if __name__ == "__main__":
    main()
    leave()
