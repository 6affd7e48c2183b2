"""Teach a TinyViT to give the maps of the large encoder: the fast encoder that ships.

python scripts/distil_encoder.py examples.npz PHOTOS DIR --start tiny_vit.onnx --out OUT [--set epochs=60 …]

DIR contains `towers.safetensors` of ``scripts/train_encoder.py``. The student sees the same crop at 224 pixels and
learns the cells and the vector of the teacher, so every model on the large encoder works with it. The teacher's
embedding of photos and texts, which stays as it is, adds the loss on captions. One GPU.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from encoder_losses import Losses
from encoder_towers import PhotoTower, TextTower, WordTable
from safetensors.torch import load_file, save_file
from start_weights import read_start
from torch import Tensor, nn
from torch.nn import functional
from train_encoder import Examples, View, add_proposal_recall, grounding_hits, kept_boxes, recalls

from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.encoders.tiny_vit import TinyViT, TinyViTShape
from deixis.vision.proposals.head import HeadShape
from deixis.vision.proposals.head_network import ProposalHead

torch.set_float32_matmul_precision("high")
SIDE, TEACHER_SIDE = 224, 252


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    seed: int = 0
    epochs: float = 60.0
    minutes: float = 0.0
    batch: int = 256
    rate: float = 5e-4
    decay: float = 0.05
    average: float = 0.998
    cell_weight: float = 2.0
    whole_weight: float = 2.0
    caption_weight: float = 0.5
    smallest_crop: float = 0.4


def load_teacher(arrays: dict[str, np.ndarray], folder: Path) -> tuple[PhotoTower, TextTower]:
    about = json.loads((folder / "towers.json").read_text())
    weights = {name: tensor.float() for name, tensor in load_file(folder / "towers.safetensors").items()}
    chosen = about["training"]
    encoder = VisionTransformer(ViTShape(grid=weights["photos.encoder.positions"].shape[-1]))
    head = about["head"]
    shape = HeadShape(head["channels"], head["width"], tuple(map(tuple, head["anchors"])))
    photos = PhotoTower(encoder, encoder.shape.width, ProposalHead(shape), chosen["embedding"])
    words = WordTable(arrays["vectors"].astype(np.float32), arrays["word_rows"], int(arrays["taught"]), 0.0)
    texts = TextTower(words, chosen["hidden"], chosen["embedding"], 0.0)
    both = nn.ModuleDict({"photos": photos, "texts": texts})
    both.load_state_dict(weights)
    return photos.requires_grad_(False).eval(), texts.requires_grad_(False).eval()


@torch.no_grad()
def measure(photos: PhotoTower, texts: TextTower, dev: dict[str, Examples]) -> dict[str, float]:
    photos.eval()
    found: dict[str, float] = {}
    for name, examples in dev.items():
        cells = [
            photos.maps(
                functional.interpolate(
                    part.float() / 255, (SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False
                )
            )
            for part in examples.pixels.split(250)
        ]
        wholes = torch.cat([photos.wholes(part) for part in cells])
        numbers = examples.captions.flatten(0, 1)
        scores = wholes @ torch.cat([texts.sentences(part) for part in numbers.split(1000)]).T
        found |= {f"{name} {key}": round(value, 2) for key, value in recalls(scores).items()}
        if examples.annotated.any():
            hits, reach = [], {19: [], 100: []}
            for number, part in enumerate(cells):
                batch = slice(250 * number, 250 * number + 250)
                boxes = kept_boxes(*photos.head(part), 100)
                add_proposal_recall(examples, batch, boxes, reach)
                hits.append(grounding_hits(photos, texts, examples, batch, part, boxes))
            found["ground_r1"] = round(100 * torch.cat(hits).float().mean().item(), 2)
            for count, each in reach.items():
                found[f"reach_{count}"] = round(100 * torch.cat(each).float().mean().item(), 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=[])
    options = parser.parse_args()
    kinds = {field.name: type(getattr(Settings(), field.name)) for field in fields(Settings)}
    values = dict(pair.split("=", 1) for pair in options.set)
    chosen = replace(Settings(), **{name: kinds[name](value) for name, value in values.items()})
    arrays = dict(np.load(options.examples))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(chosen.seed)
    photos, texts = (tower.to(device) for tower in load_teacher(arrays, options.teacher))
    teacher = photos.maps
    network = TinyViT(TinyViTShape())
    network.load_state_dict(read_start(options.start, "tiny-vit"), strict=False)
    student = copy.deepcopy(photos)
    student.encoder = network.to(device)
    average = copy.deepcopy(network).requires_grad_(False)
    train = Examples(arrays, "train", options.photos, device)
    dev = {name: Examples(arrays, name, options.photos, device) for name in arrays["dev"].tolist()}
    losses = Losses(0.05).to(device)
    optimizer = torch.optim.AdamW(
        [*network.parameters(), *losses.parameters()], lr=chosen.rate, weight_decay=chosen.decay, fused=device == "cuda"
    )
    see = torch.compile(teacher) if device == "cuda" else teacher  # compiling the student fails in torch 2.11
    started = begun = time.monotonic()
    in_epoch = len(train) / chosen.batch
    steps, number, seen = round(chosen.epochs * in_epoch), 0, 0

    def step(rows: Tensor) -> Tensor:
        view = View.random(len(rows), chosen.smallest_crop, device)
        pixels = view.pixels(train.pixels[rows], TEACHER_SIDE)
        with torch.no_grad():
            wanted = see(pixels)
            whole = wanted.mean(dim=(2, 3))
            wanted = functional.interpolate(wanted, (14, 14), mode="bilinear", antialias=True, align_corners=False)
            which = torch.randint(train.captions.shape[1], (len(rows),), device=device)
            sentences = texts.sentences(train.captions[rows, which])
            target = photos.wholes(whole[:, :, None, None])
        small = functional.interpolate(pixels, (SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False)
        cells = student.maps(small)
        variance = wanted.var(dim=(0, 2, 3), keepdim=True) + 1e-3
        loss = chosen.cell_weight * ((cells - wanted).square() / variance).mean()
        loss = loss + chosen.cell_weight * (1 - functional.cosine_similarity(cells, wanted, dim=1)).mean()
        mine = cells.mean(dim=(2, 3))
        spread = whole.var(dim=0, keepdim=True) + 1e-3
        loss = loss + chosen.whole_weight * ((mine - whole).square() / spread).mean()
        embedded = photos.wholes(mine[:, :, None, None])
        loss = loss + chosen.whole_weight * 5 * (1 - (embedded * target).sum(dim=1)).mean()
        return loss + chosen.caption_weight * losses.pairs(embedded, sentences, 0)

    while number < steps:
        network.train()
        share = number / steps
        for group in optimizer.param_groups:
            group["lr"] = chosen.rate * min(1, share * 40) * (0.5 + 0.5 * math.cos(math.pi * share))
        loss = step(torch.randint(len(train), (chosen.batch,), device=device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            rate = min(1 - chosen.average, 1.0) if number > 200 else 0.1
            torch._foreach_lerp_(list(average.parameters()), list(network.parameters()), rate)
        number += 1
        if number == 20 and device == "cuda":
            torch.cuda.synchronize()
            begun = time.monotonic()
        if chosen.minutes and number == 120:
            torch.cuda.synchronize()
            pace = (time.monotonic() - begun) / 100
            steps = number + int((chosen.minutes * 60 - (time.monotonic() - started)) / pace)
            print(json.dumps({"pace": pace, "steps": steps, "epochs": steps / in_epoch}), flush=True)
        if number * 3 // steps > seen or number == steps:
            seen = number * 3 // steps
            shown = copy.deepcopy(photos)
            shown.encoder = average
            scores = {"epoch": round(number / in_epoch, 1), "loss": round(loss.item(), 3)}
            scores |= {"s": round(time.monotonic() - started)} | measure(shown, texts, dev)
            print(json.dumps(scores), flush=True)
            options.out.mkdir(parents=True, exist_ok=True)
            weights = {name: tensor.half().contiguous().cpu() for name, tensor in average.state_dict().items()}
            save_file(weights, options.out / "tiny.safetensors")
            (options.out / "tiny.json").write_text(json.dumps({"training": asdict(chosen), "dev": scores}))


if __name__ == "__main__":
    main()
