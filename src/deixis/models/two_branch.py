"""The embedding network of the two-branch paper: regions and phrases, or photos and sentences, in one learned space.

`docs/models/two-branch.md` has the choices that the paper leaves open.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.language.features.base import Floats, Text
from deixis.language.saved import Saved
from deixis.language.vocabulary import Vocabulary
from deixis.models.base import Embedder
from deixis.models.networks import checked_rows, give_weights, in_blocks, weights_of, without_weights
from deixis.models.saved import StoredModel
from deixis.models.text_encoders import EncoderShape, TextEncoder, make_encoder, word_ids


@dataclass(frozen=True)
class TwoBranchSettings:
    """What can be chosen. The defaults are the paper's best network for phrases; `PAPERS` has its others by name.

    Attributes
    ----------
    hidden
        Numbers after the first layer of each branch.
    dimension
        Numbers after the second layer.
    linear
        Keep only the first layer of each branch; vectors then have `hidden` numbers.
    dropout
        After the first layer.
    reader
        Who reads the words for the text branch: lstm, gru or transformer; none where it is given features of texts.
    min_count
        Of a reader: words that the training texts hold less often are unknown to it.
    start
        Of a reader: how the vectors of its words begin, random or as word vectors that are given or installed.
    word_size
        Of a reader: numbers in the vector of a word.
    text_hidden
        Of a reader: numbers in its state.
    text_layers
        Of a reader: layers one over the other.
    word_dropout
        Of a reader: dropout of word vectors.
    loss
        triplet (eq. 6), hardest (only the hardest negative counts) or softmax (among all negatives).
    margin
        How much nearer than a negative a positive must be; for triplet and hardest.
    most_negatives
        K of Algorithm 1.
    visual_to_text, text_to_visual
        λ1 and λ2 of eq. 6.
    visual_neighbours, text_neighbours
        λ3 and λ4 of eq. 6: neighbourhood constraints.
    neighbours_from
        The epoch, counted from 0, from which these two count.
    temperature
        Of softmax, to begin with; it is learned.
    label_smoothing
        Of softmax.
    neighbour_sampling
        Give every target a second positive.
    positives
        augmented: a random region with an IoU of `positive_iou` or more is the positive; single: the gold box.
    positive_iou, negative_iou
        From which a region is a positive, and below which it is a negative.
    candidates
        Look for negatives among so many regions of the photo, drawn at random; none for all, as in the paper.
    same_words
        A phrase of another chain is a negative even if its words are the same, as in the paper.
    other_photos
        The positives of other photos in the batch are negatives too; in the paper they are not.
    """

    hidden: int = 1024
    dimension: int = 512
    linear: bool = False
    dropout: float = 0.0
    reader: Literal["none", "lstm", "gru", "transformer"] = "none"
    min_count: int = 1
    start: Literal["random", "vectors"] = "random"
    word_size: int = 256
    text_hidden: int = 512
    text_layers: int = 1
    word_dropout: float = 0.0
    loss: Literal["triplet", "hardest", "softmax"] = "triplet"
    margin: float = 0.05
    most_negatives: int = 30
    visual_to_text: float = 1.0
    text_to_visual: float = 4.0
    visual_neighbours: float = 0.1
    text_neighbours: float = 0.1
    neighbours_from: int = 8
    temperature: float = 0.07
    label_smoothing: float = 0.0
    neighbour_sampling: bool = True
    positives: Literal["augmented", "single"] = "augmented"
    positive_iou: float = 0.7
    negative_iou: float = 0.3
    candidates: int | None = None
    same_words: bool = True
    other_photos: bool = False

    def __post_init__(self) -> None:
        for name in ("hidden", "dimension", "min_count", "word_size", "text_hidden", "text_layers", "most_negatives"):
            if getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 1 or more")
        for name in ("dropout", "word_dropout", "label_smoothing"):
            if not 0 <= getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be at least 0 and less than 1")
        if not self.temperature > 0:
            raise DeixisError(f"temperature={self.temperature}: must be greater than 0")
        if not self.visual_to_text and not self.text_to_visual:
            raise DeixisError("visual_to_text=0 and text_to_visual=0: one direction must count")
        if (self.visual_neighbours or self.text_neighbours) and not self.neighbour_sampling:
            raise DeixisError("visual_neighbours and text_neighbours need neighbour_sampling=true, or must be 0")


def _papers() -> dict[str, TwoBranchSettings]:
    """The rows of Tables 1 and 2: each adds one thing to the row before."""
    full = TwoBranchSettings()
    sampled = replace(full, visual_neighbours=0.0, text_neighbours=0.0)
    both_ways = replace(sampled, neighbour_sampling=False)
    single = replace(both_ways, positives="single")
    one_way = replace(single, visual_to_text=0.0, text_to_visual=1.0)
    sentences = replace(
        full,
        hidden=2048,
        dropout=0.5,
        most_negatives=10,
        text_to_visual=1.5,
        visual_neighbours=0.0,
        text_neighbours=0.05,
        neighbours_from=0,
    )
    sentences_sampled = replace(sentences, text_neighbours=0.0)
    sentences_both_ways = replace(sentences_sampled, neighbour_sampling=False)
    sentences_one_way = replace(sentences_both_ways, text_to_visual=0.0)
    return {
        "papers/two-branch-phrases": full,
        "papers/two-branch-phrases-sampling-only": sampled,
        "papers/two-branch-phrases-no-neighbours": both_ways,
        "papers/two-branch-phrases-single-positive": single,
        "papers/two-branch-phrases-one-way": one_way,
        "papers/two-branch-phrases-linear-one-way": replace(one_way, linear=True),
        "papers/two-branch-sentences": sentences,
        "papers/two-branch-sentences-sampling-only": sentences_sampled,
        "papers/two-branch-sentences-no-neighbours": sentences_both_ways,
        "papers/two-branch-sentences-one-way": sentences_one_way,
        "papers/two-branch-sentences-linear": replace(sentences_both_ways, linear=True),
        "papers/two-branch-sentences-linear-one-way": replace(sentences_one_way, linear=True),
        "papers/two-branch-lstm": replace(sentences, hidden=1024, reader="lstm"),
    }


PAPERS: Mapping[str, TwoBranchSettings] = _papers()
"""The two-branch paper's networks: Table 1 (b), Table 2 (b) and (c); `training.samplers.SCHEDULES` has their pace."""


class Branch(nn.Module):
    """FC, ReLU, dropout, FC, batch norm, unit length; or, linear, the first FC and unit length.

    Examples
    --------
    >>> list(dict(Branch(4096, 1024, 512, dropout=0.5).layers.named_children()))
    ['first', 'relu', 'dropout', 'second', 'norm']
    """

    def __init__(self, size: int, hidden: int, dimension: int, dropout: float = 0.0, linear: bool = False) -> None:
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict(first=nn.Linear(size, hidden))
        if not linear:
            layers["relu"] = nn.ReLU()
            if dropout:
                layers["dropout"] = nn.Dropout(dropout)
            layers["second"] = nn.Linear(hidden, dimension)
            layers["norm"] = nn.BatchNorm1d(dimension)
        self.layers = nn.Sequential(layers)
        self.dimension = hidden if linear else dimension
        start_layers(self)

    def forward(self, rows: Tensor) -> Tensor:
        """A vector of unit length for each row."""
        return functional.normalize(self.layers(rows), dim=1)


def start_layers(module: nn.Module) -> None:
    """Begin as the paper's TensorFlow does where nothing else is said: weights after Glorot and Bengio, no bias."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)


class TwoBranchNetwork(nn.Module):
    """A branch for regions or photos and one for phrases or sentences, with an encoder before it where words are read.

    Parameters
    ----------
    visual_size
        Numbers in the features of a region or photo.
    text_size
        Numbers in the features of a text, or how many words an encoder knows.
    settings
        As for the model.

    Examples
    --------
    >>> network = TwoBranchNetwork(5, 3, TwoBranchSettings(hidden=8, dimension=4))
    >>> visual, text = network(torch.ones(2, 5), torch.ones(6, 3))
    >>> text.shape
    torch.Size([6, 4])
    """

    def __init__(self, visual_size: int, text_size: int, settings: TwoBranchSettings) -> None:
        super().__init__()
        self.encoder: TextEncoder | None = None
        if settings.reader != "none":
            sizes = (settings.word_size, settings.text_hidden, settings.text_layers)
            self.encoder = make_encoder(EncoderShape(settings.reader, text_size, *sizes, settings.word_dropout))
            text_size = self.encoder.size
        shape = (settings.hidden, settings.dimension, settings.dropout, settings.linear)
        self.visual = Branch(visual_size, *shape)
        self.text = Branch(text_size, *shape)
        self.log_temperature: nn.Parameter | None = None
        if settings.loss == "softmax":
            self.log_temperature = nn.Parameter(torch.tensor(math.log(settings.temperature)))

    def embed_visual(self, rows: Tensor) -> Tensor:
        """Vectors of regions or photos."""
        vectors: Tensor = self.visual(rows)
        return vectors

    def embed_text(self, *inputs: Tensor) -> Tensor:
        """Vectors of texts: from their features, or from what `word_ids` gives."""
        rows = inputs[0] if self.encoder is None else self.encoder(*inputs)
        vectors: Tensor = self.text(rows)
        return vectors

    def forward(self, visual: Tensor, *text: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors of both sides."""
        return self.embed_visual(visual), self.embed_text(*text)


class TwoBranch(StoredModel, Embedder):
    """The embedding network as a model: arrays in, vectors of unit length out, whose dot product is the score.

    What is made here is not trained; the loop of `deixis.training` trains `network`.

    Parameters
    ----------
    visual_size
        Numbers in the features of a region or photo.
    text_size
        Numbers in the features of a text. Not needed where the settings ask for a reader.
    settings
        What can be chosen.
    vocabulary
        The words that a reader knows.
    device
        Where to compute, as torch names it.

    Examples
    --------
    >>> model = TwoBranch(8, 6, TwoBranchSettings(hidden=16, dimension=4))
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
        if (self.settings.reader == "none") != (vocabulary is None):
            wrong = "needs a vocabulary" if vocabulary is None else "reads features, it has no use for a vocabulary"
            raise DeixisError(f"two-branch: reader={self.settings.reader} {wrong}")
        self.visual_size = visual_size
        self.text_size = text_size if vocabulary is None else len(vocabulary)
        self.vocabulary = vocabulary
        self.network = TwoBranchNetwork(visual_size, self.text_size, self.settings).to(device)

    @property
    def dimension(self) -> int:
        """Numbers in each vector."""
        return self.network.visual.dimension

    def prepare_visual(self, features: ArrayLike) -> Floats:
        """A vector of unit length for each photo or region."""
        rows = checked_rows(features, self.visual_size, "photo or region")
        return in_blocks(self.network, self.network.embed_visual, rows)

    def prepare_text(self, features: ArrayLike | Sequence[Text]) -> Floats:
        """A vector of unit length for each sentence or phrase: from its features, or from its words."""
        inputs = self.text_inputs(features)
        if not len(inputs[0]):
            return np.zeros((0, self.dimension), dtype=np.float32)  # no encoder reads nothing
        return in_blocks(self.network, self.network.embed_text, *inputs)

    def text_inputs(self, features: ArrayLike | Sequence[Text]) -> tuple[Tensor, ...]:
        """Texts as `TwoBranchNetwork.embed_text` takes them, on the processor."""
        if self.vocabulary is None:
            return (checked_rows(features, self.text_size, "sentence or phrase"),)
        texts: Sequence[Text] = features  # type: ignore[assignment] # which of the two it is, the settings say
        return word_ids(texts, self.vocabulary)

    def saved(self) -> Saved:
        """What `save` writes."""
        known = self.vocabulary
        settings = {
            "visual_size": self.visual_size,
            "text_size": self.text_size,
            "settings": asdict(self.settings),
            "vocabulary": None if known is None else [known.words, known.counts, known.min_count],
        }
        return Saved(self.KIND, settings, weights_of(self.network))

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        settings, known = saved.settings, saved.settings["vocabulary"]
        vocabulary = None if known is None else Vocabulary(tuple(known[0]), tuple(known[1]), known[2])
        with without_weights():
            model = cls(
                settings["visual_size"],
                settings["text_size"],
                TwoBranchSettings(**settings["settings"]),
                vocabulary,
                device="meta",
            )
        give_weights(model.network, saved.arrays)
        return model
