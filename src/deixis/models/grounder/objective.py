"""The loss of the grounder, its batches, and its accuracy during training.

The loss is the cross entropy of the region of each phrase, where the regions with an IoU of at least 0.5 share the
target probability, plus the generalized IoU loss of refined boxes. With `presence_weight`, each phrase is also encoded
alone. One loss finds its region among those of all photos of the batch that do not show the same, another separates its
photo from these photos. With `sets_weight`, the binary cross entropy of each region as one of the things of the phrase
and the loss of its box, refined to that thing, are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from deixis.data.pairs import Integers, RaggedArray
from deixis.data.records import ENTITY_TYPES
from deixis.evaluation.box_sets import set_f1
from deixis.geometry import Boxes
from deixis.models.grounder.data import GroundingExamples
from deixis.models.grounder.model import BoxSetSettings, RegionMembers
from deixis.models.grounder.network import GrounderNetwork, NetworkOutput
from deixis.models.grounder.spec import GrounderSettings
from deixis.models.training.objective import LossValue, ShuffledSampler
from deixis.models.training.regions import CORRECT_IOU

MIN_TRAINING_IOU = 0.3
"""Phrases without a region above this IoU are not trained on; boxes below it are not refined."""

REFINED_PER_PHRASE = 8
"""Number of regions, those with the highest IoU, that are refined for each phrase of a batch."""

MEMBERS_REFINED_PER_PHRASE = 16
"""Number of regions that are refined to the boxes of single things, of which a phrase can have several."""

NOT_MEMBER_IOU = 0.4
"""A region below this IoU with every box of a phrase is not one of its things; from it to 0.5 it is left out."""

FALSE_ABSENCE = 0.05
"""Assumed probability that another photo shows a phrase although none of its sentences has the phrase's last word."""

_RANKS = {"r1": 1, "r5": 5, "r10": 10}


class GroundingSampler(ShuffledSampler[Tensor]):
    """Draws captions in random order; a batch holds the rows of their text inputs in `GroundingExamples`."""

    def __init__(self, examples: GroundingExamples, batch_size: int = 128) -> None:
        caption = examples.caption.numpy()
        count = int(caption[-1]) + 1
        super().__init__(count, batch_size, min_rows=1)
        self._inputs = RaggedArray.from_owners(caption, np.arange(len(caption)), count)

    def make_batch(self, rows: Integers, epoch: int, generator: np.random.Generator) -> Tensor:
        return torch.from_numpy(self._inputs.gather(rows)[1])


@dataclass(frozen=True)
class GroundingObjective:
    """The loss over a batch of rows of `examples`."""

    settings: GrounderSettings
    examples: GroundingExamples

    def __call__(self, network: GrounderNetwork, batch: Tensor) -> LossValue:
        like, weight = network.matching.phrase.weight, self.settings.presence_weight
        computed = _compute(network, self.examples, batch)
        with torch.autocast(like.device.type, enabled=False):
            overlaps = computed.overlaps
            trained = computed.phrase_mask & (overlaps.amax(dim=2) > MIN_TRAINING_IOU)
            if not trained.any():
                return LossValue(0 * like.sum())
            targets = target_probabilities(overlaps[trained], self.settings.target_iou_power)
            terms = {"choice": cross_entropy(computed.output.scores[trained], targets)}
            if network.box_refiner is not None:
                terms["box"] = _box_loss(network, computed, trained)
            if network.members is not None:
                members = _member_terms(network, computed, _gold_boxes(computed, self.examples, batch))
                terms |= {name: self.settings.sets_weight * term for name, term in members.items()}
            if network.presence_calibration is not None:
                across = _scores_across_photos(computed, self.examples, batch)
                rows = trained[computed.phrase_mask]
                alone = cross_entropy_across_photos(across.scores[rows], across.own[rows], across.absent[rows], targets)
                presence = presence_loss(
                    across.scores.amax(dim=2), across.own, across.absent, network.presence_calibration
                )
                terms |= {"alone": weight * alone, "presence": weight * presence}
        return LossValue(torch.stack(list(terms.values())).sum(), {name: term.detach() for name, term in terms.items()})


def _box_loss(network: GrounderNetwork, computed: _Computed, trained: Tensor) -> Tensor:
    """Generalized IoU loss of the refined boxes of the regions with the highest IoU."""
    nearest, chosen = computed.overlaps.topk(min(REFINED_PER_PHRASE, computed.overlaps.shape[2]), dim=2)
    boxes = network.refine(computed.output, computed.boxes, chosen)
    counted = (nearest > MIN_TRAINING_IOU) & trained[:, :, None]
    losses = (1 - generalized_iou(boxes, computed.gold[:, :, None])) * counted
    return (losses.sum(dim=2) / counted.sum(dim=2).clamp(min=1))[trained].mean()


def _member_terms(network: GrounderNetwork, computed: _Computed, gold: Tensor) -> dict[str, Tensor]:
    """Losses of regions as things of phrases; `gold` (n, most, 4) are the boxes of the phrases."""
    assert network.members is not None  # noqa: S101 - only called with sets_weight
    input_of = computed.phrase_mask.nonzero()[:, 0]
    boxes, mask = computed.boxes[input_of], computed.region_mask[input_of]
    overlaps, nearest = iou(gold[:, :, None], boxes[:, None]).max(dim=1)  # (n, regions)
    overlaps = overlaps.masked_fill(~mask, 0)
    output, refiner = computed.output, network.members.box_refiner
    logits = network.members(output.phrases, output.regions)[computed.phrase_mask]
    terms = {"members": member_loss(logits, overlaps, mask)}
    if refiner is not None:
        values, chosen = overlaps.topk(min(MEMBERS_REFINED_PER_PHRASE, overlaps.shape[1]), dim=1)
        row = torch.arange(len(chosen), device=chosen.device)[:, None]
        states = output.phrases[computed.phrase_mask], output.regions[input_of[:, None], chosen]
        refined = refiner(states[0][:, None], states[1][:, None], boxes[row, chosen][:, None])[:, 0]
        counted = values > MIN_TRAINING_IOU
        losses = (1 - generalized_iou(refined, gold[row, nearest[row, chosen]])) * counted
        per_phrase = losses.sum(dim=1) / counted.sum(dim=1).clamp(min=1)
        terms["member_box"] = per_phrase.sum() / counted.any(dim=1).sum().clamp(min=1)
    return terms


def member_loss(logits: Tensor, overlaps: Tensor, mask: Tensor) -> Tensor:
    """Binary cross entropy of regions as things of phrases, divided by the number of positives of each phrase.

    All are (n, regions): `overlaps` is the IoU with the nearest box of the phrase, `mask` is False for padding.
    """
    positive = mask & (overlaps >= CORRECT_IOU)
    counted = mask & (positive | (overlaps < NOT_MEMBER_IOU))
    losses = functional.binary_cross_entropy_with_logits(logits, positive.to(logits.dtype), reduction="none")
    return ((losses * counted).sum(dim=1) / positive.sum(dim=1).clamp(min=1)).mean()


def _gold_boxes(computed: _Computed, examples: GroundingExamples, rows: Tensor) -> Tensor:
    """The gold boxes of each phrase: (n, most, 4), padded with empty boxes."""
    chain = examples.chain[rows.to(examples.chain.device)][:, : computed.phrase_mask.shape[1]]
    boxes = examples.chain_boxes[chain[computed.phrase_mask.to(chain.device)]].to(computed.gold)
    return boxes[:, : int((boxes != 0).any(dim=2).sum(dim=1).max())]


@dataclass(frozen=True)
class _Computed:
    """A batch on the network's device, and the output of the network."""

    output: NetworkOutput
    phrases_alone: Tensor | None
    photo: Tensor  # distinct photos
    photo_of: Tensor  # the photo of each text input
    photo_mask: Tensor  # regions of each photo
    boxes: Tensor  # regions of the photo of each text input
    region_mask: Tensor
    phrase_mask: Tensor
    gold: Tensor
    overlaps: Tensor  # IoU of gold boxes and regions


def _compute(network: GrounderNetwork, examples: GroundingExamples, rows: Tensor) -> _Computed:
    like = network.matching.phrase.weight
    photo, photo_of = torch.unique(examples.photo[rows], return_inverse=True)
    photos = examples.photos.select(photo.to(examples.photos.boxes.device)).to(like.device, like.dtype)
    stored_rows = rows.to(examples.gold.device)
    text = examples.text.select(stored_rows).to(like.device)
    gold = examples.gold[stored_rows][:, : text.mask.shape[1]].to(like.device, like.dtype)
    photo_of = photo_of.to(like.device)
    output = network(photos, photo_of, text)
    alone = None if network.presence_calibration is None else network.phrase_vectors_alone(text)
    boxes, region_mask = photos.boxes[photo_of], photos.mask[photo_of]
    with torch.autocast(like.device.type, enabled=False):
        overlaps = iou(gold[:, :, None], boxes[:, None]).masked_fill(~region_mask[:, None], 0)
    return _Computed(output, alone, photo, photo_of, photos.mask, boxes, region_mask, text.mask, gold, overlaps)


class ScoresAcrossPhotos(NamedTuple):
    """Scores of phrases, encoded alone, in all photos of a batch."""

    scores: Tensor  # (n, photos, regions), −∞ for padding
    own: Tensor  # (n,) photo of each phrase
    absent: Tensor  # (n, photos) whether the photo probably does not show the phrase


def _scores_across_photos(computed: _Computed, examples: GroundingExamples, rows: Tensor) -> ScoresAcrossPhotos:
    """A photo probably does not show a phrase if none of its sentences has the phrase's last word."""
    assert computed.phrases_alone is not None  # noqa: S101 - only called with presence_weight
    mask, stored_rows = computed.phrase_mask, rows.to(examples.heads.device)
    heads = examples.heads[stored_rows][:, : mask.shape[1]]
    named = examples.photo_stems[computed.photo.to(stored_rows.device)].T[heads].to(mask.device)
    own = computed.photo_of[:, None].expand_as(mask)
    regions = computed.output.region_vectors
    scores = (computed.phrases_alone @ regions.flatten(0, 1).T).view(len(computed.phrases_alone), *regions.shape[:2])
    return ScoresAcrossPhotos(scores.masked_fill(~computed.photo_mask, -torch.inf), own[mask], ~named[mask])


def target_probabilities(overlaps: Tensor, power: float) -> Tensor:
    """Target distribution over regions, (n, regions), from their IoU with the gold box.

    Right regions share the probability in proportion to IoU to the given power; without any, the nearest has it all.
    """
    right = torch.where(overlaps >= CORRECT_IOU, overlaps.clamp(min=0) ** power, 0)
    nearest = functional.one_hot(overlaps.argmax(dim=1), overlaps.shape[1]).to(overlaps.dtype)
    shared = torch.where((right > 0).any(dim=1, keepdim=True), right, nearest)
    return shared / shared.sum(dim=1, keepdim=True)


def cross_entropy(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of scores (n, regions), −∞ for padding, and target probabilities."""
    log_probabilities = scores.log_softmax(dim=1).masked_fill(scores == -torch.inf, 0)  # avoids 0 · −∞
    return -(targets * log_probabilities).sum(dim=1).mean()


def cross_entropy_across_photos(scores: Tensor, own: Tensor, absent: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of each phrase's region among those of its own photo and of photos without the phrase.

    `targets` (n, k) are the target probabilities of the regions of the own photo; see `ScoresAcrossPhotos` for the
    others.
    """
    rows = torch.arange(len(scores), device=scores.device)
    candidates = absent.index_put((rows, own), absent.new_ones(()))
    total = scores.masked_fill(~candidates[:, :, None], -torch.inf).flatten(1).logsumexp(dim=1)
    right = scores[rows, own]
    return (total - (targets * right.masked_fill(right == -torch.inf, 0)).sum(dim=1)).mean()


def presence_loss(scores: Tensor, own: Tensor, absent: Tensor, calibration: Tensor) -> Tensor:
    """Logistic loss of the photo of a phrase against other photos; each side has weight one half.

    `scores` (n, photos) are the highest of each phrase in each photo, −∞ for photos without regions; `calibration` is
    the logarithm of the scale, and the bias, that turn a score into a logit.
    """
    has_regions = scores > -torch.inf
    is_own = functional.one_hot(own, scores.shape[1]).bool()
    positive = calibration[0].exp() * scores[is_own & has_regions] + calibration[1]
    negative = calibration[0].exp() * scores[absent & ~is_own & has_regions] + calibration[1]
    # Either may be empty, for example in a batch of one photo.
    own_loss = functional.softplus(-positive).sum() / max(1, len(positive))
    other_loss = (functional.softplus(negative) - FALSE_ABSENCE * negative).sum() / max(1, len(negative))
    return (own_loss + other_loss) / 2


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (…, 4) that broadcast."""
    return _iou_and_union(a, b)[0]


def generalized_iou(a: Tensor, b: Tensor) -> Tensor:
    """Generalized intersection over union (Rezatofighi et al., CVPR 2019), which has a gradient for disjoint boxes."""
    overlap, union = _iou_and_union(a, b)
    sides = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    enclosing = sides.prod(dim=-1).clamp(min=1e-9)
    return overlap - (enclosing - union) / enclosing


def _iou_and_union(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    sides = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0)
    intersection = sides.prod(dim=-1)
    union = (_area(a) + _area(b) - intersection).clamp(min=1e-9)
    return intersection / union, union


def _area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


@torch.no_grad()
def score_examples(network: GrounderNetwork, examples: GroundingExamples, batch_size: int = 256) -> dict[str, float]:
    """Accuracy of a network in evaluation mode, in percent, by the protocol `union`.

    `r1`, `r5`, `r10` are of proposals; `refined_r1` and so on of refined boxes; `people_r1` and so on by type, refined
    if possible; `upper_bound` of any choice; `presence`: how often a phrase scores higher in its own photo than in
    another photo of the batch without the phrase's last word; `set_f1` of the boxes of single things, and `set_f1_1`,
    `set_f1_2` and `set_f1_3` for phrases with one, two, and three or more gold boxes.
    """
    found: dict[str, list[Tensor]] = {}
    for begin in range(0, len(examples.text), batch_size):
        rows = torch.arange(begin, min(begin + batch_size, len(examples.text)))
        computed = _compute(network, examples, rows)
        right = _right_per_phrase(network, computed)
        if network.presence_calibration is not None:
            across = _scores_across_photos(computed, examples, rows)
            right["presence"] = _presence_accuracy(across.scores.amax(dim=2), across.own, across.absent)
        if network.members is not None:
            right |= _set_scores(_members(network, computed, _gold_boxes(computed, examples, rows)))
        for name, column in right.items():
            found.setdefault(name, []).append(column.cpu())
    columns = {name: torch.cat(parts).double() for name, parts in found.items()}
    scores = {name: 100 * float(column.nanmean()) for name, column in columns.items() if not column.isnan().all()}
    types = examples.types[examples.text.mask].cpu()
    best = columns["refined_r1" if "refined_r1" in columns else "r1"]
    for number, kind in enumerate(ENTITY_TYPES):
        if types[:, number].any():
            scores[f"{kind}_r1"] = 100 * float(best[types[:, number]].mean())
    return scores


def _right_per_phrase(network: GrounderNetwork, computed: _Computed) -> dict[str, Tensor]:
    """For each phrase, whether one of its best regions is right, and one of these refined."""
    overlaps, mask = computed.overlaps, computed.phrase_mask
    right = {"upper_bound": (overlaps >= CORRECT_IOU).any(dim=2)[mask]}
    most = min(max(_RANKS.values()), overlaps.shape[2])
    best = computed.output.scores.topk(most, dim=2).indices
    plain = overlaps.gather(2, best) >= CORRECT_IOU
    right |= {name: plain[:, :, :rank].any(dim=2)[mask] for name, rank in _RANKS.items()}
    if network.box_refiner is not None:
        boxes = network.refine(computed.output, computed.boxes, best)
        refined = iou(boxes, computed.gold[:, :, None]) >= CORRECT_IOU
        refined &= computed.region_mask[:, None].expand(-1, best.shape[1], -1).gather(2, best)
        right |= {f"refined_{name}": refined[:, :, :rank].any(dim=2)[mask] for name, rank in _RANKS.items()}
    return right


def _members(network: GrounderNetwork, computed: _Computed, gold: Tensor) -> list[tuple[RegionMembers, Boxes]]:
    """Each phrase with its gold boxes."""
    assert network.members is not None  # noqa: S101 - only called with sets_weight
    output, mask = computed.output, computed.phrase_mask
    logits = network.members(output.phrases, output.regions).masked_fill(~computed.region_mask[:, None], -torch.inf)
    every = torch.arange(logits.shape[2], device=mask.device).expand_as(logits)
    boxes = network.refine(output, computed.boxes, every, members=True)
    best = network.refine(output, computed.boxes, output.scores.argmax(dim=2, keepdim=True))[:, :, 0]
    columns = (column.double().cpu().numpy() for column in (best[mask], boxes[mask], logits[mask].sigmoid(), gold))
    return [
        (RegionMembers(one, own, probabilities), padded[(padded[:, 2:] > padded[:, :2]).all(axis=1)])
        for one, own, probabilities, padded in zip(*columns, strict=True)
    ]


def _set_scores(phrases: Sequence[tuple[RegionMembers, Boxes]]) -> dict[str, Tensor]:
    """For each phrase, the F1 of its selected boxes; nan in the columns of other numbers of gold boxes."""
    scores = torch.tensor(
        [set_f1(members.select(BoxSetSettings()).boxes, gold) for members, gold in phrases], dtype=torch.float64
    )
    counts = torch.tensor([len(gold) for _, gold in phrases]).clamp(max=3)
    parts = {f"set_f1_{number}": torch.where(counts == number, scores, torch.nan) for number in (1, 2, 3)}
    return {"set_f1": scores, **parts}


def _presence_accuracy(scores: Tensor, own: Tensor, absent: Tensor) -> Tensor:
    """Share of the photos without the phrase in which its score is lower than in its own photo."""
    others = absent.scatter(1, own[:, None], False)
    lower = (scores < scores.gather(1, own[:, None])) & others
    return lower.sum(dim=1) / others.sum(dim=1)  # nan if there are no such photos
