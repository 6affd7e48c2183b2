"""Box geometry in torch for ``scripts/train_encoder.py``; boxes are corners as fractions of the photo."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the IoU of boxes (…, n, 4) and (…, m, 4) as (…, n, m)."""
    low = torch.maximum(a[..., :, None, :2], b[..., None, :, :2])
    high = torch.minimum(a[..., :, None, 2:], b[..., None, :, 2:])
    shared = (high - low).clamp(min=0).prod(dim=-1)
    return shared / (area(a)[..., :, None] + area(b)[..., None, :] - shared).clamp(min=1e-9)


def area(boxes: Tensor) -> Tensor:
    return (boxes[..., 2:] - boxes[..., :2]).clamp(min=0).prod(dim=-1)


def aligned_iou(a: Tensor, b: Tensor) -> Tensor:
    """Return the IoU of pairs of boxes (n, 4) as (n,)."""
    shared, joined = shared_and_joined(a, b)
    return shared / joined


def shared_and_joined(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    shared = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0).prod(dim=-1)
    return shared, (area(a) + area(b) - shared).clamp(min=1e-9)


def aligned_giou(a: Tensor, b: Tensor) -> Tensor:
    """Return the generalized IoU of pairs of boxes, which has a gradient for disjoint boxes too."""
    shared, joined = shared_and_joined(a, b)
    enclosing = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(dim=-1).clamp(min=1e-9)
    return shared / joined - (enclosing - joined) / enclosing


def kept_boxes(logits: Tensor, boxes: Tensor, count: int, threshold: float = 0.65) -> Tensor:
    """Return the best boxes of each photo after NMS, (b, count, 4), padded with the best box."""
    kept = []
    for scores, corners in zip(logits, boxes, strict=True):
        order = scores.topk(min(1500, len(scores))).indices
        chosen = nms(corners[order], threshold)[:count]
        picked = corners[order][chosen]
        kept.append(torch.cat([picked, picked[:1].expand(count - len(picked), -1)]))
    return torch.stack(kept)


def nms(boxes: Tensor, threshold: float) -> Tensor:
    """Greedy NMS of sorted boxes; returns the kept indices."""
    overlap = (iou(boxes, boxes) > threshold).triu(1).cpu().numpy()
    alive = np.ones(len(boxes), dtype=bool)
    for index in range(len(boxes)):
        if alive[index]:
            alive &= ~overlap[index]
    return torch.from_numpy(np.flatnonzero(alive)).to(boxes.device)
