"""A model as another package would write it: two linear maps into one space, for photos and for TF-IDF of sentences.

`test_registered_model.py` copies this module out of the tests and registers it by an entry point.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from deixis.data.dataset import Photos
from deixis.evaluation.retrieval import recall_at_k
from deixis.language.features.captions import recipe_of
from deixis.models.base import Embedder
from deixis.models.grounding import EmbeddingPipeline
from deixis.models.photo_features import sentence_vectors
from deixis.models.provenance import Provenance
from deixis.models.registry import ModelSpec
from deixis.models.training.data import PhotoDataSettings
from deixis.models.training.objective import DevScores, LossValue, Stage, Validation
from deixis.models.training.reproducibility import seeded
from deixis.models.training.runner import Run, TrainingData, encoder_of
from deixis.models.training.settings import TrainSettings
from deixis.storage.artifacts import Artifact, Storable


@dataclass(frozen=True)
class ToySettings:
    """Hyperparameters of the toy.

    Attributes
    ----------
    embedding_dim
        Dimension of the common space.
    """

    embedding_dim: int = 4


class Toy(Storable, Embedder):
    """The linear maps."""

    KIND = "toy"

    def __init__(self, visual_size: int, text_size: int, settings: ToySettings) -> None:
        self.sizes, self.settings = (visual_size, text_size), settings
        self.network = nn.ModuleList([nn.Linear(size, settings.embedding_dim) for size in self.sizes])

    @property
    def dimension(self) -> int:
        return self.settings.embedding_dim

    def _map(self, side: int, features: Any) -> np.ndarray:
        with torch.no_grad():
            found: np.ndarray = self.network[side](torch.from_numpy(np.asarray(features, np.float32))).numpy()
        return found

    def prepare_visual(self, features: Any) -> np.ndarray:
        return self._map(0, features)

    def prepare_text(self, features: Any) -> np.ndarray:
        return self._map(1, features)

    def to_artifact(self) -> Artifact:
        arrays = {name: tensor.numpy().copy() for name, tensor in self.network.state_dict().items()}
        return Artifact(self.KIND, {"sizes": list(self.sizes), **asdict(self.settings)}, arrays)

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Toy:
        sizes = artifact.settings["sizes"]
        toy = cls(*sizes, ToySettings(artifact.settings["embedding_dim"]))
        toy.network.load_state_dict({name: torch.tensor(array) for name, array in artifact.arrays.items()})
        return toy


class ToyPipeline(EmbeddingPipeline):
    """The maps, with the image encoder and the text features."""

    MODEL = Toy


@dataclass
class ToyData(TrainingData):
    """Photos and sentences as arrays."""

    visual: Any = None
    text: Any = None
    owner: Any = None
    text_features: Any = None


def prepare_data(run: Run) -> ToyData:
    train = run.read_training_photos(run.settings[PhotoDataSettings].feature_source)
    found = sentence_vectors(run.dataset, train.photos, recipe_of("tfidf", None), train=run.train_split)
    count = len(found.rows)
    return ToyData(
        train,
        sentences=count,
        texts=f"{count} sentences",
        visual=torch.from_numpy(train.vectors()),
        text=torch.from_numpy(np.array(found.vectors[found.rows])),
        owner=torch.from_numpy(np.array(found.owner)),
        text_features=found.features,
    )


def build(run: Run, data: ToyData) -> ToyPipeline:
    with seeded(run.training.seed):
        model = Toy(data.visual.shape[1], data.text.shape[1], run.settings[ToySettings])
    return ToyPipeline(model, Provenance(encoder_of(data.train)), data.text_features)


@dataclass(frozen=True)
class Shuffled:
    """Sentences in random order."""

    count: int
    batch_size: int

    def __len__(self) -> int:
        return -(-self.count // self.batch_size)

    def epoch(self, number: int, generator: np.random.Generator) -> Iterator[Tensor]:
        return iter(torch.from_numpy(generator.permutation(self.count)).split(self.batch_size))


def objective(run: Run, pipeline: ToyPipeline, data: ToyData) -> Stage:
    def loss(network: Any, rows: Tensor) -> LossValue:
        photos, columns = data.owner[rows].unique(return_inverse=True)
        scores = network[1](data.text[rows]) @ network[0](data.visual[photos]).T
        return LossValue(nn.functional.cross_entropy(scores, columns))

    return Stage(pipeline.model.network, Shuffled(len(data.text), run.training.batch_size), loss)


def validation(run: Run, data: ToyData, photos: Photos) -> Validation:
    dev = run.read_photos(photos, run.settings[PhotoDataSettings].feature_source)
    rows, owner = dev.photos.sentence_rows()
    texts = run.dataset.tables["captions"]["text"].take(rows).to_pylist()
    return Validation(
        dev, lambda pipeline: DevScores("i2t_r1", recall_at_k(pipeline.retrieval_scores(dev, texts), owner).scores)
    )


SPEC = ModelSpec(
    name="toy",
    summary="two linear maps into one space",
    settings=(PhotoDataSettings(), ToySettings(), TrainSettings(epochs=4, batch_size=8, learning_rate=0.02)),
    prepare_data=prepare_data,
    build=build,
    objective=objective,
    validation=validation,
    load=ToyPipeline.from_artifact,
)
