"""The contrastive losses of section 3.2.2, eq. 9 and 10, and the batches that they are computed on.

Symbols are the paper's. A *pair* is a sentence with its photo (k = 0), or a phrase with a region (k > 0).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from deixis.data.pairs import Integers, RaggedArray
from deixis.models.hm_lstm.correspondence import Correspondences, ParsedPhotos
from deixis.models.hm_lstm.network import HMLSTMNetwork, to_tensors
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import TreeBatch
from deixis.models.networks import move_tensors
from deixis.models.training.objective import (
    LossValue,
    ShuffledSampler,
    contrastive_cross_entropies,
    ranking_hinges,
)


@dataclass(frozen=True)
class PairBatch:
    """Sentence-photo pairs, each followed by the phrase-region pairs of the sentence."""

    visual: Tensor  # distinct regions of all pairs, as rows of `PhotoRegions`
    region: Tensor  # index in `visual` of each pair's region
    photo: Tensor  # index in `PhotoRegions` of each pair's photo
    text_id: Tensor  # shared by all pairs with the same text
    is_root: Tensor  # whether k = 0, per pair
    weight: Tensor  # w of eq. 10, per pair
    trees: TreeBatch[Tensor]  # of the sentences
    nodes: Tensor  # index of each pair's node
    size: int  # number of sentences


class PairSampler(ShuffledSampler[PairBatch]):
    """Draws sentences in random order, with their photos and, given correspondences, their phrases.

    Phrases with a confidence of 0 or less are left out: w of eq. 10 is not negative. Without correspondences there are
    only root losses.
    """

    def __init__(
        self,
        data: ParsedPhotos,
        batch_size: int = 64,
        correspondences: Correspondences | None = None,
        phrase_weight: float = 1.0,
    ) -> None:
        count = len(data.photo)
        super().__init__(count, batch_size)
        self._data = data
        sentence, node = np.arange(count), np.zeros(count, dtype=np.int64)
        region, weight = data.regions.starts[data.photo], np.ones(count, dtype=np.float32)
        if correspondences is not None:
            kept = np.flatnonzero(correspondences.confidence * phrase_weight > 0)
            sentence = np.concatenate([sentence, correspondences.rows.owners[kept]])
            node = np.concatenate([node, correspondences.node[kept]])
            region = np.concatenate([region, correspondences.region[kept]])
            weight = np.concatenate([weight, correspondences.confidence[kept] * np.float32(phrase_weight)])
        # The pairs of a sentence are consecutive, the root first.
        order = np.lexsort([node, sentence])
        self._node, self._region, self._weight = node[order], region[order], weight[order]
        self._pairs_of_sentence = RaggedArray.from_owners(sentence[order], np.arange(len(order)), count)
        texts = (data.forest.text(int(s), int(n)).lower() for s, n in zip(sentence[order], self._node, strict=True))
        ids: dict[str, int] = {}
        self._text_id = np.array([ids.setdefault(text, len(ids)) for text in texts])

    def make_batch(self, rows: Integers, epoch: int, generator: np.random.Generator) -> PairBatch:
        """Return the pairs of these sentences."""
        sentence, pairs = self._pairs_of_sentence.gather(rows)
        visual, region = np.unique(self._region[pairs], return_inverse=True)
        trees = self._data.forest.batch(rows)
        nodes = trees.roots[sentence] + self._node[pairs]
        return PairBatch(
            torch.from_numpy(visual),
            torch.from_numpy(region),
            torch.from_numpy(self._data.photo[rows][sentence]),
            torch.from_numpy(self._text_id[pairs]),
            torch.from_numpy(self._node[pairs] == 0),
            torch.from_numpy(self._weight[pairs]),
            to_tensors(trees),
            torch.from_numpy(nodes),
            len(rows),
        )


def contrastive_pairs(batch: PairBatch, settings: HMLSTMSettings) -> Tensor:
    """Mark the contrastive pairs l of each pair k in eq. 9: (pairs, pairs).

    For a sentence these are the sentences of other photos, because a photo has no second whole image. For a phrase they
    are the phrases of the same photo or of the batch (`negatives_from`) with another region and other words.
    """
    other_region = batch.region[:, None] != batch.region
    other_photo = batch.photo[:, None] != batch.photo
    other_text = batch.text_id[:, None] != batch.text_id
    both_roots = batch.is_root[:, None] & batch.is_root
    both_phrases = ~batch.is_root[:, None] & ~batch.is_root
    allowed = other_region if settings.negatives_from == "batch" else other_region & ~other_photo
    if not settings.identical_text_is_negative:
        allowed = allowed & other_text
    return (both_roots & other_photo) | (both_phrases & allowed)


def pair_losses(visual: Tensor, text: Tensor, region: Tensor, contrast: Tensor, settings: HMLSTMSettings) -> Tensor:
    """Eq. 9 for each pair.

    `visual` and `text` are unit vectors v (regions, d) and h (pairs, d); `region` is the row of `visual` of each pair;
    `contrast` comes from `contrastive_pairs`.
    """
    scores = visual[region] @ text.T  # s(v_k, h_l) in row k and column l
    to_text, to_visual = (_losses(each, contrast, settings) for each in (scores, scores.T))
    return to_text + to_visual


def _losses(scores: Tensor, contrast: Tensor, settings: HMLSTMSettings) -> Tensor:
    """The loss of each pair in one direction: of its score, on the diagonal, and those of its contrastive pairs."""
    if settings.loss == "softmax":
        logits = scores / settings.temperature
        return contrastive_cross_entropies(logits.diagonal(), logits, contrast)
    hinges = ranking_hinges(scores.diagonal(), scores.masked_fill(~contrast, -torch.inf), settings.margin)
    return hinges.sum(dim=1)


@dataclass(frozen=True)
class PairObjective:
    """Eq. 10 over a batch, divided by the number of sentences."""

    settings: HMLSTMSettings
    regions: Tensor  # (regions, size) features of all regions of the training split, in any precision
    words: Tensor  # `HMLSTM.training_words`

    def __call__(self, network: HMLSTMNetwork, batch: PairBatch) -> LossValue:
        device = next(network.parameters()).device
        on_device = move_tensors(batch, device)
        features = self.regions[batch.visual.to(self.regions.device)].to(device, torch.float32)
        visual = network.visual(features)
        text = network.embed_nodes(self.words.to(device), on_device.trees, on_device.nodes)
        # In half precision, rounding errors of similarities would be as large as the margin.
        with torch.autocast(device.type, enabled=False):
            contrast = contrastive_pairs(on_device, self.settings)
            losses = pair_losses(visual.float(), text.float(), on_device.region, contrast, self.settings)
            weighted = losses * on_device.weight / batch.size
            sentences, phrases = (weighted * on_device.is_root).sum(), (weighted * ~on_device.is_root).sum()
        return LossValue(sentences + phrases, {"sentences": sentences.detach(), "phrases": phrases.detach()})
