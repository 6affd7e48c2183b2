"""The network against a plain numpy loop over the equations of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.models.m_rnn.network import MRNNNetwork
from deixis.models.m_rnn.spec import MRNNSettings
from tests.models.m_rnn.networks import CAPTIONERS, PAPERS, WORDS, make_network, photo_tensors, probabilities, take
from tests.models.presets import paper_presets

PAPER_NETWORKS = paper_presets("m-rnn", MRNNSettings)
NETWORKS = {**PAPERS, **CAPTIONERS, "not standardized": replace(PAPERS["papers/m-rnn"], standardize_images=False)}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_network_computes_the_equations_of_the_paper(name: str) -> None:
    network = make_network(NETWORKS[name])
    photos, words = photo_tensors(network), [4, 0, WORDS, 8, 2]
    logits, _ = network(network.visual_context(*photos), torch.tensor([[network.start, *words]]))
    expected = probabilities(network, photos, words)
    np.testing.assert_allclose(logits.softmax(-1)[0].detach(), np.stack(expected), rtol=1e-9)


@pytest.mark.parametrize("name", NETWORKS)
def test_reading_word_by_word_equals_reading_all_words(name: str) -> None:
    network = make_network(NETWORKS[name])
    context = network.visual_context(*photo_tensors(network, 2))
    words = torch.tensor([[network.start, 4, 0, 8], [network.start, 1, 1, 3]])
    at_once = network(context, words)[0].log_softmax(-1)
    state = network.initial_state(2)
    for place in range(words.shape[1]):
        logits, state = network(context, words[:, place : place + 1], state)
        torch.testing.assert_close(logits.log_softmax(-1), at_once[:, place : place + 1])


def shapes(name: str) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        network = MRNNNetwork(4096, 8000, PAPER_NETWORKS[name])
    return {name: tuple(weight.shape) for name, weight in network.named_parameters()}


def test_the_papers_sizes_are_those_of_figure_2() -> None:
    assert shapes("papers/m-rnn") == {
        "first.weight": (8003, 128),
        "second.weight": (256, 128),
        "second.bias": (256,),
        "recurrent.weight": (256, 256),
        "from_word.weight": (512, 256),
        "from_state.weight": (512, 256),
        "from_state.bias": (512,),
        "from_photo.weight": (512, 4096),
        "to_words.weight": (8002, 512),
        "word_bias": (8002,),
    }


def test_each_variant_of_table_9_differs_as_its_name_says() -> None:
    full = shapes("papers/m-rnn").keys()
    assert full - shapes("papers/m-rnn-no-emb-input").keys() == {"from_word.weight"}
    assert full - shapes("papers/m-rnn-one-layer-emb").keys() == {"second.weight", "second.bias"}
    assert full ^ shapes("papers/m-rnn-vis-in-rnn").keys() == {"from_photo.weight", "photo_to_word.weight"}
    assert shapes("papers/m-rnn-vis-in-rnn-both").keys() - full == {"photo_to_word.weight"}
    assert shapes("papers/m-rnn-vis-in-rnn-both-shared").keys() == full
    assert full - shapes("papers/rnn-base").keys() == {"from_photo.weight"}
    shared = shapes("papers/m-rnn-shared").keys()
    assert shapes("papers/m-rnn-shared-released").keys() - shared == {"to_embedding.bias"}
    assert shapes("papers/m-rnn-emb-one-input")["from_word.weight"] == (512, 128)
    assert shapes("papers/m-rnn-one-layer-emb")["first.weight"] == (8003, 256)


@pytest.mark.parametrize("name", NETWORKS)
def test_padding_does_not_change_the_loss(name: str) -> None:
    network = make_network(NETWORKS[name])
    context = network.visual_context(*photo_tensors(network, 2))
    lengths = torch.tensor([2, 4])
    losses = [
        network.sentence_losses(context, torch.tensor([[4, 1, after, after], [0, 3, 5, 2]]), lengths)
        for after in (network.end, 7)
    ]
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)
    alone = network.sentence_losses(take(context, slice(0, 1)), torch.tensor([[4, 1]]), lengths[:1])
    torch.testing.assert_close(losses[0][:1], alone)


def test_the_loss_of_a_sentence_equals_a_plain_loop_with_the_end_token() -> None:
    network = make_network(PAPERS["papers/m-rnn"])
    photos, words = photo_tensors(network), [4, 0, 8]
    expected = probabilities(network, photos, words)
    nll = -sum(np.log(each[word]) for each, word in zip(expected, [*words, network.end], strict=True))
    even = -sum(np.log(each).mean() for each in expected)
    context = network.visual_context(*photos)
    found = network.sentence_losses(context, torch.tensor([words]), torch.tensor([3]), smoothing=0.1)
    np.testing.assert_allclose(found[0].detach(), [0.9 * nll + 0.1 * even, nll, 4])


def test_the_negative_log_likelihood_counts_only_the_generated_words() -> None:
    network = make_network(CAPTIONERS["one attention"]).train()
    photos = photo_tensors(network)
    expected = probabilities(network, photos, [4, 0, 8])
    each = [-np.log(row[word]) for row, word in zip(expected, [4, 0, 8, network.end], strict=True)]
    context = network.visual_context(*photos).repeat(2)
    words = torch.tensor([[4, 0, 8, network.end], [4, 0, 8, 1]])
    found = network.negative_log_likelihood(context, words, torch.tensor([4, 3]))
    np.testing.assert_allclose(found.detach(), [sum(each), sum(each[:3])])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"min_count": 0}, "min_count=0"),
        ({"second_embedding_dim": 0}, "second_embedding_dim=0"),
        ({"single_embedding": True, "multimodal_word_input": "first"}, "multimodal_word_input=first"),
        ({"image_input": "both-shared", "multimodal_dim": 100}, "both-shared"),
        ({"tied_projection": "relu"}, "tie_word_weights"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(DeixisError, match=named):
        MRNNSettings(**wrong)  # type: ignore[arg-type]


def test_rnn_base_has_no_refined_features() -> None:
    network = make_network(PAPERS["papers/rnn-base"])
    with pytest.raises(DeixisError, match="image_input=nowhere"):
        network.refine(*photo_tensors(network))
