"""The networks of section 3.2: tree and chain encoders, and the embedding layers (Figure 4).

Symbols are the paper's. `docs/reference/models/hm-lstm.md` lists the choices that the paper leaves open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from deixis.data.pairs import Integers
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import TreeBatch
from deixis.models.networks import WordEmbedding, last_states
from deixis.runtime import Array, Function


def to_tensors(trees: TreeBatch[Integers]) -> TreeBatch[Tensor]:
    arrays: dict[str, Any] = {name: torch.from_numpy(getattr(trees, name)) for name in TreeBatch.ARRAYS}
    return cast("TreeBatch[Tensor]", replace(trees, **arrays))


class TreeLSTM(nn.Module):
    """The H-LSTM of eq. 2–8, or with ``syntax=False`` the Tree-LSTM that it extends.

    W⁽ᶠ⁾ of eq. 3 and 4 is left out: only leaves have a word xⱼ, and leaves have no children to forget. With syntax,
    noun phrase children (Û) and other children (Ū) have separate weights.

    A forget gate depends on the child alone, so each node is computed together with what it passes on to its parent,
    f ⊙ c. All trees of a batch are computed together, level by level: training adds up the children in torch, and
    inference in numpy (`HMLSTM`).
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
        h_leaves, c_leaves = self.leaf_states(vectors[trees.leaf_words])
        kinds, hidden_size = self.forget_of_kind.shape[:2]
        with torch.autocast(self.forget.device.type, enabled=False):
            h_leaves, passed_leaves = self.pass_on(h_leaves.to(self.forget), c_leaves.to(self.forget))
            h, passed = h_leaves[:0], passed_leaves[:0]
            states = [h]
            for level, leaves, owner in trees.by_level(kinds):
                # Eq. 2, and the sum of the second eq. 7, over the nodes of the level before, which are the children.
                sums, passed_sums = (
                    of_children.new_zeros(level.inner * kinds, hidden_size).index_add(0, owner, of_children)
                    for of_children in (h, passed)
                )
                passed_sums = passed_sums.view(level.inner, kinds, hidden_size).sum(dim=1)
                h, passed = self.inner(sums.view(level.inner, kinds * hidden_size), passed_sums, level.noun_phrases)
                h, passed = torch.cat([h, h_leaves[leaves]]), torch.cat([passed, passed_leaves[leaves]])
                states.append(h)
        return torch.cat(states)[trees.position]

    def leaf_states(self, words: Tensor) -> tuple[Tensor, Tensor]:
        """States h and c of leaves, which have a word and no children."""
        i, o, u = self.word(words).chunk(3, dim=1)  # eq. 5, 6 and the first eq. 7
        c = i.sigmoid() * u.tanh()  # the second eq. 7
        return o.sigmoid() * c.tanh(), c  # eq. 8

    def inner(self, sums: Tensor, passed: Tensor, noun_phrases: Tensor | int) -> tuple[Tensor, Tensor]:
        """States h of nodes with children and without a word, and f ⊙ c for their parents.

        `sums` are those of eq. 2 over the children's h, and `passed` is the sum of the children's f ⊙ c. The first
        `noun_phrases` nodes are noun phrases.
        """
        i, o, u = torch.addmm(self.word.bias, sums, self.from_children.weight.T).chunk(3, dim=1)  # eq. 5–7, xⱼ = 0
        c = i.sigmoid() * u.tanh() + passed  # the second eq. 7
        return self.pass_on(o.sigmoid() * c.tanh(), c, noun_phrases)  # eq. 8

    def pass_on(self, h: Tensor, c: Tensor, noun_phrases: Tensor | int = 0) -> tuple[Tensor, Tensor]:
        """States h, and f ⊙ c for their parents: eq. 3 for noun phrases, which come first, and eq. 4 for others."""
        of_kind, bias = self.forget_of_kind, self.forget_bias
        if len(of_kind) == 1 or (isinstance(noun_phrases, int) and not noun_phrases):
            return h, torch.addmm(bias, h, of_kind[-1].T).sigmoid() * c
        of_noun_phrases = torch.addmm(bias, h[:noun_phrases], of_kind[0].T)
        of_others = torch.addmm(bias, h[noun_phrases:], of_kind[1].T)
        return h, torch.cat([of_noun_phrases, of_others]).sigmoid() * c


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
        return last_states(self.recurrent, words, lengths)


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
        return self.encoder.pass_on(*self.encoder.leaf_states(words))

    def inner(self, sums: Tensor, passed: Tensor, noun_phrases: Tensor) -> tuple[Tensor, Tensor]:
        assert isinstance(self.encoder, TreeLSTM)  # noqa: S101 - as above
        return self.encoder.inner(sums, passed, noun_phrases[0])

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
