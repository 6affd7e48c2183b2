"""The encoders compared with the paper's equations, written as a plain loop over nodes; the embedding layer."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from deixis.language.trees import Tree, phrase, read_tree
from deixis.models.hm_lstm.network import ChainLSTM, EmbeddingLayer, TreeLSTM, to_tensors
from deixis.models.hm_lstm.trees import Forest
from tests.models.hm_lstm.made_trees import CHAIN, WIDE, WORD, trees

SIZE, HIDDEN = 3, 5


def made_cell(syntax: bool = True) -> TreeLSTM:
    torch.manual_seed(0)
    cell = TreeLSTM(SIZE, HIDDEN, syntax=syntax).double()
    with torch.no_grad():
        cell.forget_bias.normal_()
    return cell


def made_vectors(forest: Forest) -> Tensor:
    vectors = torch.randn(len(forest.words) + 1, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    vectors[-1] = 0
    return vectors


def plain_states(cell: TreeLSTM, vectors: Tensor, forest: Forest, tree: Tree) -> list[Tensor]:
    """h of every node, parents before children: eq. 2–8, node by node."""
    number = {word: index for index, word in enumerate(forest.words)}
    w_i, w_o, w_u = cell.word.weight.chunk(3)
    b_i, b_o, b_u = cell.word.bias.chunk(3)
    kinds = cell.from_children.weight.chunk(len(cell.forget_of_kind), dim=1)
    u_np, u_other = kinds[0].chunk(3), kinds[-1].chunk(3)
    f_np, f_other = cell.forget_of_kind[0], cell.forget_of_kind[-1]
    h: dict[int, Tensor] = {}
    c: dict[int, Tensor] = {}
    every = list(tree.nodes())
    for node in reversed(every):
        x = vectors[number[node.word]] if node.word is not None else torch.zeros(SIZE, dtype=torch.float64)
        noun_phrases = [id(child) for child in node.children if child.label == "NP" and child.children]
        others = [id(child) for child in node.children if id(child) not in noun_phrases]
        zero = torch.zeros(HIDDEN, dtype=torch.float64)
        h_np, h_other = sum((h[k] for k in noun_phrases), zero), sum((h[k] for k in others), zero)
        i = torch.sigmoid(w_i @ x + u_np[0] @ h_np + u_other[0] @ h_other + b_i)
        o = torch.sigmoid(w_o @ x + u_np[1] @ h_np + u_other[1] @ h_other + b_o)
        u = torch.tanh(w_u @ x + u_np[2] @ h_np + u_other[2] @ h_other + b_u)
        cell_state = i * u
        for k in noun_phrases:
            cell_state = cell_state + torch.sigmoid(f_np @ h[k] + cell.forget_bias) * c[k]
        for k in others:
            cell_state = cell_state + torch.sigmoid(f_other @ h[k] + cell.forget_bias) * c[k]
        c[id(node)] = cell_state
        h[id(node)] = o * torch.tanh(cell_state)
    return [h[id(node)] for node in every]


def check_against_loop(some: list[Tree], syntax: bool) -> None:
    forest, cell = Forest.from_trees(some), made_cell(syntax)
    vectors = made_vectors(forest)
    found = cell(vectors, to_tensors(forest.batch(range(len(some)))))
    plain = torch.stack([state for tree in some for state in plain_states(cell, vectors, forest, tree)])
    torch.testing.assert_close(found, plain, atol=1e-12, rtol=0)

    weights = list(cell.parameters())
    toward = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    ours, theirs = (
        torch.autograd.grad((states * toward).sum(), weights, allow_unused=True, materialize_grads=True)
        for states in (found, plain)
    )
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.lists(trees(), min_size=1, max_size=5), st.booleans())
def test_states_and_gradients_equal_those_of_a_loop_over_nodes(some: list[Tree], syntax: bool) -> None:
    check_against_loop(some, syntax)


@pytest.mark.parametrize("syntax", [True, False])
def test_states_and_gradients_of_degenerate_trees_equal_those_of_a_loop(syntax: bool) -> None:
    caption = read_tree("(S (NP (DT a) (NN dog)) (VP (VBZ runs) (PP (IN in) (NP (NN snow)))))")
    check_against_loop([WORD, caption, CHAIN, phrase("", []), WIDE, caption], syntax)


def test_the_chain_encodes_the_words_of_each_node_like_an_lstm() -> None:
    some = [read_tree("(S (NP (DT a) (NN dog)) (VP (VBZ runs)))"), WORD, phrase("", [])]
    forest = Forest.from_trees(some)
    torch.manual_seed(0)
    chain, vectors = ChainLSTM(SIZE, HIDDEN).double(), made_vectors(forest)
    batch = to_tensors(forest.batch([0, 1, 2]))
    found = chain(vectors, batch, torch.tensor([4, 0, 1, 6, 7]))
    number = {word: index for index, word in enumerate(forest.words)}
    for state, words in zip(found, (["runs"], ["a", "dog", "runs"], ["a", "dog"], ["snow"], []), strict=True):
        rows = vectors[[number[word] for word in words] or [-1]]
        torch.testing.assert_close(state, chain.recurrent(rows[None])[1][0][-1, 0])


def test_an_embedding_layer_is_linear_batch_norm_and_unit_length() -> None:
    torch.manual_seed(0)
    layer, rows = EmbeddingLayer(6, 4), torch.randn(9, 6)
    plain = rows @ layer.connected.weight.T
    plain = (plain - plain.mean(0)) / (plain.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(layer(rows), plain / plain.norm(dim=1, keepdim=True))
