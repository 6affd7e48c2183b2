"""The network of section 3.2 and the model around it: sentences, phrases, photos and regions in one embedding space.

Niu et al., *Hierarchical Multimodal LSTM for Dense Visual-Semantic Embedding* (ICCV 2017). Symbols are the paper's. A
sentence is the root of its tree and a phrase is a node of it. Both use the same embedding layer, and so do photos and
regions. `docs/reference/models/hm-lstm.md` lists the choices that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from deixis.arrays import Floats, to_unit_length
from deixis.language.sentence import Phrase, Sentence, parse_sentences
from deixis.language.vectors import WordVectors
from deixis.models.base import Embedder
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import Forest, Level, TreeBatch
from deixis.models.networks import apply_in_blocks, check_rows, eval_mode, move_tensors
from deixis.storage.artifacts import Artifact, Storable
from deixis.storage.networks import set_weights, weights_of, without_weights

TREES_PER_BATCH = 512
PHRASES_FOR_MEAN = 2000
_PHRASE_MEAN = "phrase_mean"


class TreeLSTM(nn.Module):
    """The H-LSTM of eq. 2–8, or with ``syntax=False`` the Tree-LSTM that it extends.

    W⁽ᶠ⁾ of eq. 3 and 4 is left out: only leaves have a word xⱼ, and leaves have no children to forget. With syntax,
    noun phrase children (Û) and other children (Ū) have separate weights.

    All trees of a batch are computed together, level by level: a level costs one matrix product for its gates and one
    for the forget gates of each kind of children. The backward pass is written out, so that the gradient of each weight
    is one product over all levels; with one product per level, a single deep tree would cost several times as much as
    the rest of a batch.
    """

    def __init__(self, word_dim: int, hidden_size: int, *, syntax: bool = True) -> None:
        super().__init__()
        kinds = 2 if syntax else 1
        self.word = nn.Linear(word_dim, 3 * hidden_size)  # W and b of the gates i and o and of u
        self.from_children = nn.Linear(kinds * hidden_size, 3 * hidden_size, bias=False)  # [Û Ū] of i, o and u
        self.forget = nn.Parameter(torch.empty(kinds, hidden_size, hidden_size))  # Û⁽ᶠ⁾ and Ū⁽ᶠ⁾
        # b⁽ᶠ⁾; ones let the cells of children pass at the start of training.
        self.forget_bias = nn.Parameter(torch.ones(hidden_size))
        for weight in (self.word.weight, self.word.bias, self.from_children.weight, self.forget):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)

    def forward(self, vectors: Tensor, trees: TreeBatch) -> Tensor:
        """Hidden states h of all nodes, by index: (nodes, hidden_size).

        `vectors` (words + 1, word_dim) are x of each word of the forest, and a last row for leaves without a word.
        """
        # Leaves have a word and no children.
        i, o, u = self.word(vectors[trees.leaf_words]).chunk(3, dim=1)  # eq. 5, 6 and the first eq. 7
        c_leaves = i.sigmoid() * u.tanh()  # the second eq. 7
        h_leaves = o.sigmoid() * c_leaves.tanh()  # eq. 8
        weights = self.from_children.weight, self.word.bias, self.forget, self.forget_bias
        h: Tensor = _InnerNodes.apply(h_leaves.to(weights[0]), c_leaves.to(weights[0]), *weights, trees)  # type: ignore[no-untyped-call]
        return h[trees.position]


class _InnerNodes(torch.autograd.Function):
    """Eq. 2–8 for nodes with children and without a word: hidden states of all nodes, by position."""

    @staticmethod
    def forward(
        ctx: Any, h_leaves: Tensor, c_leaves: Tensor, weight: Tensor, bias: Tensor, forget: Tensor, b_f: Tensor,
        trees: TreeBatch,
    ) -> Tensor:  # fmt: skip
        hidden_size, kinds = h_leaves.shape[1], len(forget)
        nodes = len(trees.parent)
        inner = nodes - len(h_leaves)
        h, c, f = (h_leaves.new_zeros(nodes, hidden_size) for _ in range(3))
        sums = h.new_zeros(inner, kinds * hidden_size)
        gates = h.new_zeros(inner, 3 * hidden_size)
        with torch.autocast(h.device.type, enabled=False):
            for rows in _level_rows(trees.levels):
                h[rows.leaves], c[rows.leaves] = h_leaves[rows.among_leaves], c_leaves[rows.among_leaves]
                children, parent = rows.children, trees.parent[rows.children]
                # Eq. 2: the sums over noun phrases and over other children, side by side.
                sums[rows.among_inner].view(-1, hidden_size).index_add_(0, _sum_rows(parent, rows, kinds), h[children])
                # Eq. 5, 6 and the first eq. 7, where xⱼ = 0.
                torch.addmm(bias, sums[rows.among_inner], weight.T, out=gates[rows.among_inner])
                i, o, u = gates[rows.among_inner].chunk(3, dim=1)
                i.sigmoid_(), o.sigmoid_(), u.tanh_()
                # Eq. 3 and 4.
                for of_kind, u_f in _children_by_kind(rows, forget):
                    torch.addmm(b_f, h[of_kind], u_f.T, out=f[of_kind])
                f[children].sigmoid_()
                # The second eq. 7, and eq. 8.
                c[rows.inner] = (i * u).index_add_(0, parent, f[children] * c[children])
                h[rows.inner] = o * c[rows.inner].tanh()
        ctx.save_for_backward(h, c, f, sums, gates, weight, forget)
        ctx.trees = trees
        return h

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        h, c, f, sums, gates, weight, forget = ctx.saved_tensors
        trees: TreeBatch = ctx.trees
        hidden_size, kinds = h.shape[1], len(forget)
        # d_x is the gradient of x; for gates, that of the input of their sigmoid or tanh.
        d_h, d_c, d_f = gradients[0].clone(), torch.zeros_like(c), torch.zeros_like(f)
        d_gates, levels = torch.empty_like(gates), list(_level_rows(trees.levels))
        for rows in reversed(levels):
            children, parent = rows.children, trees.parent[rows.children]
            i, o, u = gates[rows.among_inner].chunk(3, dim=1)
            tanh_c = c[rows.inner].tanh()
            d_cell = d_c[rows.inner] + d_h[rows.inner] * o * (1 - tanh_c * tanh_c)
            d_o = d_h[rows.inner] * tanh_c
            d_gates[rows.among_inner] = torch.cat(
                [d_cell * u * i * (1 - i), d_o * o * (1 - o), d_cell * i * (1 - u * u)], dim=1
            )
            d_kept = d_cell[parent]
            d_c[children] = d_kept * f[children]
            d_f[children] = d_kept * c[children] * f[children] * (1 - f[children])
            d_sums = (d_gates[rows.among_inner] @ weight).view(-1, hidden_size)
            d_h[children] += d_sums[_sum_rows(parent, rows, kinds)]
            for of_kind, u_f in _children_by_kind(rows, forget):
                d_h[of_kind].addmm_(d_f[of_kind], u_f)
        d_leaves = [torch.cat([d[rows.leaves] for rows in levels]) if levels else d for d in (d_h, d_c)]
        d_forget = torch.stack(
            [d_f[of_kind].T @ h[of_kind] for of_kind in _all_children_by_kind(levels, kinds, h.device)]
        )
        return (*d_leaves, d_gates.T @ sums, d_gates.sum(dim=0), d_forget, d_f.sum(dim=0), None)


class _LevelRows(NamedTuple):
    """The rows of one level.

    `inner`, `leaves` and `children` are positions. `among_inner` and `among_leaves` index arrays that hold only inner
    nodes or only leaves. `other_children` is the position of the first child that is not a noun phrase.
    """

    inner: slice
    leaves: slice
    among_inner: slice
    among_leaves: slice
    children: slice
    other_children: int


def _level_rows(levels: tuple[Level, ...]) -> Iterator[_LevelRows]:
    begin = inner = leaves = 0
    children, other_children = slice(0, 0), 0
    for level in levels:
        middle, end = begin + level.inner, begin + level.nodes
        yield _LevelRows(
            slice(begin, middle),
            slice(middle, end),
            slice(inner, inner + level.inner),
            slice(leaves, leaves + level.leaves),
            children,
            other_children,
        )
        inner, leaves = inner + level.inner, leaves + level.leaves
        children, other_children = slice(begin, end), begin + level.noun_phrases
        begin = end


def _sum_rows(parent: Tensor, rows: _LevelRows, kinds: int) -> Tensor:
    """The sum of eq. 2 that each child belongs to: two rows per parent with syntax, else one."""
    if kinds == 1:
        return parent
    row = 2 * parent
    row[rows.other_children - rows.children.start :] += 1
    return row


def _children_by_kind(rows: _LevelRows, forget: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The children of a level by kind, each with its U⁽ᶠ⁾."""
    if len(forget) == 1:
        yield rows.children, forget[0]
    else:
        yield slice(rows.children.start, rows.other_children), forget[0]
        yield slice(rows.other_children, rows.children.stop), forget[1]


def _all_children_by_kind(levels: list[_LevelRows], kinds: int, device: torch.device) -> list[Tensor]:
    """Positions of the children of all levels, by kind."""
    by_kind: list[list[Tensor]] = [[torch.empty(0, dtype=torch.int64)] for _ in range(kinds)]
    for rows in levels:
        by_kind[0].append(torch.arange(rows.children.start, rows.other_children))
        by_kind[-1].append(torch.arange(rows.other_children, rows.children.stop))
    return [torch.cat(positions).to(device) for positions in by_kind]


class ChainLSTM(nn.Module):
    """An LSTM over the words from left to right. It uses no tree: a phrase is encoded alone, word by word."""

    def __init__(self, word_dim: int, hidden_size: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(word_dim, hidden_size, batch_first=True)

    def forward(self, vectors: Tensor, trees: TreeBatch, nodes: Tensor) -> Tensor:
        """Hidden state after the last word of each of the given nodes: (nodes, hidden_size)."""
        starts, ends = trees.spans[nodes].T
        lengths = (ends - starts).clamp(min=1)
        longest = int(lengths.max()) if len(nodes) else 1
        indices = starts[:, None] + torch.arange(longest, device=starts.device)
        words = vectors[trees.words[indices.clamp(max=len(trees.words) - 1)]]
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (state, _) = self.recurrent(packed)
        last: Tensor = state[-1]
        return last


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
        network = self.network
        words = self.word_matrix(forest).to(next(network.parameters()).device)
        tree_of, node_of = np.asarray(trees, dtype=np.int64), np.asarray(nodes, dtype=np.int64)
        vectors = np.zeros((len(tree_of), self.dimension), dtype=np.float32)
        order = np.argsort(tree_of, kind="stable")
        distinct, begins = np.unique(tree_of[order], return_index=True)
        with eval_mode(network):
            for first in range(0, len(distinct), TREES_PER_BATCH):
                chosen = distinct[first : first + TREES_PER_BATCH]
                rows = order[begins[first] : [*begins, len(order)][first + len(chosen)]]
                batch = forest.batch(chosen)
                indices = batch.roots[np.searchsorted(chosen, tree_of[rows])] + torch.from_numpy(node_of[rows])
                embedded = network.embed_nodes(words, move_tensors(batch, words.device), indices.to(words.device))
                vectors[rows] = embedded.float().cpu().numpy()
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
            visual, text = to_unit_length(visual - visual.mean(axis=0)), to_unit_length(text - self.phrase_mean_)
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


def _as_phrase(text: str | Sentence | Phrase) -> Phrase:
    """A sentence becomes the phrase that spans all of it."""
    if isinstance(text, Phrase):
        return text
    return (Sentence(text) if isinstance(text, str) else text).whole
