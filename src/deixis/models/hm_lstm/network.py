"""The networks of section 3.2: tree and chain encoders, and the embedding layers (Figure 4).

Symbols are the paper's. `docs/reference/models/hm-lstm.md` lists the choices that the paper leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from deixis.arrays import Floats
from deixis.data.pairs import Integers
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import LevelRows, TreeBatch
from deixis.models.networks import WordEmbedding, move_tensors
from deixis.runtime import Array, Function
from deixis.runtime.modules import eval_mode


def to_tensors(trees: TreeBatch[Integers], device: str | torch.device = "cpu") -> TreeBatch[Tensor]:
    """Copy trees to a device."""
    arrays = {name: torch.from_numpy(getattr(trees, name)) for name in TreeBatch.ARRAYS}
    return move_tensors(replace(trees, **arrays), device)  # type: ignore[arg-type]


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
        self.forget = nn.Parameter(torch.empty(kinds * hidden_size, hidden_size))  # Û⁽ᶠ⁾ above Ū⁽ᶠ⁾
        # b⁽ᶠ⁾; ones let the cells of children pass at the start of training.
        self.forget_bias = nn.Parameter(torch.ones(hidden_size))
        for weight in (self.word.weight, self.word.bias, self.from_children.weight, self.forget):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)

    @property
    def forget_of_kind(self) -> Tensor:
        """Û⁽ᶠ⁾ and Ū⁽ᶠ⁾: (kinds, hidden_size, hidden_size)."""
        hidden_size = self.forget.shape[1]
        return self.forget.view(-1, hidden_size, hidden_size)

    def forward(self, vectors: Tensor, trees: TreeBatch[Tensor]) -> Tensor:
        """Hidden states h of all nodes, by index: (nodes, hidden_size).

        `vectors` (words + 1, word_dim) are x of each word of the forest, and a last row for leaves without a word.
        """
        h_leaves, c_leaves = self._leaf_states(vectors[trees.leaf_words])
        weights = self.from_children.weight, self.word.bias, self.forget_of_kind, self.forget_bias
        h: Tensor = _InnerNodes.apply(h_leaves.to(weights[0]), c_leaves.to(weights[0]), *weights, trees)  # type: ignore[no-untyped-call]
        return h[trees.position]

    def _leaf_states(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """States h and c of leaves, which have a word and no children."""
        i, o, u = self.word(words).chunk(3, dim=1)  # eq. 5, 6 and the first eq. 7
        c = i.sigmoid() * u.tanh()  # the second eq. 7
        return o.sigmoid() * c.tanh(), c  # eq. 8

    # Inference, with the loop over levels in numpy. A forget gate depends on the child alone, so what a node passes on
    # to its parent, f ⊙ c, is computed with the node.

    def leaves(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """States h of leaves, and f ⊙ c for their parents."""
        h, c = self._leaf_states(words)
        return h, torch.addmm(self.forget_bias, h, self.forget_of_kind[-1].T).sigmoid() * c

    def inner(self, sums: Tensor, passed: Tensor, noun_phrases: Tensor) -> tuple[Tensor, Tensor]:
        """States h of inner nodes, and f ⊙ c for their parents.

        `sums` are those of eq. 2 over the children's h, and `passed` is the sum of the children's f ⊙ c.
        `noun_phrases` (1,) is the number of noun phrases, which come first.
        """
        _, c, h = _inner_states(sums, passed, self.from_children.weight, self.word.bias)
        return h, _forget_gates(h, noun_phrases[0], self.forget_of_kind, self.forget_bias) * c


def _inner_states(sums: Tensor, passed: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gates i, o and u side by side, and states c and h, of nodes without a word."""
    hidden_size = passed.shape[1]
    gates = torch.addmm(bias, sums, weight.T)  # eq. 5, 6 and the first eq. 7, where xⱼ = 0
    gates = torch.cat([gates[:, : 2 * hidden_size].sigmoid(), gates[:, 2 * hidden_size :].tanh()], dim=1)
    i, o, u = gates.chunk(3, dim=1)
    c = i * u + passed  # the second eq. 7
    return gates, c, o * c.tanh()  # eq. 8


def _forget_gates(h: Tensor, noun_phrases: Tensor | int, forget: Tensor, bias: Tensor) -> Tensor:
    """Eq. 3 and 4 for children, the first of which are noun phrases."""
    if forget.shape[0] == 1:
        return torch.addmm(bias, h, forget[0].T).sigmoid()
    of_noun_phrases = torch.addmm(bias, h[:noun_phrases], forget[0].T)
    of_others = torch.addmm(bias, h[noun_phrases:], forget[1].T)
    return torch.cat([of_noun_phrases, of_others]).sigmoid()


class _InnerNodes(torch.autograd.Function):
    """Eq. 2–8 for nodes with children and without a word: hidden states of all nodes, by position."""

    @staticmethod
    def forward(
        ctx: Any, h_leaves: Tensor, c_leaves: Tensor, weight: Tensor, bias: Tensor, forget: Tensor, b_f: Tensor,
        trees: TreeBatch[Tensor],
    ) -> Tensor:  # fmt: skip
        hidden_size, kinds = h_leaves.shape[1], len(forget)
        nodes = len(trees.parent)
        inner = nodes - len(h_leaves)
        h, c, f = (h_leaves.new_zeros(nodes, hidden_size) for _ in range(3))
        sums = h.new_zeros(inner, kinds * hidden_size)
        gates = h.new_zeros(inner, 3 * hidden_size)
        with torch.autocast(h.device.type, enabled=False):
            for rows in trees.level_rows():
                h[rows.leaves], c[rows.leaves] = h_leaves[rows.among_leaves], c_leaves[rows.among_leaves]
                children, parent = rows.children, trees.parent[rows.children]
                # Eq. 2: the sums over noun phrases and over other children, side by side.
                sums[rows.among_inner].view(-1, hidden_size).index_add_(0, _sum_rows(parent, rows, kinds), h[children])
                passed = h.new_zeros(rows.inner_count, hidden_size).index_add_(0, parent, f[children] * c[children])
                states = _inner_states(sums[rows.among_inner], passed, weight, bias)
                gates[rows.among_inner], c[rows.inner], h[rows.inner] = states
                f[rows.nodes] = _forget_gates(h[rows.nodes], rows.noun_phrases, forget, b_f)
        ctx.save_for_backward(h, c, f, sums, gates, weight, forget)
        ctx.trees = trees
        return h

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        h, c, f, sums, gates, weight, forget = ctx.saved_tensors
        trees: TreeBatch[Tensor] = ctx.trees
        hidden_size, kinds = h.shape[1], len(forget)
        # d_x is the gradient of x; for gates, that of the input of their sigmoid or tanh.
        d_h, d_c, d_f = gradients[0].clone(), torch.zeros_like(c), torch.zeros_like(f)
        d_gates, levels = torch.empty_like(gates), list(trees.level_rows())
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


def _sum_rows(parent: Tensor, rows: LevelRows, kinds: int) -> Tensor:
    """The sum of eq. 2 that each child belongs to: two rows per parent with syntax, else one."""
    if kinds == 1:
        return parent
    row = 2 * parent
    row[rows.other_children - rows.children.start :] += 1
    return row


def _children_by_kind(rows: LevelRows, forget: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The children of a level by kind, each with its U⁽ᶠ⁾."""
    if len(forget) == 1:
        yield rows.children, forget[0]
    else:
        yield slice(rows.children.start, rows.other_children), forget[0]
        yield slice(rows.other_children, rows.children.stop), forget[1]


def _all_children_by_kind(levels: list[LevelRows], kinds: int, device: torch.device) -> list[Tensor]:
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

    def forward(self, vectors: Tensor, trees: TreeBatch[Tensor], nodes: Tensor) -> Tensor:
        """Hidden state after the last word of each of the given nodes: (nodes, hidden_size)."""
        starts, ends = trees.spans[nodes].T
        lengths = (ends - starts).clamp(min=1)
        longest = int(lengths.max()) if len(nodes) else 1
        indices = starts[:, None] + torch.arange(longest, device=starts.device)
        return self.read_words(vectors[trees.words[indices.clamp(max=len(trees.words) - 1)]], lengths)

    def read_words(self, words: Tensor, lengths: Tensor) -> Tensor:
        """State after the last of some words (n, length, word_dim)."""
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
        last: Tensor = states[torch.arange(words.shape[0], device=words.device), lengths.to(words.device) - 1]
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
    """A sentence encoder with the embedding layer W_t of its nodes, and that of photos and regions, W_m.

    With a `vocabulary_size` it also learns about words; otherwise it takes their vectors as they are.
    """

    def __init__(
        self, visual_size: int, word_dim: int, settings: HMLSTMSettings, vocabulary_size: int | None = None
    ) -> None:
        super().__init__()
        self.words = None if vocabulary_size is None else WordEmbedding(vocabulary_size, word_dim)
        self.word_dropout = nn.Dropout(settings.word_dropout)
        self.encoder: TreeLSTM | ChainLSTM
        if settings.text_encoder == "chain":
            self.encoder = ChainLSTM(word_dim, settings.hidden_size)
        else:
            self.encoder = TreeLSTM(word_dim, settings.hidden_size, syntax=settings.text_encoder == "h-lstm")
        self.text = EmbeddingLayer(settings.hidden_size, settings.embedding_dim, settings.dropout)
        self.visual = EmbeddingLayer(visual_size, settings.embedding_dim, settings.dropout)  # of eq. 1

    def embed_nodes(self, words: Tensor, trees: TreeBatch[Tensor], nodes: Tensor) -> Tensor:
        """Vectors h of the nodes with these indices.

        `words` holds x of each word, as `TreeLSTM.forward` takes it, or the ids of words to learn about.
        """
        words = self.word_dropout(words if self.words is None else self.words(words))
        if isinstance(self.encoder, ChainLSTM):
            states = self.encoder(words, trees, nodes)
        else:
            states = self.encoder(words, trees)[nodes]
        vectors: Tensor = self.text(states)
        return vectors

    # Inference functions.

    def embed_visual(self, rows: Tensor) -> Tensor:
        vectors: Tensor = self.visual(rows)
        return vectors

    def embed_text(self, states: Tensor) -> Tensor:
        vectors: Tensor = self.text(states)
        return vectors

    def leaves(self, words: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.encoder, TreeLSTM)  # noqa: S101 - not called for a chain
        return self.encoder.leaves(words)

    def inner(self, sums: Tensor, passed: Tensor, noun_phrases: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.encoder, TreeLSTM)  # noqa: S101 - as above
        return self.encoder.inner(sums, passed, noun_phrases)

    def read_words(self, words: Tensor, lengths: Tensor) -> Tensor:
        assert isinstance(self.encoder, ChainLSTM)  # noqa: S101 - not called for a tree
        return self.encoder.read_words(words, lengths)

    def functions(self) -> list[Function]:
        """Inference functions: the two embedding layers, and the steps of the encoder."""
        visual_size, hidden_size = (layer.connected.in_features for layer in (self.visual, self.text))
        vectors, states = Array("rows", self.text.connected.out_features), Array("rows", hidden_size)
        embed = [
            Function("embed_visual", {"features": Array("rows", visual_size)}, {"vectors": vectors}),
            Function("embed_text", {"states": states}, {"vectors": vectors}),
        ]
        if isinstance(self.encoder, ChainLSTM):
            words = Array("rows", "words", self.encoder.recurrent.input_size)
            inputs = {"words": words, "lengths": Array("rows", dtype="int64", example=2)}
            return [*embed, Function("read_words", inputs, {"states": states})]
        node = {"states": states, "passed": states}
        children = {
            "sums": Array("rows", self.encoder.from_children.in_features),
            "passed_by_children": states,
            "noun_phrases": Array(1, dtype="int64", example=1),
        }
        return [
            *embed,
            Function("leaves", {"words": Array("rows", self.encoder.word.in_features)}, node),
            Function("inner", children, node),
        ]


def make_embedder(network: HMLSTMNetwork, words: Floats) -> Callable[[TreeBatch[Integers], Integers], Floats]:
    """Return a function that embeds nodes of trees in one pass of the network, for a network in training."""
    device = next(network.parameters()).device
    on_device = torch.from_numpy(words).to(device)

    @torch.inference_mode()
    def embed(trees: TreeBatch[Integers], nodes: Integers) -> Floats:
        with eval_mode(network):
            vectors = network.embed_nodes(on_device, to_tensors(trees, device), torch.from_numpy(nodes).to(device))
        array: Floats = vectors.float().cpu().numpy()
        return array

    return embed
