"""The network of section 3.2.2 and the model around it: sentences, phrases, photos and regions in one embedding space.

Niu et al., *Hierarchical Multimodal LSTM for Dense Visual-Semantic Embedding* (ICCV 2017). A sentence is the root of
its tree and a phrase is a node of it. Both use the same embedding layer, and so do photos and regions.
`docs/reference/models/hm-lstm.md` lists the choices that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from deixis.arrays import Floats
from deixis.language.sentence import Phrase, Sentence, parse_sentences
from deixis.language.vectors import WordVectors
from deixis.models.base import Embedder
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.tree_lstm import ChainLSTM, TreeLSTM
from deixis.models.hm_lstm.trees import Forest, TreeBatch
from deixis.models.networks import apply_in_blocks, check_rows
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.networks import set_weights, weights_of, without_weights

TREES_PER_BATCH = 512
PHRASES_FOR_MEAN = 2000
_PHRASE_MEAN = "phrase_mean"


class EmbeddingLayer(nn.Module):
    """One branch of the loss layers (Figure 4): a fully connected layer, batch normalization and L2 normalization.

    The fully connected layer has no bias, because batch normalization would cancel it.
    """

    def __init__(self, size: int, embedding_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.connected = nn.Linear(size, embedding_dim, bias=False)
        self.norm = nn.BatchNorm1d(embedding_dim)
        nn.init.xavier_uniform_(self.connected.weight)

    def forward(self, rows: Tensor) -> Tensor:
        return functional.normalize(self.norm(self.connected(self.dropout(rows))), dim=1)


class HMLSTMNetwork(nn.Module):
    """A sentence encoder with the embedding layer W_t of its nodes, and that of photos and regions, W_m."""

    def __init__(self, visual_size: int, word_dim: int, settings: HMLSTMSettings) -> None:
        super().__init__()
        self.word_dropout = nn.Dropout(settings.word_dropout)
        self.encoder: TreeLSTM | ChainLSTM
        if settings.text_encoder == "chain":
            self.encoder = ChainLSTM(word_dim, settings.hidden_size)
        else:
            self.encoder = TreeLSTM(word_dim, settings.hidden_size, syntax=settings.text_encoder == "h-lstm")
        self.text = EmbeddingLayer(settings.hidden_size, settings.embedding_dim, settings.dropout)
        self.visual = EmbeddingLayer(visual_size, settings.embedding_dim, settings.dropout)  # of eq. 1

    def embed_nodes(self, words: Tensor, trees: TreeBatch, nodes: Tensor) -> Tensor:
        """Vectors h of the nodes with these indices; `words` holds x of each word, as `TreeLSTM.forward` takes it."""
        words = self.word_dropout(words)
        if isinstance(self.encoder, ChainLSTM):
            states = self.encoder(words, trees, nodes)
        else:
            states = self.encoder(words, trees)[nodes]
        vectors: Tensor = self.text(states)
        return vectors


class HMLSTM(Storable, Embedder):
    """Embeds photos, regions, sentences and phrases as unit vectors. English only.

    A new model is untrained; `deixis.train("hm-lstm", …)` trains one. Word vectors are not trained; a word without one
    gets zeros.

    Examples
    --------
    >>> vectors = WordVectors(np.eye(3, 4, dtype=np.float32), ["a", "dog", "runs"])
    >>> model = HMLSTM(8, vectors, HMLSTMSettings(hidden_size=16, embedding_dim=4))
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
        self.phrase_mean_: Floats = np.zeros(self.settings.embedding_dim, dtype=np.float32)

    @property
    def dimension(self) -> int:
        return self.settings.embedding_dim

    def prepare_visual(self, features: ArrayLike) -> Floats:
        rows = check_rows(features, self.visual_size, "photo or region")
        return apply_in_blocks(self.network, self.network.visual, rows)

    def prepare_text(self, features: Iterable[str | Sentence | Phrase]) -> Floats:
        """Embed sentences as the roots of their trees, and phrases as nodes.

        Sentences without a tree are parsed. A phrase that is not a node is embedded as the smallest noun phrase around
        it.
        """
        phrases = [_as_phrase(text) for text in features]
        sentences = list({id(phrase.sentence): phrase.sentence for phrase in phrases}.values())
        parse_sentences(sentences)
        tree_of = {id(sentence): tree for tree, sentence in enumerate(sentences)}
        forest = Forest.from_trees(sentence.tree for sentence in sentences)
        trees = [tree_of[id(phrase.sentence)] for phrase in phrases]
        nodes = [
            0 if (phrase.start, phrase.end) == (0, len(phrase.sentence.tokens))
            else forest.find_covering_node(tree, phrase.start, phrase.end)
            for tree, phrase in zip(trees, phrases, strict=True)
        ]  # fmt: skip
        return self.embed_nodes(forest, trees, nodes)

    @torch.inference_mode()
    def embed_nodes(self, forest: Forest, trees: Sequence[int], nodes: Sequence[int]) -> Floats:
        """Embed nodes of a forest, each given by its tree and its index within the tree."""
        network, was_training = self.network, self.network.training
        words = self.word_matrix(forest).to(next(network.parameters()).device)
        tree_of, node_of = np.asarray(trees, dtype=np.int64), np.asarray(nodes, dtype=np.int64)
        vectors = np.zeros((len(tree_of), self.dimension), dtype=np.float32)
        order = np.argsort(tree_of, kind="stable")
        distinct, begins = np.unique(tree_of[order], return_index=True)
        network.eval()
        try:
            for first in range(0, len(distinct), TREES_PER_BATCH):
                chosen = distinct[first : first + TREES_PER_BATCH]
                rows = order[begins[first] : [*begins, len(order)][first + len(chosen)]]
                batch = forest.batch(chosen)
                indices = batch.roots[np.searchsorted(chosen, tree_of[rows])] + torch.from_numpy(node_of[rows])
                embedded = network.embed_nodes(words, batch.to(words.device), indices.to(words.device))
                vectors[rows] = embedded.float().cpu().numpy()
        finally:
            network.train(was_training)
        return vectors

    def word_matrix(self, forest: Forest) -> Tensor:
        """Vectors x of the words of a forest, and a last row of zeros for leaves without a word."""
        found = self.vectors.rows_of(forest.words)
        rows = np.zeros((len(found) + 1, self.vectors.dimension), dtype=np.float32)
        rows[:-1][found >= 0] = self.vectors.matrix[found[found >= 0]]
        return torch.from_numpy(rows)

    def fit_phrase_mean(self, forest: Forest) -> None:
        """Set `phrase_mean_`, which ``centering=photo`` subtracts, from the noun phrases of a forest."""
        trees, nodes = forest.noun_phrases.owners, forest.noun_phrases.values
        if self.settings.centering == "photo" and len(nodes):
            sample = np.linspace(0, len(nodes) - 1, min(PHRASES_FOR_MEAN, len(nodes))).astype(np.int64)
            self.phrase_mean_ = self.embed_nodes(forest, trees[sample].tolist(), nodes[sample].tolist()).mean(axis=0)

    def scores_in_photo(self, visual: Floats, text: Floats) -> Floats:
        """Similarity s_ij of section 3.3 between all candidate regions of one photo and phrases: (regions, phrases).

        Both must be embedded already. The setting `centering` applies.
        """
        if self.settings.centering == "photo" and len(visual):
            visual, text = _normalize(visual - visual.mean(axis=0)), _normalize(text - self.phrase_mean_)
        return self.scores(visual, text)

    def to_artifact(self) -> Artifact:
        settings = {"visual_size": self.visual_size, "settings": asdict(self.settings)}
        arrays = {**weights_of(self.network), _PHRASE_MEAN: self.phrase_mean_}
        return Artifact(self.KIND, settings, arrays, {"vectors": self.vectors.to_artifact()})

    @classmethod
    def from_artifact(cls, artifact: Artifact) -> Self:
        vectors = WordVectors.from_artifact(artifact.parts["vectors"])
        with without_weights():
            settings = HMLSTMSettings(**artifact.settings["settings"])
            model = cls(artifact.settings["visual_size"], vectors, settings, device="meta")
        arrays = dict(artifact.arrays)
        mean = arrays.pop(_PHRASE_MEAN)
        if mean.shape != model.phrase_mean_.shape:
            raise ValueError(f"the phrase mean has shape {mean.shape}, not {model.phrase_mean_.shape}")
        set_weights(model.network, arrays)
        model.phrase_mean_ = mean
        return model


def _normalize(rows: Floats) -> Floats:
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
    return unit


def _as_phrase(text: str | Sentence | Phrase) -> Phrase:
    """A sentence becomes the phrase that spans all of it."""
    if isinstance(text, Phrase):
        return text
    return (Sentence(text) if isinstance(text, str) else text).whole
