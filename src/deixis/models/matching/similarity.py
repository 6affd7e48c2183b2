"""The similarity network (two-branch paper, section 3.3): the product of two branches, and layers that score it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike

from deixis.arrays import Floats
from deixis.models.base import Scorer
from deixis.models.inputs import check_rows
from deixis.models.matching.spec import SimilaritySettings
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact, Storable

if TYPE_CHECKING:
    from deixis.models.matching.networks import SimilarityNetwork

BLOCK_PAIRS = 16_384
"""Pairs that are scored at once: 34 MB for each layer."""


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
        functions: Functions | None = None,
    ) -> None:
        self.visual_size = visual_size
        self.text_size = text_size
        self.settings = settings or SimilaritySettings()
        self.functions = functions or Functions(self._make_network())

    def _make_network(self) -> SimilarityNetwork:
        from deixis.models.matching.networks import SimilarityNetwork

        return SimilarityNetwork(self.visual_size, self.text_size, self.settings)

    @property
    def network(self) -> SimilarityNetwork:
        """The torch module."""
        network: SimilarityNetwork = self.functions.module
        return network

    @property
    def dimension(self) -> int:
        """Dimension of the outputs of a branch; their dot product has no meaning."""
        return self.settings.hidden_size if self.settings.linear else self.settings.embedding_dim

    def prepare_visual(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.visual_size, "photo or region")
        return self.functions.in_blocks("embed_visual", rows, columns=self.dimension)

    def prepare_text(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.text_size, "sentence or phrase")
        return self.functions.in_blocks("embed_text", rows, columns=self.dimension)

    def scores(self, visual: Floats, text: Floats) -> Floats:
        found = np.empty((len(visual), len(text)), dtype=np.float32)
        columns = min(max(1, len(text)), BLOCK_PAIRS)
        rows = BLOCK_PAIRS // columns
        for row in range(0, len(visual), rows):
            for column in range(0, len(text), columns):
                block = slice(row, row + rows), slice(column, column + columns)
                found[block] = self.functions("score_pairs", visual[block[0]], text[block[1]])[0]
        return found

    def to_artifact(self) -> Artifact:
        sizes = {"visual_size": self.visual_size, "text_size": self.text_size}
        return self.functions.to_artifact(self.KIND, {**sizes, "settings": asdict(self.settings)})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings = artifact.settings
        chosen = SimilaritySettings(**settings["settings"])
        functions = Functions(artifact=artifact, make_module=lambda: model._make_network())
        model = cls(settings["visual_size"], settings["text_size"], chosen, functions=functions)
        return model
