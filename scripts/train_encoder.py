"""Fine-tune a vision transformer with captions, phrases, nouns and boxes: the encoder and the proposal head that ship.

python scripts/train_encoder.py examples.npz PHOTOS --start dinov2.onnx --out DIR [--set epochs=100 …]

`examples.npz` comes from ``scripts/encoder_examples.py``; PHOTOS holds the packed photos of ``scripts/pack_photos.py``.
The start is DINOv2 ViT-S/14. One GPU. The loss is a sum. Photos and captions: InfoNCE in the batch, three captions a
photo. Phrases and regions: a phrase is matched with its region among the boxes of its photo and the gold regions of
other photos, and a region with its phrase. Captions: those of one photo are matched, over more photos than have images.
Nouns: photos whose captions contain a noun rank above others. Boxes: the proposal head learns all boxes. Photos without
boxes skip the second and the last term.
"""

from __future__ import annotations

import argparse
import copy
import io
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
from encoder_towers import PhotoTower, TextTower, WordTable
from PIL import Image
from safetensors.torch import save_file
from start_weights import read_start
from torch import Tensor, nn
from torch.nn import functional

from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.proposals.head import HeadShape
from deixis.vision.proposals.head_network import ProposalHead, anchor_boxes, decode_boxes

torch.set_float32_matmul_precision("high")


@dataclass(frozen=True)
class Settings:
    """Hyperparameters."""

    seed: int = 0
    side: int = 252
    epochs: float = 100.0
    minutes: float = 0.0  # if given, as many epochs as fit
    head_steps: int = 150
    batch: int = 256
    captions: int = 3
    encoder_rate: float = 5e-5
    head_rate: float = 1e-3
    decay: float = 0.05
    drop_path: float = 0.15
    embedding: int = 512
    hidden: int = 512
    word_drop: float = 0.3
    delta_drop: float = 0.2
    smoothing: float = 0.05
    text_steps: int = 400
    text_weight: float = 0.2
    region_weight: float = 0.5
    box_weight: float = 0.5
    noun_weight: float = 0.3
    nouns: int = 192
    candidates: int = 48
    smallest_crop: float = 0.5
    average: float = 0.998
    head_width: int = 256
    anchors: int = 12
    shares: str = ""  # such as iapr=0.4,names=0.7: how often photos of a source are drawn; others 1


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as photo:
        return np.asarray(photo.convert("RGB").resize((266, 266), Image.Resampling.BICUBIC))


def read_photos(folder: Path, files: np.ndarray) -> Tensor:
    """Return the packed photos as (n, 3, 266, 266)."""
    blobs: dict[str, bytes] = {}
    for path in sorted(folder.glob("photos_*.npz")):
        pack = np.load(path)
        data, offsets = pack["data"].tobytes(), pack["offsets"]
        for number, name in enumerate(pack["ids"]):
            blobs[str(name)] = data[offsets[number] : offsets[number + 1]]
    wanted = [blobs[str(Path(str(file)).with_suffix(""))] for file in files]
    with ProcessPoolExecutor() as pool:
        squares = list(pool.map(decode, wanted, chunksize=64))
    return torch.from_numpy(np.stack(squares)).permute(0, 3, 1, 2).contiguous()


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
        self.annotated = self.boxes[:, 0, 0] >= 0
        self.pixels = read_photos(photos, arrays[f"{split}_files"]).to(device)

    def __len__(self) -> int:
        return len(self.captions)


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

    def __getitem__(self, rows: Tensor) -> View:
        return View(self.centre[rows], self.half[rows], self.flip[rows])

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
        self,
        chosen: Settings,
        arrays: dict[str, np.ndarray],
        start: dict[str, Tensor],
        train: Examples,
        dev: dict[str, Examples],
    ) -> None:
        torch.manual_seed(chosen.seed)
        self.chosen, self.train, self.dev, self.device = chosen, train, dev, train.pixels.device.type
        self.arrays = arrays
        self.more_text = torch.from_numpy(arrays["text_captions"]).int().to(self.device)
        encoder = VisionTransformer(ViTShape(grid=start["positions"].shape[-1]), chosen.drop_path)
        encoder.load_state_dict({name: tensor.float() for name, tensor in start.items()})
        shape = HeadShape(encoder.shape.width, chosen.head_width, anchor_shapes(arrays["train_boxes"], chosen.anchors))
        self.photos = PhotoTower(encoder, encoder.shape.width, ProposalHead(shape), chosen.embedding).to(self.device)
        words = WordTable(
            arrays["vectors"].astype(np.float32), arrays["word_rows"], int(arrays["taught"]), chosen.delta_drop
        )
        self.texts = TextTower(words, chosen.hidden, chosen.embedding, chosen.word_drop).to(self.device)
        self.losses = Losses(chosen.smoothing).to(self.device)
        self.average = copy.deepcopy(nn.ModuleList([self.photos, self.texts])).requires_grad_(False)
        for texts in (self.texts, self.average[1]):
            texts.read.flatten_parameters()
        self.compiled = torch.compile(self.photos.maps) if self.device == "cuda" else self.photos.maps
        cells = chosen.side // encoder.shape.patch
        centred = anchor_boxes(shape, cells, cells).to(self.device)
        self.anchors = decode_boxes(centred, torch.zeros_like(centred))
        self.nouns = torch.from_numpy(arrays["nouns"]).int().to(self.device)
        self.shown = torch.zeros(len(train), len(self.nouns), dtype=torch.bool, device=self.device)
        pairs = torch.from_numpy(arrays["noun_pairs"]).long().to(self.device)
        self.shown[pairs[:, 0], pairs[:, 1]] = True
        # Rare nouns are drawn more often than their share of photos.
        self.noun_weight = self.shown.sum(0).clamp(min=1).float().rsqrt()
        number_of = {word: number for number, word in enumerate(arrays["words"].tolist())}
        self.prefixes = [[number_of[word] for word in text.split()] for text in ("", "a", "the", "a photo of a")]
        shares = {name: float(share) for name, share in (p.split("=") for p in chosen.shares.split(",") if p)}
        source = torch.from_numpy(arrays["train_source"]).to(self.device)
        self.share = torch.tensor([shares.get(name, 1.0) for name in arrays["sources"].tolist()], device=self.device)[
            source
        ]
        self.started = time.monotonic()

    def noun_texts(self, which: Tensor) -> Tensor:
        prefix = self.prefixes[torch.randint(len(self.prefixes), ()).item()]
        before = torch.tensor(prefix, dtype=torch.int32, device=self.device).expand(len(which), -1)
        return torch.cat([before, self.nouns[which]], dim=1)

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
            cells = self.photos.maps(pixels) if frozen else self.compiled(pixels)
        wholes = self.photos.wholes(cells)
        which = torch.rand(len(rows), self.train.captions.shape[1], device=self.device).argsort(dim=1)
        which = which[:, : chosen.captions]
        captions = self.train.captions[rows[:, None], which]
        sentences = self.texts.sentences(captions.flatten(0, 1)).unflatten(0, (len(rows), -1))
        loss = self.losses.captions(wholes, sentences)
        shown = self.shown[rows]
        drawn = torch.multinomial(shown.any(0).float() * self.noun_weight + 1e-9, min(chosen.nouns, len(self.nouns)))
        names = self.texts.sentences(self.noun_texts(drawn))
        loss = loss + chosen.noun_weight * self.losses.nouns(wholes, names, shown[:, drawn])
        marked = self.train.annotated[rows].nonzero()[:, 0]
        rows, view, cells, which = rows[marked], view[marked], cells[marked], which[marked, 0]
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
        return torch.optim.AdamW(groups, weight_decay=self.chosen.decay, fused=self.device == "cuda")

    def step(self, optimizer: torch.optim.Optimizer, share: float, loss: Tensor) -> None:
        for group in optimizer.param_groups:
            group["lr"] = group["peak"] * min(1, share * 40) * (0.5 + 0.5 * math.cos(math.pi * share))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        every = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        nn.utils.clip_grad_norm_(every, 1.0)
        optimizer.step()

    @torch.no_grad()
    def follow(self) -> None:
        """Move the averaged weights."""
        now = nn.ModuleList([self.photos, self.texts])
        torch._foreach_lerp_(list(self.average.parameters()), list(now.parameters()), 1 - self.chosen.average)
        for mine, other in zip(self.average.buffers(), now.buffers(), strict=True):
            mine.copy_(other)

    def rows(self) -> Tensor:
        return torch.multinomial(self.share, self.chosen.batch)

    def run(self) -> Iterator[dict[str, float]]:
        """Train, and yield scores now and then."""
        chosen = self.chosen
        first = self.optimizer(0.0, chosen.head_rate)
        self.photos.train()
        self.texts.train()
        for number in range(chosen.text_steps):
            self.step(first, 0.5 * number / chosen.text_steps, self.text_step())
        for number in range(chosen.head_steps):
            self.step(first, 0.5 * number / chosen.head_steps, self.photo_step(self.rows(), True))
        self.average.load_state_dict(nn.ModuleList([self.photos, self.texts]).state_dict())
        optimizer = self.optimizer(chosen.encoder_rate, chosen.head_rate)
        in_epoch = float(self.share.sum()) / chosen.batch
        steps = round(chosen.epochs * in_epoch)
        number, begun = 0, time.monotonic()
        seen = 0.0
        while number < steps:
            loss = self.photo_step(self.rows(), False)
            if chosen.text_weight:
                loss = loss + chosen.text_weight * self.text_step()
            self.step(optimizer, number / steps, loss)
            self.follow()
            number += 1
            if number == 20 and chosen.minutes:  # compiled
                torch.cuda.synchronize()
                begun = time.monotonic()
            if chosen.minutes and number == 120:
                torch.cuda.synchronize()
                pace = (time.monotonic() - begun) / 100
                left = chosen.minutes * 60 - (time.monotonic() - self.started)
                steps = number + int(left / pace)
                print(json.dumps({"pace": pace, "steps": steps, "epochs": steps / in_epoch}), flush=True)
            if number * 4 // steps > seen or number == steps:
                seen = number * 4 // steps
                took = time.monotonic() - self.started
                scores = {"epoch": round(number / in_epoch, 1), "loss": round(loss.item(), 3), "s": round(took)}
                yield scores | self.measure()

    @torch.no_grad()
    def measure(self, side: int | None = None) -> dict[str, float]:
        """Compute retrieval in both directions, grounding R@1 over 100 proposals, and proposal recall, on dev."""
        photos, texts = self.average
        photos.eval()
        texts.eval()
        found: dict[str, float] = {}
        for name, dev in self.dev.items():
            cells = dev_maps(photos, dev, side or self.chosen.side)
            wholes = torch.cat([photos.wholes(part) for part in cells])
            numbers = dev.captions.flatten(0, 1)
            scores = wholes @ torch.cat([texts.sentences(part) for part in numbers.split(1000)]).T
            found |= {f"{name} {key}": round(value, 2) for key, value in recalls(scores).items()}
            if dev.annotated.any():
                hits, reach = [], {19: [], 100: [], 200: []}
                for number, part in enumerate(cells):
                    batch = slice(250 * number, 250 * number + 250)
                    boxes = kept_boxes(*photos.head(part), 200)
                    add_proposal_recall(dev, batch, boxes, reach)
                    hits.append(grounding_hits(photos, texts, dev, batch, part, boxes[:, :100]))
                found["ground_r1"] = round(100 * torch.cat(hits).float().mean().item(), 2)
                for count, each in reach.items():
                    found[f"reach_{count}"] = round(100 * torch.cat(each).float().mean().item(), 2)
        return found


def dev_maps(photos: PhotoTower, dev: Examples, side: int) -> list[Tensor]:
    return [
        photos.maps(
            functional.interpolate(
                part.float() / 255, (side, side), mode="bilinear", antialias=True, align_corners=False
            )
        )
        for part in dev.pixels.split(250)
    ]


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


def save(training: Training, folder: Path, scores: dict[str, float]) -> None:
    """Save all weights in half precision, with settings and scores."""
    folder.mkdir(parents=True, exist_ok=True)
    photos, texts = training.average
    both = nn.ModuleDict({"photos": photos, "texts": texts})
    weights = {name: tensor.half().contiguous().cpu() for name, tensor in both.state_dict().items()}
    save_file(weights, folder / "towers.safetensors")
    about = {
        "learned_from": json.loads(str(training.arrays["learned_from"])),
        "training": asdict(training.chosen),
        "dev": scores,
        "head": asdict(photos.head.shape),
    }
    (folder / "towers.json").write_text(json.dumps(about))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("examples", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--start", type=Path, required=True, help="DINOv2 as ONNX, or weights as safetensors")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--set", nargs="*", default=[])
    chosen = parser.parse_args()
    arrays = dict(np.load(chosen.examples))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = Examples(arrays, "train", chosen.photos, device)
    dev = {name: Examples(arrays, name, chosen.photos, device) for name in arrays["dev"].tolist()}
    print("photos are read", flush=True)
    training = Training(settings_from(chosen.set), arrays, read_start(chosen.start, "vit"), train, dev)
    for scores in training.run():
        print(json.dumps(scores), flush=True)
        if chosen.out:
            save(training, chosen.out, scores)


if __name__ == "__main__":
    main()
