"""A model that can be seen through: regions are their mean colour, phrases the colours that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from PIL import Image

from deixis.arrays import Floats
from deixis.models.base import Embedder
from deixis.models.describer.description import Describer, DescriptionSettings, PhraseBank
from deixis.models.grounding import EmbeddingPipeline
from deixis.models.provenance import EncoderInfo, Provenance
from deixis.vision.encoder import FeatureMap
from deixis.vision.proposals import Proposals

DIRECTIONS = {"red": 0, "blue": 1, "green": 2}


class Colours(Embedder):
    """Embeds the mean colour of a region, and the names of colours."""

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


class ColourPipeline(EmbeddingPipeline):
    """A pipeline of small parts that a test can see through."""

    def __init__(self) -> None:
        super().__init__(Colours(), Provenance(EncoderInfo("colours", ""), "phrases", proposals="halves"))
        self.image_encoder, self.proposer = Encoder(), Halves()


def describer(bank: PhraseBank, **settings: float) -> Describer:
    return Describer(ColourPipeline(), bank, DescriptionSettings(**settings))
