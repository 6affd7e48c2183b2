"""Mining of negatives, against loops."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import normalize

from deixis.training.triplets import Batch, LabelledPairs, distance, distance_of_cosine, hardest_negatives


@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 9), st.integers(1, 12))
def test_negatives_are_the_nearest_that_are_allowed(seed: int, targets: int, pool: int, most: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    rows = normalize(torch.randn(targets, 4, generator=generator, dtype=torch.float64))
    others = normalize(torch.randn(pool, 4, generator=generator, dtype=torch.float64))
    allowed = torch.rand(targets, pool, generator=generator) < 0.6
    mined = hardest_negatives(rows, others, allowed, most)
    for target in range(targets):
        found = mined.places[target][mined.nearness[target] > -torch.inf].tolist()
        may_be = [place for place in range(pool) if allowed[target, place]]
        nearest = sorted(may_be, key=lambda place: float((rows[target] - others[place]).norm()))
        assert found == nearest[:most]


def test_gradients_flow_through_the_negatives_that_were_mined_and_no_others() -> None:
    rows, pool = torch.eye(3)[:1].requires_grad_(), torch.eye(3).requires_grad_()
    hardest_negatives(rows, pool, torch.tensor([[False, True, True]]), 1).nearness.sum().backward()
    assert pool.grad is not None
    assert pool.grad.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]


def test_where_no_negative_is_left_it_is_infinitely_far_and_has_no_gradient() -> None:
    rows = torch.eye(2).requires_grad_()
    far = distance_of_cosine(hardest_negatives(rows, rows, torch.zeros(2, 2, dtype=torch.bool), 1).nearness)
    torch.relu(1 - far).sum().backward()
    assert far.tolist() == [[torch.inf], [torch.inf]]
    assert rows.grad is not None
    assert rows.grad.tolist() == [[0, 0], [0, 0]]


def test_the_distance_of_a_cosine_is_that_of_the_vectors() -> None:
    a, b = normalize(torch.randn(2, 50, 8, dtype=torch.float64), dim=2)
    torch.testing.assert_close(distance_of_cosine((a * b).sum(dim=1)), distance(a, b))


def test_distance_is_not_squared() -> None:
    assert distance(torch.tensor([[0.0, 3.0]]), torch.tensor([[4.0, 0.0]])).item() == 5


def test_the_gradient_of_a_distance_of_nothing_is_nothing() -> None:
    a = torch.ones(2, 3, requires_grad=True)
    distance(a, torch.ones(2, 3)).sum().backward()
    assert a.grad is not None
    assert a.grad.tolist() == [[0.0] * 3] * 2


def batch(same_words: bool = True) -> Batch:
    pairs = torch.tensor([[0, 0], [1, 1], [1, 2]])
    text, group = torch.tensor([7, 8, 7]), torch.tensor([4, 5, 5])
    negatives = torch.zeros(3, 2, dtype=torch.bool)
    neighbours = torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 2, dtype=torch.int64)
    return Batch(torch.arange(2), text, pairs, pairs.flip(1), group, negatives, *neighbours, 3, same_words=same_words)


def test_texts_of_other_groups_are_negatives() -> None:
    assert batch().text_negatives.tolist() == [[False, True, True], [True, False, False], [True, False, False]]


def test_the_same_words_may_be_kept_from_being_negatives() -> None:
    negatives = batch(same_words=False).text_negatives
    assert negatives.tolist() == [[False, True, False], [True, False, False], [False, False, False]]


@pytest.mark.parametrize("made", [batch(), LabelledPairs(*torch.ones(4, 3))])
def test_batches_move_to_a_device_whole(made: Batch | LabelledPairs) -> None:
    moved = made.to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor)]
    assert len(tensors) == (8 if isinstance(made, Batch) else 4)
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    if isinstance(made, Batch) and isinstance(moved, Batch):
        assert (moved.size, moved.neighbours, moved.same_words) == (made.size, made.neighbours, made.same_words)
