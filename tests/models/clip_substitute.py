"""A substitute for the package `open_clip`, which need not be installed for tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

TAGS = {"small": ["openai", "laion"], "bare": []}


class SmallClip(nn.Module):
    """Encodes the mean colours of a photo and the letters of a text."""

    def __init__(self) -> None:
        super().__init__()
        self.image = nn.Linear(3, 5)
        self.text = nn.Linear(8, 5)

    def encode_image(self, pixels: Tensor) -> Tensor:
        found: Tensor = self.image(pixels.mean(dim=(2, 3)))
        return found

    def encode_text(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.text(tokens.float())
        return found


class RealVectors(nn.Module):
    """Gives the vectors of another model: its inputs are numbers of photos and of texts that were read before."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.model, self.photos, self.texts = model, [], []  # type: ignore[var-annotated]

    def read_photo(self, photo: Image.Image) -> Tensor:
        self.photos.append(photo)
        return torch.tensor([len(self.photos) - 1])

    def read_texts(self, texts: list[str]) -> Tensor:
        self.texts += texts
        return torch.arange(len(self.texts) - len(texts), len(self.texts))

    def encode_image(self, numbers: Tensor) -> Tensor:
        return 3 * torch.from_numpy(self.model.encode_images([self.photos[number] for number in numbers.ravel()]))

    def encode_text(self, numbers: Tensor) -> Tensor:
        return 2 * torch.from_numpy(self.model.encode_sentences([self.texts[number] for number in numbers]))


def small_transform(photo: Image.Image) -> Tensor:
    return torch.from_numpy(np.asarray(photo.convert("RGB").resize((4, 4)), dtype=np.float32) / 255).permute(2, 0, 1)


def small_tokenizer(texts: list[str]) -> Tensor:
    return torch.tensor([[*text.encode()[:8], *[0] * (8 - len(text.encode()))] for text in texts])


Made = tuple[nn.Module, Callable[[Image.Image], Tensor], Callable[[list[str]], Tensor]]


def make_small() -> Made:
    torch.manual_seed(0)
    return SmallClip(), small_transform, small_tokenizer


def install(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Made] = make_small) -> list[dict[str, Any]]:
    """Install the substitute, and return the list of the arguments with which models were created."""
    calls: list[dict[str, Any]] = []

    def create_model_and_transforms(name: str, **arguments: Any) -> tuple[nn.Module, None, Any]:
        calls.append(arguments | {"name": name})
        if name not in TAGS:
            raise RuntimeError(f"Model config for {name!r}\nnot found")
        network, transform, _ = make()
        if arguments["pretrained"] and Path(arguments["pretrained"]).is_file():
            network.load_state_dict(torch.load(arguments["pretrained"], weights_only=True))
        return network, None, transform

    package = ModuleType("open_clip")
    for name, value in {
        "create_model_and_transforms": create_model_and_transforms,
        "get_tokenizer": lambda name: make()[2],
        "list_pretrained_tags_by_model": lambda name: TAGS.get(name, []),
        "get_pretrained_cfg": lambda name, tag: {"quick_gelu": tag == "openai"},
        "get_model_preprocess_cfg": lambda network: {"size": 4},
    }.items():
        setattr(package, name, value)
    monkeypatch.setitem(sys.modules, "open_clip", package)
    return calls


def save_weights(file: Path, seed: int = 1) -> Path:
    torch.manual_seed(seed)
    torch.save(SmallClip().state_dict(), file)
    return file
