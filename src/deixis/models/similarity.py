"""The similarity network of the two-branch paper (§3.3): two branches, multiplied number by number, then scored."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from deixis.errors import DeixisError
from deixis.language.features.base import Floats
from deixis.language.saved import Saved
from deixis.models.base import Scorer
from deixis.models.networks import checked_rows, give_weights, in_blocks, weights_of, without_weights
from deixis.models.saved import StoredModel
from deixis.models.two_branch import Branch, start_layers

PAIRS_AT_A_TIME = 16_384
"""Pairs that are scored in one go: 34 MB for each layer."""


@dataclass(frozen=True)
class SimilaritySettings:
    """What can be chosen. The defaults are the paper's best network for phrases; `PAPERS` has its others by name.

    Attributes
    ----------
    hidden
        Numbers after the first layer of each branch.
    dimension
        Numbers after the second layer.
    linear
        Keep only the first layer of each branch; their product then has `hidden` numbers.
    dropout
        After the first layer.
    layers
        After the product: 3 (512, 256 and 1 number), 2 (256 and 1) or 1.
    positives
        augmented: all regions with an IoU of `positive_iou` or more are positives; single: the gold box.
    positive_iou, negative_iou
        From which a region is a positive, and below which it is a negative.
    """

    hidden: int = 1024
    dimension: int = 512
    linear: bool = False
    dropout: float = 0.0
    layers: int = 3
    positives: Literal["augmented", "single"] = "augmented"
    positive_iou: float = 0.7
    negative_iou: float = 0.3

    def __post_init__(self) -> None:
        if self.hidden < 1 or self.dimension < 1 or not 0 <= self.dropout < 1:
            raise DeixisError(
                f"similarity: no network has hidden={self.hidden}, dimension={self.dimension}, dropout={self.dropout}"
            )
        if self.layers not in (1, 2, 3):
            raise DeixisError(f"layers={self.layers}: must be 1, 2 or 3")


_PHRASES = SimilaritySettings()
PAPERS = {
    "papers/similarity-phrases": _PHRASES,
    "papers/similarity-phrases-linear": replace(_PHRASES, linear=True),
    "papers/similarity-phrases-single-positive": replace(_PHRASES, positives="single"),
    "papers/similarity-phrases-linear-single-positive": replace(_PHRASES, linear=True, positives="single"),
    "papers/similarity-phrases-two-layers": replace(_PHRASES, layers=2),
    "papers/similarity-phrases-one-layer": replace(_PHRASES, layers=1),
    "papers/similarity-sentences": replace(_PHRASES, hidden=2048, dropout=0.5),
}
"""The two-branch paper's own networks: Table 1 (c), §4.4 and Table 2 (d)."""


class SimilarityNetwork(nn.Module):
    """Two branches, their product, and one to three layers with ReLU between them.

    Examples
    --------
    >>> SimilarityNetwork(4096, 6000, SimilaritySettings()).fused
    Sequential(
      (0): Linear(in_features=512, out_features=512, bias=True)
      (1): ReLU()
      (2): Linear(in_features=512, out_features=256, bias=True)
      (3): ReLU()
      (4): Linear(in_features=256, out_features=1, bias=True)
    )
    """

    def __init__(self, visual_size: int, text_size: int, settings: SimilaritySettings) -> None:
        super().__init__()
        sizes = (settings.hidden, settings.dimension, settings.dropout, settings.linear)
        self.visual = Branch(visual_size, *sizes)
        self.text = Branch(text_size, *sizes)
        widths = [self.visual.dimension, *(512, 256, 1)[3 - settings.layers :]]
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        self.fused = nn.Sequential(*layers[:-1])
        start_layers(self.fused)

    def embed_visual(self, rows: Tensor) -> Tensor:
        """Vectors of regions or photos."""
        vectors: Tensor = self.visual(rows)
        return vectors

    def embed_text(self, rows: Tensor) -> Tensor:
        """Vectors of phrases or sentences."""
        vectors: Tensor = self.text(rows)
        return vectors

    def fuse(self, visual: Tensor, text: Tensor) -> Tensor:
        """The score of each pair of vectors: one number fewer axes than these have."""
        scores: Tensor = self.fused(visual * text).squeeze(-1)
        return scores

    def forward(self, visual: Tensor, text: Tensor) -> Tensor:
        """The score of each pair of rows."""
        return self.fuse(self.embed_visual(visual), self.embed_text(text))


class Similarity(StoredModel, Scorer):
    """The similarity network as a model: each side goes through its branch once, each pair through what follows.

    What is made here is not trained; the loop of `deixis.training` trains `network`. A score is the logarithm of the
    odds that the pair matches.

    Parameters
    ----------
    visual_size, text_size
        Numbers in the features of a region or photo, and of a phrase or sentence.
    settings
        What can be chosen.
    device
        Where to compute, as torch names it.

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
        """Numbers in each vector that a branch makes; their dot product means nothing."""
        return self.network.visual.dimension

    def prepare_visual(self, features: ArrayLike) -> Floats:
        """What the visual branch makes of photos or regions."""
        rows = checked_rows(features, self.visual_size, "photo or region")
        return in_blocks(self.network, self.network.embed_visual, rows)

    def prepare_text(self, features: ArrayLike) -> Floats:
        """What the text branch makes of sentences or phrases."""
        rows = checked_rows(features, self.text_size, "sentence or phrase")
        return in_blocks(self.network, self.network.embed_text, rows)

    @torch.inference_mode()
    def scores(self, visual: Floats, text: Floats) -> Floats:
        """A row for each photo or region, a column for each sentence or phrase, all of them prepared."""
        device = next(self.network.parameters()).device
        all_visual, all_text = (torch.from_numpy(np.asarray(rows)).to(device) for rows in (visual, text))
        found = np.empty((len(visual), len(text)), dtype=np.float32)
        texts = min(max(1, len(text)), PAIRS_AT_A_TIME)
        visuals = PAIRS_AT_A_TIME // texts
        for row in range(0, len(visual), visuals):
            for column in range(0, len(text), texts):
                block = slice(row, row + visuals), slice(column, column + texts)
                # The layer after the product is nearly all of the work, and takes every pair for itself.
                scores = self.network.fuse(all_visual[block[0], None], all_text[block[1]])
                found[block] = scores.cpu().numpy()
        return found

    def saved(self) -> Saved:
        """What `save` writes."""
        settings = {
            "visual_size": self.visual_size,
            "text_size": self.text_size,
            "settings": asdict(self.settings),
        }
        return Saved(self.KIND, settings, weights_of(self.network))

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        settings = saved.settings
        with without_weights():
            chosen = SimilaritySettings(**settings["settings"])
            model = cls(settings["visual_size"], settings["text_size"], chosen, device="meta")
        give_weights(model.network, saved.arrays)
        return model
