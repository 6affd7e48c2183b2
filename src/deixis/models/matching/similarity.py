"""The similarity network (two-branch paper, section 3.3): the product of two branches, and layers that score it."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from deixis.arrays import Floats
from deixis.models.base import Scorer
from deixis.models.matching.spec import SimilaritySettings
from deixis.models.matching.two_branch import Branch, init_glorot
from deixis.models.networks import apply_in_blocks, check_rows
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.networks import set_weights, weights_of, without_weights

BLOCK_PAIRS = 16_384
"""Pairs that are scored at once: 34 MB for each layer."""


class SimilarityNetwork(nn.Module):
    """Two branches, their elementwise product, and one to three layers with ReLU between them."""

    def __init__(self, visual_size: int, text_size: int, settings: SimilaritySettings) -> None:
        super().__init__()
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
        scores: Tensor = self.fused(visual * text).squeeze(-1)
        return scores

    def forward(self, visual: Tensor, text: Tensor) -> Tensor:
        return self.fuse(self.visual(visual), self.text(text))


class Similarity(Storable, Scorer):
    """The similarity network on arrays: a score is the logarithm of the odds that a pair matches.

    Each side goes through its branch once, each pair through the layers that follow. A new model is untrained;
    ``deixis train similarity`` trains its `network`.

    Examples
    --------
    >>> model = Similarity(8, 6)
    >>> visual, text = model.prepare_visual(np.ones((3, 8))), model.prepare_text(np.ones((5, 6)))
    >>> model.scores(visual, text).shape
    (3, 5)
    """

    KIND = "similarity"

    def __init__(
        self,
        visual_size: int,
        text_size: int,
        settings: SimilaritySettings | None = None,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        self.visual_size = visual_size
        self.text_size = text_size
        self.settings = settings or SimilaritySettings()
        self.network = SimilarityNetwork(visual_size, text_size, self.settings).to(device)

    @property
    def dimension(self) -> int:
        """Dimension of the outputs of a branch; their dot product has no meaning."""
        return self.network.visual.dimension

    def prepare_visual(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.visual_size, "photo or region")
        return apply_in_blocks(self.network, self.network.visual, rows)

    def prepare_text(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.text_size, "sentence or phrase")
        return apply_in_blocks(self.network, self.network.text, rows)

    @torch.inference_mode()
    def scores(self, visual: Floats, text: Floats) -> Floats:
        device = next(self.network.parameters()).device
        all_visual, all_text = (torch.from_numpy(np.asarray(rows)).to(device) for rows in (visual, text))
        found = np.empty((len(visual), len(text)), dtype=np.float32)
        columns = min(max(1, len(text)), BLOCK_PAIRS)
        rows = BLOCK_PAIRS // columns
        for row in range(0, len(visual), rows):
            for column in range(0, len(text), columns):
                block = slice(row, row + rows), slice(column, column + columns)
                scores = self.network.fuse(all_visual[block[0], None], all_text[block[1]])
                found[block] = scores.cpu().numpy()
        return found

    def to_artifact(self) -> Artifact:
        sizes = {"visual_size": self.visual_size, "text_size": self.text_size}
        return Artifact(self.KIND, {**sizes, "settings": asdict(self.settings)}, weights_of(self.network))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings = artifact.settings
        with without_weights():
            chosen = SimilaritySettings(**settings["settings"])
            model = cls(settings["visual_size"], settings["text_size"], chosen, device="meta")
        set_weights(model.network, artifact.arrays)
        return model
