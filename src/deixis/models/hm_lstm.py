"""The Hierarchical Multimodal LSTM: sentences, their phrases, photos and regions of them in one learned space.

After Niu et al., *Hierarchical Multimodal LSTM for Dense Visual-Semantic Embedding* (ICCV 2017). A sentence is the root
of its tree and a phrase is a node of it; both pass through the same head, and so do photos and regions on their side.
`docs/models/hm-lstm.md` has the choices that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from deixis.errors import DeixisError
from deixis.language.features.base import Floats
from deixis.language.saved import Saved
from deixis.language.sentence import Phrase, Sentence, parse_together
from deixis.language.vectors import WordVectors
from deixis.models.base import Embedder
from deixis.models.networks import checked_rows, give_weights, in_blocks, weights_of, without_weights
from deixis.models.saved import StoredModel
from deixis.models.trees import Forest, TreeBatch
from deixis.models.trees_lstm import ChainLSTM, TreeLSTM

TREES_AT_A_TIME = 512
PHRASES_FOR_MEAN = 2000
_COMMON = "common"

TreeText = str | Sentence | Phrase
"""A sentence as text or as a record, or a phrase of one."""


@dataclass(frozen=True)
class HMLSTMSettings:
    """What can be chosen. The defaults are the paper's where it says something, and else what dev chose.

    Attributes
    ----------
    reader
        h-lstm (eq. 2–8), tree-lstm (the same without own weights for noun phrases) or chain (an LSTM over the words).
    hidden
        Numbers in the state of a node.
    dimension
        Numbers in the vectors of both sides.
    word_dropout
        Of the vectors of words.
    dropout
        Of the states of nodes and the features of photos, before the heads.
    margin
        m of eq. 9.
    negatives
        all, as in eq. 9; hardest: only the contrastive phrase, and region, with the highest loss counts; or softmax: no
        hinges, but the cross entropy of choosing the right one among it and the contrastive ones.
    temperature
        Of softmax.
    contrast
        Where contrastive phrases and regions come from: photo (the same one, as eq. 9 is written) or batch.
    same_words
        Phrases with the same words in other photos contrast too.
    phrase_weight
        Every weight of a phrase in eq. 10 is multiplied by it; a sentence weighs 1.
    correspondences
        learned (§3.3) or gold: the phrases and boxes that the data says belong together.
    centre
        Before phrases are held against regions: none (§3.3 as written), or photo: the mean of all phrases is taken
        away from each phrase, and from each region the mean of those of its photo.
    rounds
        T of Figure 3: how often correspondences are made and learned from; 0 for root losses only.
    round_epochs
        Epochs of each round.
    round_rate
        In rounds the learning rate is multiplied by it.
    """

    reader: Literal["h-lstm", "tree-lstm", "chain"] = "h-lstm"
    hidden: int = 512
    dimension: int = 512
    word_dropout: float = 0.0
    dropout: float = 0.0
    margin: float = 0.2
    negatives: Literal["all", "hardest", "softmax"] = "all"
    temperature: float = 0.05
    contrast: Literal["photo", "batch"] = "photo"
    same_words: bool = False
    phrase_weight: float = 1.0
    correspondences: Literal["learned", "gold"] = "learned"
    centre: Literal["none", "photo"] = "none"
    rounds: int = 1
    round_epochs: int = 5
    round_rate: float = 1.0

    def __post_init__(self) -> None:
        for name in ("hidden", "dimension", "round_epochs"):
            if getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be 1 or more")
        for name in ("margin", "phrase_weight", "rounds"):
            if getattr(self, name) < 0:
                raise DeixisError(f"{name}={getattr(self, name)}: must not be negative")
        for name in ("dropout", "word_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise DeixisError(f"{name}={getattr(self, name)}: must be at least 0 and less than 1")
        for name in ("round_rate", "temperature"):
            if not getattr(self, name) > 0:
                raise DeixisError(f"{name}={getattr(self, name)}: must be greater than 0")


def _papers() -> dict[str, HMLSTMSettings]:
    full = HMLSTMSettings()
    return {
        "papers/hm-lstm": full,
        "papers/root-only": replace(full, rounds=0),
        "papers/tree-lstm": replace(full, reader="tree-lstm"),
        "papers/chain-lstm": replace(full, reader="chain"),
    }


PAPERS: Mapping[str, HMLSTMSettings] = _papers()
"""The paper's network, and those that it is compared with. `deixis.training.hm_lstm.SCHEDULES` says how they learn,
by the same names."""


class Head(nn.Module):
    """A fully connected layer, batch norm and unit length: one branch of the paper's loss layers (Figure 4).

    The layer has no bias, for batch norm takes it away again.

    Examples
    --------
    >>> Head(8, 4)(torch.randn(3, 8)).norm(dim=1).round(decimals=3).tolist()
    [1.0, 1.0, 1.0]
    """

    def __init__(self, size: int, dimension: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.connected = nn.Linear(size, dimension, bias=False)
        self.norm = nn.BatchNorm1d(dimension)
        nn.init.xavier_uniform_(self.connected.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """A vector of unit length for each row."""
        return functional.normalize(self.norm(self.connected(self.dropout(rows))), dim=1)


class HMLSTMNetwork(nn.Module):
    """What learns: an encoder of trees with the head W_t of its nodes, and the head W_m of photos and regions.

    Parameters
    ----------
    visual_size
        Numbers in the features of a photo or region.
    word_size
        Numbers in the vector of a word.
    settings
        As for the model.
    """

    def __init__(self, visual_size: int, word_size: int, settings: HMLSTMSettings) -> None:
        super().__init__()
        self.words = nn.Dropout(settings.word_dropout)
        self.encoder: TreeLSTM | ChainLSTM
        if settings.reader == "chain":
            self.encoder = ChainLSTM(word_size, settings.hidden)
        else:
            self.encoder = TreeLSTM(word_size, settings.hidden, syntax=settings.reader == "h-lstm")
        self.text = Head(settings.hidden, settings.dimension, settings.dropout)
        self.visual = Head(visual_size, settings.dimension, settings.dropout)

    def embed_visual(self, rows: Tensor) -> Tensor:
        """Vectors v of photos or regions (eq. 1 and the head)."""
        vectors: Tensor = self.visual(rows)
        return vectors

    def embed_nodes(self, vectors: Tensor, trees: TreeBatch, nodes: Tensor) -> Tensor:
        """Vectors h of some nodes of a batch of trees, by their numbers; `vectors` as `TreeLSTM` takes them."""
        vectors = self.words(vectors)
        if isinstance(self.encoder, ChainLSTM):
            states = self.encoder.of_nodes(vectors, trees, nodes)
        else:
            states = self.encoder(vectors, trees)[nodes]
        made: Tensor = self.text(states)
        return made


class HMLSTM(StoredModel, Embedder):
    """The network as a model: features of photos and regions, sentences and phrases in; vectors of unit length out.

    What is made here is not trained; `deixis.training.hm_lstm_rounds.Alternation` trains `network`. Sentences are
    parsed by deixis' own parser where they bring no tree. English only.

    Parameters
    ----------
    visual_size
        Numbers in the features of a photo or region.
    vectors
        Of words; they stay as they are. A word without one counts as zeros.
    settings
        What can be chosen.
    device
        Where to compute, as torch names it.

    Examples
    --------
    >>> vectors = WordVectors(np.eye(3, 4, dtype=np.float32), ["a", "dog", "runs"])
    >>> model = HMLSTM(8, vectors, HMLSTMSettings(hidden=16, dimension=4))
    >>> sentence = Sentence("A dog runs.")
    >>> model.prepare_text(["A dog runs.", sentence, sentence.phrases[0]]).shape
    (3, 4)
    """

    KIND = "hm-lstm"

    def __init__(
        self,
        visual_size: int,
        vectors: WordVectors,
        settings: HMLSTMSettings | None = None,
        *,
        device: str | torch.device = "cpu",
    ) -> None:
        self.settings = settings or HMLSTMSettings()
        self.visual_size = visual_size
        self.vectors = vectors
        self.network = HMLSTMNetwork(visual_size, vectors.dimension, self.settings).to(device)
        self.common_: Floats = np.zeros(self.settings.dimension, dtype=np.float32)

    @property
    def dimension(self) -> int:
        """Numbers in each vector."""
        return self.settings.dimension

    def prepare_visual(self, features: ArrayLike) -> Floats:
        """A vector of unit length for each photo or region."""
        rows = checked_rows(features, self.visual_size, "photo or region")
        return in_blocks(self.network, self.network.embed_visual, rows)

    def prepare_text(self, features: Iterable[TreeText]) -> Floats:
        """A vector of unit length for each sentence, that of its root, and for each phrase, that of its node.

        A phrase that is no node takes the smallest noun phrase that covers it (`Phrase.node`).
        """
        phrases = [_phrase_of(text) for text in features]
        sentences = list({id(phrase.sentence): phrase.sentence for phrase in phrases}.values())
        parse_together(sentences)
        tree_of = {id(sentence): number for number, sentence in enumerate(sentences)}
        forest = Forest.of(sentence.tree for sentence in sentences)
        trees = [tree_of[id(phrase.sentence)] for phrase in phrases]
        nodes = [
            0 if (phrase.start, phrase.end) == (0, len(phrase.sentence.tokens))
            else forest.covering(tree, phrase.start, phrase.end)
            for tree, phrase in zip(trees, phrases, strict=True)
        ]  # fmt: skip
        return self.node_vectors(forest, trees, nodes)

    @torch.inference_mode()
    def node_vectors(self, forest: Forest, trees: Sequence[int], nodes: Sequence[int]) -> Floats:
        """A vector of unit length for some nodes of a forest: of each, its tree, and its number in that tree."""
        network, was_training = self.network, self.network.training
        words = self.word_rows(forest).to(next(network.parameters()).device)
        tree_of, node_of = np.asarray(trees, dtype=np.int64), np.asarray(nodes, dtype=np.int64)
        made = np.zeros((len(tree_of), self.dimension), dtype=np.float32)
        order = np.argsort(tree_of, kind="stable")
        different, begins = np.unique(tree_of[order], return_index=True)
        network.eval()
        try:
            for first in range(0, len(different), TREES_AT_A_TIME):
                own = different[first : first + TREES_AT_A_TIME]
                rows = order[begins[first] : [*begins, len(order)][first + len(own)]]
                batch = forest.batch(own)
                numbers = batch.roots[np.searchsorted(own, tree_of[rows])] + torch.from_numpy(node_of[rows])
                found = network.embed_nodes(words, batch.to(words.device), numbers.to(words.device))
                made[rows] = found.float().cpu().numpy()
        finally:
            network.train(was_training)
        return made

    def word_rows(self, forest: Forest) -> Tensor:
        """Vectors x of the words of a forest, and a last row of zeros for what is no word: what the network takes."""
        found = self.vectors.rows_of(forest.words)
        rows = np.zeros((len(found) + 1, self.vectors.dimension), dtype=np.float32)
        rows[:-1][found >= 0] = self.vectors.matrix[found[found >= 0]]
        return torch.from_numpy(rows)

    def note_phrases(self, forest: Forest) -> None:
        """Remember in `common_` what most phrases have in common, their mean, for ``centre=photo``."""
        sentences, nodes = forest.noun_phrases.owners, forest.noun_phrases.values
        if self.settings.centre == "photo" and len(nodes):
            some = np.linspace(0, len(nodes) - 1, min(PHRASES_FOR_MEAN, len(nodes))).astype(np.int64)
            self.common_ = self.node_vectors(forest, sentences[some].tolist(), nodes[some].tolist()).mean(axis=0)

    def scores_in_photo(self, visual: Floats, text: Floats) -> Floats:
        """How near the regions of one photo are to phrases, as `centre` says: (regions, phrases).

        Parameters
        ----------
        visual
            Vectors of all candidate regions of the photo, prepared.
        text
            Vectors of phrases, prepared.

        Examples
        --------
        >>> vectors = WordVectors(np.eye(1, 4, dtype=np.float32), ["dog"])
        >>> model = HMLSTM(8, vectors, HMLSTMSettings(hidden=16, dimension=4, centre="photo"))
        >>> regions = np.eye(2, 4, dtype=np.float32)
        >>> (model.scores_in_photo(regions, regions[:1]) > 0).tolist()
        [[True], [False]]
        """
        if self.settings.centre == "photo" and len(visual):
            visual, text = _unit(visual - visual.mean(axis=0)), _unit(text - self.common_)
        return self.scores(visual, text)

    def saved(self) -> Saved:
        """What `save` writes."""
        settings = {"visual_size": self.visual_size, "settings": asdict(self.settings)}
        arrays = {**weights_of(self.network), _COMMON: self.common_}
        return Saved(self.KIND, settings, arrays, {"vectors": self.vectors.saved()})

    @classmethod
    def from_saved(cls, saved: Saved) -> Self:
        """Build from what `saved` gave."""
        vectors = WordVectors.from_saved(saved.parts["vectors"])
        with without_weights():
            settings = HMLSTMSettings(**saved.settings["settings"])
            model = cls(saved.settings["visual_size"], vectors, settings, device="meta")
        arrays = dict(saved.arrays)
        common = arrays.pop(_COMMON)
        if common.shape != model.common_.shape:
            raise ValueError(f"the mean of phrases has shape {common.shape}, not {model.common_.shape}")
        give_weights(model.network, arrays)
        model.common_ = common
        return model


def _unit(rows: Floats) -> Floats:
    made: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
    return made


def _phrase_of(text: TreeText) -> Phrase:
    """The phrase that is meant; a sentence is the phrase over all of it."""
    if isinstance(text, Phrase):
        return text
    return (Sentence(text) if isinstance(text, str) else text).whole
