"""The models of the two-branch paper on arrays: embedding network (section 3.1), similarity network (section 3.3).

`MatchingPipeline` makes them, and CCA, ready for use.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Embedder, NetworkModel, Scorer, WordNetworkModel, check_rows
from deixis.models.grounding import EmbeddingPipeline
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact, Storable
from deixis.tokens import Text

if TYPE_CHECKING:
    from deixis.models.matching.networks import SimilarityNetwork, TwoBranchNetwork


BLOCK_PAIRS = 16_384
"""Pairs that are scored at once: 34 MB for each layer."""


class _Branches:
    """What both models have: a branch for features of photos or regions, and one for those of texts."""

    SIZES: ClassVar[tuple[str, ...]] = ("visual_size", "text_size")
    visual_size: int
    text_size: int
    settings: Any
    functions: Functions

    @property
    def dimension(self) -> int:
        """Dimension of the vectors; of a similarity network, their dot product has no meaning."""
        return int(self.settings.hidden_size if self.settings.linear else self.settings.embedding_dim)

    def prepare_visual(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.visual_size, "photo or region")
        return self.functions.in_blocks("embed_visual", rows, columns=self.dimension)

    def prepare_text(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.text_size, "sentence or phrase")
        return self.functions.in_blocks("embed_text", rows, columns=self.dimension)


class TwoBranch(_Branches, WordNetworkModel[TwoBranchSettings, "TwoBranchNetwork"], Embedder):
    """The embedding network on arrays: vectors of unit length, whose dot product is the score.

    A new model is untrained; ``deixis train two-branch`` trains its `network`. A text encoder needs the `vocabulary`
    that it knows instead of `text_size`; with `frozen` word vectors it also knows their words, and training adds a
    difference for each word of the vocabulary.

    Examples
    --------
    >>> model = TwoBranch(8, 6, TwoBranchSettings(hidden_size=16, embedding_dim=4))
    >>> visual, text = model.prepare_visual(np.ones((3, 8))), model.prepare_text(np.ones((5, 6)))
    >>> model.scores(visual, text).shape, model.dimension
    ((3, 5), 4)
    """

    KIND = "two-branch"
    SETTINGS = TwoBranchSettings
    WORDS = "encoder.words"

    def __init__(
        self,
        visual_size: int,
        text_size: int = 0,
        settings: TwoBranchSettings | None = None,
        vocabulary: Vocabulary | None = None,
        frozen: WordVectors | None = None,
        *,
        functions: Functions | None = None,
    ) -> None:
        settings = settings or TwoBranchSettings()
        if (settings.text_encoder == "none") != (vocabulary is None):
            problem = "needs a vocabulary" if vocabulary is None else "takes text features, not a vocabulary"
            raise DeixisError(f"two-branch: text_encoder={settings.text_encoder} {problem}")
        self.visual_size = visual_size
        self.text_size = text_size if vocabulary is None else len(vocabulary)
        super().__init__(settings, vocabulary, frozen, functions)

    def make_network(self) -> TwoBranchNetwork:
        from deixis.models.matching.networks import TwoBranchNetwork

        network = TwoBranchNetwork(self.visual_size, self.text_size, self.settings)
        if self.frozen is not None and network.encoder is not None:
            network.encoder.words.add_frozen(lambda: self.words.frozen_by_id(), self.settings.delta_dropout)
        return network

    def prepare_text(self, features: ArrayLike | Sequence[Text]) -> Floats:
        """Encode sentences or phrases, given as features or, with a text encoder, as texts."""
        if self.vocabulary is None:
            return super().prepare_text(features)  # type: ignore[arg-type] # the settings say which of the two it is
        return self.embed_texts("embed_text", features, self.dimension)  # type: ignore[arg-type]

    def visual_axes(self, count: int) -> Floats | None:
        """The first left singular vectors of a linear visual branch."""
        if not self.settings.linear or count >= min(self.visual_size, self.dimension):
            return None
        weight = self.functions.weight("visual.layers.first.weight").astype(np.float64)
        squares, right = np.linalg.eigh(weight.T @ weight)
        axes = weight @ right[:, ::-1][:, :count] / np.sqrt(squares[::-1][:count])
        # Their signs are arbitrary, and libraries differ in them.
        axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(count)])
        return np.asarray(axes, dtype=np.float32)


class Similarity(_Branches, NetworkModel[SimilaritySettings, "SimilarityNetwork"], Scorer):
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
    SETTINGS = SimilaritySettings

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
        super().__init__(settings, functions)

    def make_network(self) -> SimilarityNetwork:
        from deixis.models.matching.networks import SimilarityNetwork

        return SimilarityNetwork(self.visual_size, self.text_size, self.settings)

    def scores(self, visual: Floats, text: Floats) -> Floats:
        found = np.empty((len(visual), len(text)), dtype=np.float32)
        columns = min(max(1, len(text)), BLOCK_PAIRS)
        rows = BLOCK_PAIRS // columns
        for row in range(0, len(visual), rows):
            for column in range(0, len(text), columns):
                block = slice(row, row + rows), slice(column, column + columns)
                found[block] = self.functions("score_pairs", visual[block[0]], text[block[1]])[0]
        return found


_CLASSES = {
    "cca": ("cca.model", "CCA"),
    "similarity": ("matching.model", "Similarity"),
    "stacked": ("cca.model", "Stacked"),
    "two-branch": ("matching.model", "TwoBranch"),
}


class MatchingPipeline(EmbeddingPipeline):
    """A matching model with its image encoder and its text features."""

    @classmethod
    def load_model(cls, artifact: Artifact) -> Storable:
        module, name = _CLASSES["stacked" if "auxiliary" in artifact.parts else artifact.kind]
        return getattr(import_module(f"deixis.models.{module}"), name).from_artifact(artifact)
