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
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from encoder_data import Examples, View
from encoder_losses import Losses
from encoder_scores import measure
from encoder_steps import Pace, follow, settings_from, update
from encoder_towers import load_towers
from safetensors.torch import save_file
from start_weights import read_start
from torch import Tensor
from torch.nn import functional

from deixis.vision.encoders.tiny_vit import TinyViT, TinyViTShape

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--set", nargs="*", default=[])
    options = parser.parse_args()
    chosen = settings_from(Settings(), options.set)
    arrays = dict(np.load(options.examples))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(chosen.seed)
    photos, texts = (tower.to(device) for tower in load_towers(arrays, options.teacher))
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
    in_epoch = len(train) / chosen.batch
    pace = Pace(chosen.minutes, round(chosen.epochs * in_epoch))
    done, seen = 0.0, 0

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

    while done < 1:
        network.train()
        loss = step(torch.randint(len(train), (chosen.batch,), device=device))
        update(optimizer, loss, done)
        follow(average, network, 1 - chosen.average if pace.number > 200 else 0.1)
        done = pace.step()
        if int(3 * done) > seen:
            seen = int(3 * done)
            shown = copy.deepcopy(photos)
            shown.encoder = average
            scores = {"epoch": round(pace.number / in_epoch, 1), "loss": round(loss.item(), 3)}
            scores |= {"s": round(pace.seconds)} | measure(shown, texts, dev, SIDE)
            print(json.dumps(scores), flush=True)
            options.out.mkdir(parents=True, exist_ok=True)
            weights = {name: tensor.half().contiguous().cpu() for name, tensor in average.state_dict().items()}
            save_file(weights, options.out / "tiny.safetensors")
            (options.out / "tiny.json").write_text(json.dumps({"training": asdict(chosen), "dev": scores}))


if __name__ == "__main__":
    main()
