"""Learning from what a network makes up itself: captions that people's captions agree with become likelier.

After Rennie et al., *Self-critical Sequence Training for Image Captioning* (CVPR 2017). Sentences are drawn for each
photo, and each is compared with the mean reward of the others, as Luo, *A Better Variant of Self-Critical Sequence
Training* (2020), does it instead of with the greedy sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deixis.errors import DatasetError
from deixis.models.decoding_search import Growing
from deixis.models.m_rnn import MRNNNetwork
from deixis.models.m_rnn_quick import QuickMRNN
from deixis.training.base import LossValue
from deixis.training.captions import CaptionObjective
from deixis.training.distributed import by_shares, same_everywhere

Reward = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]
"""Says how good sentences (n, longest) are, each for the photo of a row (n,): `deixis.training.cider_reward`."""


class PhotoSampler:
    """Batches of photos, in a new order each epoch; every photo is in one batch of an epoch.

    Parameters
    ----------
    photos
        Their rows.
    batch_size
        Photos in a batch.

    Examples
    --------
    >>> sampler = PhotoSampler(np.array([0, 1, 4]), batch_size=2)
    >>> len(sampler), sorted(torch.cat(list(sampler.epoch(0, np.random.default_rng(0)))).tolist())
    (2, [0, 1, 4])
    """

    def __init__(self, photos: NDArray[np.int64], batch_size: int) -> None:
        if not len(photos):
            raise DatasetError("there is no photo to learn from")
        self._photos, self._batch_size = photos, batch_size

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return -(-len(self._photos) // self._batch_size)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Tensor]:
        """The batches of an epoch; the first is number 0."""
        order = generator.permutation(self._photos)
        for begin in range(0, len(order), self._batch_size):
            yield torch.from_numpy(order[begin : begin + self._batch_size])


@dataclass(frozen=True)
class RewardObjective:
    """The mean over drawn sentences of −(reward − that of the photo's others) · log P, over their mean length.

    Sentences are drawn without dropout; their probability is learned with it.

    Attributes
    ----------
    photos
        Vectors of all photos.
    reward
        By the rows of these photos.
    samples
        Sentences for each photo; two or more, for each is compared with the others.
    longest
        Words in a sentence, at most.
    cells
        (n, k, cell_size): cells of all photos, for attention; may be in half precision.
    people
        What people wrote, to learn from too: for each photo a caption, drawn by chance.
    words_weight
        How much that counts.

    Examples
    --------
    >>> from deixis.models.m_rnn import MRNNSettings
    >>> objective = RewardObjective(torch.eye(4), lambda words, photos: (words == 0).mean(1), samples=3, longest=6)
    >>> sorted(objective(MRNNNetwork(4, 2, MRNNSettings()), torch.tensor([0, 3])).terms)
    ['reward', 'words']
    """

    photos: Tensor
    reward: Reward
    samples: int = 5
    longest: int = 20
    cells: Tensor | None = None
    people: CaptionObjective | None = None
    words_weight: float = 0.0

    def __call__(self, network: nn.Module, batch: Tensor) -> LossValue:
        """The loss over a batch, the rows of its photos."""
        if not isinstance(network, MRNNNetwork):
            raise TypeError(f"an MRNNNetwork is needed, not a {type(network).__name__}")
        device = network.word_bias.device
        sides = [self.photos] if self.cells is None else [self.photos, self.cells]
        looks = [side[batch.to(side.device)].to(device, torch.float32) for side in sides]

        # The same in all processes, so that a photo's sentences do not depend on who draws them.
        chances = same_everywhere(torch.rand(len(batch), self.samples, self.longest, device=device))

        def losses(rows: Tensor, chances: Tensor, *looks: Tensor) -> Tensor:
            return self._losses(network, rows, chances.flatten(0, 1), *looks)

        loss, reward, words = by_shares(losses, batch.to(device), chances, *looks).mean(0)
        found = LossValue(loss / words.detach(), {"reward": reward.detach(), "words": words.detach()})
        if self.people is None:
            return found
        said = self.people(network, self.people.drawn(batch))
        return LossValue(found.total + self.words_weight * said.total, {**found.terms, **said.terms})

    def _losses(self, network: MRNNNetwork, rows: Tensor, chances: Tensor, *looks: Tensor) -> Tensor:
        """For each photo (n, 3): the loss, the reward and the words of its sentences, end signs included; means."""
        if not len(rows):  # a small batch has nothing for one of many processes, whose gradients are waited for
            return 0 * network.word_bias.sum() + looks[0].new_zeros(0, 3)
        # In full precision, in which what a word adds is worked out once for all sentences.
        with _at_rest(network), torch.no_grad(), torch.autocast(rows.device.type, enabled=False):
            words, written = draw(network, looks, self.samples, chances)
        several = rows.repeat_interleave(self.samples).cpu().numpy()
        found = torch.from_numpy(self.reward(words.cpu().numpy(), several)).to(rows.device, torch.float32)
        gained = found.view(-1, self.samples)
        better = (gained - gained.mean(1, keepdim=True)) * self.samples / (self.samples - 1)
        surprise = network.surprise(network.see(*looks).repeat(self.samples), words, written)
        columns = torch.stack([better.flatten() * surprise, found, written.float()], 1)
        return columns.view(len(rows), self.samples, 3).mean(1)


def draw(network: MRNNNetwork, looks: Sequence[Tensor], samples: int, chances: Tensor) -> tuple[Tensor, Tensor]:
    """Draw sentences for each photo, as likely as the network has them.

    Parameters
    ----------
    network
        Who writes.
    looks
        Vectors of the photos, and their cells where the network has attention.
    samples
        Sentences for each photo.
    chances
        (n, longest): for each sentence and word a number from 0 to 1, drawn by chance, that decides.

    Returns
    -------
    words, written
        (n, words), the sentences of a photo one after another, with end signs after each end; and (n,), how many words
        and end signs were written.
    """
    writer = QuickMRNN(network)
    seen = writer.see(*looks)
    state, growing = writer.first_state(len(chances)), Growing(len(chances) // samples, samples)
    last = torch.full((len(chances),), network.start, device=network.word_bias.device)
    ended = torch.zeros_like(last, dtype=torch.bool)
    words, written = [], torch.zeros_like(last)
    for chance in chances.T:
        likely, state = writer.next_words(seen, last, state, growing)
        last = _decided(likely.float().exp(), chance).masked_fill(ended, network.end)
        written = written + ~ended
        ended = ended | (last == network.end)
        words.append(last)
        if bool(ended.all()):
            break
    # Clones: what inference has made cannot be learned from.
    return torch.stack(words, 1).clone(), written.clone()


def _decided(likely: Tensor, chance: Tensor) -> Tensor:
    """The column of each row (n, words) that a number from 0 to 1 (n,) falls on, if each is as wide as it is likely."""
    up_to = likely.cumsum(1)
    found = torch.searchsorted(up_to, chance[:, None] * up_to[:, -1:], right=True)[:, 0]
    return found.clamp(max=likely.shape[1] - 1)


@contextmanager
def _at_rest(network: nn.Module) -> Iterator[None]:
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)
