"""The encoders compared with the paper's equations, written as a plain loop over nodes; the network and the model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from deixis.errors import DeixisError
from deixis.language.sentence import Phrase, Sentence
from deixis.language.trees import Tree, phrase, read_tree
from deixis.language.vectors import WordVectors
from deixis.models.hm_lstm.model import HMLSTM, ChainLSTM, EmbeddingLayer, TreeLSTM
from deixis.models.hm_lstm.spec import HMLSTMSettings
from deixis.models.hm_lstm.trees import Forest
from tests.models.hm_lstm.made_trees import CHAIN, WIDE, WORD, trees

SENTENCES = ["A man in an orange hat pets his dog.", "Two dogs run.", "snow"]
WORDS = ["a", "man", "in", "an", "orange", "hat", "pets", "his", "dog", "two", "dogs", "run", "snow"]
VECTORS = WordVectors(np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32), WORDS)
SMALL = HMLSTMSettings(hidden_size=8, embedding_dim=4)
ENCODERS = ("h-lstm", "tree-lstm", "chain")


def made(encoder: str = "h-lstm") -> HMLSTM:
    torch.manual_seed(0)
    return HMLSTM(5, VECTORS, replace(SMALL, text_encoder=encoder))  # type: ignore[arg-type]


@pytest.mark.parametrize("encoder", ENCODERS)
def test_embeddings_are_unit_vectors_for_any_number_of_rows(encoder: str) -> None:
    model = made(encoder)
    for count in (0, 1, 3):
        photos = model.prepare_visual(np.random.default_rng(1).normal(size=(count, 5)))
        texts = model.prepare_text(SENTENCES[:count])
        assert photos.shape == texts.shape == (count, 4)
        np.testing.assert_allclose(np.linalg.norm(photos, axis=1), 1, rtol=1e-5)
        np.testing.assert_allclose(np.linalg.norm(texts, axis=1), 1, rtol=1e-5)
        assert model.scores(photos, texts).shape == (count, count)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_text_has_the_same_embedding_alone_in_a_batch_and_as_a_record(encoder: str) -> None:
    model, records = made(encoder), [Sentence(text) for text in SENTENCES]
    together = model.prepare_text(SENTENCES)
    for row, text in zip(together, SENTENCES, strict=True):
        np.testing.assert_allclose(model.prepare_text([text])[0], row, atol=1e-5)
    np.testing.assert_allclose(model.prepare_text([record.whole for record in records]), together, atol=1e-5)
    np.testing.assert_allclose(model.prepare_text(records[::-1] + records)[:3], together[::-1], atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_phrase_is_embedded_as_its_node_independent_of_the_sentence(encoder: str) -> None:
    model = made(encoder)
    sentence = Sentence("A man in an orange hat pets his dog.")
    hat = next(phrase for phrase in sentence.phrases if phrase.text == "an orange hat")
    alone = Sentence("an orange hat")
    found = model.prepare_text([hat, sentence, alone])
    np.testing.assert_allclose(found[0], found[2], atol=1e-5)
    assert not np.allclose(found[0], found[1], atol=1e-3)


def test_a_span_that_is_not_a_node_is_embedded_as_the_smallest_noun_phrase_around_it() -> None:
    model, sentence = made(), Sentence("A man in an orange hat pets his dog.")
    odd = Phrase(sentence, 4, 6)  # "orange hat"
    assert not odd.is_node
    whole = Phrase(sentence, odd.node.start, odd.node.end)
    found = model.prepare_text([odd, whole])
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_unusual_texts_have_finite_embeddings() -> None:
    model = made()
    found = model.prepare_text(["", "xyzzy", "dog " * 300, "!!!"])
    assert np.isfinite(found).all()
    forest = Forest.from_trees([CHAIN, WORD])
    assert np.isfinite(model.embed_nodes(forest, [0, 1, 0], [0, 0, 400])).all()


def test_words_without_a_vector_are_zeros() -> None:
    rows = made().word_matrix(Forest.from_trees([Sentence("A xyzzy dog").tree]))
    assert rows.shape == (4, 6)
    np.testing.assert_array_equal(rows[0], VECTORS.vectors_of(["a"])[0])
    assert not rows[1].any()
    assert not rows[3].any()


@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_model_survives_saving_and_loading(encoder: str, tmp_path: Path) -> None:
    model = HMLSTM(5, VECTORS, replace(SMALL, text_encoder=encoder, centering="photo"))  # type: ignore[arg-type]
    model.fit_phrase_mean(Forest.from_trees(Sentence(text).tree for text in SENTENCES))
    assert model.phrase_mean_.any()
    model.save(tmp_path / "model")
    again = HMLSTM.load(tmp_path / "model")
    assert again.settings == model.settings
    np.testing.assert_array_equal(again.phrase_mean_, model.phrase_mean_)
    np.testing.assert_array_equal(again.prepare_text(SENTENCES), model.prepare_text(SENTENCES))
    photos = np.ones((2, 5))
    np.testing.assert_array_equal(again.prepare_visual(photos), model.prepare_visual(photos))


def test_an_embedding_layer_is_linear_batch_norm_and_unit_length() -> None:
    torch.manual_seed(0)
    layer, rows = EmbeddingLayer(6, 4), torch.randn(9, 6)
    plain = rows @ layer.connected.weight.T
    plain = (plain - plain.mean(0)) / (plain.var(0, unbiased=False) + 1e-5).sqrt()
    torch.testing.assert_close(layer(rows), plain / plain.norm(dim=1, keepdim=True))


def test_features_of_another_size_raise_an_error() -> None:
    with pytest.raises(DeixisError, match="5"):
        made().prepare_visual(np.ones((2, 7)))


@pytest.mark.parametrize("wrong", [{"hidden_size": 0}, {"margin": -1.0}, {"dropout": 1.0}, {"round_lr_factor": 0.0}])
def test_invalid_settings_raise_an_error_with_their_name(wrong: dict[str, float]) -> None:
    with pytest.raises(DeixisError, match=next(iter(wrong))):
        HMLSTMSettings(**wrong)  # type: ignore[arg-type]


def test_centred_scores_are_cosines_after_subtracting_both_means() -> None:
    torch.manual_seed(0)
    model = HMLSTM(5, VECTORS, replace(SMALL, centering="photo"))
    trees = Forest.from_trees(Sentence(text).tree for text in SENTENCES)
    model.fit_phrase_mean(trees)
    phrases = trees.noun_phrases
    text = model.embed_nodes(trees, phrases.owners.tolist(), phrases.values.tolist())
    np.testing.assert_allclose(model.phrase_mean_, text.mean(axis=0), atol=1e-6)
    visual = model.prepare_visual(np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32))
    found = model.scores_in_photo(visual, text)
    for row, one in enumerate(visual - visual.mean(axis=0)):
        for column, other in enumerate(text - text.mean(axis=0)):
            cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            assert found[row, column] == pytest.approx(cosine, abs=1e-5)


def test_without_centering_scores_in_a_photo_are_plain_scores() -> None:
    model = made()
    model.fit_phrase_mean(Forest.from_trees(Sentence(text).tree for text in SENTENCES))
    assert not model.phrase_mean_.any()
    visual, text = np.eye(2, 4, dtype=np.float32), np.eye(3, 4, dtype=np.float32)
    np.testing.assert_array_equal(model.scores_in_photo(visual, text), visual @ text.T)


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
    kinds = cell.from_children.weight.chunk(len(cell.forget), dim=1)
    u_np, u_other = kinds[0].chunk(3), kinds[-1].chunk(3)
    f_np, f_other = cell.forget[0], cell.forget[-1]
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
    found = cell(vectors, forest.batch(range(len(some))))
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


def test_gradients_pass_gradcheck() -> None:
    forest = Forest.from_trees(
        [read_tree("(S (NP (NP (DT a) (NN dog)) (PP (IN in) (NP (NN snow)))) (VP (VBZ runs)))"), WORD]
    )
    cell, batch = made_cell(), forest.batch([0, 1])
    names = [name for name, _ in cell.named_parameters()]

    def states(vectors: Tensor, *weights: Tensor) -> Tensor:
        h: Tensor = torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (vectors, batch))
        return h

    weights = [weight.detach().clone().requires_grad_() for weight in cell.parameters()]
    assert torch.autograd.gradcheck(states, (made_vectors(forest).requires_grad_(), *weights))


def test_the_chain_encodes_the_words_of_each_node_like_an_lstm() -> None:
    some = [read_tree("(S (NP (DT a) (NN dog)) (VP (VBZ runs)))"), WORD, phrase("", [])]
    forest = Forest.from_trees(some)
    torch.manual_seed(0)
    chain, vectors, batch = ChainLSTM(SIZE, HIDDEN).double(), made_vectors(forest), forest.batch([0, 1, 2])
    found = chain(vectors, batch, torch.tensor([4, 0, 1, 6, 7]))
    number = {word: index for index, word in enumerate(forest.words)}
    for state, words in zip(found, (["runs"], ["a", "dog", "runs"], ["a", "dog"], ["snow"], []), strict=True):
        rows = vectors[[number[word] for word in words] or [-1]]
        torch.testing.assert_close(state, chain.recurrent(rows[None])[1][0][-1, 0])
