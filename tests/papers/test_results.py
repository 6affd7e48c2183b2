"""Scores of models and of rows: ranks, saving, means over seeds and intervals over photos."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.evaluation.retrieval import Ranking
from deixis.papers.results import RANKS, ModelScores, RowResult, cross_halves


def ranking(ranks: list[float], units: list[int], photos: int) -> Ranking:
    return Ranking(np.array(ranks), np.full(len(ranks), 100), np.array(units), photos)


def scores_from_ranks(ranks: list[float], units: list[int], photos: int, name: str = "") -> ModelScores:
    made = ModelScores({}, {name: ranking(ranks, units, photos)})
    once = np.ones((1, photos))
    return ModelScores({key: float(each(once)[0]) for key, each in made.statistics.items()}, made.rankings)


def test_scores_follow_from_ranks() -> None:
    found = scores_from_ranks([1, 4, 11, np.inf], [0, 0, 1, 1], photos=2).scores
    assert {name: found[name] for name in ("r1", "r5", "r10", "upper_bound")} == {
        "r1": 25,
        "r5": 50,
        "r10": 50,
        "upper_bound": 75,
    }
    assert "medr" not in found, "queries without a rank have no median"
    assert scores_from_ranks([1, 2, 9], [0, 0, 0], photos=1).scores["medr"] == 2


def test_saved_scores_are_loaded_unchanged(tmp_path: Path) -> None:
    saved = ModelScores({"people_r1": 50.0, "ap": 3.25}, {"people": ranking([1, np.inf], [0, 2], 3)}, {"text": "tfidf"})
    saved.save(tmp_path)
    loaded = ModelScores.load(tmp_path)
    assert (loaded.scores, loaded.about, loaded.photos) == (saved.scores, saved.about, 3)
    for name in ("ranks", "units", "candidates"):
        np.testing.assert_array_equal(getattr(loaded.rankings["people"], name), getattr(saved.rankings["people"], name))


def test_a_damaged_folder_is_named(tmp_path: Path) -> None:
    ModelScores({"r1": 1.0}).save(tmp_path)
    (tmp_path / RANKS).write_bytes(b"no archive")
    with pytest.raises(DeixisError, match=str(tmp_path)):
        ModelScores.load(tmp_path)


def test_seeds_are_averaged_within_each_bootstrap_sample() -> None:
    first, second = scores_from_ranks([1, 9, 9], [0, 1, 2], 3), scores_from_ranks([1, 1, 9], [0, 1, 2], 3)
    both = RowResult([first, second])
    assert both.by_seed("r1") == pytest.approx((100 / 3, 200 / 3))
    assert both.score("r1") == pytest.approx(50)
    statistic = both.statistic("r1")
    assert statistic is not None
    assert statistic(np.array([[3.0, 0, 0], [0, 3, 0], [0, 0, 3]])).tolist() == [100, 50, 0]


def test_an_interval_is_over_photos_and_not_over_queries() -> None:
    spread = scores_from_ranks([1, 9] * 100, list(range(200)), 200)
    together = scores_from_ranks([1] * 100 + [9] * 100, [0] * 100 + [1] * 100, 2)
    narrow, wide = (RowResult([one]).interval("r1") for one in (spread, together))
    assert narrow is not None
    assert wide is not None
    assert 40 < narrow.low < 50 < narrow.high < 60
    assert (wide.low, wide.high) == (0, 100)


def test_samples_without_a_query_of_the_group_do_not_count() -> None:
    made = ModelScores({}, {"": ranking([9] * 10, list(range(10)), 10), "dogs": ranking([1, 1], [3, 4], 10)})
    found = RowResult([made], "dogs").interval("r1")
    assert found is not None
    assert (found.low, found.high) == (100, 100)


def test_a_group_in_one_photo_and_a_score_without_ranks_have_no_interval() -> None:
    made = ModelScores({"dogs_ap": 5.0}, {"dogs": ranking([1, 1], [3, 3], 10)})
    assert RowResult([made], "dogs").interval("r1") is None
    assert RowResult([made], "dogs").interval("ap") is None
    assert RowResult([made], "dogs").score("ap") == 5
    assert RowResult([made], "cats").score("ap") is None


def with_halves(seed: int) -> ModelScores:
    rng = np.random.default_rng(seed)
    units = np.repeat(np.arange(8), 3)
    ranking = Ranking(rng.integers(1, 20, 24).astype(float), np.full(24, 24), units, 8)
    captions = {str(photo): (f"a {seed}", ("a dog",)) for photo in range(8)}
    likelihoods = {str(photo): (float(seed + photo), 2) for photo in range(8)}
    halves = np.arange(8) % 2 == 1
    return (
        ModelScores({"n": 1.0, "people_n": 7.0}, {"i2t": ranking}, {}, {}, {}, halves, (f"epoch {seed}",))
        if (seed < 5)
        else ModelScores({}, {}, {}, captions, likelihoods, halves)
    )


def test_each_half_of_the_photos_takes_its_ranks_from_the_model_chosen_on_the_other() -> None:
    first, second = with_halves(1), with_halves(2)
    crossed = cross_halves(first, second)
    for query, unit in enumerate(first.rankings["i2t"].units):
        source = first if unit % 2 else second
        assert crossed.rankings["i2t"].ranks[query] == source.rankings["i2t"].ranks[query]
    assert crossed.scores["i2t_r5"] == pytest.approx(100 * np.mean(crossed.rankings["i2t"].ranks <= 5))
    assert (crossed.scores["people_n"], crossed.kept) == (7.0, ("epoch 1", "epoch 2"))
    ranks, units = first.rankings["i2t"].ranks, first.rankings["i2t"].units
    expected = np.mean([np.mean(ranks[units % 2 == 1] <= k) for k in (1, 5, 10)])
    assert first.criterion(second_half=True) == pytest.approx(expected)


def test_captions_and_perplexity_are_crossed_too() -> None:
    first, second = with_halves(5), with_halves(9)
    crossed = cross_halves(first, second)
    assert [caption for caption, _ in crossed.captions.values()] == ["a 9", "a 5"] * 4
    bits = sum((9 if photo % 2 == 0 else 5) + photo for photo in range(8))
    assert crossed.scores["perplexity"] == pytest.approx(2 ** (bits / 16))


def test_the_half_of_each_photo_is_saved_with_the_scores(tmp_path: Path) -> None:
    with_halves(5).save(tmp_path)
    found = ModelScores.load(tmp_path)
    assert found.second_half is not None
    assert found.second_half.tolist() == [False, True] * 4
    assert found.likelihoods == with_halves(5).likelihoods
