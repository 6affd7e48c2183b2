"""The two networks of the paper: layer by layer as it writes, and as models that are saved and opened."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import deixis
from deixis.errors import DeixisError
from deixis.language.vectors import shipped_vectors
from deixis.language.vocabulary import Vocabulary
from deixis.models.matching import model as model_module
from deixis.models.matching.model import Similarity, TwoBranch
from deixis.models.matching.networks import Branch, SimilarityNetwork, TwoBranchNetwork
from deixis.models.matching.spec import SimilaritySettings, TwoBranchSettings
from deixis.models.networks import word_tensors
from deixis.models.registry import get_spec
from deixis.models.training.settings import Settings
from deixis.storage.artifacts import CONFIG, read_artifact
from tests.models.presets import paper_presets
from tests.unchecked import without_checksums

SMALL = TwoBranchSettings(hidden_size=16, embedding_dim=8)
SMALL_SIMILARITY = SimilaritySettings(hidden_size=16, embedding_dim=8)
PAPERS = paper_presets("two-branch", TwoBranchSettings)
SIMILARITY_PAPERS = paper_presets("similarity", SimilaritySettings)
WORDS = Vocabulary(("a", "dog", "cat"), (3, 2, 1))


def rows(count: int, size: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, size)).astype(np.float32)


def shapes(branch: Branch) -> list[tuple[str, tuple[int, ...]]]:
    """The layers in their order, with the sizes of those that have weights."""
    found: list[tuple[str, tuple[int, ...]]] = []
    for layer in branch.layers:
        weight = getattr(layer, "weight", torch.empty(0))
        found.append((type(layer).__name__, tuple(reversed(weight.shape))))
    return found


RELU, DROPOUT, NORM = ("ReLU", (0,)), ("Dropout", (0,)), ("BatchNorm1d", (512,))


@pytest.mark.parametrize(
    ("name", "width", "after"),
    [
        ("phrases", 1024, [RELU, ("Linear", (1024, 512)), NORM]),  # section 4.3
        ("sentences", 2048, [RELU, DROPOUT, ("Linear", (2048, 512)), NORM]),  # section 5.3
        ("phrases-linear-one-way", 1024, []),
        ("sentences-linear", 2048, []),
        ("sentences-linear-one-way", 2048, []),
    ],
)
def test_branches_are_those_of_the_paper(name: str, width: int, after: list[tuple[str, tuple[int, ...]]]) -> None:
    with torch.device("meta"):  # needs no memory
        network = TwoBranchNetwork(4096, 6000, PAPERS[f"papers/two-branch-{name}"])
    assert shapes(network.visual) == [("Linear", (4096, width)), *after]
    assert shapes(network.text) == [("Linear", (6000, width)), *after]
    assert network.visual.dimension == (512 if after else width)
    assert {layer.p for layer in network.modules() if isinstance(layer, nn.Dropout)} <= {0.5}


def test_the_lstm_of_section_5_3_precedes_a_branch_of_1024_and_512() -> None:
    with torch.device("meta"):
        network = TwoBranchNetwork(4096, 8569, PAPERS["papers/two-branch-lstm"])
        other = TwoBranchNetwork(4096, 8569, PAPERS["papers/two-branch-sentences"])
    assert shapes(network.visual) == shapes(other.visual)
    assert shapes(network.text)[0] == ("Linear", (512, 1024))
    assert shapes(network.text)[3] == ("Linear", (1024, 512))
    assert network.encoder is not None
    assert network.encoder.words.embedding_dim == 256
    assert network.encoder.recurrent.hidden_size == 512  # type: ignore[union-attr]


@pytest.mark.parametrize("settings", [SMALL, replace(SMALL, linear=True), replace(SMALL, dropout=0.5)])
def test_vectors_have_unit_length_and_the_stated_dimension(settings: TwoBranchSettings) -> None:
    model = TwoBranch(5, 4, settings)
    visual, text = model.prepare_visual(rows(7, 5)), model.prepare_text(rows(6, 4))
    assert visual.shape == (7, model.dimension)
    assert text.shape == (6, model.dimension)
    assert visual.dtype == text.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(np.vstack([visual, text]), axis=1), 1, rtol=1e-5)


def test_a_branch_computes_what_the_paper_writes() -> None:
    branch = TwoBranch(5, 4, SMALL).network.visual.eval()
    first, second, norm = branch.layers[0], branch.layers[2], branch.layers[3]
    with torch.no_grad():
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
        x = torch.from_numpy(rows(3, 5))
        hidden = torch.clamp(x @ first.weight.T + first.bias, min=0) @ second.weight.T + second.bias
        normal = (hidden - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
        torch.testing.assert_close(branch(x), normal / normal.norm(dim=1, keepdim=True))


def test_visual_axes_are_the_first_singular_vectors_of_a_linear_branch() -> None:
    model = TwoBranch(12, 6, TwoBranchSettings(hidden_size=16, linear=True))
    axes = model.visual_axes(4)
    assert axes is not None
    expected = np.linalg.svd(model.network.visual.layers.first.weight.detach().numpy())[0][:, :4]
    np.testing.assert_allclose(np.abs(axes.T @ expected), np.eye(4), atol=1e-4)
    assert (axes[np.abs(axes).argmax(axis=0), range(4)] > 0).all()
    assert model.visual_axes(12) is None
    assert TwoBranch(12, 6, TwoBranchSettings(hidden_size=16, embedding_dim=8)).visual_axes(4) is None


def test_preparing_uses_no_dropout_and_keeps_the_training_mode() -> None:
    model = TwoBranch(5, 4, replace(SMALL, dropout=0.9))
    model.network.train()
    before = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    np.testing.assert_array_equal(model.prepare_visual(rows(9, 5)), model.prepare_visual(rows(9, 5)))
    assert model.network.training
    for name, tensor in model.network.state_dict().items():
        assert torch.equal(tensor, before[name]), name


@pytest.mark.parametrize("text", ["lstm", "gru", "transformer"])
def test_a_text_encoder_takes_texts(text: str, tmp_path: Path) -> None:
    settings = replace(SMALL, text_encoder=text, word_dim=6, text_hidden_size=10)  # type: ignore[arg-type]
    model = TwoBranch(5, settings=settings, vocabulary=WORDS)
    vectors = model.prepare_text(["a dog", "A CAT", "a dog", ["a", "dog"], "", "zebra"])
    assert vectors.shape == (6, 8)
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[3], atol=1e-6)
    np.testing.assert_allclose(vectors[4], vectors[5], atol=1e-6)
    assert np.abs(vectors[0] - vectors[1]).max() > 1e-3
    model.save(tmp_path / "made")
    opened = TwoBranch.load(tmp_path / "made")
    assert opened.vocabulary == WORDS
    np.testing.assert_allclose(opened.prepare_text(["a dog"]), model.prepare_text(["a dog"]), atol=1e-6)


FROZEN_SETTINGS = replace(SMALL, text_encoder="gru", word_dim=200, text_hidden_size=10)


def frozen_model() -> TwoBranch:
    """A model with the shipped word vectors, after training has changed the words of the vocabulary."""
    model = TwoBranch(5, settings=FROZEN_SETTINGS, vocabulary=WORDS, frozen=shipped_vectors())
    assert model.network.encoder
    with torch.no_grad():
        model.network.encoder.words.weight[: len(WORDS)] = torch.randn(len(WORDS), 200)
    return model


@pytest.mark.parametrize("half", [False, True])
def test_a_model_with_shipped_word_vectors_saves_differences_only(tmp_path: Path, half: bool) -> None:
    model, texts = frozen_model(), ["a dog", "a puppy", "xyzzyx", "a fridge"]
    before = model.prepare_text(texts)
    model.save(tmp_path / "made", half=half)
    arrays = read_artifact(tmp_path / "made").arrays
    assert arrays["encoder.words.weight"].shape == (len(WORDS) + 2, 200)
    opened = TwoBranch.load(tmp_path / "made")
    np.testing.assert_allclose(opened.prepare_text(texts), before, atol=5e-3 if half else 1e-5)
    assert opened.words
    assert ("puppy" in opened.words, "xyzzyx" in opened.words) == (True, False)
    # The torch module computes the same, from vectors and from ids.
    by_id = opened.network.embed_text(*word_tensors(texts, opened.words))
    np.testing.assert_allclose(by_id.detach(), before, atol=5e-3 if half else 1e-5)


def test_other_word_vectors_than_those_of_training_are_refused(tmp_path: Path) -> None:
    frozen_model().save(tmp_path / "made")
    without_checksums(tmp_path)
    config = tmp_path / "made" / CONFIG
    config.write_text(config.read_text().replace(shipped_vectors().fingerprint, "0" * 64))
    with pytest.raises(DeixisError, match=r"^[^\n]*made[^\n]*other word vectors[^\n]*$"):
        TwoBranch.load(tmp_path / "made")


def test_empty_inputs_give_no_vectors() -> None:
    assert TwoBranch(5, 4, SMALL).prepare_visual(np.zeros((0, 5))).shape == (0, 8)
    assert TwoBranch(5, 4, SMALL).prepare_text(np.zeros((0, 4))).shape == (0, 8)
    similarity = Similarity(5, 4, SMALL_SIMILARITY)
    none, some = similarity.prepare_visual(np.zeros((0, 5))), similarity.prepare_text(rows(3, 4))
    assert similarity.scores(none, some).shape == (0, 3)
    worded = TwoBranch(5, settings=replace(SMALL, text_encoder="lstm"), vocabulary=WORDS)
    assert worded.prepare_text([]).shape == (0, 8)


@pytest.mark.parametrize("settings", [SMALL, replace(SMALL, linear=True), replace(SMALL, loss="softmax", dropout=0.5)])
def test_a_saved_model_prepares_to_the_same_bits(settings: TwoBranchSettings, tmp_path: Path) -> None:
    model = TwoBranch(5, 4, settings)
    model.network.train()
    model.network(torch.from_numpy(rows(30, 5)), torch.from_numpy(rows(30, 4)))  # so that batch norm has seen something
    model.save(tmp_path / "made")
    opened = TwoBranch.load(tmp_path / "made")
    assert opened.settings == settings
    assert not opened.network.training
    np.testing.assert_array_equal(opened.prepare_visual(rows(9, 5)), model.prepare_visual(rows(9, 5)))
    np.testing.assert_array_equal(opened.prepare_text(rows(9, 4)), model.prepare_text(rows(9, 4)))
    assert {name for name, _ in opened.network.named_parameters()} == dict(model.network.named_parameters()).keys()
    assert all(weight.requires_grad for weight in opened.network.parameters())


def test_features_of_another_size_are_refused() -> None:
    with pytest.raises(DeixisError, match=r"\(3, 6\).* 5 "):
        TwoBranch(5, 4, SMALL).prepare_visual(rows(3, 6))
    with pytest.raises(DeixisError, match=r"\(3, 5\).* 4 "):
        Similarity(5, 4, SMALL_SIMILARITY).prepare_text(rows(3, 5))


def test_words_and_features_are_not_confused() -> None:
    with pytest.raises(DeixisError, match="text_encoder=lstm"):
        TwoBranch(5, 4, replace(SMALL, text_encoder="lstm"))
    with pytest.raises(DeixisError, match="text_encoder=none"):
        TwoBranch(5, 4, SMALL, WORDS)


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ((), 8),
        (("neighbour_start_epoch=3",), 3),
        (("visual_neighbour_weight=0",), 8),
        (("visual_neighbour_weight=0", "text_neighbour_weight=0"), 0),
        (("loss=softmax",), 0),
    ],
)
def test_training_must_not_end_before_the_neighbourhood_constraints_begin(changes: tuple[str, ...], first: int) -> None:
    spec = get_spec("two-branch")
    assert spec.check is not None

    def chosen(epochs: int) -> Settings:
        return spec.choose_settings("papers/two-branch-phrases", [*changes, f"epochs={epochs}"])

    assert chosen(1)[TwoBranchSettings].constraints_from == first
    spec.check(chosen(first + 1))
    if first:
        with pytest.raises(DeixisError, match=f"epochs={first}"):
            spec.check(chosen(first))


def test_training_refuses_such_a_schedule_before_it_reads_anything(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="epochs=2"):
        deixis.train("two-branch", tmp_path / "no data", settings="papers/two-branch-phrases", epochs=2)


def sizes(network: SimilarityNetwork) -> list[tuple[int, int]]:
    return [(layer.in_features, layer.out_features) for layer in network.fused if isinstance(layer, nn.Linear)]


@pytest.mark.parametrize(
    ("name", "after_product"),
    [
        ("phrases", [(512, 512), (512, 256), (256, 1)]),
        ("phrases-two-layers", [(512, 256), (256, 1)]),
        ("phrases-one-layer", [(512, 1)]),
        ("phrases-linear", [(1024, 512), (512, 256), (256, 1)]),
        ("sentences", [(512, 512), (512, 256), (256, 1)]),
    ],
)
def test_layers_after_the_product_are_those_of_the_paper(name: str, after_product: list[tuple[int, int]]) -> None:
    with torch.device("meta"):
        network = SimilarityNetwork(4096, 6000, SIMILARITY_PAPERS[f"papers/similarity-{name}"])
    assert sizes(network) == after_product
    kinds = [type(layer) for layer in network.fused]
    assert kinds == [nn.Linear, nn.ReLU] * (len(after_product) - 1) + [nn.Linear]


def test_a_similarity_is_computed_from_the_product_of_both_branches() -> None:
    network = SimilarityNetwork(5, 4, SMALL_SIMILARITY).eval()
    x, y = torch.from_numpy(rows(6, 5)), torch.from_numpy(rows(6, 4))
    with torch.no_grad():
        product = network.visual(x) * network.text(y)
        first, second, third = (layer for layer in network.fused if isinstance(layer, nn.Linear))
        hidden = torch.clamp(product @ first.weight.T + first.bias, min=0)
        hidden = torch.clamp(hidden @ second.weight.T + second.bias, min=0)
        torch.testing.assert_close(network(x, y), (hidden @ third.weight.T + third.bias)[:, 0])


@pytest.mark.parametrize("at_a_time", [1, 13, 10_000])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_block_of_scores_equals_those_of_single_pairs(
    layers: int, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_module, "BLOCK_PAIRS", at_a_time)
    model = Similarity(5, 4, SimilaritySettings(hidden_size=16, embedding_dim=8, fusion_layers=layers))
    model.network.eval()
    x, y = rows(7, 5), rows(9, 4)
    scores = model.scores(model.prepare_visual(x), model.prepare_text(y))
    assert scores.shape == (7, 9)
    assert scores.dtype == np.float32
    with torch.no_grad():
        for i in range(7):
            for j in range(9):
                one = model.network(torch.from_numpy(x[i : i + 1]), torch.from_numpy(y[j : j + 1]))
                assert scores[i, j] == pytest.approx(one.item(), abs=1e-5)
