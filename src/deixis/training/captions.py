"""Teaching a network to write captions: batches of captions of like length, and the cost of the m-RNN paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from deixis.errors import DatasetError
from deixis.evaluation.captions import PerplexityScores, perplexity_scores
from deixis.evaluation.captions.cider import cider
from deixis.evaluation.captions.coded import CaptionSet
from deixis.language.features.base import Text
from deixis.models.decoding import Decoding
from deixis.models.m_rnn import PAPERS, MRNNNetwork, MRNNSettings
from deixis.models.m_rnn_model import MRNN, Photos
from deixis.training.base import LossValue
from deixis.training.distributed import by_shares, same_everywhere
from deixis.training.settings import TrainSettings

LOG_2 = float(np.log(2))
POOL = 50
"""Batches that are filled together: their captions are sorted by length, so that little is read after ends."""


def _schedules() -> dict[str, TrainSettings]:
    """The paper states none; these are ours, and not tuned (`docs/models/m-rnn.md`)."""
    usual = TrainSettings(
        epochs=20, batch_size=64, learning_rate=1e-3, schedule="cosine", clip=5.0, weight_decay=1e-5, patience=4
    )
    made = dict.fromkeys(PAPERS, usual)
    # §10.1: "we have to keep the learning rate very small".
    careful = replace(usual, learning_rate=3e-4)
    return made | {name: careful for name in made if "vis-in-rnn" in name}


SCHEDULES: Mapping[str, TrainSettings] = _schedules()
"""How the m-RNN paper's networks are trained, by their names in `deixis.models.m_rnn.PAPERS`."""

CAPTIONER = MRNNSettings(
    second_embedding=192,
    one_embedding=True,
    shared_words=True,
    recurrent="lstm",
    recurrent_size=352,
    multimodal_size=384,
    attention=True,
    attention_size=256,
    attention_heads=4,
    dropout=0.4,
    label_smoothing=0.1,
    longest=24,
    reference_photos=4,
)
"""Our own captioner, beyond the paper; small enough to come with the package (`docs/models/captioner.md`)."""

_WORDS = TrainSettings(
    epochs=20,
    learning_rate=2e-3,
    optimiser="adamw",
    weight_decay=0.01,
    schedule="cosine",
    warmup=100,
    clip=1.0,
    average=0.995,
)
CAPTIONER_SCHEDULES: Mapping[str, TrainSettings] = {
    "words": _WORDS,
    "cider": replace(_WORDS, batch_size=64, learning_rate=2e-4, warmup=50, average=0.99),
}
"""How it is trained, first from people's words and then from its own captions, by what is aimed at."""


class CaptionSampler:
    """Batches of captions of like length, in a new order each epoch; every caption is in one batch of an epoch.

    A batch is the rows of its captions.

    Parameters
    ----------
    lengths
        Words in each caption.
    batch_size
        Captions in a batch.

    Examples
    --------
    >>> sampler = CaptionSampler(np.array([3, 9, 3, 8]), batch_size=2)
    >>> batches = [sorted(batch.tolist()) for batch in sampler.epoch(0, np.random.default_rng(0))]
    >>> len(sampler), sorted(batches)
    (2, [[0, 2], [1, 3]])
    """

    def __init__(self, lengths: NDArray[np.integer] | Tensor, batch_size: int = 64) -> None:
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        if not len(self._lengths):
            raise DatasetError("there is no caption to learn from")

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return -(-len(self._lengths) // self._batch_size)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Tensor]:
        """The batches of an epoch; the first is number 0."""
        order = generator.permutation(len(self._lengths))
        pool = POOL * self._batch_size
        batches: list[NDArray[np.int64]] = []
        for begin in range(0, len(order), pool):
            some = order[begin : begin + pool]
            # A stable sort leaves captions of one length in their random order.
            some = some[np.argsort(self._lengths[some], kind="stable")]
            batches += [some[first : first + self._batch_size] for first in range(0, len(some), self._batch_size)]
        for place in generator.permutation(len(batches)):
            yield torch.from_numpy(batches[place])


@dataclass(frozen=True)
class CaptionObjective:
    """Eq. 6 without its second term: −log₂ P of the words of a batch, end signs included, over their number.

    The second term, λ‖θ‖², is the optimiser's `weight_decay`, whose gradient is that of λ = weight_decay / 2.

    Attributes
    ----------
    photos
        Vectors of all photos.
    photo_of_caption
        The row of each caption's photo.
    words, lengths
        Of all captions, as `deixis.models.text_encoders.word_ids` gives them.
    cells
        (n, k, cell_size): cells of all photos, for attention; may be in half precision.

    Examples
    --------
    >>> from deixis.models.m_rnn import MRNNSettings
    >>> network = MRNNNetwork(4, 2, MRNNSettings())
    >>> objective = CaptionObjective(torch.eye(4), torch.tensor([0, 3]), torch.tensor([[0, 1], [1, 3]]),
    ...                              torch.tensor([2, 1]))
    >>> sorted(objective(network, torch.tensor([0, 1])).terms)
    ['perplexity']
    """

    photos: Tensor
    photo_of_caption: Tensor
    words: Tensor
    lengths: Tensor
    cells: Tensor | None = None

    def __call__(self, network: nn.Module, batch: Tensor) -> LossValue:
        """The loss over a batch."""
        if not isinstance(network, MRNNNetwork):
            raise TypeError(f"an MRNNNetwork is needed, not a {type(network).__name__}")
        device = network.word_bias.device
        lengths = self.lengths[batch]
        words = self.words[batch, : int(lengths.max())].to(device)
        rows = self.photo_of_caption[batch]
        photos = [side[rows.to(side.device)].to(device, torch.float32) for side in self._sides()]
        smoothing = network.settings.label_smoothing if network.training else 0.0

        def losses(words: Tensor, lengths: Tensor, *photos: Tensor) -> Tensor:
            return network.sentence_losses(network.see(*photos), words, lengths, smoothing)

        loss, surprise, count = by_shares(losses, words, lengths.to(device), *photos).sum(0) / LOG_2
        count = count * LOG_2
        return LossValue(loss / count, {"perplexity": (surprise / count).detach().exp2()})

    def drawn(self, photos: Tensor) -> Tensor:
        """A caption of each photo, by chance, the same in all processes: rows of captions for rows of photos."""
        owners, order = self._by_photo
        first = torch.searchsorted(owners, photos)
        count = torch.searchsorted(owners, photos, right=True) - first
        chances = same_everywhere(torch.rand(len(photos)))
        return order[first + (chances * count).long()]

    @cached_property
    def _by_photo(self) -> tuple[Tensor, Tensor]:
        """The photos of all captions in their order, and the row of each caption."""
        owners, order = self.photo_of_caption.sort(stable=True)
        return owners, order

    def _sides(self) -> list[Tensor]:
        return [self.photos] if self.cells is None else [self.photos, self.cells]


def perplexity_of(
    model: MRNN, photos: Photos, sentences: Sequence[Text], photo_of_sentence: NDArray[np.integer]
) -> PerplexityScores:
    """Perplexity of sentences given their photos, with the share of unknown words; intervals are over photos.

    Examples
    --------
    >>> from deixis.language.vocabulary import Vocabulary
    >>> model = MRNN(4, Vocabulary(("a", "dog"), (2, 1)))
    >>> round(perplexity_of(model, np.eye(4), ["a dog", "a cat"], np.array([0, 0])).oov, 1)
    25.0
    """
    return perplexity_scores(
        model.log_probabilities(photos, sentences, photo_of_sentence),
        unknown=model.unknown_words(sentences),
        photos=photo_of_sentence.tolist(),
    )


def cider_of(
    model: MRNN, photos: Photos, references: Sequence[Sequence[Sequence[str]]], how: Decoding | None = None
) -> float:
    """CIDEr-D, in percent, of what a model writes of photos that have captions; a beam of 5 where nothing is said.

    Examples
    --------
    >>> from deixis.language.vocabulary import Vocabulary
    >>> model = MRNN(2, Vocabulary(("dog",), (2,)))
    >>> cider_of(model, np.eye(2), [[["a", "cat"]], [["a", "bird"]]])
    0.0
    """
    written = [made[0].words for made in model.generate(photos, how)]
    known = [row for row, captions in enumerate(references) if captions]
    captions = CaptionSet(tuple(map(str, known)), [written[row] for row in known], [references[row] for row in known])
    return 100 * float(cider(captions).cider_d.mean())
