"""Retrieval protocols against plain loops."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from deixis.errors import DeixisError
from deixis.evaluation.retrieval import (
    Ranking,
    RetrievalResult,
    check_curve_path,
    compare_retrieval,
    match_curve,
    nearest_photos,
    recall_at_k,
    recall_curve,
    region_retrieval,
    sentence_retrieval,
    sentence_shortlists,
    write_curves,
)
from deixis.evaluation.score_matrix import ScoreBlocks, open_scores
from tests.evaluation.test_ranks import plain_rank


def percent(ranks, k):
    return 100 * sum(rank <= k for rank in ranks) / len(ranks)


@st.composite
def photos_and_sentences(draw):
    """Scores with many ties, and photos with no, one or several sentences in any order."""
    photos, sentences = draw(st.integers(1, 7)), draw(st.integers(1, 12))
    owners = draw(st.lists(st.integers(0, photos - 1), min_size=sentences, max_size=sentences))
    scores = draw(hnp.arrays(np.float32, (photos, sentences), elements=st.integers(0, 4).map(float)))
    return scores, owners


@given(photos_and_sentences())
def test_both_directions_agree_with_a_plain_loop(problem):
    scores, owners = problem
    photos, sentences = scores.shape
    own = {photo: [s for s in range(sentences) if owners[s] == photo] for photo in range(photos)}
    i2t = [plain_rank(scores[p], own[p], range(sentences)) for p in range(photos) if own[p]]
    t2i = [plain_rank(scores[:, s], [owners[s]], range(photos)) for s in range(sentences)]
    found = recall_at_k(scores, owners, ks=(1, 3))
    for direction, ranks in (("i2t", i2t), ("t2i", t2i)):
        assert found.rankings[direction].ranks.tolist() == ranks
        assert found.scores[f"{direction}_r1"] == pytest.approx(percent(ranks, 1))
        assert found.scores[f"{direction}_r3"] == pytest.approx(percent(ranks, 3))
        assert found.scores[f"{direction}_medr"] == np.median(ranks)
        assert found.scores[f"{direction}_meanr"] == pytest.approx(np.mean(ranks))
    assert found.rankings["i2t"].without_positive == photos - len(i2t)


@given(photos_and_sentences())
def test_sentence_retrieval_agrees_with_a_plain_loop(problem):
    _, owners = problem
    count = len(owners)
    scores = np.random.default_rng(count).integers(0, 4, size=(count, count)).astype(np.float32)
    ranks = []
    for query in range(count):
        others = [s for s in range(count) if s != query]
        right = [s for s in others if owners[s] == owners[query]]
        if right:
            ranks.append(plain_rank(scores[query], right, others))
    if not ranks:
        with pytest.raises(DeixisError, match="no query"):
            sentence_retrieval(scores, owners)
        return
    found = sentence_retrieval(scores, owners)
    assert found.rankings["s2s"].ranks.tolist() == ranks
    assert found.s2s_r1 == pytest.approx(percent(ranks, 1))
    assert found.rankings["s2s"].without_positive == count - len(ranks)
    assert found.rankings["s2s"].candidates.tolist() == [count - 1] * len(ranks)


@given(st.data())
def test_region_retrieval_agrees_with_a_plain_loop(data):
    regions, phrases = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    scores = data.draw(hnp.arrays(np.float32, (regions, phrases), elements=st.integers(0, 4).map(float)))
    cell = st.tuples(st.integers(0, regions - 1), st.integers(0, phrases - 1))
    positives = data.draw(st.lists(cell, min_size=1))
    texts = data.draw(st.lists(st.sampled_from("abcd"), min_size=phrases, max_size=phrases))
    for equal_texts in (None, texts):
        ranks = []
        for region in range(regions):
            right = {phrase for r, phrase in positives if r == region}
            if equal_texts is not None:
                right = {p for p in range(phrases) if texts[p] in {texts[q] for q in right}}
            if right:
                ranks.append(plain_rank(scores[region], right, range(phrases)))
        found = region_retrieval(scores, positives, phrases=equal_texts)
        assert found.rankings[""].ranks.tolist() == ranks
        assert found.r5 == pytest.approx(percent(ranks, 5))
        assert found.medr == np.median(ranks)


def test_the_number_of_captions_per_photo_is_never_guessed_but_one_by_default():
    assert recall_at_k(np.eye(6)[[1, 0, 2, 3, 4, 5]]).t2i_r1 == pytest.approx(100 * 4 / 6)
    scores = np.kron(np.eye(3), np.ones(5))
    with pytest.raises(DeixisError, match="3 × 15"):
        recall_at_k(scores)
    assert recall_at_k(scores, captions_per_photo=5).i2t_r1 == 100
    assert recall_at_k(scores, np.repeat(np.arange(3), 5)).t2i_r1 == 100


def test_a_file_blocks_and_a_matrix_give_the_same_result(tmp_path):
    rng = np.random.default_rng(0)
    photos, sentences = rng.normal(size=(20, 8)), rng.normal(size=(60, 8))
    matrix = photos @ sentences.T
    np.save(tmp_path / "scores.npy", matrix)
    sources = [
        matrix,
        open_scores(tmp_path / "scores.npy"),
        ScoreBlocks((20, 60), lambda begin, end: matrix[begin:end]),
    ]
    first, second, third = (recall_at_k(each, captions_per_photo=3).scores for each in sources)
    assert first == second == third


def test_a_correct_answer_outside_the_shortlist_is_not_found():
    scores = np.eye(4)
    found = recall_at_k(scores, i2t_shortlists=[[0, 1], [1], [3, 1], [3]])
    assert found.rankings["i2t"].ranks.tolist() == [1, 1, np.inf, 1]
    assert found.rankings["i2t"].candidates.tolist() == [2, 1, 2, 1]
    assert (found.i2t_r10, found.t2i_r10) == (75, 100)
    document = found.as_json()
    assert (document["i2t_meanr"], document["i2t_medr"]) == (None, 1)
    assert document["interval"]["i2t_meanr"] is document["interval"]["i2t_medr"] is None
    assert "its own shortlist" in document["protocol"]


def test_folds_are_ranked_apart_and_together_are_the_mean_over_them():
    rng = np.random.default_rng(3)
    scores, owners = rng.normal(size=(12, 24)), np.repeat(np.arange(12), 2)
    scores[owners, np.arange(24)] += 1
    found = recall_at_k(scores, owners, folds=3)
    parts = [slice(begin, begin + 4) for begin in (0, 4, 8)]
    alone = [recall_at_k(scores[part, 2 * part.start : 2 * part.stop], captions_per_photo=2) for part in parts]
    for name in ("i2t_r1", "i2t_r5", "t2i_r1", "t2i_meanr"):
        assert found.scores[name] == pytest.approx(np.mean([each.scores[name] for each in alone]))
    assert found.i2t_r1 > recall_at_k(scores, owners).i2t_r1
    assert set(found.rankings["i2t"].candidates) == {8}
    assert set(found.rankings["t2i"].candidates) == {4}
    assert "its own fold of 3" in found.protocol


def test_nearest_photos_agree_with_a_plain_loop_and_start_with_the_photo_itself():
    features = np.random.default_rng(2).normal(size=(40, 6))
    found = nearest_photos(features, 7)
    for photo in range(40):
        distance = [np.sum((features[photo] - other) ** 2) for other in features]
        assert found[photo].tolist() == sorted(range(40), key=distance.__getitem__)[:7]
    assert nearest_photos(np.zeros((5, 2)), 1).ravel().tolist() == [0, 1, 2, 3, 4]  # also among equal photos


def test_photo_shortlists_become_sentence_shortlists():
    found = sentence_shortlists([[1, 0], [2], []], [0, 1, 0, 1])
    assert [each.tolist() for each in found] == [[1, 3, 0, 2], [], []]


def test_the_json_of_a_result_is_plain_and_complete():
    found = recall_at_k(np.random.default_rng(0).normal(size=(10, 20)), captions_per_photo=2)
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    names = {f"{way}_{score}" for way in ("i2t", "t2i") for score in ("r1", "r5", "r10", "medr", "meanr")}
    assert names <= document.keys()
    assert document["n"] == 10
    assert document["queries"] == {"i2t": 10, "t2i": 20}
    assert document["interval"].keys() == names
    for name in names:
        low, high = document["interval"][name]
        assert low <= document[name] <= high
    assert document["ties"].startswith("pessimistic")


def test_two_systems_are_compared_score_by_score():
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(60, 60))
    compared = compare_retrieval(noise + 3 * np.eye(60), noise, rounds=500)
    assert compared["i2t_r1"].difference > 0
    assert compared["i2t_r1"].low > 0
    assert compared["t2i_medr"].difference < 0
    assert compare_retrieval(noise, noise, rounds=200)["i2t_r5"].p == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"photo_of_sentence": [0, 1]}, "2 entries for 3 columns"),
        ({"photo_of_sentence": [0, 1, 3]}, "sentence 2.*photo 3"),
        ({"photo_of_sentence": [0, 1, -1]}, "sentence 2.*photo -1"),
        ({"photo_of_sentence": [0, 1, 2], "captions_per_photo": 1}, "not both"),
        ({"captions_per_photo": 0}, "3 × 3"),
        ({"ks": ()}, "ks"),
        ({"folds": 4}, "folds"),
        ({"folds": 2, "all_matches": True}, "folds"),
        ({"ks": (0,)}, "ks"),
        ({"ks": (1.5,)}, "ks"),
    ],
)
def test_invalid_arguments_are_named(arguments, message):
    with pytest.raises(DeixisError, match=message):
        recall_at_k(np.eye(3), **arguments)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sentence_retrieval(np.zeros((2, 3)), [0, 0]), "2 × 3"),
        (lambda: region_retrieval(np.eye(2), [0, 1]), "positives"),
        (lambda: region_retrieval(np.eye(2), []), "positives"),
        (lambda: region_retrieval(np.eye(2), [(0, 0)], phrases=["a"]), "phrases: 1"),
        (lambda: region_retrieval(np.eye(2), [(0, 0)], photo_of_region=[1]), "photo_of_region"),
        (lambda: nearest_photos(np.eye(3), 4), "count"),
        (lambda: result_of([1, 2, 3]).compare(result_of([1, 2])), "compare"),
        (lambda: result_of([1, 2, 3]).compare(result_of([1, 2, 3], protocol="another")), "compare"),
        (lambda: result_of([1, 2, 3], [0, 0, 1]).compare(result_of([1, 2, 3], [0, 1, 1])), "queries"),
    ],
)
def test_invalid_sentences_regions_and_comparisons_are_errors(call, message):
    with pytest.raises(DeixisError, match=message):
        call()


def result_of(ranks, units=None, ks=(1, 5), protocol="test"):
    units = np.arange(len(ranks)) if units is None else np.asarray(units)
    photos = int(units.max()) + 1
    ranking = Ranking(np.asarray(ranks, dtype=float), np.full(len(ranks), 20), units, photos)
    return RetrievalResult.of_rankings({"x": ranking}, ks, photos, protocol)


@given(st.data())
def test_a_bootstrap_sample_scores_like_its_expanded_queries(data):
    queries = data.draw(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), min_size=1, max_size=15))
    ranks, units = zip(*queries, strict=True)
    result = result_of(ranks, units)
    counts = data.draw(st.lists(st.integers(0, 3), min_size=result.n, max_size=result.n))
    drawn = [rank for rank, unit in queries for _ in range(counts[unit])]
    if not drawn:
        return
    found = {name: s(np.array([counts], dtype=float))[0] for name, s in result.statistics.items()}
    assert found["x_r1"] == pytest.approx(100 * sum(rank <= 1 for rank in drawn) / len(drawn))
    assert found["x_r5"] == pytest.approx(100 * sum(rank <= 5 for rank in drawn) / len(drawn))
    assert found["x_medr"] == np.median(drawn)
    assert found["x_meanr"] == pytest.approx(np.mean(drawn))


def test_scores_are_attributes_by_their_json_names():
    result = result_of([1, 6])
    assert result.x_r1 == 50
    with pytest.raises(AttributeError, match="x_r7"):
        _ = result.x_r7


def test_the_curve_agrees_with_a_plain_loop():
    rng = np.random.default_rng(0)
    candidates = rng.integers(1, 400, size=50)
    ranks = np.minimum(rng.integers(1, 100, size=50), candidates).astype(float)
    ranks[3] = np.inf
    curve = recall_curve(Ranking(ranks, candidates, np.arange(50), 50))
    for percentage, recall in enumerate(curve.values, start=1):
        found = sum(100 * rank <= percentage * count for rank, count in zip(ranks, candidates, strict=True))
        assert recall == pytest.approx(100 * found / 50)
    assert curve.values[99] == 98


def test_missing_ranks_are_not_compared():
    found = result_of([1, 2, np.inf]).compare(result_of([1, 2, 3]), rounds=50)
    assert set(found) == {"x_r1", "x_r5"}
    assert found["x_r5"].difference == pytest.approx(-100 / 3)


def test_every_match_has_its_own_place_in_the_list():
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 6, size=(7, 20)).astype(float)  # with ties
    owners = rng.integers(0, 6, size=20)  # photo 6 has no sentence
    lists = [rng.permutation(20)[:12] for _ in range(7)]
    for shortlists in (None, lists):
        ranking = recall_at_k(scores, owners, i2t_shortlists=shortlists, all_matches=True).rankings["i2t"]
        found = []
        for photo in range(7):
            listed = range(20) if shortlists is None else shortlists[photo].tolist()
            # Best score first; of equal scores the wrong answers first, then the correct ones in their order.
            order = sorted(listed, key=lambda each: (-scores[photo, each], owners[each] == photo, each))
            found += [order.index(each) + 1 if each in order else np.inf for each in np.flatnonzero(owners == photo)]
        assert ranking.matches.tolist() == found
        best = [min(ranking.matches[ranking.match_queries == query]) for query in range(len(ranking.ranks))]
        assert ranking.ranks.tolist() == best


def test_the_curve_of_matches_counts_all_correct_answers():
    """Two photos with three and one sentences: at half of the list two of the first are found."""
    scores = [[0.9, 0.8, 0.1, 0.5], [0.4, 0.3, 0.2, 0.6]]
    found = recall_at_k(scores, [0, 0, 0, 1], all_matches=True)
    curve = match_curve(found.rankings["i2t"])
    assert curve.values[24::25] == (1.0, 1.5, 1.5, 2.0)
    assert recall_curve(found.rankings["i2t"]).values[24] == 100.0
    assert match_curve(found.rankings["t2i"]).values[49::50] == (0.75, 1.0)
    assert all(bounds.low <= value <= bounds.high for value, bounds in zip(curve.values, curve.interval, strict=True))
    with pytest.raises(DeixisError, match="all_matches"):
        _ = match_curve(recall_at_k(scores, [0, 0, 0, 1]).rankings["i2t"]).values


ALL, SOME = np.full(6, 50), np.full(12, 20)
MATCHES = np.array([1.0, 2, 3, 10, 40, 50, np.inf])
RANKINGS = {
    "i2t": Ranking(
        np.array([1.0, 3, 10, 40, 50, np.inf]), ALL, np.arange(6), 6, 0, MATCHES, np.array([0, 0, 1, 2, 3, 4, 5])
    ),
    "t2i": Ranking(np.arange(1.0, 13), SOME, np.arange(12) // 2, 6, 0, np.arange(1.0, 13), np.arange(12)),
}


def test_a_table_has_a_row_for_each_percentage_with_intervals(tmp_path: Path) -> None:
    summary = write_curves(tmp_path / "curve.csv", RANKINGS)
    with (tmp_path / "curve.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["percentage"]) for row in rows] == list(range(1, 101))
    for name, ranking in RANKINGS.items():
        curve = recall_curve(ranking)
        assert [float(row[name]) for row in rows] == pytest.approx(curve.values, abs=1e-3)
        assert all(float(row[f"{name}_low"]) <= float(row[name]) <= float(row[f"{name}_high"]) for row in rows)
        matches = match_curve(ranking)
        assert [float(row[f"{name}_matches"]) for row in rows] == pytest.approx(matches.values, abs=1e-3)
    assert float(rows[19]["i2t"]) == 50.0, "three of six within the first ten of fifty"
    assert float(rows[19]["i2t_matches"]) == pytest.approx(4 / 6, abs=1e-3), "one of them has two"
    assert float(rows[99]["i2t"]) < 100, "one was in no list"
    assert "i2t 0.00 at 1 %, 0.33 at 5 %" in summary


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_plot_is_written(tmp_path: Path, ending: str) -> None:
    write_curves(tmp_path / f"curve.{ending}", RANKINGS)
    begin = (tmp_path / f"curve.{ending}").read_bytes()[:5]
    assert begin == (b"\x89PNG\r" if ending == "png" else b"<?xml")


def test_unknown_suffixes_and_missing_folders_are_errors(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match=r"curve.docx.*\.csv.*\.png"):
        check_curve_path(tmp_path / "curve.docx")
    with pytest.raises(DeixisError, match="nowhere"):
        check_curve_path(tmp_path / "nowhere" / "curve.csv")
