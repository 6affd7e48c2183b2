"""The networks of the two-branch paper: embedding network (section 3.1) and similarity network (section 3.3)."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.networks import TextEncoder, TextEncoderShape, init_glorot, make_text_encoder
from deixis.runtime import Array, Function


class Branch(nn.Module):
    """FC, ReLU, dropout, FC, batch norm and L2 normalization; if linear, the first FC and L2 normalization."""

    def __init__(
        self, input_size: int, hidden_size: int, embedding_dim: int, dropout: float = 0.0, linear: bool = False
    ) -> None:
        super().__init__()
        self.input_size = input_size
        layers: OrderedDict[str, nn.Module] = OrderedDict(first=nn.Linear(input_size, hidden_size))
        if not linear:
            layers["relu"] = nn.ReLU()
            if dropout:
                layers["dropout"] = nn.Dropout(dropout)
            layers["second"] = nn.Linear(hidden_size, embedding_dim)
            layers["norm"] = nn.BatchNorm1d(embedding_dim)
        self.layers = nn.Sequential(layers)
        self.dimension = hidden_size if linear else embedding_dim
        init_glorot(self)

    def forward(self, rows: Tensor) -> Tensor:
        return functional.normalize(self.layers(rows), dim=1)


class Branches(nn.Module):
    """What both networks have: a branch for regions or photos, and one for phrases or sentences."""

    visual: Branch
    text: Branch
    visual_mean: Tensor
    visual_scale: Tensor

    def __init__(self, visual_size: int, standardize_images: bool) -> None:
        super().__init__()
        self.standardizes = standardize_images
        if standardize_images:
            self.register_buffer("visual_mean", torch.zeros(visual_size))
            self.register_buffer("visual_scale", torch.ones(visual_size))

    def embed_visual(self, rows: Tensor) -> Tensor:
        return self.visual((rows - self.visual_mean) / self.visual_scale if self.standardizes else rows)

    def embed_text(self, rows: Tensor) -> Tensor:
        return self.text(rows)

    def functions(self) -> list[Function]:
        """Inference functions."""
        return [
            Function(f"embed_{name}", {"features": Array("rows", branch.input_size)}, {"vectors": self.vectors("rows")})
            for name, branch in (("visual", self.visual), ("text", self.text))
        ]

    def vectors(self, rows: str) -> Array:
        """Shape of vectors in the common space."""
        return Array(rows, self.visual.dimension)


class TwoBranchNetwork(Branches):
    """The embedding network (section 3.1): both branches, with an optional text encoder before that of text.

    With a text encoder, `text_size` is the number of words that it knows.
    """

    def __init__(self, visual_size: int, text_size: int, settings: TwoBranchSettings) -> None:
        super().__init__(visual_size, settings.standardize_images)
        self.encoder: TextEncoder | None = None
        if settings.text_encoder != "none":  # section 5.3
            sizes = (settings.word_dim, settings.text_hidden_size, settings.text_layers)
            shape = TextEncoderShape(settings.text_encoder, text_size, *sizes, settings.word_dropout)
            self.encoder = make_text_encoder(shape)
            text_size = self.encoder.size
        layers = (settings.embedding_dim, settings.dropout, settings.linear)
        self.visual = Branch(visual_size, settings.hidden_size, *layers)
        self.text = Branch(text_size, settings.text_branch_size or settings.hidden_size, *layers)
        self.log_temperature: nn.Parameter | None = None
        if settings.loss == "softmax":
            self.log_temperature = nn.Parameter(torch.tensor(math.log(settings.temperature)))

    def embed_text(self, *inputs: Tensor) -> Tensor:
        """Embed texts, given as features, or as word ids or word vectors, with lengths."""
        return self.text(inputs[0] if self.encoder is None else self.encoder(*inputs))

    def forward(self, visual: Tensor, *text: Tensor) -> tuple[Tensor, Tensor]:
        return self.embed_visual(visual), self.embed_text(*text)

    def functions(self) -> list[Function]:
        visual, text = super().functions()
        if self.encoder is None:
            return [visual, text]
        words = Array("rows", "words", self.encoder.words.embedding_dim)
        return [visual, replace(text, inputs={"words": words, "lengths": Array("rows", dtype="int64", example=2)})]


class SimilarityNetwork(Branches):
    """The similarity network (section 3.3): the product of both branches, and one to three layers with ReLU between."""

    def __init__(self, visual_size: int, text_size: int, settings: SimilaritySettings) -> None:
        super().__init__(visual_size, settings.standardize_images)
        layers = (settings.hidden_size, settings.embedding_dim, settings.dropout, settings.linear)
        self.visual = Branch(visual_size, *layers)
        self.text = Branch(text_size, *layers)
        widths = [self.visual.dimension, *(512, 256, 1)[3 - settings.fusion_layers :]]
        fused: list[nn.Module] = []
        for before, after in pairwise(widths):
            fused += [nn.Linear(before, after), nn.ReLU()]
        self.fused = nn.Sequential(*fused[:-1])
        init_glorot(self.fused)

    def fuse(self, visual: Tensor, text: Tensor) -> Tensor:
        """Score pairs of vectors (…, d): (…)."""
        return self.fused(visual * text).squeeze(-1)

    def forward(self, visual: Tensor, text: Tensor) -> Tensor:
        return self.fuse(self.embed_visual(visual), self.text(text))

    def score_pairs(self, visual: Tensor, text: Tensor) -> Tensor:
        """Score every vector of one side (n, d) against every vector of the other (m, d): (n, m)."""
        return self.fuse(visual[:, None], text)

    def functions(self) -> list[Function]:
        pairs = {"visual": self.vectors("visual_rows"), "text": self.vectors("text_rows")}
        scores = {"scores": Array("visual_rows", "text_rows")}
        return [*super().functions(), Function("score_pairs", pairs, scores)]
