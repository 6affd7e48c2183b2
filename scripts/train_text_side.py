"""Train a smaller text side on the finished encoder: what ``scripts/export_text_side.py`` then makes a model of.

python scripts/train_text_side.py examples.npz PHOTOS DIR --out SMALL [--set epochs=25 …]

DIR holds what ``scripts/train_encoder.py`` left: `texts.safetensors` and `rest.safetensors`. SMALL gets files of these
names. Word vectors begin as those that were trained with the encoder, turned so that their first numbers carry most;
the GRU begins anew and first learns that captions of one photo belong together, over ten times as many photos as there
are pictures. Then photos, as they are and mirrored, and captions find each other, and captions still do. One GPU.
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
from export_text_side import turned
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from deixis.vision.encoders.own import SHIPPED, load_network

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@dataclass(frozen=True)
class Settings:
    """What the training may be told."""

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


class Sides(nn.Module):
    """Photos on one side, from their whole vectors; captions on the other."""

    def __init__(self, texts: dict[str, Tensor], rest: dict[str, Tensor], chosen: Settings) -> None:
        super().__init__()
        table = texts["words.weight"]
        embedding, width = rest["whole.2.weight"].shape
        words = (table @ turned(table, chosen.word_size).T).numpy()
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
def whole_vectors(paths: list[Path], encoder: Path) -> Tensor:
    """The whole vectors of photos, as they are and mirrored: (2, photos, width)."""
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


def two_of_each(captions: Tensor) -> tuple[Tensor, Tensor]:
    """Two different captions of each photo, from (photos, captions, words)."""
    order = torch.rand(captions.shape[:2], device=captions.device).argsort(dim=1)
    every = torch.arange(len(captions), device=captions.device)
    return captions[every, order[:, 0]], captions[every, order[:, 1]]


def batches(count: int, size: int) -> Iterator[Tensor]:
    return (rows for rows in torch.randperm(count, device=DEVICE).split(size) if len(rows) == size)


def learn(
    sides: Sides, train: Tensor, wholes: Tensor, more: Tensor, chosen: Settings, told: Callable[..., None]
) -> Sides:
    """Both stages; the moving average of all weights."""
    optimiser = torch.optim.AdamW(sides.parameters(), lr=chosen.rate, weight_decay=chosen.decay)
    average = AveragedModel(sides, multi_avg_fn=get_ema_multi_avg_fn(chosen.average), use_buffers=True)
    losses = sides.losses

    def step(loss: Tensor, rate: float) -> None:
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(sides.parameters(), 1.0)
        optimiser.step()
        average.update_parameters(sides)

    def captions_together(rows: Tensor) -> Tensor:
        one, other = two_of_each(more[rows])
        return losses.pairs(sides.text.sentences(one), sides.text.sentences(other), 1)

    done = 0
    for _ in range(chosen.text_epochs):
        for rows in batches(len(more), chosen.batch):
            done += 1
            step(captions_together(rows), chosen.rate * min(1, done / 200))
    photos, captions = train.shape[:2]
    done, steps = 0, chosen.epochs * (photos * captions // chosen.batch)
    for epoch in range(chosen.epochs):
        sides.train()
        for rows in batches(photos * captions, chosen.batch):
            done += 1
            photo = rows // captions
            seen = wholes[torch.randint(2, photo.shape, device=DEVICE), photo]
            loss = losses.pairs(sides.photos(seen), sides.text.sentences(train[photo, rows % captions]), 0)
            loss = loss + chosen.text_weight * captions_together(torch.randint(len(more), photo.shape, device=DEVICE))
            step(loss, chosen.rate * min(1, done / 100) * (0.5 + 0.5 * math.cos(math.pi * done / steps)))
        told(epoch + 1, average.module)
    return average.module


@torch.no_grad()
def recalls(sides: Sides, wholes: Tensor, captions: Tensor) -> list[float]:
    """R@1, R@5 and R@10 from photos to captions, and the other way; a tie counts against us."""
    sides.eval()
    texts = torch.cat([sides.text.sentences(block) for block in captions.flatten(0, 1).split(1000)])
    scores = sides.photos(wholes) @ texts.T
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
    parser.add_argument("--encoder", type=Path, default=SHIPPED, help="instead of the package's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    kinds = {field.name: type(field.default) for field in fields(Settings)}
    changes = dict(change.split("=", 1) for change in given.set)
    chosen = replace(Settings(), **{name: kinds[name](value) for name, value in changes.items()})

    arrays = dict(np.load(given.examples))
    texts, rest = (
        {name: tensor.float() for name, tensor in load_file(given.trained / f"{file}.safetensors").items()}
        for file in ("texts", "rest")
    )
    captions = {
        name: torch.from_numpy(arrays[f"{name}_captions"]).to(DEVICE, torch.int32) for name in ("train", "dev", "text")
    }
    train, dev = (
        whole_vectors([given.photos / file for file in arrays[f"{split}_files"]], given.encoder)
        for split in ("train", "dev")
    )
    torch.manual_seed(chosen.seed)
    sides = Sides(texts, rest, chosen).to(DEVICE)

    def told(epoch: int, now: Sides) -> None:
        if epoch % 5 == 0 or epoch == chosen.epochs:
            print(epoch, " ".join(f"{score:.1f}" for score in recalls(now, dev[0], captions["dev"])), flush=True)

    best = learn(sides, captions["train"], train, captions["text"], chosen, told)
    given.out.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in best.state_dict().items()}
    parts = {"texts": "text.", "rest": "whole."}
    kept = {file: {n: t for n, t in weights.items() if n.startswith(start)} for file, start in parts.items()}
    save_file(
        {name.removeprefix("text."): tensor for name, tensor in kept["texts"].items()}, given.out / "texts.safetensors"
    )
    save_file(kept["rest"], given.out / "rest.safetensors")


if __name__ == "__main__":
    main()
