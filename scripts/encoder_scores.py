"""Dev scores of the encoder scripts: retrieval, grounding and proposals."""

from __future__ import annotations

import torch
from encoder_data import Examples, resized
from encoder_losses import aligned_iou, iou, kept_boxes
from encoder_towers import PhotoTower, TextTower
from torch import Tensor

PROPOSALS = 200
GROUNDED = 100


@torch.no_grad()
def measure(photos: PhotoTower, texts: TextTower, dev: dict[str, Examples], side: int) -> dict[str, float]:
    """Return retrieval in both directions, grounding R@1 over 100 proposals, and proposal recall."""
    photos.eval()
    texts.eval()
    found: dict[str, float] = {}
    for name, examples in dev.items():
        cells = [photos.maps(resized(part, side)) for part in examples.pixels.split(250)]
        wholes = torch.cat([photos.wholes(part) for part in cells])
        numbers = examples.captions.flatten(0, 1)
        scores = wholes @ torch.cat([texts.sentences(part) for part in numbers.split(1000)]).T
        found |= {f"{name} {key}": value for key, value in recalls(scores).items()}
        if examples.annotated.any():
            hits, reach = [], {19: [], GROUNDED: [], PROPOSALS: []}
            for number, part in enumerate(cells):
                batch = slice(250 * number, 250 * number + 250)
                boxes = kept_boxes(*photos.head(part), PROPOSALS)
                add_proposal_recall(examples, batch, boxes, reach)
                hits.append(grounding_hits(photos, texts, examples, batch, part, boxes[:, :GROUNDED]))
            found[f"{name} ground_r1"] = round(100 * torch.cat(hits).float().mean().item(), 2)
            for count, each in reach.items():
                found[f"{name} reach_{count}"] = round(100 * torch.cat(each).float().mean().item(), 2)
    return found


def add_proposal_recall(dev: Examples, batch: slice, boxes: Tensor, reach: dict[int, list[Tensor]]) -> None:
    gold, there = dev.phrase_boxes[batch].flatten(1, 2), (dev.phrase_chains[batch] >= 0).flatten(1, 2)
    overlap = iou(gold, boxes)
    for count, each in reach.items():
        each.append((overlap[..., :count].max(dim=2).values >= 0.5)[there])


def grounding_hits(
    photos: PhotoTower, texts: TextTower, dev: Examples, batch: slice, cells: Tensor, boxes: Tensor
) -> Tensor:
    gold, there = dev.phrase_boxes[batch].flatten(1, 2), (dev.phrase_chains[batch] >= 0).flatten(1, 2)
    regions = photos.regions(cells, boxes)
    names = dev.phrases[batch].flatten(1, 2)
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
        f"{name}_r{k}": round(100 * (rank < k).float().mean().item(), 2)
        for name, rank in (("i2t", to_text), ("t2i", to_photo))
        for k in (1, 5, 10)
    }
