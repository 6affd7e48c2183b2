"""The losses of the encoder scripts, and box geometry in torch. Boxes are corners as fractions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Grounded:
    """The p phrases of a batch and their candidate regions."""

    phrases: Tensor
    names: Tensor
    photo: Tensor
    chain: Tensor
    gold: Tensor
    candidates: Tensor
    right: Tensor
    unclear: Tensor


class Losses(nn.Module):
    """The losses, with a trained inverse temperature for each kind of comparison."""

    def __init__(self, smoothing: float, width: int = 0, classes: int = 0) -> None:
        super().__init__()
        self.smoothing = smoothing
        self.sharpness = nn.Parameter(torch.full((4,), math.log(20.0)))
        self.classes = nn.Linear(width, classes) if classes else None

    def scale(self, place: int) -> Tensor:
        return self.sharpness[place].exp().clamp(max=100)

    def pairs(self, a: Tensor, b: Tensor, place: int) -> Tensor:
        scores = a @ b.T * self.scale(place)
        target = torch.arange(len(a), device=a.device)
        both = [functional.cross_entropy(s, target, label_smoothing=self.smoothing) for s in (scores, scores.T)]
        return (both[0] + both[1]) / 2

    def captions(self, photos: Tensor, texts: Tensor) -> Tensor:
        """Match photos (b, e) with several captions of each (b, c, e), in both directions."""
        count, each = texts.shape[:2]
        scores = photos @ texts.flatten(0, 1).T * self.scale(0)
        own = torch.arange(count, device=photos.device)
        to_photo = functional.cross_entropy(scores.T, own.repeat_interleave(each), label_smoothing=self.smoothing)
        mine = torch.eye(count, dtype=torch.bool, device=photos.device).repeat_interleave(each, dim=1)
        others = scores.masked_fill(mine, -1e4).logsumexp(dim=1, keepdim=True)
        right = scores.unflatten(1, (count, each)).diagonal(dim1=0, dim2=1).T
        to_text = (torch.logaddexp(others, right) - right).mean()
        smooth = self.smoothing * (right.mean() - scores.mean())
        return (to_photo + to_text + smooth) / 2

    def nouns(self, photos: Tensor, names: Tensor, shown: Tensor) -> Tensor:
        """Rank the photos that show a noun above those that do not, and the nouns of a photo above the others.

        `shown` is (photos, nouns). Captions do not name everything, so targets are smoothed.
        """
        scores = photos @ names.T * self.scale(3)
        losses = []
        for table, right in ((scores, shown), (scores.T, shown.T)):
            rows, count = right.any(dim=1), right.sum(dim=1).clamp(min=1)
            others = table.masked_fill(right, -1e4).logsumexp(dim=1, keepdim=True)
            loss = (torch.logaddexp(others, table) - table).masked_fill(~right, 0).sum(dim=1) / count
            smooth = self.smoothing * ((table * right).sum(dim=1) / count - table.mean(dim=1))
            losses.append(((loss + smooth) * rows).sum() / rows.sum().clamp(min=1))
        return (losses[0] + losses[1]) / 2

    def labels(self, cells: Tensor, labels: Tensor) -> Tensor:
        """Train a head to find classes in the cells of photos; `labels` (b, classes) is −1 where they are unknown."""
        assert self.classes is not None  # noqa: S101 - for type checkers
        scores = self.classes(cells.flatten(2).transpose(1, 2))
        whole = scores.logsumexp(dim=1) - math.log(scores.shape[1])
        known = labels >= 0
        loss = functional.binary_cross_entropy_with_logits(whole, known * labels.float(), reduction="none")
        return (loss * known).sum() / known.any(dim=1).sum().clamp(min=1)

    def grounding(self, found: Grounded) -> Tensor:
        """Match phrases with boxes of their photo and gold regions of other photos, and gold regions with phrases."""
        own = torch.einsum("pe,pne->pn", found.phrases, found.candidates[found.photo]) * self.scale(2)
        across = found.phrases @ found.gold.T * self.scale(2)
        same_photo = found.photo[:, None] == found.photo[None, :]
        same_words = (found.names[:, None, :] == found.names[None, :, :]).all(dim=-1)
        others = across.masked_fill(same_photo | same_words, -1e4)
        everything = torch.cat([own.masked_fill(found.unclear, -1e4), others], dim=1)
        right = own.masked_fill(~found.right, -1e4)
        forward = everything.logsumexp(dim=1) - right.logsumexp(dim=1)
        same_chain = same_photo & (found.chain[:, None] == found.chain[None, :])
        backward_all = across.T.masked_fill((same_words.T & ~same_chain.T), -1e4)
        backward = backward_all.logsumexp(dim=1) - backward_all.masked_fill(~same_chain.T, -1e4).logsumexp(dim=1)
        return (forward.mean() + backward.mean()) / 2

    def boxes(self, logits: Tensor, boxes: Tensor, targets: BoxTargets, partial: Tensor) -> Tensor:
        """Train anchors near a gold box to regress it and to predict their IoU, and the others to predict 0.

        In a `partial` photo, not everything has a box, so anchors far from all boxes are left out.
        """
        positive = targets.positive
        reached = (1 - aligned_giou(boxes, targets.boxes)) * positive
        quality = (aligned_iou(boxes, targets.boxes) * positive).detach()
        focus = (quality - logits.sigmoid()).abs().square().detach()
        quality_loss = functional.binary_cross_entropy_with_logits(logits, quality, reduction="none") * focus
        quality_loss = quality_loss * (~partial[:, None] | targets.near)
        return (reached.sum() + quality_loss.sum()) / positive.sum().clamp(min=1)


@dataclass(frozen=True)
class BoxTargets:
    """The gold box of each anchor, whether the anchor is to find it, and whether it is near any gold box."""

    boxes: Tensor
    positive: Tensor
    near: Tensor


def box_targets(anchors: Tensor, gold: Tensor) -> BoxTargets:
    """Assign gold boxes (b, n, 4) to anchors; absent ones are negative."""
    if not len(gold):
        none = torch.zeros(0, len(anchors), dtype=torch.bool, device=gold.device)
        return BoxTargets(anchors.expand(0, -1, -1), none, none)
    overlap = iou(anchors.expand(len(gold), -1, -1), gold) * (gold[..., 0] >= 0)[:, None, :]
    nearest = overlap >= 0.9 * overlap.amax(dim=1, keepdim=True)
    chosen = (overlap >= 0.5) | nearest & (overlap > 0.2)
    best = overlap.masked_fill(~chosen, -1).max(dim=2)
    target = gold.gather(1, best.indices[..., None].expand(-1, -1, 4))
    return BoxTargets(target, best.values > 0, overlap.amax(dim=2) > 0.2)


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the IoU of boxes (…, n, 4) and (…, m, 4) as (…, n, m)."""
    low = torch.maximum(a[..., :, None, :2], b[..., None, :, :2])
    high = torch.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared / (area(a)[..., :, None] + area(b)[..., None, :] - shared).clamp(min=1e-9)


def area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


def aligned_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the IoU of pairs of boxes (…, 4) as (…)."""
    shared, joined = shared_and_joined(a, b)
    return shared / joined


def shared_and_joined(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared, (area(a) + area(b) - shared).clamp(min=1e-9)


def aligned_giou(a: Tensor, b: Tensor) -> Tensor:
    """Return the generalized IoU of pairs of boxes, which has a gradient for disjoint boxes too."""
    shared, joined = shared_and_joined(a, b)
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    enclosing = (high - low).prod(dim=-1).clamp(min=1e-9)
    return shared / joined - (enclosing - joined) / enclosing


def kept_boxes(logits: Tensor, boxes: Tensor, count: int, threshold: float = 0.65) -> Tensor:
    """Return the best boxes of each photo after NMS, (b, count, 4), padded with the best box."""
    order = logits.topk(min(1500, logits.shape[1])).indices
    ranked = boxes.gather(1, order[..., None].expand(-1, -1, 4))
    kept = torch.cat([nms(part, threshold) for part in ranked.split(16)])
    place = torch.where(kept, kept.cumsum(dim=1) - 1, count).clamp(max=count)  # the last column is dropped
    found = torch.zeros(len(boxes), count + 1, dtype=torch.int64, device=boxes.device)
    found.scatter_(1, place, torch.arange(kept.shape[1], device=boxes.device).expand_as(place))
    return ranked.gather(1, found[:, :count, None].expand(-1, -1, 4))


def nms(boxes: Tensor, threshold: float) -> Tensor:
    """Greedy NMS of sorted boxes (b, n, 4): return which are kept, the fixed point of the rounds."""
    covers = (iou(boxes, boxes) > threshold).triu(1)
    kept = torch.ones(boxes.shape[:2], dtype=torch.bool, device=boxes.device)
    while True:
        now = ~(covers & kept[:, :, None]).any(dim=1)
        if torch.equal(now, kept):
            return kept
        kept = now
