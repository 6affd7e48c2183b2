"""Networks that read trees: the syntax-aware H-LSTM of the HM-LSTM paper, and two without syntax to compare it with.

Symbols are the paper's (§3.2.1). All trees of a batch are computed together, one level after the other: a level costs
one product of matrices for its gates and one for the forget gates of the children of each kind, however many nodes it
has. The way back is written out too, so that the gradients of weights are one product for all levels: with one product
for each level, a single deep tree would cost many times the rest of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from deixis.models.trees import Level, TreeBatch


class TreeLSTM(nn.Module):
    """The H-LSTM of eq. 2–8, or with ``syntax=False`` the Tree-LSTM that it extends.

    W⁽ᶠ⁾ of eq. 3 and 4 is not here: only leaves have a word xⱼ, and they have no children to forget.

    Parameters
    ----------
    word_size
        Numbers in the vector of a word.
    hidden
        Numbers in the state of a node.
    syntax
        Children that are noun phrases have weights Û, the others Ū. Otherwise all have the same.

    Examples
    --------
    >>> from deixis.language.trees import read_tree
    >>> from deixis.models.trees import Forest
    >>> forest = Forest.of([read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))")])
    >>> TreeLSTM(4, 8)(torch.zeros(len(forest.words) + 1, 4), forest.batch([0])).shape
    torch.Size([6, 8])
    """

    def __init__(self, word_size: int, hidden: int, *, syntax: bool = True) -> None:
        super().__init__()
        self.hidden = hidden
        self.syntax = syntax
        kinds = 2 if syntax else 1
        self.word = nn.Linear(word_size, 3 * hidden)
        """W and b of the gates i and o and of u."""
        self.from_children = nn.Linear(kinds * hidden, 3 * hidden, bias=False)
        """[Û Ū] of the gates i and o and of u."""
        self.forget = nn.Parameter(torch.empty(kinds, hidden, hidden))
        """Û⁽ᶠ⁾ and Ū⁽ᶠ⁾."""
        self.forget_bias = nn.Parameter(torch.ones(hidden))
        """b⁽ᶠ⁾; with ones the cells of children count from the beginning."""
        for weight in (self.word.weight, self.word.bias, self.from_children.weight, self.forget):
            nn.init.uniform_(weight, -(hidden**-0.5), hidden**-0.5)

    def forward(self, vectors: Tensor, trees: TreeBatch) -> Tensor:
        """The states h of all nodes in the order of their numbers, (nodes, hidden).

        Parameters
        ----------
        vectors
            x of each word of the forest, and a last row for what is no word: (words + 1, word size).
        trees
            On the device of `vectors`.
        """
        h_leaves, c_leaves = self._leaves(vectors[trees.leaf_words])
        weights = self.from_children.weight, self.word.bias, self.forget, self.forget_bias
        h: Tensor = _Levels.apply(h_leaves.to(weights[0]), c_leaves.to(weights[0]), *weights, trees)  # type: ignore[no-untyped-call]
        return h[trees.place]

    def _leaves(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """States h and cells c of nodes with a word and without children."""
        i, o, u = self.word(words).chunk(3, dim=1)
        c = i.sigmoid() * u.tanh()  # eq. 7
        return o.sigmoid() * c.tanh(), c  # eq. 8


class _Rows(NamedTuple):
    """Where a level stands.

    Its inner nodes and its leaves: among all places, among all inner nodes, among all leaves. Its children: among all
    places, and the first of them that is no noun phrase.
    """

    inner: slice
    leaves: slice
    of_inner: slice
    of_leaves: slice
    children: slice
    others: int


def _rows(levels: tuple[Level, ...]) -> Iterator[_Rows]:
    begin = inner = leaves = 0
    children, others = slice(0, 0), 0
    for level in levels:
        middle, end = begin + level.inner, begin + level.nodes
        yield _Rows(
            slice(begin, middle),
            slice(middle, end),
            slice(inner, inner + level.inner),
            slice(leaves, leaves + level.leaves),
            children,
            others,
        )
        inner, leaves = inner + level.inner, leaves + level.leaves
        children, others = slice(begin, end), begin + level.noun_phrases
        begin = end


class _Levels(torch.autograd.Function):
    """States of all nodes, by place, from those of the leaves: eq. 2–8 for nodes with children and without a word."""

    @staticmethod
    def forward(
        ctx: Any, h_leaves: Tensor, c_leaves: Tensor, weight: Tensor, bias: Tensor, forget: Tensor, b_f: Tensor,
        trees: TreeBatch,
    ) -> Tensor:  # fmt: skip
        hidden, kinds = h_leaves.shape[1], len(forget)
        nodes = len(trees.parent)
        inner = nodes - len(h_leaves)
        h, c, f = (h_leaves.new_zeros(nodes, hidden) for _ in range(3))
        sums = h.new_zeros(inner, kinds * hidden)
        gates = h.new_zeros(inner, 3 * hidden)
        with torch.autocast(h.device.type, enabled=False):
            for own in _rows(trees.levels):
                h[own.leaves], c[own.leaves] = h_leaves[own.of_leaves], c_leaves[own.of_leaves]
                below, parent = own.children, trees.parent[own.children]
                # Eq. 2: the sums over the noun phrases and over the other children, side by side.
                sums[own.of_inner].view(-1, hidden).index_add_(0, _side(parent, own, kinds), h[below])
                # Eq. 5, 6 and the first eq. 7, where xⱼ = 0.
                torch.addmm(bias, sums[own.of_inner], weight.T, out=gates[own.of_inner])
                i, o, u = gates[own.of_inner].chunk(3, dim=1)
                i.sigmoid_(), o.sigmoid_(), u.tanh_()
                # Eq. 3 and 4.
                for rows, u_f in _by_kind(own, forget):
                    torch.addmm(b_f, h[rows], u_f.T, out=f[rows])
                f[below].sigmoid_()
                # The second eq. 7, and eq. 8.
                c[own.inner] = (i * u).index_add_(0, parent, f[below] * c[below])
                h[own.inner] = o * c[own.inner].tanh()
        ctx.save_for_backward(h, c, f, sums, gates, weight, forget)
        ctx.trees = trees
        return h

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        h, c, f, sums, gates, weight, forget = ctx.saved_tensors
        trees: TreeBatch = ctx.trees
        hidden, kinds = h.shape[1], len(forget)
        # d_x is the gradient of x; those of gates are of what goes into their sigmoid or tanh.
        d_h, d_c, d_f = gradients[0].clone(), torch.zeros_like(c), torch.zeros_like(f)
        d_gates, levels = torch.empty_like(gates), list(_rows(trees.levels))
        for own in reversed(levels):
            below, parent = own.children, trees.parent[own.children]
            i, o, u = gates[own.of_inner].chunk(3, dim=1)
            tanh_c = c[own.inner].tanh()
            d_own = d_c[own.inner] + d_h[own.inner] * o * (1 - tanh_c * tanh_c)
            d_o = d_h[own.inner] * tanh_c
            d_gates[own.of_inner] = torch.cat(
                [d_own * u * i * (1 - i), d_o * o * (1 - o), d_own * i * (1 - u * u)], dim=1
            )
            d_kept = d_own[parent]
            d_c[below] = d_kept * f[below]
            d_f[below] = d_kept * c[below] * f[below] * (1 - f[below])
            d_sums = (d_gates[own.of_inner] @ weight).view(-1, hidden)
            d_h[below] += d_sums[_side(parent, own, kinds)]
            for rows, u_f in _by_kind(own, forget):
                d_h[rows].addmm_(d_f[rows], u_f)
        d_leaves = [torch.cat([d[own.leaves] for own in levels]) if levels else d for d in (d_h, d_c)]
        d_forget = torch.stack([d_f[of_kind].T @ h[of_kind] for of_kind in _all_of_kind(levels, kinds, h.device)])
        return (*d_leaves, d_gates.T @ sums, d_gates.sum(dim=0), d_forget, d_f.sum(dim=0), None)


def _side(parent: Tensor, own: _Rows, kinds: int) -> Tensor:
    """To which of the sums, two for each parent, or one, each child belongs."""
    if kinds == 1:
        return parent
    side = 2 * parent
    side[own.others - own.children.start :] += 1
    return side


def _by_kind(own: _Rows, forget: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The children of a level with the U⁽ᶠ⁾ that is theirs: noun phrases and others, or all."""
    if len(forget) == 1:
        yield own.children, forget[0]
    else:
        yield slice(own.children.start, own.others), forget[0]
        yield slice(own.others, own.children.stop), forget[1]


def _all_of_kind(levels: list[_Rows], kinds: int, device: torch.device) -> list[Tensor]:
    """The places of all children, for each kind."""
    by_kind: list[list[Tensor]] = [[torch.empty(0, dtype=torch.int64)] for _ in range(kinds)]
    for own in levels:
        by_kind[0].append(torch.arange(own.children.start, own.others))
        by_kind[-1].append(torch.arange(own.others, own.children.stop))
    return [torch.cat(places).to(device) for places in by_kind]


class ChainLSTM(nn.Module):
    """An LSTM over the words, from left to right. It sees no tree: a phrase is read on its own, word by word.

    Examples
    --------
    >>> from deixis.language.trees import read_tree
    >>> from deixis.models.trees import Forest
    >>> forest = Forest.of([read_tree("(S (NP (DT A) (NN dog)) (VP (VBZ runs)))")])
    >>> ChainLSTM(4, 8).of_nodes(torch.zeros(len(forest.words) + 1, 4), forest.batch([0]), torch.tensor([0, 1])).shape
    torch.Size([2, 8])
    """

    def __init__(self, word_size: int, hidden: int) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(word_size, hidden, batch_first=True)

    def of_nodes(self, vectors: Tensor, trees: TreeBatch, nodes: Tensor) -> Tensor:
        """The state after the last word of each of some nodes, (nodes, hidden)."""
        starts, ends = trees.spans[nodes].T
        lengths = (ends - starts).clamp(min=1)
        longest = int(lengths.max()) if len(nodes) else 1
        places = starts[:, None] + torch.arange(longest, device=starts.device)
        words = vectors[trees.words[places.clamp(max=len(trees.words) - 1)]]
        packed = pack_padded_sequence(words, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (state, _) = self.recurrent(packed)
        last: Tensor = state[-1]
        return last
