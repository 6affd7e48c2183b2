"""Training data of the encoder scripts: photos on the GPU, random crops, and how often photos and nouns are drawn."""

from __future__ import annotations

import io
import os
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from encoder_losses import area
from PIL import Image
from torch import Tensor
from torch.nn import functional

DECODED = 1024
"""Photos that are decoded before they are copied to the GPU together."""


def decode(data: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(data)) as photo:
        return np.asarray(photo.convert("RGB"))


def read_photos(folder: Path, files: Sequence[str], device: str) -> Tensor:
    """Return packed photos as (n, 3, side, side) on a device.

    Threads decode, because Pillow releases the lock; photos that ``scripts/unpack_photos.py`` has decoded are copied.
    """
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, file in enumerate(files):
        rows_of[id_of(file)].append(row)
    pixels, read = torch.empty(0), 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for path in sorted(folder.glob("photos_*.npz")):
            pack = np.load(path)
            data, parts = pack["data"], list(pairwise(pack["offsets"].tolist()))
            wanted = [(row, place) for place, name in enumerate(pack["ids"]) for row in rows_of.get(str(name), ())]
            decoded = np.load(path.with_suffix(".npy"), mmap_mode="r") if path.with_suffix(".npy").is_file() else None
            for begin in range(0, len(wanted), DECODED):
                rows, places = zip(*wanted[begin : begin + DECODED], strict=True)
                if decoded is not None:
                    squares = torch.from_numpy(decoded[list(places)])
                else:
                    blobs = [data[slice(*parts[place])].tobytes() for place in places]
                    squares = torch.from_numpy(np.stack(list(pool.map(decode, blobs))))
                if not read:
                    pixels = torch.empty((len(files), 3, *squares.shape[1:3]), dtype=torch.uint8, device=device)
                pixels[list(rows)] = squares.to(device).permute(0, 3, 1, 2)
                read += len(rows)
    if read != len(files):
        raise SystemExit(f"{folder}: {len(files) - read:,} of {len(files):,} photos are not packed there")
    return pixels


def id_of(file: str) -> str:
    """Return the name of a file in the packs."""
    return str(Path(file).with_suffix(""))


def photos_without_text(folder: Path, arrays: dict[str, np.ndarray]) -> list[str]:
    """Return the packed photos that no split of the examples has."""
    packed = {str(name) for path in folder.glob("photos_*.npz") for name in np.load(path)["ids"]}
    return sorted(packed - {id_of(str(file)) for name in arrays if name.endswith("_files") for file in arrays[name]})


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
        self.partial = tensor("partial")
        self.labels = tensor("labels") if f"{split}_labels" in arrays else None
        self.pixels = read_photos(photos, arrays[f"{split}_files"].tolist(), device)

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

    def pixels(self, photos: Tensor, side: int, light: bool = True) -> Tensor:
        """The crops of photos, by default in another light each."""
        count = len(photos)
        move = torch.zeros(count, 2, 3, device=photos.device)
        move[:, 0, 0], move[:, 1, 1] = self.half[:, 0] * self.flip, self.half[:, 1]
        move[:, :, 2] = self.centre
        grid = functional.affine_grid(move, [count, 3, side, side], align_corners=False)
        seen = functional.grid_sample(photos.float() / 255, grid, align_corners=False, padding_mode="reflection")
        if not light:
            return seen.clamp(0, 1)
        factor, contrast = (1 + 0.3 * (torch.rand(2, count, 1, 1, 1, device=photos.device) * 2 - 1)).unbind(0)
        grey = seen.mean(dim=(1, 2, 3), keepdim=True)
        return (((seen - grey) * contrast + grey) * factor).clamp(0, 1)

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


def source_shares(arrays: dict[str, np.ndarray], shares: str, device: str) -> Tensor:
    """Return how often each training photo is drawn; `shares` is such as ``coco=2,iapr=0.3``, other sources have 1."""
    given = {name: float(share) for name, share in (pair.split("=") for pair in shares.split(",") if pair)}
    sources = arrays["sources"].tolist()
    if unknown := given.keys() - set(sources):
        raise SystemExit(f"shares: no source is named {', '.join(sorted(unknown))}; there are {', '.join(sources)}")
    source = torch.from_numpy(arrays["train_source"]).to(device)
    return torch.tensor([given.get(name, 1.0) for name in sources], device=device)[source]


@torch.no_grad()
def draw_groups(vectors: Tensor, share: Tensor, count: int, group: int, nearest: int = 32) -> Tensor:
    """Draw `count` different photos in groups: a photo and some of its nearest, which are its hard negatives."""
    first = torch.multinomial(share, count // group)
    scores = vectors[first] @ vectors.T
    scores[torch.arange(len(first), device=scores.device), first] = -torch.inf
    near = scores.topk(min(nearest, len(vectors) - 1)).indices
    drawn = near.gather(1, torch.multinomial(share[near], group - 1))
    rows = torch.cat([first, drawn.flatten()]).unique()
    others = share.index_fill(0, rows, 0)
    return torch.cat([rows, torch.multinomial(others, count - len(rows))]) if len(rows) < count else rows


class NounPhotos:
    """Which training photos have captions with which noun."""

    def __init__(self, arrays: dict[str, np.ndarray], photo_count: int, device: str) -> None:
        self.texts = torch.from_numpy(arrays["nouns"]).int().to(device)
        self.shown = torch.zeros(photo_count, len(self.texts), dtype=torch.bool, device=device)
        pairs = torch.from_numpy(arrays["noun_pairs"]).long().to(device)
        self.shown[pairs[:, 0], pairs[:, 1]] = True
        # Rare nouns are drawn more often than their share of photos.
        self._weight = self.shown.sum(0).clamp(min=1).float().rsqrt()

    def draw(self, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Draw nouns, those of some photos first; return their numbers and which photo has which (photos, nouns)."""
        shown = self.shown[rows]
        drawn = torch.multinomial(shown.any(0).float() * self._weight + 1e-9, min(count, len(self.texts)))
        return drawn, shown[:, drawn]


def resized(photos: Tensor, side: int) -> Tensor:
    """Return whole photos of bytes as (n, 3, side, side) in [0, 1]."""
    return functional.interpolate(
        photos.float() / 255, (side, side), mode="bilinear", antialias=True, align_corners=False
    )
