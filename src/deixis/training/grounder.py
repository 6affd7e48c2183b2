"""How the grounder learns to point: batches of captions, the loss, and how often it is right.

The loss is the cross entropy of choosing a region for each phrase, where all regions that overlap the gold box by half
or more share the wish; then how far refined boxes are from the gold box. If wanted, each phrase is read alone too, and
its region chosen among those of all photos of the batch that do not show the same; and these photos are told from its
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.data.records import ENTITY_TYPES
from deixis.errors import DatasetError
from deixis.models.grounder_network import GrounderNetwork, GrounderSettings, Pointed, Share, alone
from deixis.training.base import LossValue
from deixis.training.distributed import by_shares
from deixis.training.grounder_examples import GroundingExamples
from deixis.training.settings import TrainSettings

RIGHT = 0.5
"""A box is right when its IoU with the gold box is at least this, in both papers."""

NEAR = 0.3
"""A phrase without any region so near teaches nothing; boxes so near are worth refining."""

REFINED_AT_ONCE = 8
"""So many regions, those nearest to the gold box, are refined for each phrase of a batch."""

DOUBT = 0.05
"""How likely another photo shows what a phrase says, though none of its sentences has that word."""

SCHEDULE = TrainSettings(
    epochs=6,
    batch_size=128,
    learning_rate=3e-4,
    optimiser="adamw",
    weight_decay=0.05,
    schedule="cosine",
    warmup=300,
    clip=1.0,
    average=0.998,
)
"""How the grounder is trained unless told otherwise: it knows Flickr8k by heart after four to six epochs."""

_RANKS = {"r1": 1, "r5": 5, "r10": 10}


class CaptionSampler:
    """Captions in a new order each epoch; a batch is the rows of their readings.

    Parameters
    ----------
    examples
        Of the training split.
    batch_size
        Captions in a batch.
    """

    def __init__(self, examples: GroundingExamples, batch_size: int = 128) -> None:
        caption = examples.caption.numpy()
        self._starts = np.searchsorted(caption, np.arange(caption[-1] + 2))
        self._batch_size = batch_size

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return -(-(len(self._starts) - 1) // self._batch_size)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Tensor]:
        """The batches of an epoch; the first is number 0."""
        order = generator.permutation(len(self._starts) - 1)
        for begin in range(0, len(order), self._batch_size):
            chosen = order[begin : begin + self._batch_size]
            yield torch.from_numpy(
                np.concatenate([np.arange(self._starts[one], self._starts[one + 1]) for one in chosen])
            )


@dataclass(frozen=True)
class GroundingObjective:
    """How wrong a grounder is about a batch, as the loop asks it.

    Attributes
    ----------
    settings
        Of the network.
    examples
        Whose rows batches are.
    """

    settings: GrounderSettings
    examples: GroundingExamples

    def __call__(self, network: nn.Module, batch: Tensor) -> LossValue:
        """The loss over the readings of some captions."""
        if not isinstance(network, GrounderNetwork):
            raise TypeError(f"a GrounderNetwork is needed, not a {type(network).__name__}")
        like = network.matching.phrase.weight
        seen = _Looked.at(network, self.examples, batch, by_shares)
        with torch.autocast(like.device.type, enabled=False):
            gold = seen.gold
            overlaps = iou(gold[:, :, None], seen.boxes[:, None]).masked_fill(~seen.there[:, None], 0)
            learned = seen.asked & (overlaps.amax(dim=2) > NEAR)
            if not learned.any():
                return LossValue(0 * like.sum())
            wished = wishes(overlaps[learned], self.settings.target_power)
            terms = {"choice": cross_entropy(seen.pointed.scores[learned], wished)}
            if network.refiner is not None:
                terms["box"] = self._box_loss(network, seen, overlaps, learned)
            if network.presence is not None:
                spread = _in_photos(seen, self.examples, batch)
                those = learned[seen.asked]
                chosen = found_among_photos(spread.scores[those], spread.own[those], spread.absent[those], wished)
                told = presence_loss(spread.scores.amax(dim=2), spread.own, spread.absent, network.presence)
                terms |= {"alone": self.settings.other_photos * chosen, "presence": self.settings.other_photos * told}
        return LossValue(torch.stack(list(terms.values())).sum(), {name: term.detach() for name, term in terms.items()})

    def _box_loss(self, network: GrounderNetwork, seen: _Looked, overlaps: Tensor, learned: Tensor) -> Tensor:
        """How far refined boxes are from the gold box, for the regions nearest to it."""
        nearest, chosen = overlaps.topk(min(REFINED_AT_ONCE, overlaps.shape[2]), dim=2)
        boxes = network.refined(seen.pointed, seen.boxes, chosen)
        counts = (nearest > NEAR) & learned[:, :, None]
        missed = (1 - generalized_iou(boxes, seen.gold[:, :, None])) * counts
        return (missed.sum(dim=2) / counts.sum(dim=2).clamp(min=1))[learned].mean()


@dataclass(frozen=True)
class _Looked:
    """A batch on the network's device, and what the network says of it."""

    pointed: Pointed
    read_alone: Tensor | None
    photo: Tensor
    photo_of: Tensor
    photos_there: Tensor
    boxes: Tensor
    there: Tensor
    asked: Tensor
    gold: Tensor

    @classmethod
    def at(cls, network: GrounderNetwork, examples: GroundingExamples, rows: Tensor, share: Share = alone) -> _Looked:
        like = network.matching.phrase.weight
        photo, photo_of = torch.unique(examples.photo[rows], return_inverse=True)
        photos = examples.photos.at(photo.to(examples.photos.boxes.device)).to(like.device, like.dtype)
        here = rows.to(examples.gold.device)
        text = examples.readings.at(here).to(like.device)
        gold = examples.gold[here][:, : text.asked.shape[1]].to(like.device, like.dtype)
        photo_of = photo_of.to(like.device)
        pointed = network(photos, photo_of, text, share)
        phrases = None if network.presence is None else network.phrases_alone(text, share)
        boxes, there = photos.boxes[photo_of], photos.there[photo_of]
        return cls(pointed, phrases, photo, photo_of, photos.there, boxes, there, text.asked, gold)


class Spread(NamedTuple):
    """Phrases, one after another, read alone and laid against all photos of a batch.

    Attributes
    ----------
    scores
        Of the regions of each photo, −∞ where there is none: (n, photos, regions).
    own
        The photo of each phrase: (n,).
    absent
        Which photos probably do not show what a phrase says: (n, photos).
    """

    scores: Tensor
    own: Tensor
    absent: Tensor


def _in_photos(seen: _Looked, examples: GroundingExamples, rows: Tensor) -> Spread:
    """The phrases of a batch in its photos; a photo none of whose sentences has a phrase's last word lacks it."""
    assert seen.read_alone is not None  # noqa: S101 - asked only of networks that learn presence
    here = rows.to(examples.heads.device)
    heads = examples.heads[here][:, : seen.asked.shape[1]]
    held = examples.held[seen.photo.to(here.device)].T[heads].to(seen.asked.device)
    own = seen.photo_of[:, None].expand_as(seen.asked)
    scores = scores_in_photos(seen.read_alone, seen.pointed.region_vectors, seen.photos_there)
    return Spread(scores, own[seen.asked], ~held[seen.asked])


def wishes(overlaps: Tensor, power: float) -> Tensor:
    """How much each region is wished for, (n, regions), from its IoU with the gold box: each row adds up to 1.

    Regions that are right share by their IoU; where none is, the nearest has all.

    Examples
    --------
    >>> wishes(torch.tensor([[0.6, 0.6, 0.2], [0.1, 0.4, 0.2]]), 1.0)
    tensor([[0.5000, 0.5000, 0.0000],
            [0.0000, 1.0000, 0.0000]])
    """
    right = torch.where(overlaps >= RIGHT, overlaps.clamp(min=0) ** power, 0)
    nearest = functional.one_hot(overlaps.argmax(dim=1), overlaps.shape[1]).to(overlaps.dtype)
    shared = torch.where((right > 0).any(dim=1, keepdim=True), right, nearest)
    return shared / shared.sum(dim=1, keepdim=True)


def cross_entropy(scores: Tensor, wished: Tensor) -> Tensor:
    """Of choosing regions by their scores, (n, regions) with −∞ where there is none; the mean."""
    logarithms = scores.log_softmax(dim=1).masked_fill(scores == -torch.inf, 0)  # else 0 · −∞
    return -(wished * logarithms).sum(dim=1).mean()


def scores_in_photos(phrases: Tensor, regions: Tensor, there: Tensor) -> Tensor:
    """Dot products of phrases (n, d) with the regions of photos (photos, k, d): (n, photos, k); −∞ where is none."""
    scores = (phrases @ regions.flatten(0, 1).T).view(len(phrases), *regions.shape[:2])
    return scores.masked_fill(~there, -torch.inf)


def found_among_photos(scores: Tensor, own: Tensor, absent: Tensor, wished: Tensor) -> Tensor:
    """The cross entropy of choosing each phrase's region among those of its own photo and of photos without it.

    Parameters
    ----------
    scores, own, absent
        As in `Spread`.
    wished
        How much each region of the own photo is wished for: (n, k).
    """
    every = torch.arange(len(scores), device=scores.device)
    offered = absent.index_put((every, own), absent.new_ones(()))
    total = scores.masked_fill(~offered[:, :, None], -torch.inf).flatten(1).logsumexp(dim=1)
    right = scores[every, own]
    return (total - (wished * right.masked_fill(right == -torch.inf, 0)).sum(dim=1)).mean()


def presence_loss(scores: Tensor, own: Tensor, absent: Tensor, presence: Tensor) -> Tensor:
    """The logistic loss of telling the photo of a phrase from others, both counting one half.

    Parameters
    ----------
    scores
        Of phrases in photos, (n, photos); −∞ in photos without regions.
    own
        The photo of each phrase: (n,).
    absent
        Which photos probably do not show what a phrase says: (n, photos).
    presence
        The logarithm of the scale and the bias that make a logit of a score.
    """
    there = scores > -torch.inf
    is_own = functional.one_hot(own, scores.shape[1]).bool()
    right = presence[0].exp() * scores[is_own & there] + presence[1]
    wrong = presence[0].exp() * scores[absent & ~is_own & there] + presence[1]
    # Either may be empty, in a batch of one photo say.
    own_loss = functional.softplus(-right).sum() / max(1, len(right))
    other_loss = (functional.softplus(wrong) - DOUBT * wrong).sum() / max(1, len(wrong))
    return (own_loss + other_loss) / 2


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (…, 4) that broadcast.

    Examples
    --------
    >>> iou(torch.tensor([0.0, 0, 1, 1]), torch.tensor([0.0, 0, 1, 0.5]))
    tensor(0.5000)
    """
    return _shared_and_union(a, b)[0]


def generalized_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU, less the share of the smallest box around both that neither covers: has a gradient where boxes do not meet.

    After Rezatofighi et al., Generalized Intersection over Union (CVPR 2019).

    Examples
    --------
    >>> generalized_iou(torch.tensor([0.0, 0, 0.25, 1]), torch.tensor([0.75, 0, 1, 1]))
    tensor(-0.5000)
    """
    overlap, union = _shared_and_union(a, b)
    around = (
        (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(dim=-1).clamp(min=1e-9)
    )
    return overlap - (around - union) / around


def _shared_and_union(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    shared = sides.prod(dim=-1)
    union = (_area(a) + _area(b) - shared).clamp(min=1e-9)
    return shared / union, union


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


@torch.no_grad()
def pointing_scores(
    network: GrounderNetwork, examples: GroundingExamples, readings_at_once: int = 256
) -> dict[str, float]:
    """How often the grounder is right, in percent, by the protocol `union`.

    Parameters
    ----------
    network
        In evaluation mode.
    examples
        Of the split dev, say.
    readings_at_once
        What fits in memory.

    Returns
    -------
    dict
        `r1`, `r5`, `r10` of the proposals as they are; `refined_r1` and so on of refined boxes, if the network refines;
        `people_r1` and so on by type, refined if that is possible; `upper_bound` of any choice; `presence`, if it was
        learned: how often a phrase's own photo has a higher score than another one, of those looked at together, whose
        sentences do not hold the phrase's last word.
    """
    if not len(examples):
        raise DatasetError("no phrase has a box: there is nothing to point at")
    found: dict[str, list[Tensor]] = {}
    for begin in range(0, len(examples.readings), readings_at_once):
        rows = torch.arange(begin, min(begin + readings_at_once, len(examples.readings)))
        seen = _Looked.at(network, examples, rows)
        right = _right(network, seen)
        if network.presence is not None:
            spread = _in_photos(seen, examples, rows)
            right["presence"] = _told_apart(spread.scores.amax(dim=2), spread.own, spread.absent)
        for name, column in right.items():
            found.setdefault(name, []).append(column.cpu())
    whole = {name: torch.cat(columns).double() for name, columns in found.items()}
    scores = {name: 100 * float(column.nanmean()) for name, column in whole.items() if not column.isnan().all()}
    kinds = examples.types[examples.readings.asked].cpu()
    best = whole["refined_r1" if "refined_r1" in whole else "r1"]
    for number, kind in enumerate(ENTITY_TYPES):
        if kinds[:, number].any():
            scores[f"{kind}_r1"] = 100 * float(best[kinds[:, number]].mean())
    return scores


def _right(network: GrounderNetwork, seen: _Looked) -> dict[str, Tensor]:
    """For each phrase, one after another: whether one of its best regions is right, and one of these refined."""
    overlaps = iou(seen.gold[:, :, None], seen.boxes[:, None]).masked_fill(~seen.there[:, None], 0)
    right = {"upper_bound": (overlaps >= RIGHT).any(dim=2)[seen.asked]}
    most = min(max(_RANKS.values()), overlaps.shape[2])
    best = seen.pointed.scores.topk(most, dim=2).indices
    plain = overlaps.gather(2, best) >= RIGHT
    right |= {name: plain[:, :, :rank].any(dim=2)[seen.asked] for name, rank in _RANKS.items()}
    if network.refiner is not None:
        refined = iou(network.refined(seen.pointed, seen.boxes, best), seen.gold[:, :, None]) >= RIGHT
        refined &= seen.there[:, None].expand(-1, best.shape[1], -1).gather(2, best)
        right |= {f"refined_{name}": refined[:, :, :rank].any(dim=2)[seen.asked] for name, rank in _RANKS.items()}
    return right


def _told_apart(scores: Tensor, own: Tensor, absent: Tensor) -> Tensor:
    """Of the photos without its word, the share in which a phrase has a lower score than in its own."""
    others = absent.scatter(1, own[:, None], False)
    lower = (scores < scores.gather(1, own[:, None])) & others
    return lower.sum(dim=1) / others.sum(dim=1)  # not a number where there are no others
