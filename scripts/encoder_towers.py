"""The text tower (captions, phrases) and the photo tower (photos, regions) of ``scripts/train_encoder.py``.

A directory of towers has `towers-0.safetensors` and following (matrices as int8 with a scale for each row, the rest in
half precision; files of less than 15 MB, which every way of copying takes) and `towers.json` (settings, scores, the
shape of the proposal head).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn
from torch.nn import functional

from deixis.arrays import code_step, quantize
from deixis.models.networks import TextEncoderShape, TransformerEncoder
from deixis.vision.encoder import OFFSETS
from deixis.vision.encoders.base import IMAGENET
from deixis.vision.encoders.deixis_vit import VisionTransformer, ViTShape
from deixis.vision.proposals.head import HeadShape
from deixis.vision.proposals.head_network import ProposalHead

SCALE = ".scale"
FILE_BYTES = 15_000_000


class WordTable(nn.Module):
    """Frozen word vectors, plus a trained change of those words that captions teach.

    The change of a word is left out now and then, so that words without one are understood too.
    """

    def __init__(self, vectors: np.ndarray, rows: np.ndarray, taught: int, drop: float) -> None:
        super().__init__()
        frozen = np.concatenate([np.zeros((1, vectors.shape[1]), np.float32), vectors])  # row 0: no vector
        self.register_buffer("frozen", torch.from_numpy(frozen), persistent=False)
        self.register_buffer("row", torch.from_numpy(rows.astype(np.int64) + 1), persistent=False)
        self.delta = nn.Embedding(taught + 2, vectors.shape[1], padding_idx=0)
        self.taught, self.drop = taught, drop
        start = torch.zeros(taught + 2, vectors.shape[1])
        missing = torch.from_numpy(rows[: taught + 2] < 0)
        start[missing] = torch.randn(int(missing.sum()), vectors.shape[1]) * 0.3
        start[:2] = 0
        with torch.no_grad():
            self.delta.weight.copy_(start)

    def forward(self, numbers: Tensor) -> Tensor:
        change = self.delta(torch.where(numbers < self.taught + 2, numbers, 0))
        if self.training and self.drop:
            change = change * (torch.rand(numbers.shape, device=numbers.device) >= self.drop)[..., None]
        words: Tensor = self.frozen[self.row[numbers]] + change  # type: ignore[index]
        return words


@dataclass(frozen=True)
class Texts:
    """Texts of several kinds, padded to the longest. The lengths are on the CPU, where the GRU wants them."""

    numbers: Tensor
    lengths: Tensor
    counts: tuple[int, ...]

    @classmethod
    def padded(cls, parts: Sequence[Tensor]) -> Texts:
        longest = max(part.shape[1] for part in parts)
        numbers = torch.cat([functional.pad(part, (0, longest - part.shape[1])) for part in parts])
        return cls(numbers, (numbers > 0).sum(1).clamp(min=1).cpu(), tuple(map(len, parts)))


class TextTower(nn.Module):
    """Text encoder: word vectors, then a bidirectional GRU with max pooling over the words, or a small transformer."""

    def __init__(
        self, words: WordTable, hidden: int, embedding: int, drop: float, kind: str = "gru", layers: int = 1
    ) -> None:
        super().__init__()
        self.words, self.kind = words, kind
        dimension = words.delta.embedding_dim
        if kind == "transformer":
            shape = TextEncoderShape("transformer", 1, dimension, hidden, layers, drop)
            self.read: nn.Module = TransformerEncoder(shape)
            self.read.words = nn.Identity()
        else:
            self.read = nn.GRU(dimension, hidden, layers, batch_first=True, bidirectional=True)
        size = hidden if kind == "transformer" else 2 * hidden
        self.drop = nn.Dropout(drop)
        self.sentence = nn.Linear(size, embedding)
        self.phrase = nn.Linear(size, embedding)

    def forward(self, texts: Texts) -> Tensor:
        numbers = texts.numbers
        if self.kind == "transformer":
            with torch.autocast(numbers.device.type, torch.bfloat16, enabled=numbers.device.type == "cuda"):
                return self.drop(self.read(self.words(numbers), (numbers > 0).sum(1).clamp(min=1)).float())
        packed = nn.utils.rnn.pack_padded_sequence(
            self.drop(self.words(numbers)), texts.lengths, batch_first=True, enforce_sorted=False
        )
        read, _ = nn.utils.rnn.pad_packed_sequence(
            self.read(packed)[0], batch_first=True, total_length=numbers.shape[1]
        )
        return self.drop(read.masked_fill((numbers == 0)[:, :, None], -1e4).max(dim=1).values)

    def read_all(self, texts: Texts) -> tuple[Tensor, ...]:
        """Read texts of several kinds in one pass."""
        return self(texts).split(texts.counts)

    def embed_sentences(self, read: Tensor) -> Tensor:
        return functional.normalize(self.sentence(read).float(), dim=-1)

    def embed_phrases(self, read: Tensor) -> Tensor:
        return functional.normalize(self.phrase(read).float(), dim=-1)

    def sentences(self, numbers: Tensor) -> Tensor:
        return self.embed_sentences(self(Texts.padded([numbers])))

    def phrases(self, numbers: Tensor) -> Tensor:
        return self.embed_phrases(self(Texts.padded([numbers])))


class PhotoTower(nn.Module):
    """Image encoder with embeddings of photos and regions."""

    def __init__(self, encoder: nn.Module, width: int, head: ProposalHead, embedding: int) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.whole = nn.Sequential(nn.BatchNorm1d(width), nn.Dropout(0.2), nn.Linear(width, embedding))
        self.place = nn.Sequential(nn.Linear(5, 64), nn.GELU(), nn.Linear(64, embedding))
        self.region = nn.Sequential(nn.LayerNorm(width), nn.Dropout(0.1), nn.Linear(width, embedding))
        self.register_buffer("mean", torch.tensor(IMAGENET.mean)[None, :, None, None])
        self.register_buffer("deviation", torch.tensor(IMAGENET.deviation)[None, :, None, None])

    def maps(self, pixels: Tensor) -> Tensor:
        with torch.autocast(pixels.device.type, torch.bfloat16):
            return self.encoder((pixels - self.mean) / self.deviation).float()

    def wholes(self, cells: Tensor) -> Tensor:
        return functional.normalize(self.whole(cells.mean(dim=(2, 3))), dim=-1)

    def regions(self, cells: Tensor, boxes: Tensor) -> Tensor:
        """Return region embeddings (b, n, embedding) of boxes (b, n, 4), given as fractions."""
        sides = boxes[..., 2:] - boxes[..., :2]
        place = torch.cat([boxes, sides.prod(dim=-1, keepdim=True)], dim=-1)
        return functional.normalize(self.region(pool_batch(cells, boxes)) + self.place(place), dim=-1)


def pool_batch(cells: Tensor, boxes: Tensor) -> Tensor:
    """Differentiable `deixis.vision.encoder.pool_regions` for a batch: (b, n, channels).

    Maps are (b, channels, rows, columns), boxes (b, n, 4) as fractions.
    """
    along_x = _weights(boxes[..., 0], boxes[..., 2], cells.shape[3])
    along_y = _weights(boxes[..., 1], boxes[..., 3], cells.shape[2])
    by_row = torch.einsum("bcrk,bnk->bncr", cells, along_x.to(cells.dtype))
    return torch.einsum("bncr,bnr->bnc", by_row, along_y.to(cells.dtype))


def _weights(start: Tensor, end: Tensor, cells: int) -> Tensor:
    offsets = torch.tensor(OFFSETS, device=start.device)
    points = start[..., None] + (end - start)[..., None] * offsets
    centres = (points * cells - 0.5).clamp(0, cells - 1)
    hats = (1 - (centres[..., None] - torch.arange(cells, device=start.device)).abs()).clamp(min=0)
    return hats.mean(dim=-2)


def save_towers(photos: PhotoTower, texts: TextTower, about: dict[str, Any], folder: Path) -> None:
    write_towers(nn.ModuleDict({"photos": photos, "texts": texts}).state_dict(), about, folder)


def write_towers(weights: Mapping[str, Tensor], about: dict[str, Any], folder: Path) -> None:
    """Write weights. Each file is replaced at once, so that a copy made meanwhile has whole files."""
    folder.mkdir(parents=True, exist_ok=True)
    parts: list[dict[str, Tensor]] = [{}]
    for name, tensor in weights.items():
        stored = {name: tensor.half()}
        if tensor.ndim == 2:
            rows = tensor.cpu().numpy()
            scale = code_step(rows, axis=1).astype(np.float32)
            stored = {name: torch.from_numpy(quantize(rows, scale)), name + SCALE: torch.from_numpy(scale[:, None])}
        if parts[-1] and sum(map(_bytes, [*parts[-1].values(), *stored.values()])) > FILE_BYTES:
            parts.append({})
        parts[-1] |= {name: tensor.contiguous().cpu() for name, tensor in stored.items()}
    for number, part in enumerate(parts):
        _replace(folder / f"towers-{number}.safetensors", save(part))
    _replace(folder / "towers.json", json.dumps(about | {"files": len(parts)}).encode())


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _replace(file: Path, data: bytes) -> None:
    partial = file.with_name(file.name + ".partial")
    partial.write_bytes(data)
    partial.replace(file)


def read_towers(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights in single precision, and `towers.json`."""
    about = json.loads((folder / "towers.json").read_text())
    stored: dict[str, Tensor] = {}
    for number in range(about["files"]):
        stored |= load_file(folder / f"towers-{number}.safetensors")
    weights = {
        name: tensor.float() * stored[name + SCALE] if tensor.dtype == torch.int8 else tensor.float()
        for name, tensor in stored.items()
        if not name.endswith(SCALE)
    }
    return weights, about


def head_shape(stored: dict[str, Any]) -> HeadShape:
    return HeadShape(stored["channels"], stored["width"], tuple(map(tuple, stored["anchors"])))


def load_towers(arrays: dict[str, np.ndarray], folder: Path) -> tuple[PhotoTower, TextTower]:
    """Return trained towers, for inference; `arrays` are the examples that they were trained on."""
    weights, about = read_towers(folder)
    encoder = VisionTransformer(ViTShape(grid=weights["photos.encoder.positions"].shape[-1]))
    chosen = about["training"]
    photos = PhotoTower(encoder, encoder.shape.width, ProposalHead(head_shape(about["head"])), chosen["embedding"])
    words = WordTable(arrays["vectors"].astype(np.float32), arrays["word_rows"], int(arrays["taught"]), 0.0)
    texts = TextTower(words, chosen["hidden"], chosen["embedding"], 0.0, chosen["text"], chosen["text_layers"])
    nn.ModuleDict({"photos": photos, "texts": texts}).load_state_dict(weights)
    return photos.requires_grad_(False).eval(), texts.requires_grad_(False).eval()
