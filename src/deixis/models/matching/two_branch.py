"""The embedding network (two-branch paper, section 3.1): regions and phrases, or photos and sentences, in one space."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from deixis.arrays import Floats
from deixis.errors import DeixisError
from deixis.language.features.base import Text
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Embedder
from deixis.models.matching.spec import TwoBranchSettings
from deixis.models.networks import (
    TextEncoder,
    TextEncoderShape,
    apply_in_blocks,
    check_rows,
    make_text_encoder,
    word_ids,
)
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.networks import set_weights, weights_of, without_weights


class Branch(nn.Module):
    """FC, ReLU, dropout, FC, batch norm and L2 normalization; if linear, the first FC and L2 normalization."""

    def __init__(
        self, input_size: int, hidden_size: int, embedding_dim: int, dropout: float = 0.0, linear: bool = False
    ) -> None:
        super().__init__()
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


def init_glorot(module: nn.Module) -> None:
    """Initialize as the paper's TensorFlow does by default: Glorot uniform weights, zero biases."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


class TwoBranchNetwork(nn.Module):
    """A branch for regions or photos, and one for phrases or sentences, with an optional text encoder before it.

    With a text encoder, `text_size` is the number of words that it knows.
    """

    def __init__(self, visual_size: int, text_size: int, settings: TwoBranchSettings) -> None:
        super().__init__()
        self.encoder: TextEncoder | None = None
        if settings.text_encoder != "none":  # section 5.3
            sizes = (settings.word_dim, settings.text_hidden_size, settings.text_layers)
            shape = TextEncoderShape(settings.text_encoder, text_size, *sizes, settings.word_dropout)
            self.encoder = make_text_encoder(shape)
            text_size = self.encoder.size
        layers = (settings.hidden_size, settings.embedding_dim, settings.dropout, settings.linear)
        self.visual = Branch(visual_size, *layers)
        self.text = Branch(text_size, *layers)
        self.log_temperature: nn.Parameter | None = None
        if settings.loss == "softmax":
            self.log_temperature = nn.Parameter(torch.tensor(math.log(settings.temperature)))

    def embed_visual(self, rows: Tensor) -> Tensor:
        vectors: Tensor = self.visual(rows)
        return vectors

    def embed_text(self, *inputs: Tensor) -> Tensor:
        """Embed texts, given as features or as word ids and lengths."""
        rows = inputs[0] if self.encoder is None else self.encoder(*inputs)
        vectors: Tensor = self.text(rows)
        return vectors

    def forward(self, visual: Tensor, *text: Tensor) -> tuple[Tensor, Tensor]:
        return self.embed_visual(visual), self.embed_text(*text)


class TwoBranch(Storable, Embedder):
    """The embedding network on arrays: vectors of unit length, whose dot product is the score.

    A new model is untrained; ``deixis train two-branch`` trains its `network`. A text encoder needs the `vocabulary`
    that it knows instead of `text_size`.

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
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        self.settings = settings or TwoBranchSettings()
        if (self.settings.text_encoder == "none") != (vocabulary is None):
            problem = "needs a vocabulary" if vocabulary is None else "takes text features, not a vocabulary"
            raise DeixisError(f"two-branch: text_encoder={self.settings.text_encoder} {problem}")
        self.visual_size = visual_size
        self.text_size = text_size if vocabulary is None else len(vocabulary)
        self.vocabulary = vocabulary
        self.network = TwoBranchNetwork(visual_size, self.text_size, self.settings).to(device)

    @property
    def dimension(self) -> int:
        return self.network.visual.dimension

    def prepare_visual(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.visual_size, "photo or region")
        return apply_in_blocks(self.network, self.network.embed_visual, rows)

    def prepare_text(self, features: ArrayLike | Sequence[Text]) -> Floats:
        """Encode sentences or phrases, given as features or, with a text encoder, as texts."""
        inputs = self.text_inputs(features)
        if not len(inputs[0]):
            return np.zeros((0, self.dimension), dtype=np.float32)  # recurrent encoders take no empty batch
        return apply_in_blocks(self.network, self.network.embed_text, *inputs)

    def text_inputs(self, features: ArrayLike | Sequence[Text]) -> tuple[Tensor, ...]:
        """Return texts as `TwoBranchNetwork.embed_text` takes them, on the CPU."""
        if self.vocabulary is None:
            return (check_rows(features, self.text_size, "sentence or phrase"),)
        texts: Sequence[Text] = features  # type: ignore[assignment] # the settings say which of the two it is
        return word_ids(texts, self.vocabulary)

    def to_artifact(self) -> Artifact:
        words = self.vocabulary
        settings = {
            "visual_size": self.visual_size,
            "text_size": self.text_size,
            "settings": asdict(self.settings),
            "vocabulary": None if words is None else [words.words, words.counts, words.min_count],
        }
        return Artifact(self.KIND, settings, weights_of(self.network))

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        settings, words = artifact.settings, artifact.settings["vocabulary"]
        vocabulary = None if words is None else Vocabulary(tuple(words[0]), tuple(words[1]), words[2])
        chosen = TwoBranchSettings(**settings["settings"])
        with without_weights():
            model = cls(settings["visual_size"], settings["text_size"], chosen, vocabulary, device="meta")
        set_weights(model.network, artifact.arrays)
        return model
