"""Train a smaller text side on the finished encoder, for ``scripts/export_text_side.py``.

python scripts/train_text_side.py examples.npz PHOTOS DIR --out SMALL [--set epochs=25 …]

DIR contains `texts` and `rest` from ``scripts/train_encoder.py``; SMALL receives directories of the same names. The
word vectors start from those of DIR, rotated and truncated; the GRU starts from random weights. First, captions of one
photo are matched with each other, over ten times as many photos as have images. Then photos, original and mirrored, are
matched with captions, together with the caption loss. Uses one GPU.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from encoder_losses import Losses
from encoder_towers import TextTower
from export_text_side import principal_basis, read_sides
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from deixis.storage.artifacts import Artifact, write_artifact
from deixis.storage.networks import weights_of
from deixis.vision.encoders.deixis_vit import SHIPPED, load_network

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    seed: int = 0
    word_size: int = 160
    hidden: int = 256
    batch: int = 500
    text_epochs: int = 6
    epochs: int = 25
    rate: float = 1e-3
    decay: float = 0.05
    drop: float = 0.3
    smoothing: float = 0.05
    text_weight: float = 0.3
    average: float = 0.995


class TwoTowers(nn.Module):
    """Embeds photos, from their image vectors, and captions."""

    def __init__(self, texts: dict[str, Tensor], rest: dict[str, Tensor], chosen: Settings) -> None:
        super().__init__()
        table = texts["words.weight"]
        embedding, width = rest["whole.2.weight"].shape
        words = (table @ principal_basis(table, chosen.word_size).T).numpy()
        self.text = TextTower(words, chosen.hidden, embedding, chosen.drop)
        self.whole = nn.Sequential(nn.BatchNorm1d(width), nn.Dropout(0.2), nn.Linear(width, embedding))
        self.whole.load_state_dict({name[6:]: tensor for name, tensor in rest.items() if name.startswith("whole.")})
        self.losses = Losses(chosen.smoothing)

    def photos(self, wholes: Tensor) -> Tensor:
        return functional.normalize(self.whole(wholes), dim=-1)


def pixels(side: int, path: Path) -> np.ndarray:
    with Image.open(path) as photo:
        return np.asarray(photo.convert("RGB").resize((side, side), Image.Resampling.BICUBIC))


@torch.no_grad()
def image_vectors(paths: list[Path], encoder: Path) -> Tensor:
    """Return the image vectors of photos, original and mirrored: (2, photos, width)."""
    network, side, scale = load_network(encoder)
    network = network.to(DEVICE).eval()
    mean, deviation = (torch.tensor(each, device=DEVICE)[:, None, None] for each in (scale.mean, scale.deviation))
    with ProcessPoolExecutor() as pool:
        squares = np.stack(list(pool.map(partial(pixels, side), paths, chunksize=64)))
    made: tuple[list[Tensor], list[Tensor]] = [], []
    for block in torch.from_numpy(squares).permute(0, 3, 1, 2).split(100):
        shown = (block.to(DEVICE).float() / 255 - mean) / deviation
        for part, seen in zip(made, (shown, shown.flip(3)), strict=True):
            part.append(network(seen).mean(dim=(2, 3)))
    return torch.stack([torch.cat(part) for part in made])


def draw_caption_pairs(captions: Tensor) -> tuple[Tensor, Tensor]:
    """Draw two different captions of each photo from (photos, captions, words)."""
    order = torch.rand(captions.shape[:2], device=captions.device).argsort(dim=1)
    every = torch.arange(len(captions), device=captions.device)
    return captions[every, order[:, 0]], captions[every, order[:, 1]]


def batches(count: int, size: int) -> Iterator[Tensor]:
    return (rows for rows in torch.randperm(count, device=DEVICE).split(size) if len(rows) == size)


def train_towers(
    towers: TwoTowers, train: Tensor, wholes: Tensor, more: Tensor, chosen: Settings, report: Callable[..., None]
) -> TwoTowers:
    """Run both stages and return the model with averaged weights."""
    optimizer = torch.optim.AdamW(towers.parameters(), lr=chosen.rate, weight_decay=chosen.decay)
    average = AveragedModel(towers, multi_avg_fn=get_ema_multi_avg_fn(chosen.average), use_buffers=True)
    losses = towers.losses

    def step(loss: Tensor, rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(towers.parameters(), 1.0)
        optimizer.step()
        average.update_parameters(towers)

    def caption_loss(rows: Tensor) -> Tensor:
        one, other = draw_caption_pairs(more[rows])
        return losses.pairs(towers.text.sentences(one), towers.text.sentences(other), 1)

    done = 0
    for _ in range(chosen.text_epochs):
        for rows in batches(len(more), chosen.batch):
            done += 1
            step(caption_loss(rows), chosen.rate * min(1, done / 200))
    photos, captions = train.shape[:2]
    done, steps = 0, chosen.epochs * (photos * captions // chosen.batch)
    for epoch in range(chosen.epochs):
        towers.train()
        for rows in batches(photos * captions, chosen.batch):
            done += 1
            photo = rows // captions
            seen = wholes[torch.randint(2, photo.shape, device=DEVICE), photo]
            loss = losses.pairs(towers.photos(seen), towers.text.sentences(train[photo, rows % captions]), 0)
            loss = loss + chosen.text_weight * caption_loss(torch.randint(len(more), photo.shape, device=DEVICE))
            step(loss, chosen.rate * min(1, done / 100) * (0.5 + 0.5 * math.cos(math.pi * done / steps)))
        report(epoch + 1, average.module)
    return average.module


@torch.no_grad()
def recalls(towers: TwoTowers, wholes: Tensor, captions: Tensor) -> list[float]:
    """Return R@1, R@5 and R@10 in both directions; ties count as errors."""
    towers.eval()
    texts = torch.cat([towers.text.sentences(block) for block in captions.flatten(0, 1).split(1000)])
    scores = towers.photos(wholes) @ texts.T
    photo = torch.arange(len(captions), device=DEVICE).repeat_interleave(captions.shape[1])
    own = photo == torch.arange(len(captions), device=DEVICE)[:, None]
    found = []
    for table, mine in ((scores, own), (scores.T, own.T)):
        best = table.masked_fill(~mine, -torch.inf).amax(dim=1, keepdim=True)
        above = ((table >= best) & ~mine).sum(dim=1)
        found += [100 * (above < rank).float().mean().item() for rank in (1, 5, 10)]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("trained", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--encoder", type=Path, default=SHIPPED, help="encoder weights; by default those of the package"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    args = parser.parse_args()
    kinds = {field.name: type(field.default) for field in fields(Settings)}
    changes = dict(change.split("=", 1) for change in args.set)
    chosen = replace(Settings(), **{name: kinds[name](value) for name, value in changes.items()})

    arrays = dict(np.load(args.examples))
    texts, rest = read_sides(args.trained)
    captions = {
        name: torch.from_numpy(arrays[f"{name}_captions"]).to(DEVICE, torch.int32) for name in ("train", "dev", "text")
    }
    train, dev = (
        image_vectors([args.photos / file for file in arrays[f"{split}_files"]], args.encoder)
        for split in ("train", "dev")
    )
    torch.manual_seed(chosen.seed)
    towers = TwoTowers(texts, rest, chosen).to(DEVICE)

    def report(epoch: int, now: TwoTowers) -> None:
        if epoch % 5 == 0 or epoch == chosen.epochs:
            print(epoch, " ".join(f"{score:.1f}" for score in recalls(now, dev[0], captions["dev"])), flush=True)

    best = train_towers(towers, captions["train"], train, captions["text"], chosen, report)
    rest = {name: array for name, array in weights_of(best).items() if name.startswith("whole.")}
    for name, weights in (("texts", weights_of(best.text)), ("rest", rest)):
        write_artifact(args.out / name, Artifact(name, {}, weights))


if __name__ == "__main__":
    main()
