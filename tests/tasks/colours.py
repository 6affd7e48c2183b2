"""A model that can be seen through: regions are their mean colour, phrases the colours that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from deixis.language.features.base import Floats
from deixis.models.base import Embedder
from deixis.tasks.describe.describing import Describer, DescribeSettings
from deixis.tasks.describe.phrase_bank import PhraseBank
from deixis.vision.features import FeatureMap
from deixis.vision.proposals.proposer import Proposals

DIRECTIONS = {"red": 0, "blue": 1, "green": 2}


class Colours(Embedder):
    """Sees the mean colour of a region, and reads the names of colours."""

    KIND: ClassVar[str] = "colours"
    dimension = 3

    def prepare_visual(self, features: Any) -> Floats:
        rows = np.asarray(features, dtype=np.float32)
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)

    def prepare_text(self, features: Any) -> Floats:
        rows = np.zeros((len(features), 3), np.float32)
        for row, text in zip(rows, features, strict=True):
            for word in str(text).split():
                if word in DIRECTIONS:
                    row[DIRECTIONS[word]] = 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-6)

    def scores(self, visual: Floats, text: Floats) -> Floats:
        return visual @ text.T

    def save(self, folder: Any) -> None:
        raise NotImplementedError


class Encoder:
    """Red, blue and green of each of 8 × 8 cells."""

    def encode(self, photos: list[Image.Image]) -> list[FeatureMap]:
        made = []
        for photo in photos:
            small = np.asarray(photo.convert("RGB").resize((8, 8), Image.Resampling.BOX), np.float32) / 255
            cells = np.ascontiguousarray(small[..., [0, 2, 1]].transpose(2, 0, 1))
            made.append(FeatureMap(cells, cells.mean(axis=(1, 2)), photo.size))
        return made


@dataclass
class Halves:
    """Proposes the left half, the right half, nearly the right half, and a corner that nobody would look at."""

    name: str = "halves"
    fingerprint: str = ""

    def propose(self, photo: Image.Image, features: FeatureMap, top: int) -> Proposals:
        boxes = np.array([[0, 0, 40, 40], [40, 0, 80, 40], [41, 0, 80, 40], [0, 0, 9, 9]], dtype=float)
        return Proposals(boxes[:top], np.array([0.9, 0.8, 0.7, 0.1])[:top])


@dataclass
class Learned:
    proposals: str = "halves"
    top: int = 100
    place: float = 0.0


class Whole:
    """As much of a bundle as describing needs."""

    def __init__(self) -> None:
        self.model, self.learned, self.image_encoder = Colours(), Learned(), Encoder()

    def encode_sentences(self, sentences: Any) -> Floats:
        return self.model.prepare_text(sentences)

    def similarity(self, images: Floats, sentences: Floats) -> Floats:
        return self.model.scores(images, sentences)


def describer(bank: PhraseBank, **settings: float) -> Describer:
    made = Describer(Whole(), bank, DescribeSettings(**settings))  # type: ignore[arg-type] # as much of a bundle as is needed
    made.proposer = Halves()
    return made
