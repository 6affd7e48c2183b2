"""Base classes of models, how a network computes and is saved, and the inputs of models as arrays.

`Scorer` and `Embedder` say what models compute. Inputs are rows of features, words of texts and regions of photos.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.geometry import Boxes
from deixis.language.vectors import WordVectors
from deixis.language.vocabulary import Vocabulary, WordTable, frozen_reference, open_frozen
from deixis.runtime import Functions
from deixis.storage.artifacts import Artifact, Storable
from deixis.tokens import Text, words_of

if TYPE_CHECKING:
    from torch import nn

    from deixis.vision.encoder import FeatureMap
    from deixis.vision.feature_store import FeatureStore


MAX_WORDS = 100
"""Longer texts are cut; the longest caption of Flickr30k is shorter."""


def check_rows(features: Any, size: int, name: str) -> NDArray[Any]:
    """Return features as an array with one row each; refuse those of another size."""
    rows = np.asarray(features)
    if rows.ndim != 2 or rows.shape[1] != size:
        raise DeixisError(f"features of shape {rows.shape}: a {name} has {size:,} features here, one row each")
    return rows


def word_ids(texts: Sequence[Text], vocabulary: Vocabulary | WordTable) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the padded word ids of texts (n, length), and their lengths (n,).

    A text without words becomes one unknown word.

    Examples
    --------
    >>> word_ids(["A red dog", ""], Vocabulary(("a", "dog"), (2, 1)))
    (array([[0, 2, 1],
           [2, 3, 3]]), array([3, 1]))
    """
    unknown, padding = len(vocabulary), len(vocabulary) + 1
    numbers = [vocabulary.encode(words_of(text), unknown)[:MAX_WORDS] or [unknown] for text in texts]
    lengths = np.array([len(ids) for ids in numbers], dtype=np.int64)
    ids = np.full((len(numbers), max(lengths, default=1)), padding, dtype=np.int64)
    for row, known in zip(ids, numbers, strict=True):
        row[: len(known)] = known
    return ids, lengths


def word_vectors(texts: Sequence[Text], table: WordTable) -> tuple[Floats, NDArray[np.int64]]:
    """Return the word vectors of texts (n, length, dimension), padded with zeros, and their lengths (n,).

    A text without words becomes one unknown word.
    """
    words = [words_of(text)[:MAX_WORDS] or [""] for text in texts]
    lengths = np.array([len(each) for each in words], dtype=np.int64)
    vectors = np.zeros((len(words), max(lengths, default=1), table.dimension), dtype=np.float32)
    vectors[np.arange(vectors.shape[1]) < lengths[:, None]] = table.vectors(word for each in words for word in each)
    return vectors, lengths


LOCATION_SIZE = 7
"""Left, top, right and bottom of a box, its width, height and area."""


def box_locations(boxes: npt.ArrayLike, size: tuple[int, int]) -> Floats:
    """Location features of boxes (n, 4) in pixels, divided by the width and height of the photo."""
    shares = np.asarray(boxes, dtype=np.float64).reshape(-1, 4) / np.array([*size, *size])
    sides = shares[:, 2:] - shares[:, :2]
    return np.hstack([shares, sides, sides.prod(axis=1, keepdims=True)]).astype(np.float32)


def append_locations(vectors: Floats, boxes: npt.ArrayLike, size: tuple[int, int], weight: float) -> Floats:
    """Append location features, times `weight`, to the vectors of regions; weight 0 leaves them out."""
    return np.hstack([vectors, np.float32(weight) * box_locations(boxes, size)]) if weight else vectors


def append_whole_location(vectors: Floats, weight: float) -> Floats:
    """Append the location of the whole photo to the vectors of photos."""
    if not weight:
        return vectors
    return np.hstack([vectors, np.tile(np.float32(weight) * box_locations([0, 0, 1, 1], (1, 1)), (len(vectors), 1))])


@dataclass(frozen=True)
class RegionInputs:
    """The regions of one photo; there may be none.

    Attributes
    ----------
    vectors : array, (n, channels)
        Feature vectors of the regions.
    boxes : array, (n, 4)
        `x1, y1, x2, y2` divided by the width and height of the photo.
    objectness : array, (n,)
        Scores of the region proposals, from 0 to 1.
    whole : array, (dimension,)
        Feature vector of the whole photo.
    cells : array, (channels, rows, columns), optional
        The feature map of the photo, for models that use it.

    Examples
    --------
    >>> boxes = np.array([[0, 0, 0.5, 1], [0.2, 0, 1, 1]])
    >>> len(RegionInputs(np.ones((2, 8)), boxes, np.array([0.7, 0.4]), np.ones(8)))
    2
    """

    vectors: NDArray[Any]
    boxes: NDArray[Any]
    objectness: NDArray[Any]
    whole: NDArray[Any]
    cells: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        shapes = [array.shape for array in (self.vectors, self.boxes, self.objectness)]
        count = shapes[0][:1]
        if self.vectors.ndim != 2 or shapes[1:] != [(*count, 4), count] or self.whole.ndim != 1:
            raise DeixisError(f"regions: vectors, boxes and objectness have inconsistent shapes {shapes}")

    def __len__(self) -> int:
        return len(self.vectors)

    @classmethod
    def of(cls, features: FeatureMap, boxes: Boxes, objectness: NDArray[Any], *, cells: bool = False) -> Self:
        """Boxes of a photo in pixels as models take them, with its feature map on request."""
        shares = boxes / np.tile(features.size, 2)
        return cls(features.regions(boxes), shares, objectness, features.whole, features.cells if cells else None)


def read_regions(store: FeatureStore, photo_id: str, max_proposals: int, *, cells: bool = False) -> RegionInputs:
    """Read the best proposals of a photo from a feature store, with its feature map if `cells`."""
    proposals = store.proposals(photo_id)
    size = store.sizes([photo_id])[0]
    return RegionInputs(
        store.proposal_vectors(photo_id)[:max_proposals],
        proposals.boxes[:max_proposals] / np.tile(size, 2),
        proposals.scores[:max_proposals],
        store.whole([photo_id])[0],
        store.map(photo_id).cells if cells else None,
    )


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
