"""The similarity network: layers as in the paper, and blocks of scores that are those of pairs one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from deixis.errors import DeixisError
from deixis.models.matching import similarity
from deixis.models.matching.networks import SimilarityNetwork
from deixis.models.matching.similarity import Similarity
from deixis.models.matching.spec import SimilaritySettings
from tests.models.presets import paper_presets

SMALL = SimilaritySettings(hidden_size=16, embedding_dim=8)
PAPERS = paper_presets("similarity", SimilaritySettings)


def rows(count: int, size: int) -> np.ndarray:
    return np.random.default_rng(count).normal(size=(count, size)).astype(np.float32)


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
        network = SimilarityNetwork(4096, 6000, PAPERS[f"papers/similarity-{name}"])
    assert sizes(network) == after_product
    kinds = [type(layer) for layer in network.fused]
    assert kinds == [nn.Linear, nn.ReLU] * (len(after_product) - 1) + [nn.Linear]


def test_presets_are_those_of_the_paper() -> None:
    found = {name.removeprefix("papers/similarity-"): settings for name, settings in PAPERS.items()}
    linear = {name for name, settings in found.items() if settings.linear}
    single = {name for name, settings in found.items() if settings.positives == "single"}
    assert linear == {"phrases-linear", "phrases-linear-single-positive"}
    assert single == {"phrases-single-positive", "phrases-linear-single-positive"}
    assert (found["sentences"].hidden_size, found["sentences"].dropout) == (2048, 0.5)
    assert (found["phrases"].hidden_size, found["phrases"].dropout) == (1024, 0)


def test_a_score_is_computed_from_the_product_of_both_branches() -> None:
    network = SimilarityNetwork(5, 4, SMALL).eval()
    x, y = torch.from_numpy(rows(6, 5)), torch.from_numpy(rows(6, 4))
    with torch.no_grad():
        product = network.visual(x) * network.text(y)
        first, second, third = (layer for layer in network.fused if isinstance(layer, nn.Linear))
        hidden = torch.clamp(product @ first.weight.T + first.bias, min=0)
        hidden = torch.clamp(hidden @ second.weight.T + second.bias, min=0)
        torch.testing.assert_close(network(x, y), (hidden @ third.weight.T + third.bias)[:, 0])


@pytest.mark.parametrize("at_a_time", [1, 4, 13, 10_000])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_block_of_scores_equals_those_of_single_pairs(
    layers: int, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similarity, "BLOCK_PAIRS", at_a_time)
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


def test_no_regions_or_no_phrases_give_an_empty_block() -> None:
    model = Similarity(5, 4, SMALL)
    none, some = model.prepare_visual(np.zeros((0, 5))), model.prepare_text(rows(3, 4))
    assert model.scores(none, some).shape == (0, 3)
    assert model.scores(model.prepare_visual(rows(2, 5)), model.prepare_text(np.zeros((0, 4)))).shape == (2, 0)


@pytest.mark.parametrize("settings", [{"fusion_layers": 4}, {"fusion_layers": 0}, {"hidden_size": 0}, {"dropout": 1.0}])
def test_invalid_settings_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(DeixisError):
        SimilaritySettings(**settings)  # type: ignore[arg-type]


def test_features_of_another_size_are_refused() -> None:
    with pytest.raises(DeixisError, match=r"\(3, 5\).* 4 "):
        Similarity(5, 4, SMALL).prepare_text(rows(3, 5))
