"""What the HM-LSTM learns from and what it makes small: eq. 9 and eq. 10, at the roots alone or at phrases too.

Symbols are the paper's (§3.2.2). A *pair* is a sentence with its photo (k = 0), or a phrase with a region (k > 0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.data.pairs import Lists, Numbers
from deixis.errors import DatasetError
from deixis.models.correspondence import Correspondences, PhotoRegions
from deixis.models.hm_lstm import PAPERS, HMLSTMNetwork, HMLSTMSettings
from deixis.models.trees import Forest, TreeBatch
from deixis.training.base import LossValue
from deixis.training.distributed import by_shares, gather_with_gradient, own_share
from deixis.training.settings import TrainSettings

SCHEDULES: Mapping[str, TrainSettings] = dict.fromkeys(
    PAPERS, TrainSettings(epochs=20, batch_size=64, learning_rate=8e-3, patience=4)
)
"""How the paper trains (§3.4): Adam, 8·10⁻³, 64 pairs. How long, it does not say: dev decides."""


@dataclass(frozen=True)
class ParsedPhotos:
    """What is learned from: photos with their regions, and their sentences with their trees.

    Attributes
    ----------
    forest
        The tree of each sentence; sentences of a photo stand together, photos in the order of `regions`.
    photo
        The place of each sentence's photo in `regions`.
    regions
        Of the photos.
    """

    forest: Forest
    photo: Numbers
    regions: PhotoRegions


@dataclass(frozen=True)
class PhraseBatch:
    """Pairs of a sentence and a photo, each followed by the pairs of its phrases and their regions.

    Attributes
    ----------
    visual
        The different regions of all pairs, rows of `PhotoRegions`.
    region
        Of each pair: a place in `visual`.
    photo
        Of each pair: the place of its photo in `PhotoRegions`.
    words
        Of each pair: a number that phrases of the same words share.
    is_root
        Of each pair: whether k = 0.
    weight
        Of each pair: w of eq. 10.
    trees, nodes
        Of the pairs whose texts this process computes: their trees, and the numbers of their nodes there.
    size
        How many sentences there are.
    """

    visual: Tensor
    region: Tensor
    photo: Tensor
    words: Tensor
    is_root: Tensor
    weight: Tensor
    trees: TreeBatch
    nodes: Tensor
    size: int

    def to(self, device: torch.device) -> PhraseBatch:
        """The same on another device."""
        names = ("visual", "region", "photo", "words", "is_root", "weight", "nodes")
        moved = {name: getattr(self, name).to(device, non_blocking=True) for name in names}
        return replace(self, trees=self.trees.to(device), **moved)


class PhraseSampler:
    """Sentences in a new order each epoch, with their photos; and with their phrases, where correspondences are known.

    Phrases whose confidence is not above 0 are left out: w of eq. 10 is never below 0, and 0 teaches nothing.

    Parameters
    ----------
    data
        Of the training split.
    batch_size
        Sentences in a batch. A last batch of one is left out: batch norm cannot learn from it.
    correspondences
        None for the root losses alone.
    phrase_weight
        As in the settings.
    """

    def __init__(
        self,
        data: ParsedPhotos,
        batch_size: int = 64,
        correspondences: Correspondences | None = None,
        phrase_weight: float = 1.0,
    ) -> None:
        count = len(data.photo)
        if count < 2:
            raise DatasetError(f"there is nothing to learn from {count} sentences")
        self._data = data
        self._batch_size = batch_size
        self._pairs = _PairTable.of(data, correspondences, phrase_weight)

    def __len__(self) -> int:
        """How many batches an epoch has."""
        whole, rest = divmod(len(self._data.photo), self._batch_size)
        return whole + (rest > 1)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[PhraseBatch]:
        """The batches of an epoch; the first is number 0."""
        order = generator.permutation(len(self._data.photo))
        for batch in range(len(self)):
            yield self._batch(order[batch * self._batch_size :][: self._batch_size])

    def _batch(self, sentences: Numbers) -> PhraseBatch:
        table = self._pairs
        place, rows = table.of_sentence.joined(sentences)
        visual, region = np.unique(table.region[rows], return_inverse=True)
        share = own_share(len(rows))
        # Pairs stand sentence by sentence, so that a share of them is of few trees.
        first, last = (place[share][0], place[share][-1] + 1) if len(place[share]) else (0, 0)
        trees = self._data.forest.batch(sentences[first:last])
        nodes = trees.roots.numpy()[place[share] - first] + table.node[rows[share]]
        return PhraseBatch(
            torch.from_numpy(visual),
            torch.from_numpy(region),
            torch.from_numpy(self._data.photo[sentences][place]),
            torch.from_numpy(table.words[rows]),
            torch.from_numpy(table.node[rows] == 0),
            torch.from_numpy(table.weight[rows]),
            trees,
            torch.from_numpy(nodes),
            len(sentences),
        )


@dataclass(frozen=True)
class _PairTable:
    """All pairs, those of a sentence together and its root first: columns as in `PhraseBatch`, of the whole data."""

    of_sentence: Lists
    node: Numbers
    region: Numbers
    weight: np.ndarray[tuple[int], np.dtype[np.float32]]
    words: Numbers

    @classmethod
    def of(cls, data: ParsedPhotos, found: Correspondences | None, phrase_weight: float) -> _PairTable:
        count = len(data.photo)
        sentence, node = np.arange(count), np.zeros(count, dtype=np.int64)
        region, weight = data.regions.starts[data.photo], np.ones(count, dtype=np.float32)
        if found is not None:
            kept = np.flatnonzero(found.confidence * phrase_weight > 0)
            sentence = np.concatenate([sentence, found.of_sentence.owners[kept]])
            node = np.concatenate([node, found.node[kept]])
            region = np.concatenate([region, found.region[kept]])
            weight = np.concatenate([weight, found.confidence[kept] * np.float32(phrase_weight)])
        order = np.lexsort([node, sentence])
        texts = (data.forest.text(int(s), int(n)).lower() for s, n in zip(sentence[order], node[order], strict=True))
        numbers: dict[str, int] = {}
        words = np.array([numbers.setdefault(text, len(numbers)) for text in texts])
        of_sentence = Lists.of(sentence[order], np.arange(len(order)), count)
        return cls(of_sentence, node[order], region[order], weight[order], words)


def contrasts(batch: PhraseBatch, settings: HMLSTMSettings) -> Tensor:
    """Which pairs l contrast with each pair k in eq. 9, (pairs, pairs).

    A sentence contrasts with sentences of other photos, in every setting: within one image there is no other whole
    photo. A phrase contrasts with phrases of the same photo (``contrast=photo``) or of all photos of the batch, where
    neither the region nor the words are the same.
    """
    other_region = batch.region[:, None] != batch.region
    other_photo = batch.photo[:, None] != batch.photo
    other_words = batch.words[:, None] != batch.words
    both_roots = batch.is_root[:, None] & batch.is_root
    both_phrases = ~batch.is_root[:, None] & ~batch.is_root
    allowed = other_region if settings.contrast == "batch" else other_region & ~other_photo
    if not settings.same_words:
        allowed = allowed & other_words
    return (both_roots & other_photo) | (both_phrases & allowed)


def pair_losses(visual: Tensor, text: Tensor, region: Tensor, contrast: Tensor, settings: HMLSTMSettings) -> Tensor:
    """Eq. 9 for each pair: hinges over contrastive phrases, and over the regions of contrastive phrases.

    Parameters
    ----------
    visual, text
        v (regions, d) and h (pairs, d), of unit length.
    region
        The row of `visual` of each pair.
    contrast
        Which pairs contrast with each, (pairs, pairs).
    settings
        For the margin, and whether all contrasts count or the hardest, by hinges or by a softmax.

    Examples
    --------
    >>> apart, settings = ~torch.eye(2, dtype=torch.bool), HMLSTMSettings(margin=0.5)
    >>> pair_losses(torch.eye(2), torch.eye(2), torch.arange(2), apart, settings).tolist()
    [0.0, 0.0]
    >>> pair_losses(torch.eye(2), torch.eye(2).flip(0), torch.arange(2), apart, settings).tolist()
    [3.0, 3.0]
    """
    scores = visual[region] @ text.T  # s(v_k, h_l) in row k and column l
    right = scores.diagonal()[:, None]
    if settings.negatives == "softmax":
        to_text, to_visual = (_cross_entropies(each / settings.temperature, contrast) for each in (scores, scores.T))
        return to_text + to_visual
    to_text = functional.relu(settings.margin - right + scores) * contrast
    to_visual = functional.relu(settings.margin - right + scores.T) * contrast
    if settings.negatives == "hardest":
        return to_text.amax(dim=1) + to_visual.amax(dim=1)
    return to_text.sum(dim=1) + to_visual.sum(dim=1)


def _cross_entropies(scores: Tensor, contrast: Tensor) -> Tensor:
    """For each row, of choosing the pair itself, on the diagonal, among it and its contrasts."""
    own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    return scores.masked_fill(~(contrast | own), -torch.inf).logsumexp(dim=1) - scores.diagonal()


@dataclass(frozen=True)
class PhraseObjective:
    """Eq. 10 over a batch, divided by its sentences, as the loop asks it.

    Attributes
    ----------
    settings
        Of the network.
    regions
        Features of all regions, by the rows that batches name: (regions, size), in any precision.
    vectors
        x of all words, as `HMLSTM.word_rows` gives them.
    """

    settings: HMLSTMSettings
    regions: Tensor
    vectors: Tensor

    def __call__(self, network: nn.Module, batch: PhraseBatch) -> LossValue:
        """The loss over a batch."""
        if not isinstance(network, HMLSTMNetwork):
            raise TypeError(f"an HMLSTMNetwork is needed, not a {type(network).__name__}")
        device = next(network.parameters()).device
        here = batch.to(device)
        features = self.regions[batch.visual.to(self.regions.device)].to(device, torch.float32)
        visual = by_shares(network.embed_visual, features)
        own = network.embed_nodes(self.vectors.to(device), here.trees, here.nodes)
        text = gather_with_gradient(own, len(batch.region))
        # Similarities in half precision would be noise as large as the margin.
        with torch.autocast(device.type, enabled=False):
            losses = pair_losses(
                visual.float(), text.float(), here.region, contrasts(here, self.settings), self.settings
            )
            weighted = losses * here.weight / batch.size
            sentences, phrases = (weighted * here.is_root).sum(), (weighted * ~here.is_root).sum()
        return LossValue(sentences + phrases, {"sentences": sentences.detach(), "phrases": phrases.detach()})
