"""The network against a plain numpy loop over the equations of the paper."""

from __future__ import annotations

from dataclasses import replace
from math import erf

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.models.m_rnn.network import MRNNNetwork
from deixis.models.m_rnn.spec import MRNNSettings
from tests.models.presets import paper_presets

PAPER_NETWORKS = paper_presets("m-rnn", MRNNSettings)

PHOTO, WORDS, CELL = 6, 9, 5
SMALL = {"first_embedding_dim": 3, "second_embedding_dim": 4, "hidden_size": 4, "multimodal_dim": 7, "attention_dim": 3}
VARIANTS = {name: replace(settings, **SMALL) for name, settings in PAPER_NETWORKS.items()}
EXTENSIONS = {
    "lstm": MRNNSettings(**{**SMALL, "hidden_size": 5}, recurrent_cell="lstm"),
    "gru": MRNNSettings(**{**SMALL, "hidden_size": 5}, recurrent_cell="gru"),
    "attention": MRNNSettings(**SMALL, attention=True),
    "attention-shared": MRNNSettings(**SMALL, attention=True, tie_word_weights=True),
    "attention-heads": MRNNSettings(**{**SMALL, "attention_dim": 6}, attention=True, attention_heads=3),
    "captioner": MRNNSettings(
        **SMALL, recurrent_cell="lstm", single_embedding=True, tie_word_weights=True, image_input="both", attention=True
    ),
    "second-attention": MRNNSettings(**SMALL, attention=True, second_attention=True),
    "cell-layers": MRNNSettings(**SMALL, attention=True, second_attention=True, cell_layers=2, cell_dim=4),
    "not-standardized": MRNNSettings(**SMALL, standardize_images=False),
}


def make_network(settings: MRNNSettings, seed: int = 0) -> MRNNNetwork:
    """A network in double precision with random weights."""
    torch.manual_seed(seed)
    network = MRNNNetwork(PHOTO, WORDS, settings, CELL if settings.attention else 0).double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.normal_(std=0.5)
        network.photo_mean.normal_()
        network.photo_scale.uniform_(0.5, 2)
        network.cell_mean.normal_()
        network.cell_scale.uniform_(0.5, 2)
    return network


def photo_and_cells(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=PHOTO), rng.normal(size=(4, CELL))


def context_of(network: MRNNNetwork, *photos: tuple[np.ndarray, np.ndarray]):
    vectors, cells = (torch.from_numpy(np.stack(side)) for side in zip(*photos, strict=True))
    return network.visual_context(vectors, cells if network.settings.attention else None)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def probabilities(network: MRNNNetwork, photo: np.ndarray, cells: np.ndarray, words: list[int]) -> list[np.ndarray]:
    """P(next word) after the start token and after each word, by the equations of the paper."""
    weight = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    s = network.settings
    if s.standardize_images:
        photo = (photo - weight["photo_mean"]) / weight["photo_scale"]
        cells = (cells - weight["cell_mean"]) / weight["cell_scale"] if s.attention else cells
    if s.cell_layers:
        cells = cells @ weight["cells.project.weight"].T + weight["cells.project.bias"]
        for layer in range(s.cell_layers):
            cells = transformed(
                {name.removeprefix(f"cells.layers.{layer}."): part for name, part in weight.items()}, cells
            )
        cells = normalized(cells, weight["cells.norm.weight"], weight["cells.norm.bias"])
    r = c = np.zeros(s.hidden_size)
    found = []
    for word in [network.start, *words]:
        first = weight["first.weight"][word]
        second = first if s.single_embedding else weight["second.weight"] @ first + weight["second.bias"]
        if s.image_input in ("recurrent", "both"):
            second = second + weight["photo_to_word.weight"] @ photo
        if s.image_input == "both-shared":
            second = second + (weight["from_photo.weight"] @ photo)[: s.second_embedding_dim]
        if s.recurrent_cell == "relu":
            r = np.maximum(0, weight["recurrent.weight"] @ r + second)
        elif s.recurrent_cell == "lstm":
            r, c = lstm(weight, second, r, c)
        else:
            r = gru(weight, second, r)
        m = weight["from_state.weight"] @ r + weight["from_state.bias"]
        if s.multimodal_word_input != "none":
            m = m + weight["from_word.weight"] @ (first if s.multimodal_word_input == "first" else second)
        if s.image_input in ("multimodal", "both", "both-shared"):
            m = m + weight["from_photo.weight"] @ photo
        if s.attention:
            m = m + attended(weight, "attention", r, cells, s.attention_heads)
        m = 1.7159 * np.tanh(2 / 3 * m)
        if s.second_attention:
            m = 1.7159 * np.tanh(2 / 3 * (m + attended(weight, "second_attention", m, cells, s.attention_heads)))
        if s.tie_word_weights:
            mapped = weight["to_embedding.weight"] @ m
            if s.tied_projection == "relu":
                mapped = np.maximum(0, mapped + weight["to_embedding.bias"])
            logits = weight["first.weight"][: WORDS + 2] @ mapped
        else:
            logits = weight["to_words.weight"] @ m
        found.append(softmax(logits + weight["word_bias"]))
    return found


def attended(weight: dict[str, np.ndarray], name: str, asking: np.ndarray, cells: np.ndarray, heads: int) -> np.ndarray:
    query = weight[f"{name}.to_query.weight"] @ asking
    keys = [weight["cells.to_key.weight"] @ cell for cell in cells]
    values = [weight["cells.to_value.weight"] @ cell for cell in cells]
    found, size = [], len(query) // heads
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        shares = softmax(np.array([key[part] @ query[part] for key in keys]) / np.sqrt(size))
        found.append(sum(share * value[part] for share, value in zip(shares, values, strict=True)))
    return weight[f"{name}.from_values.weight"] @ np.concatenate(found)


def transformed(weight: dict[str, np.ndarray], cells: np.ndarray) -> np.ndarray:
    """Cells after a transformer layer with one head."""
    size = cells.shape[1]
    rows = normalized(cells, weight["norm1.weight"], weight["norm1.bias"])
    projected = [weight["self_attn.in_proj_weight"] @ row + weight["self_attn.in_proj_bias"] for row in rows]
    queries, keys, values = (np.stack(part) for part in zip(*(np.split(row, 3) for row in projected), strict=True))
    for index, query in enumerate(queries):
        seen = softmax(np.array([query @ key for key in keys]) / np.sqrt(size)) @ values
        cells[index] = cells[index] + weight["self_attn.out_proj.weight"] @ seen + weight["self_attn.out_proj.bias"]
    found = []
    for cell in cells:
        inner = weight["linear1.weight"] @ normalized(cell, weight["norm2.weight"], weight["norm2.bias"])
        inner = inner + weight["linear1.bias"]
        inner = np.array([x * (1 + erf(x / np.sqrt(2))) / 2 for x in inner])
        found.append(cell + weight["linear2.weight"] @ inner + weight["linear2.bias"])
    return np.stack(found)


def normalized(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + shift


def lstm(weight: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    gates = weight["recurrent.layer.weight_ih_l0"] @ x + weight["recurrent.layer.bias_ih_l0"]
    gates = gates + weight["recurrent.layer.weight_hh_l0"] @ h + weight["recurrent.layer.bias_hh_l0"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru(weight: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray) -> np.ndarray:
    a, b, c = np.split(weight["recurrent.layer.weight_ih_l0"] @ x + weight["recurrent.layer.bias_ih_l0"], 3)
    d, e, f = np.split(weight["recurrent.layer.weight_hh_l0"] @ h + weight["recurrent.layer.bias_hh_l0"], 3)
    z = sigmoid(b + e)
    return (1 - z) * np.tanh(c + sigmoid(a + d) * f) + z * h


@pytest.mark.parametrize("name", [*VARIANTS, *EXTENSIONS])
def test_the_network_computes_the_equations_of_the_paper(name: str) -> None:
    network = make_network((VARIANTS | EXTENSIONS)[name])
    photo, cells = photo_and_cells()
    words = [4, 0, WORDS, 8, 2]
    logits, _ = network(context_of(network, (photo, cells)), torch.tensor([[network.start, *words]]))
    expected = probabilities(network, photo, cells, words)
    np.testing.assert_allclose(logits.softmax(-1)[0].detach(), np.stack(expected), rtol=1e-9)


@pytest.mark.parametrize("name", [*VARIANTS, *EXTENSIONS])
def test_reading_word_by_word_equals_reading_all_words(name: str) -> None:
    network = make_network((VARIANTS | EXTENSIONS)[name])
    context = context_of(network, photo_and_cells(1), photo_and_cells(2))
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


@pytest.mark.parametrize("name", [*VARIANTS, *EXTENSIONS])
def test_padding_does_not_change_the_loss(name: str) -> None:
    network = make_network((VARIANTS | EXTENSIONS)[name])
    context = context_of(network, photo_and_cells(1), photo_and_cells(2))
    lengths = torch.tensor([2, 4])
    losses = [
        network.sentence_losses(context, torch.tensor([[4, 1, after, after], [0, 3, 5, 2]]), lengths)
        for after in (network.end, 7)
    ]
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)
    alone = network.sentence_losses(context.take(slice(0, 1)), torch.tensor([[4, 1]]), lengths[:1])
    torch.testing.assert_close(losses[0][:1], alone)


def test_the_loss_of_a_sentence_equals_a_plain_loop_with_the_end_token() -> None:
    network = make_network(VARIANTS["papers/m-rnn"])
    photo, cells = photo_and_cells()
    words = [4, 0, 8]
    expected = probabilities(network, photo, cells, words)
    nll = -sum(np.log(each[word]) for each, word in zip(expected, [*words, network.end], strict=True))
    even = -sum(np.log(each).mean() for each in expected)
    context = context_of(network, (photo, cells))
    found = network.sentence_losses(context, torch.tensor([words]), torch.tensor([3]), smoothing=0.1)
    np.testing.assert_allclose(found[0].detach(), [0.9 * nll + 0.1 * even, nll, 4])


@pytest.mark.parametrize("name", [*VARIANTS, *EXTENSIONS])
def test_gradients_reach_the_first_word(name: str) -> None:
    network = make_network((VARIANTS | EXTENSIONS)[name])
    with torch.no_grad():
        for part in network.parameters():
            part.abs_()  # so that no unit of the recurrent layer is off
    words = torch.tensor([[5, *[1] * 20]])
    _, states, _ = network.read_words(words, network.initial_state(1), context_of(network, photo_and_cells()).words)
    states[0, -1].sum().backward()
    assert network.first.weight.grad is not None
    assert network.first.weight.grad[5].abs().sum() > 0


def test_word_dropout_is_for_training_only_and_spares_the_start_token() -> None:
    network = make_network(replace(VARIANTS["papers/m-rnn"], word_dropout=0.999999))
    context = context_of(network, photo_and_cells())
    words, lengths = torch.tensor([[4, 0, 8]]), torch.tensor([3])
    kept = network.sentence_losses(context, words, lengths)
    photo, cells = photo_and_cells()
    expected = probabilities(network, photo, cells, [WORDS] * 3)
    lost = -sum(np.log(each[word]) for each, word in zip(expected, [4, 0, 8, network.end], strict=True))
    network.train()
    assert network.sentence_losses(context, words, lengths)[0, 0].item() == pytest.approx(lost)
    network.eval()
    torch.testing.assert_close(network.sentence_losses(context, words, lengths), kept)


def test_scheduled_sampling_replaces_a_share_of_the_input_words() -> None:
    network = make_network(replace(VARIANTS["papers/m-rnn"], scheduled_sampling=0.5))
    with torch.no_grad():
        network.word_bias[7] += 100  # so that it samples nothing else
    photo, cells = photo_and_cells()
    context = context_of(network, (photo, cells))
    words, lengths = [4, 0], torch.tensor([2])
    possible = [
        sum(
            -np.log(each[word])
            for each, word in zip(probabilities(network, photo, cells, read), [4, 0, network.end], strict=True)
        )
        for read in ([4, 0], [7, 0], [4, 7], [7, 7])
    ]
    network.train()
    torch.manual_seed(0)
    found = [network.sentence_losses(context, torch.tensor([words]), lengths)[0, 0].item() for _ in range(60)]
    nearest = [int(np.abs(np.array(possible) - loss).argmin()) for loss in found]
    np.testing.assert_allclose(found, np.array(possible)[nearest])
    assert set(nearest) == {0, 1, 2, 3}


def test_the_negative_log_likelihood_counts_only_the_generated_words() -> None:
    network = make_network(replace(VARIANTS["papers/m-rnn"], word_dropout=0.9, scheduled_sampling=0.9)).train()
    photo, cells = photo_and_cells()
    expected = probabilities(network, photo, cells, [4, 0, 8])
    each = [-np.log(row[word]) for row, word in zip(expected, [4, 0, 8, network.end], strict=True)]
    context = context_of(network, *[(photo, cells)] * 2)
    words = torch.tensor([[4, 0, 8, network.end], [4, 0, 8, 1]])
    found = network.negative_log_likelihood(context, words, torch.tensor([4, 3]))
    np.testing.assert_allclose(found.detach(), [sum(each), sum(each[:3])])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"min_count": 0}, "min_count=0"),
        ({"attention_heads": 3}, "attention_heads=3"),
        ({"hidden_size": 512}, "hidden_size=512"),
        ({"single_embedding": True, "multimodal_word_input": "first"}, "multimodal_word_input=first"),
        ({"image_input": "both-shared", "multimodal_dim": 100}, "both-shared"),
        ({"tied_projection": "relu"}, "tie_word_weights"),
    ],
)
def test_impossible_settings_are_named(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(DeixisError, match=named):
        MRNNSettings(**wrong)  # type: ignore[arg-type]


def test_attention_needs_cells() -> None:
    with pytest.raises(DeixisError, match="attention=true"):
        MRNNNetwork(PHOTO, WORDS, MRNNSettings(attention=True))
    with pytest.raises(DeixisError, match="attention=true"):
        make_network(EXTENSIONS["attention"]).visual_context(torch.zeros(1, PHOTO).double())


def test_rnn_base_has_no_refined_features() -> None:
    with pytest.raises(DeixisError, match="image_input=nowhere"):
        make_network(VARIANTS["papers/rnn-base"]).refine(torch.zeros(1, PHOTO).double())
