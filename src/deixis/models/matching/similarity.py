"""The similarity network (two-branch paper, section 3.3): the product of two branches, and layers that score it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from deixis.arrays import Floats
from deixis.models.base import Scorer
from deixis.models.matching.two_branch import Branch, init_glorot
from deixis.models.networks import apply_in_blocks, check_rows
from deixis.models.training.settings import require
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.networks import set_weights, weights_of, without_weights

BLOCK_PAIRS = 16_384
"""Pairs that are scored at once: 34 MB for each layer."""


@dataclass(frozen=True)
class SimilaritySettings:
    """Hyperparameters of the similarity network (two-branch paper, section 3.3).

    The defaults are the paper's best phrase network; `similarity_presets.toml` holds the other variants.

    Attributes
    ----------
    hidden_size
        Size of the first layer of each branch.
    embedding_dim
        Size of the second layer of each branch.
    linear
        Keep only the first layer of each branch; the product then has `hidden_size` dimensions.
    dropout
        Dropout after the first layer.
    fusion_layers
        Layers after the product: 3 (of sizes 512, 256 and 1), 2 (256 and 1) or 1.
    positives
        augmented: all regions with an IoU of at least `positive_iou` are positives; single: the gold box.
    positive_iou, negative_iou
        Minimum IoU of a positive region, and the IoU below which a region is a negative.
    """

    hidden_size: int = 1024
    embedding_dim: int = 512
    linear: bool = False
    dropout: float = 0.0
    fusion_layers: int = 3
    positives: Literal["augmented", "single"] = "augmented"
    positive_iou: float = 0.7
    negative_iou: float = 0.3

    def __post_init__(self) -> None:
        sizes = ("hidden_size", "embedding_dim")
        require(self, {name: getattr(self, name) >= 1 for name in sizes}, "must be 1 or more")
        require(self, {"dropout": 0 <= self.dropout < 1}, "must be at least 0 and less than 1")
        require(self, {"fusion_layers": self.fusion_layers in (1, 2, 3)}, "must be 1, 2 or 3")


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
