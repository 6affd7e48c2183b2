"""Dev scores of the encoder scripts: retrieval, grounding and proposals."""

from __future__ import annotations

import torch
from encoder_data import Examples, resized
from encoder_losses import aligned_iou, iou, kept_boxes
from encoder_towers import PhotoTower, TextTower
from torch import Tensor

PROPOSALS = 200
GROUNDED = 100
BATCH = 250


@torch.no_grad()
def measure(
    photos: PhotoTower, texts: TextTower, dev: dict[str, Examples], side: int, most_grounded: int | None = None
) -> dict[str, float]:
    """Return retrieval in both directions, grounding R@1 over 100 proposals, and proposal recall.

    Boxes are scored on the first `most_grounded` photos that have some, or on all.
    """
    photos.eval()
    texts.eval()
    found: dict[str, float] = {}
    for name, examples in dev.items():
        cells = torch.cat([photos.maps(resized(part, side)) for part in examples.pixels.split(BATCH)])
        numbers = examples.captions.flatten(0, 1)
        sentences = torch.cat([texts.sentences(part) for part in numbers.split(1000)])
        found |= {f"{name} {key}": value for key, value in recalls(photos.wholes(cells) @ sentences.T).items()}
        hits, reach = [], {19: [], GROUNDED: [], PROPOSALS: []}
        annotated = examples.annotated.nonzero()[:most_grounded, 0]
        for rows in annotated.split(BATCH) if len(annotated) else ():
            boxes = kept_boxes(*photos.head(cells[rows]), PROPOSALS)
            add_proposal_recall(examples, rows, boxes, reach)
            hits.append(grounding_hits(photos, texts, examples, rows, cells[rows], boxes[:, :GROUNDED]))
        if hits:
            found[f"{name} ground_r1"] = percent(torch.cat(hits))
            found |= {f"{name} reach_{count}": percent(torch.cat(each)) for count, each in reach.items()}
    return found


def percent(hits: Tensor) -> float:
    return round(100 * hits.float().mean().item(), 2)


def add_proposal_recall(dev: Examples, rows: Tensor, boxes: Tensor, reach: dict[int, list[Tensor]]) -> None:
    gold, there = dev.phrase_boxes[rows].flatten(1, 2), (dev.phrase_chains[rows] >= 0).flatten(1, 2)
    overlap = iou(gold, boxes)
    for count, each in reach.items():
        each.append((overlap[..., :count].max(dim=2).values >= 0.5)[there])


def grounding_hits(
    photos: PhotoTower, texts: TextTower, dev: Examples, rows: Tensor, cells: Tensor, boxes: Tensor
) -> Tensor:
    gold, there = dev.phrase_boxes[rows].flatten(1, 2), (dev.phrase_chains[rows] >= 0).flatten(1, 2)
    regions = photos.regions(cells, boxes)
    names = dev.phrases[rows].flatten(1, 2)
    vectors = torch.zeros(*names.shape[:2], regions.shape[2], device=cells.device)
    if there.any():
        vectors[there] = texts.phrases(names[there])
    best = torch.einsum("bpe,bne->bpn", vectors, regions).argmax(dim=2)
    picked = boxes.gather(1, best[..., None].expand(-1, -1, 4))
    return (aligned_iou(picked.flatten(0, 1), gold.flatten(0, 1)) >= 0.5).view_as(there)[there]


def recalls(scores: Tensor) -> dict[str, float]:
    photos = torch.arange(len(scores), device=scores.device)
    owner = photos.repeat_interleave(scores.shape[1] // len(scores))
    mine = owner[None, :] == photos[:, None]
    to_text = (scores > scores.masked_fill(~mine, -9).max(dim=1).values[:, None]).sum(1)
    to_photo = (scores > scores[owner, torch.arange(len(owner), device=scores.device)][None]).sum(0)
    return {
        f"{name}_r{k}": percent(rank < k) for name, rank in (("i2t", to_text), ("t2i", to_photo)) for k in (1, 5, 10)
    }
