"""Base classes of models: what they compute (`Scorer`, `Embedder`), and how a network computes and is saved."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.language.features.base import Text
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary
from deixis.language.word_table import WordTable, frozen_reference, open_frozen
from deixis.models.inputs import word_vectors
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact, Storable

if TYPE_CHECKING:
    from torch import nn

SettingsT = TypeVar("SettingsT")
NetworkT = TypeVar("NetworkT", bound="nn.Module")

_TEXTS_PER_BATCH = 1024
"""Texts whose word vectors are looked up at once: 20 MB for captions."""


class Scorer(ABC):
    """Scores photos or regions against sentences or phrases; higher is better.

    `prepare_visual` and `prepare_text` compute what needs only one side, once; `scores` does the rest for every pair.
    """

    has_common_space: ClassVar[bool] = False
    """Whether the codes are vectors that can also be compared within one side, such as sentences with sentences."""

    @abstractmethod
    def prepare_visual(self, features: Any) -> Any:
        """Encode photos or regions."""

    @abstractmethod
    def prepare_text(self, features: Any) -> Any:
        """Encode sentences or phrases."""

    @abstractmethod
    def scores(self, visual: Any, text: Any) -> Floats:
        """Score every encoded photo or region (rows) against every encoded sentence or phrase (columns)."""


class Embedder(Scorer):
    """A scorer whose codes are vectors and whose score is their dot product: what an index can hold."""

    has_common_space = True

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Dimension of the vectors."""

    @abstractmethod
    def prepare_visual(self, features: Any) -> Floats: ...

    @abstractmethod
    def prepare_text(self, features: Any) -> Floats: ...

    def visual_axes(self, count: int) -> Floats | None:
        """Orthonormal axes that carry most of the vectors of photos and regions, (dimension, count), if known."""
        return None

    def scores(self, visual: Floats, text: Floats) -> Floats:
        return visual @ text.T


class NetworkModel(Storable, Generic[SettingsT, NetworkT]):
    """A model on arrays that calls the inference functions of one torch network.

    The network lists its functions in a method ``functions``; a saved model holds them as ONNX graphs, so it needs
    torch only to be trained. A new model is untrained. Saved are the arguments of the constructor and the weights.

    A subclass sets the class attributes, stores the sizes that its constructor takes, and calls this constructor last.
    """

    SETTINGS: ClassVar[type[Any]]
    """Dataclass of hyperparameters."""
    SIZES: ClassVar[tuple[str, ...]]
    """Arguments of the constructor that are numbers."""
    ARRAYS: ClassVar[tuple[str, ...]] = ()
    """Prefixes of the names of saved arrays that are not weights of the network."""

    def __init__(self, settings: SettingsT | None = None, functions: Functions | None = None) -> None:
        self.settings: SettingsT = settings or self.SETTINGS()
        self.functions = functions or Functions(self.make_network())

    @abstractmethod
    def make_network(self) -> NetworkT:
        """Make an untrained network."""

    @property
    def network(self) -> NetworkT:
        """The torch module, which computes from now on: it may be trained."""
        return self.functions.module

    def save_arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor as JSON."""
        settings: Any = self.settings
        return {**{name: getattr(self, name) for name in self.SIZES}, "settings": asdict(settings)}

    @classmethod
    def load_arguments(cls, artifact: Artifact) -> dict[str, Any]:
        """Return the arguments of the constructor from what `save_arguments` gave."""
        saved = artifact.settings
        return {**{name: saved[name] for name in cls.SIZES}, "settings": cls.SETTINGS(**saved["settings"])}

    def save_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `ARRAYS`."""
        return {}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Set the arrays of `ARRAYS`."""

    def to_artifact(self) -> Artifact:
        return self.functions.to_artifact(self.KIND, self.save_arguments(), self.save_arrays())

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        arguments = cls.load_arguments(artifact)
        others = [name for name in artifact.arrays if name.startswith(cls.ARRAYS)]
        functions = Functions(artifact=artifact, make_module=lambda: model.make_network(), other_arrays=others)
        model = cls(**arguments, functions=functions)
        model.load_arrays(artifact.arrays)
        return model


class WordNetworkModel(NetworkModel[SettingsT, NetworkT]):
    """A `NetworkModel` that reads words: training adds a vector for each word of a vocabulary.

    With `frozen` word vectors it also knows their words, and what training adds is a difference from them.
    """

    WORDS: ClassVar[str]
    """Name of the `WordEmbedding` in the network."""

    def __init__(
        self,
        settings: SettingsT | None,
        vocabulary: Vocabulary | None,
        frozen: WordVectors | None,
        functions: Functions | None,
    ) -> None:
        self.vocabulary = vocabulary
        self.frozen = frozen
        super().__init__(settings, functions)

    @property
    def words(self) -> WordTable:
        """The word vectors, as they are now if the network is being trained."""
        if self.vocabulary is None:
            return WordTable(Vocabulary((), ()), frozen=self.frozen)
        return WordTable(self.vocabulary, self.functions.table(f"{self.WORDS}.weight"), self.frozen)

    def embed_texts(self, function: str, texts: Sequence[Text], columns: int) -> Floats:
        """Embed texts by an inference function that takes word vectors and lengths: (texts, columns)."""
        vectors = [np.zeros((0, columns), dtype=np.float32)]  # recurrent encoders take no empty batch
        for begin in range(0, len(texts), _TEXTS_PER_BATCH):
            inputs = word_vectors(texts[begin : begin + _TEXTS_PER_BATCH], self.words)
            vectors.append(self.functions.in_blocks(function, *inputs, columns=columns))
        return np.concatenate(vectors)

    def save_arguments(self) -> dict[str, Any]:
        vocabulary = None if self.vocabulary is None else self.vocabulary.to_json()
        return {**super().save_arguments(), "vocabulary": vocabulary, "frozen": frozen_reference(self.frozen)}

    @classmethod
    def load_arguments(cls, artifact: Artifact) -> dict[str, Any]:
        known, frozen = artifact.settings.get("vocabulary"), open_frozen(artifact.settings.get("frozen"))
        vocabulary = None if known is None else Vocabulary.from_json(known)
        return {**super().load_arguments(artifact), "vocabulary": vocabulary, "frozen": frozen}
