"""The embedding network (two-branch paper, section 3.1): regions and phrases, or photos and sentences, in one space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import Text
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.language.word_table import WordTable, frozen_reference, open_frozen
from deixis.models.base import Embedder
from deixis.models.inputs import check_rows, word_ids, word_vectors
from deixis.models.matching.spec import TwoBranchSettings
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact, Storable

if TYPE_CHECKING:
    from deixis.models.matching.networks import TwoBranchNetwork

TEXTS_PER_BATCH = 1024
"""Texts whose word vectors are looked up at once: 20 MB for captions."""


class TwoBranch(Storable, Embedder):
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
        self.settings = settings or TwoBranchSettings()
        if (self.settings.text_encoder == "none") != (vocabulary is None):
            problem = "needs a vocabulary" if vocabulary is None else "takes text features, not a vocabulary"
            raise DeixisError(f"two-branch: text_encoder={self.settings.text_encoder} {problem}")
        self.visual_size = visual_size
        self.text_size = text_size if vocabulary is None else len(vocabulary)
        self.vocabulary = vocabulary
        self.frozen = frozen
        self.functions = functions or Functions(self._make_network())

    def _make_network(self) -> TwoBranchNetwork:
        from deixis.models.matching.networks import TwoBranchNetwork

        network = TwoBranchNetwork(self.visual_size, self.text_size, self.settings)
        if self.frozen is not None and network.encoder is not None:
            network.encoder.words.add_frozen(self._frozen_by_id, self.settings.delta_dropout)
        return network

    @property
    def network(self) -> TwoBranchNetwork:
        """The torch module."""
        network: TwoBranchNetwork = self.functions.module
        return network

    @property
    def dimension(self) -> int:
        return self.settings.hidden_size if self.settings.linear else self.settings.embedding_dim

    @property
    def words(self) -> WordTable | None:
        """The word vectors of the text encoder, as they are now if the network is being trained."""
        if self.vocabulary is None:
            return None
        return WordTable(self.vocabulary, self.functions.table("encoder.words.weight"), self.frozen)

    def _frozen_by_id(self) -> Floats:
        assert self.words is not None  # noqa: S101 - only called with a text encoder
        return self.words.frozen_by_id()

    def prepare_visual(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.visual_size, "photo or region")
        return self.functions.in_blocks("embed_visual", rows, columns=self.dimension)

    def prepare_text(self, features: ArrayLike | Sequence[Text]) -> Floats:
        """Encode sentences or phrases, given as features or, with a text encoder, as texts."""
        if (table := self.words) is None:
            rows = check_rows(features, self.text_size, "sentence or phrase")
            return self.functions.in_blocks("embed_text", rows, columns=self.dimension)
        texts: Sequence[Text] = features  # type: ignore[assignment] # the settings say which of the two it is
        vectors = [np.zeros((0, self.dimension), dtype=np.float32)]  # recurrent encoders take no empty batch
        for begin in range(0, len(texts), TEXTS_PER_BATCH):
            inputs = word_vectors(texts[begin : begin + TEXTS_PER_BATCH], table)
            vectors.append(self.functions.in_blocks("embed_text", *inputs, columns=self.dimension))
        return np.concatenate(vectors)

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

    def training_inputs(self, texts: Sequence[Text]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the word ids and lengths of texts, which train the word embeddings of the text encoder."""
        assert self.words is not None  # noqa: S101 - only called with a text encoder
        return word_ids(texts, self.words)

    def to_artifact(self) -> Artifact:
        settings = {
            "visual_size": self.visual_size,
            "text_size": self.text_size,
            "settings": asdict(self.settings),
            "vocabulary": None if self.vocabulary is None else self.vocabulary.to_json(),
            "frozen": frozen_reference(self.frozen),
        }
        return self.functions.to_artifact(self.KIND, settings)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings, words = artifact.settings, artifact.settings["vocabulary"]
        vocabulary = None if words is None else Vocabulary.from_json(words)
        frozen = open_frozen(settings.get("frozen"))
        chosen = TwoBranchSettings(**settings["settings"])
        functions = Functions(artifact=artifact, make_module=lambda: model._make_network())
        model = cls(settings["visual_size"], settings["text_size"], chosen, vocabulary, frozen, functions=functions)
        return model
