"""Teach a TinyViT to give the maps of the large encoder: the fast encoder that ships.

python scripts/distil_encoder.py examples.npz PHOTOS DIR --start tiny_vit.onnx --out OUT [--set epochs=60 …]

DIR contains the towers of ``scripts/train_encoder.py``. The student sees the same crop at 224 pixels and learns the
cells and the vector of the teacher, so every model on the large encoder works with it. The teacher's embedding of
photos and texts adds the loss on captions. Packed photos that the examples do not name teach without captions. One GPU.

While DIR is written by a training that is still running, the student follows: it reads the towers again when they
change. OUT receives `tiny.safetensors` every minute, and `state.pt`: the same command continues after an interruption.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from encoder_data import Examples, View, photos_without_text, read_photos
from encoder_losses import Losses
from encoder_scores import measure
from encoder_steps import Checkpoint, Pace, follow, settings_from, update
from encoder_towers import PhotoTower, load_towers, read_towers
from safetensors.torch import save_file
from start_weights import read_start
from torch import Tensor, nn
from torch.nn import functional

from deixis.vision.encoders.tiny_vit import TinyViT, TinyViTShape

torch.set_float32_matmul_precision("high")
STARTED = time.monotonic()
SIDE = 224
STATE = "state.pt"
RESERVE = 15.0
"""Seconds for the last score and the last files, within a limit in time."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    seed: int = 0
    epochs: float = 60.0
    minutes: float = 0.0  # if given, the limit of the whole program; as many epochs as fit
    save_minutes: float = 1.0  # time between checkpoints, and between looks at the teacher
    scores: int = 3
    batch: int = 256
    rate: float = 5e-4
    decay: float = 0.05
    average: float = 0.998
    cell_weight: float = 2.0
    whole_weight: float = 2.0
    caption_weight: float = 0.5
    smallest_crop: float = 0.4


class Teacher:
    """The towers of a directory, which are read again when they change."""

    def __init__(self, arrays: dict[str, np.ndarray], folder: Path, device: str) -> None:
        self.folder = folder
        self._read = self._changed()
        self.photos, self.texts = (tower.to(device) for tower in load_towers(arrays, folder))
        self.side = int(read_towers(folder)[1]["training"]["side"])
        compiled = device == "cuda"  # compiling the student fails in torch 2.11
        self.maps = torch.compile(self.photos.maps) if compiled else self.photos.maps

    def _changed(self) -> int:
        return (self.folder / "towers.json").stat().st_mtime_ns

    def follow(self) -> None:
        if (changed := self._changed()) != self._read:
            self._read = changed
            nn.ModuleDict({"photos": self.photos, "texts": self.texts}).load_state_dict(read_towers(self.folder)[0])


class Distillation:
    """The state of a distillation."""

    def __init__(
        self, chosen: Settings, teacher: Teacher, network: TinyViT, train: Examples, others: Tensor, device: str
    ) -> None:
        self.chosen, self.teacher, self.train, self.others, self.device = chosen, teacher, train, others, device
        self.network = network.to(device)
        self.average = copy.deepcopy(network).requires_grad_(False)
        self.student = with_encoder(teacher.photos, network)
        self.losses = Losses(0.05).to(device)

    def loss(self) -> Tensor:
        chosen, train, teacher = self.chosen, self.train, self.teacher
        rows = torch.randint(len(train) + len(self.others), (chosen.batch,)).sort().values
        count = int((rows < len(train)).sum())  # these have captions
        own, rows = rows[:count].to(self.device), rows.to(self.device)
        photos = torch.cat([train.pixels[own], self.others[rows[count:] - len(train)]])
        pixels = View.random(len(rows), chosen.smallest_crop, self.device).pixels(photos, teacher.side)
        with torch.no_grad():
            wanted = teacher.maps(pixels)
            whole = wanted.mean(dim=(2, 3))
            wanted = functional.interpolate(wanted, (14, 14), mode="bilinear", antialias=True, align_corners=False)
            which = torch.randint(train.captions.shape[1], (count,), device=self.device)
            sentences = teacher.texts.sentences(train.captions[own, which])
            target = teacher.photos.wholes(whole[:, :, None, None])
        small = functional.interpolate(pixels, (SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False)
        cells = self.student.maps(small)
        variance = wanted.var(dim=(0, 2, 3), keepdim=True) + 1e-3
        loss = chosen.cell_weight * ((cells - wanted).square() / variance).mean()
        loss = loss + chosen.cell_weight * (1 - functional.cosine_similarity(cells, wanted, dim=1)).mean()
        mine = cells.mean(dim=(2, 3))
        spread = whole.var(dim=0, keepdim=True) + 1e-3
        loss = loss + chosen.whole_weight * ((mine - whole).square() / spread).mean()
        embedded = teacher.photos.wholes(mine[:, :, None, None])
        loss = loss + chosen.whole_weight * 5 * (1 - (embedded * target).sum(dim=1)).mean()
        return loss + chosen.caption_weight * self.losses.pairs(embedded[:count], sentences, 0)

    def run(self, folder: Path, dev: dict[str, Examples]) -> None:
        """Train, save now and then, and print scores."""
        chosen = self.chosen
        parameters = [*self.network.parameters(), *self.losses.parameters()]
        optimizer = torch.optim.AdamW(
            parameters, lr=chosen.rate, weight_decay=chosen.decay, fused=self.device == "cuda"
        )
        in_epoch = (len(self.train) + len(self.others)) / chosen.batch
        pace = Pace(chosen.minutes, round(chosen.epochs * in_epoch), STARTED, RESERVE)
        parts = {"network": self.network, "average": self.average, "losses": self.losses, "optimizer": optimizer}
        checkpoint = Checkpoint(folder / STATE, parts | {"pace": pace})
        if checkpoint.restore():
            print(f"continued from step {pace.number}", flush=True)
        scored, saved = int(pace.done * chosen.scores), time.monotonic()
        scores: dict[str, float] = {}
        while (done := pace.done) < 1:
            self.network.train()
            loss = self.loss()
            update(optimizer, loss, done)
            follow(self.average, self.network, 1 - chosen.average if pace.number > 200 else 0.1)
            done = pace.step()
            if pace.number % 100 == 0:
                print(f"step {pace.number}, {pace.seconds:.0f} s, {done:.1%}, loss {loss.item():.3f}", flush=True)
            due = int(done * chosen.scores) > scored
            if due or time.monotonic() - saved > 60 * chosen.save_minutes:
                self.teacher.follow()
                checkpoint.save()
                self.save(folder, scores)
                saved = time.monotonic()
            if due:
                scored = int(done * chosen.scores)
                scores = {"epoch": round(pace.number / in_epoch, 1), "loss": round(loss.item(), 3)}
                shown = with_encoder(self.teacher.photos, self.average)
                scores |= {"s": round(pace.seconds)} | measure(shown, self.teacher.texts, dev, SIDE)
                print(json.dumps(scores), flush=True)
                self.save(folder, scores)

    def save(self, folder: Path, scores: dict[str, float]) -> None:
        weights = {name: tensor.half().contiguous().cpu() for name, tensor in self.average.state_dict().items()}
        save_file(weights, folder / "tiny.partial")
        (folder / "tiny.partial").replace(folder / "tiny.safetensors")
        (folder / "tiny.json").write_text(json.dumps({"training": asdict(self.chosen), "dev": scores}))


def with_encoder(photos: PhotoTower, encoder: nn.Module) -> PhotoTower:
    """Return the tower with another encoder; everything else is shared."""
    made = copy.copy(photos)
    made._modules = {**photos._modules, "encoder": encoder}
    return made


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
    network = TinyViT(TinyViTShape())
    network.load_state_dict(read_start(options.start, "tiny-vit"), strict=False)
    train = Examples(arrays, "train", options.photos, device)
    dev = {name: Examples(arrays, name, options.photos, device) for name in arrays["dev"].tolist()}
    names = photos_without_text(options.photos, arrays)
    others = read_photos(options.photos, names, device) if names else train.pixels[:0]
    print(f"{len(train):,} photos with captions and {len(others):,} without", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    Distillation(chosen, Teacher(arrays, options.teacher, device), network, train, others, device).run(options.out, dev)


if __name__ == "__main__":
    main()
