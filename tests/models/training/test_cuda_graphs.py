"""Steps that are recorded and replayed: on a GPU they must be the steps that they were recorded from."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from deixis.models.matching.losses import MatchingObjective
from deixis.models.matching.samplers import LabelledPairs, SentenceSampler
from deixis.models.matching.two_branch import TwoBranchNetwork, TwoBranchSettings
from deixis.models.training.cuda_graphs import WARM_UP, shape_of
from deixis.models.training.settings import TrainSettings
from deixis.models.training.trainer import Stepper

SETTINGS = TwoBranchSettings(hidden_size=32, embedding_dim=16, neighbour_start_epoch=0)
PHOTO = np.repeat(np.arange(40), 3)


def test_batches_of_one_shape_share_a_graph() -> None:
    one, same, other = (LabelledPairs(*torch.ones(4, rows)) for rows in (3, 3, 5))
    assert shape_of(one) == shape_of(same) != shape_of(other)


def test_values_that_are_not_tensors_are_part_of_the_shape() -> None:
    sampler = SentenceSampler(PHOTO, TwoBranchSettings(neighbour_start_epoch=1), 20)
    early, late = (next(sampler.epoch(epoch, np.random.default_rng(0))) for epoch in (0, 1))
    assert shape_of(early) != shape_of(late)


def test_a_batch_without_named_tensors_is_refused() -> None:
    with pytest.raises(TypeError, match="Tensor"):
        shape_of(torch.ones(3))


def trained(static: bool) -> tuple[torch.Tensor, dict[str, float]]:
    """The vectors of all texts after some epochs, and the mean losses."""
    torch.manual_seed(0)
    visual, text = torch.randn(40, 12), torch.randn(120, 10)
    network = TwoBranchNetwork(12, 10, SETTINGS).cuda()
    objective = MatchingObjective(SETTINGS, visual.cuda(), [text.cuda() if static else text.numpy()])
    assert objective.static == static
    sampler = SentenceSampler(PHOTO, SETTINGS, 20)
    stepper = Stepper(network, objective, TrainSettings(learning_rate=1e-3), torch.device("cuda"), len(sampler))
    number = 0
    for epoch in range(3 * WARM_UP):
        for batch in sampler.epoch(epoch, np.random.default_rng(epoch)):
            stepper.step(number, [batch])
            number += 1
    return network.eval().embed_text(text.cuda()).detach(), stepper.mean_losses()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="recordings are of a GPU, and there is none here")
def test_replayed_steps_equal_plain_steps() -> None:
    (texts, losses), (plain_texts, plain_losses) = trained(static=True), trained(static=False)
    assert losses == pytest.approx(plain_losses, rel=1e-4)
    torch.testing.assert_close(texts, plain_texts, rtol=0, atol=1e-2)
