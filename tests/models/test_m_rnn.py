"""The network of the m-RNN paper, equation by equation, against a plain loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from deixis.errors import DeixisError
from deixis.models.m_rnn import PAPERS, MRNNNetwork, MRNNSettings

PHOTO, WORDS, CELL = 6, 9, 5
SMALL = {"first_embedding": 3, "second_embedding": 4, "recurrent_size": 4, "multimodal_size": 7, "attention_size": 3}
VARIANTS = {name: replace(settings, **SMALL) for name, settings in PAPERS.items()}
BEYOND = {
    "lstm": MRNNSettings(**{**SMALL, "recurrent_size": 5}, recurrent="lstm"),
    "gru": MRNNSettings(**{**SMALL, "recurrent_size": 5}, recurrent="gru"),
    "attention": MRNNSettings(**SMALL, attention=True),
    "attention-shared": MRNNSettings(**SMALL, attention=True, shared_words=True),
    "attention-heads": MRNNSettings(**{**SMALL, "attention_size": 6}, attention=True, attention_heads=3),
    "captioner": MRNNSettings(
        **SMALL, recurrent="lstm", one_embedding=True, shared_words=True, photo_into="both", attention=True
    ),
    "as-it-comes": MRNNSettings(**SMALL, standardise=False),
}


def made(settings: MRNNSettings, seed: int = 0) -> MRNNNetwork:
    """A network of double precision with weights that are nowhere 0."""
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


def seen_by(network: MRNNNetwork, *photos: tuple[np.ndarray, np.ndarray]):
    vectors, cells = (torch.from_numpy(np.stack(side)) for side in zip(*photos, strict=True))
    return network.see(vectors, cells if network.settings.attention else None)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def softmax(x: np.ndarray) -> np.ndarray:
    return np.exp(x - x.max()) / np.exp(x - x.max()).sum()


def probabilities(network: MRNNNetwork, photo: np.ndarray, cells: np.ndarray, words: list[int]) -> list[np.ndarray]:
    """P(next word) after the start sign and after each word, written down as the paper writes it."""
    weight = {name: tensor.detach().numpy() for name, tensor in network.state_dict().items()}
    s = network.settings
    if s.standardise:
        photo = (photo - weight["photo_mean"]) / weight["photo_scale"]
        cells = (cells - weight["cell_mean"]) / weight["cell_scale"] if s.attention else cells
    r = c = np.zeros(s.recurrent_size)
    found = []
    for word in [network.start, *words]:
        first = weight["first.weight"][word]
        second = first if s.one_embedding else weight["second.weight"] @ first + weight["second.bias"]
        if s.photo_into in ("recurrent", "both"):
            second = second + weight["photo_to_word.weight"] @ photo
        if s.photo_into == "both-shared":
            second = second + (weight["from_photo.weight"] @ photo)[: s.second_embedding]
        if s.recurrent == "relu":
            r = np.maximum(0, weight["recurrent.weight"] @ r + second)
        elif s.recurrent == "lstm":
            r, c = lstm(weight, second, r, c)
        else:
            r = gru(weight, second, r)
        m = weight["from_state.weight"] @ r + weight["from_state.bias"]
        if s.word_from != "none":
            m = m + weight["from_word.weight"] @ (first if s.word_from == "first" else second)
        if s.photo_into in ("multimodal", "both", "both-shared"):
            m = m + weight["from_photo.weight"] @ photo
        if s.attention:
            m = m + weight["attention.from_values.weight"] @ looked_at(weight, r, cells, s.attention_heads)
        m = 1.7159 * np.tanh(2 / 3 * m)
        if s.shared_words:
            logits = weight["first.weight"][: WORDS + 2] @ (weight["to_embedding.weight"] @ m)
        else:
            logits = weight["to_words.weight"] @ m
        found.append(softmax(logits + weight["word_bias"]))
    return found


def looked_at(weight: dict[str, np.ndarray], r: np.ndarray, cells: np.ndarray, heads: int) -> np.ndarray:
    query = weight["attention.to_query.weight"] @ r
    keys = [weight["attention.to_key.weight"] @ cell for cell in cells]
    values = [weight["attention.to_value.weight"] @ cell for cell in cells]
    found, size = [], len(query) // heads
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        shares = softmax(np.array([key[part] @ query[part] for key in keys]) / np.sqrt(size))
        found.append(sum(share * value[part] for share, value in zip(shares, values, strict=True)))
    return np.concatenate(found)


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


@pytest.mark.parametrize("name", [*VARIANTS, *BEYOND])
def test_a_network_computes_what_the_paper_writes(name: str) -> None:
    network = made((VARIANTS | BEYOND)[name])
    photo, cells = photo_and_cells()
    words = [4, 0, WORDS, 8, 2]
    logits, _ = network(seen_by(network, (photo, cells)), torch.tensor([[network.start, *words]]))
    expected = probabilities(network, photo, cells, words)
    np.testing.assert_allclose(logits.softmax(-1)[0].detach(), np.stack(expected), rtol=1e-9)


@pytest.mark.parametrize("name", [*VARIANTS, *BEYOND])
def test_words_one_at_a_time_give_what_all_at_once_give(name: str) -> None:
    network = made((VARIANTS | BEYOND)[name])
    seen = seen_by(network, photo_and_cells(1), photo_and_cells(2))
    words = torch.tensor([[network.start, 4, 0, 8], [network.start, 1, 1, 3]])
    at_once = network(seen, words)[0].log_softmax(-1)
    state = network.first_state(2)
    for place in range(words.shape[1]):
        logits, state = network(seen, words[:, place : place + 1], state)
        torch.testing.assert_close(logits.log_softmax(-1), at_once[:, place : place + 1])


def test_the_papers_sizes_are_those_of_figure_2() -> None:
    with torch.device("meta"):
        network = MRNNNetwork(4096, 8000, PAPERS["papers/m-rnn"])
    shapes = {name: tuple(weight.shape) for name, weight in network.named_parameters()}
    assert shapes == {
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


def parameters(name: str) -> set[str]:
    with torch.device("meta"):
        return dict(MRNNNetwork(4096, 8000, PAPERS[name]).named_parameters()).keys()


def test_each_variant_of_table_9_differs_as_its_name_says() -> None:
    full = parameters("papers/m-rnn")
    assert full - parameters("papers/m-rnn-no-emb-input") == {"from_word.weight"}
    assert full - parameters("papers/m-rnn-one-layer-emb") == {"second.weight", "second.bias"}
    assert full ^ parameters("papers/m-rnn-vis-in-rnn") == {"from_photo.weight", "photo_to_word.weight"}
    assert parameters("papers/m-rnn-vis-in-rnn-both") - full == {"photo_to_word.weight"}
    assert parameters("papers/m-rnn-vis-in-rnn-both-shared") == full
    assert full - parameters("papers/rnn-base") == {"from_photo.weight"}
    with torch.device("meta"):
        first = MRNNNetwork(4096, 8000, PAPERS["papers/m-rnn-emb-one-input"])
        single = MRNNNetwork(4096, 8000, PAPERS["papers/m-rnn-one-layer-emb"])
    assert first.from_word is not None
    assert first.from_word.in_features == 128
    assert single.first.embedding_dim == 256


def test_shared_words_are_one_tensor_that_learns_from_reading_and_writing() -> None:
    network = made(VARIANTS["papers/m-rnn-shared"])
    assert "to_words.weight" not in network.state_dict()
    before = network(seen_by(network, photo_and_cells()), torch.tensor([[network.start]]))[0]
    with torch.no_grad():
        network.first.weight[3] += 1  # not read here, only written
    after = network(seen_by(network, photo_and_cells()), torch.tensor([[network.start]]))[0]
    changed = (before != after).flatten().nonzero().flatten().tolist()
    assert changed == [3]


def test_the_photo_matters_except_to_the_base() -> None:
    for name, settings in VARIANTS.items():
        network = made(settings)
        words = torch.tensor([[network.start, 2]])
        one, other = (network(seen_by(network, photo_and_cells(seed)), words)[0] for seed in (1, 2))
        assert torch.equal(one, other) == (name == "papers/rnn-base"), name


@pytest.mark.parametrize("name", [*VARIANTS, *BEYOND])
def test_what_stands_after_the_end_changes_nothing(name: str) -> None:
    network = made((VARIANTS | BEYOND)[name])
    seen = seen_by(network, photo_and_cells(1), photo_and_cells(2))
    lengths = torch.tensor([2, 4])
    losses = [
        network.sentence_losses(seen, torch.tensor([[4, 1, after, after], [0, 3, 5, 2]]), lengths)
        for after in (network.end, 7)
    ]
    torch.testing.assert_close(losses[0], losses[1], rtol=0, atol=0)
    alone = network.sentence_losses(seen.take(slice(0, 1)), torch.tensor([[4, 1]]), lengths[:1])
    torch.testing.assert_close(losses[0][:1], alone)


def test_the_loss_of_a_sentence_is_that_of_a_plain_loop_end_sign_included() -> None:
    network = made(VARIANTS["papers/m-rnn"])
    photo, cells = photo_and_cells()
    words = [4, 0, 8]
    expected = probabilities(network, photo, cells, words)
    surprise = -sum(np.log(each[word]) for each, word in zip(expected, [*words, network.end], strict=True))
    even = -sum(np.log(each).mean() for each in expected)
    seen = seen_by(network, (photo, cells))
    found = network.sentence_losses(seen, torch.tensor([words]), torch.tensor([3]), smoothing=0.1)
    np.testing.assert_allclose(found[0].detach(), [0.9 * surprise + 0.1 * even, surprise, 4])


@pytest.mark.parametrize("name", [*VARIANTS, *BEYOND])
def test_errors_reach_back_to_the_first_word(name: str) -> None:
    network = made((VARIANTS | BEYOND)[name])
    with torch.no_grad():
        for part in network.parameters():
            part.abs_()  # so that no unit of the recurrent layer is off
    words = torch.tensor([[5, *[1] * 20]])
    _, states, _ = network.read(words, network.first_state(1), seen_by(network, photo_and_cells()).words)
    states[0, -1].sum().backward()
    assert network.first.weight.grad is not None
    assert network.first.weight.grad[5].abs().sum() > 0


def test_words_are_lost_only_in_learning_and_the_start_sign_never() -> None:
    network = made(replace(VARIANTS["papers/m-rnn"], word_dropout=0.999999))
    seen = seen_by(network, photo_and_cells())
    words, lengths = torch.tensor([[4, 0, 8]]), torch.tensor([3])
    kept = network.sentence_losses(seen, words, lengths)
    photo, cells = photo_and_cells()
    expected = probabilities(network, photo, cells, [WORDS] * 3)
    lost = -sum(np.log(each[word]) for each, word in zip(expected, [4, 0, 8, network.end], strict=True))
    network.train()
    assert network.sentence_losses(seen, words, lengths)[0, 0].item() == pytest.approx(lost)
    network.eval()
    torch.testing.assert_close(network.sentence_losses(seen, words, lengths), kept)


def test_a_share_of_the_words_read_becomes_what_the_network_draws_and_the_rest_stays() -> None:
    network = made(replace(VARIANTS["papers/m-rnn"], scheduled_sampling=0.5))
    with torch.no_grad():
        network.word_bias[7] += 100  # so that it draws nothing else
    photo, cells = photo_and_cells()
    seen = seen_by(network, (photo, cells))
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
    found = [network.sentence_losses(seen, torch.tensor([words]), lengths)[0, 0].item() for _ in range(60)]
    nearest = [int(np.abs(np.array(possible) - loss).argmin()) for loss in found]
    np.testing.assert_allclose(found, np.array(possible)[nearest])
    assert set(nearest) == {0, 1, 2, 3}


def test_the_surprise_of_a_sentence_counts_what_was_written_of_it() -> None:
    network = made(replace(VARIANTS["papers/m-rnn"], word_dropout=0.9, scheduled_sampling=0.9)).train()
    photo, cells = photo_and_cells()
    expected = probabilities(network, photo, cells, [4, 0, 8])
    each = [-np.log(row[word]) for row, word in zip(expected, [4, 0, 8, network.end], strict=True)]
    seen = seen_by(network, *[(photo, cells)] * 2)
    found = network.surprise(seen, torch.tensor([[4, 0, 8, network.end], [4, 0, 8, 1]]), torch.tensor([4, 3]))
    np.testing.assert_allclose(found.detach(), [sum(each), sum(each[:3])])


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"min_count": 0}, "min_count=0"),
        ({"attention_heads": 3}, "attention_heads=3"),
        ({"recurrent_size": 512}, "recurrent_size=512"),
        ({"one_embedding": True, "word_from": "first"}, "word_from=first"),
        ({"photo_into": "both-shared", "multimodal_size": 100}, "both-shared"),
    ],
)
def test_settings_that_make_no_network_are_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(DeixisError, match=named):
        MRNNSettings(**wrong)  # type: ignore[arg-type]


def test_attention_without_cells_is_refused() -> None:
    with pytest.raises(DeixisError, match="attention=true"):
        MRNNNetwork(PHOTO, WORDS, MRNNSettings(attention=True))
    with pytest.raises(DeixisError, match="attention=true"):
        made(BEYOND["attention"]).see(torch.zeros(1, PHOTO).double())


def test_the_base_has_no_refined_feature() -> None:
    with pytest.raises(DeixisError, match="photo_into=nowhere"):
        made(VARIANTS["papers/rnn-base"]).refined(torch.zeros(1, PHOTO).double())
