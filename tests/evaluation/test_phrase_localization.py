"""Localization scores against a plain implementation of the protocols."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.evaluation.average_precision import PhotoRanking, mean_precision
from deixis.evaluation.baselines import FixedBoxes
from deixis.evaluation.intervals import ONE_PHOTO
from deixis.evaluation.items import Item
from deixis.evaluation.phrase_localization import (
    RankedPredictions,
    compare_localization,
    localization,
    score_statistics,
)
from deixis.evaluation.predictions import NegativePrediction, Prediction
from deixis.tokens import distinct_phrase
from tests.evaluation.plain_localization import XYXY, plain_ap, plain_ranking, plain_recall, plain_suppressed

whole = st.integers(0, 8)
side = st.tuples(whole, whole).filter(lambda s: s[0] != s[1]).map(sorted)
box = st.tuples(side, side).map(lambda s: (s[0][0], s[1][0], s[0][1], s[1][1]))
score = st.sampled_from([0.0, 0.25, 0.5, 1.0])
regions = st.lists(st.tuples(box, score), max_size=14)


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Item], list[Prediction | NegativePrediction]]:
    items, predictions = [], []
    for place in range(draw(st.integers(1, 7))):
        photo = draw(st.sampled_from("pqr"))
        phrase = draw(st.sampled_from(["A man", "the man", "two men", "dog"]))
        types = draw(st.sampled_from([(), ("people",), ("people", "animals"), ("other",)]))
        golds = tuple(draw(st.lists(box, min_size=1, max_size=3)))
        items.append(Item(photo, place, (0, len(phrase)), phrase, types, golds, (8, 8)))
        predictions.append(prediction_of(items[-1], draw(regions)))
    mentioned = {(item.photo, distinct_phrase(item.phrase)) for item in items}
    for photo in {photo for photo, _ in mentioned}:
        for phrase in {phrase for _, phrase in mentioned}:
            if (photo, phrase) not in mentioned and draw(st.booleans()):
                found = draw(regions)
                predictions.append(NegativePrediction(photo, phrase, *columns(found)))
    return items, predictions


def columns(pairs: list[tuple[XYXY, float]]) -> tuple[np.ndarray, np.ndarray]:
    boxes = np.array([corners for corners, _ in pairs], dtype=np.float64).reshape(-1, 4)
    return boxes, np.array([value for _, value in pairs], dtype=np.float64)


def prediction_of(item: Item, pairs: list[tuple[XYXY, float]]) -> Prediction:
    return Prediction(item.photo, item.caption, item.span, *columns(pairs))


SCORES = ("r1", "r5", "r10", "upper_bound", "ap", "ap_nms")


def plain_scores(predictions, items, elsewhere, protocol="union"):
    """Every score of mentions that are ranked together."""
    rankings, others = ([plain_ranking(each) for each in group] for group in (predictions, elsewhere))
    kept, others_kept = ([plain_suppressed(each) for each in group] for group in (rankings, others))
    recalls = [plain_recall(rankings, items, k, protocol) for k in (1, 5, 10, 1000)]
    return [*recalls, plain_ap(rankings, items, others, protocol), plain_ap(kept, items, others_kept, protocol)]


def groups_of(items: Sequence[Item]) -> dict[tuple[str, str], list[int]]:
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for place, item in enumerate(items):
        groups["by_phrase", distinct_phrase(item.phrase)].append(place)
        for kind in item.types:
            groups["by_type", kind].append(place)
    return groups


@settings(max_examples=150)
@given(cases(), st.sampled_from(["union", "any"]))
def test_every_score_agrees_with_a_plain_implementation(case, protocol) -> None:
    items, predictions = case
    mine, elsewhere = predictions[: len(items)], predictions[len(items) :]
    result = localization(predictions, items, protocol=protocol, rounds=2)
    json.dumps(result.as_json(), allow_nan=False)
    assert [getattr(result, score) for score in SCORES[:4]] == pytest.approx(
        plain_scores(mine, items, [], protocol)[:4]
    )
    suppressed = [plain_suppressed(plain_ranking(each)) for each in mine]
    assert result.r5_nms == pytest.approx(plain_recall(suppressed, items, 5, protocol))
    assert result.r10_nms == pytest.approx(plain_recall(suppressed, items, 10, protocol))
    assert result.proposals["mean"] == pytest.approx(np.mean([len(each.scores) for each in mine]))

    found = defaultdict(list)
    for (table, name), places in groups_of(items).items():
        others = [each for each in elsewhere if (table, each.phrase) == ("by_phrase", name)]
        scores = plain_scores([mine[place] for place in places], [items[place] for place in places], others, protocol)
        row = getattr(result, table)[name]
        assert row.n == len(places)
        assert [getattr(row, score) for score in SCORES] == pytest.approx(scores)
        found[table].append(scores)
    assert len(result.by_type) == len(found["by_type"])
    assert (result.ap, result.ap_nms) == pytest.approx(tuple(np.mean(found["by_phrase"], axis=0)[4:]))
    macro = (result.macro_r1, result.macro_ap, result.macro_ap_nms)
    if found["by_type"]:
        assert macro == pytest.approx(tuple(np.mean(found["by_type"], axis=0)[[0, 4, 5]]))
    else:
        assert macro == (None, None, None)


def item(place: int = 0, boxes: tuple[XYXY, ...] = ((0, 0, 10, 10),), phrase: str = "A man", **more: object) -> Item:
    return Item(f"p{place}", 0, (0, 5), phrase, ("people",), boxes, (100, 100), **more)


def test_negative_predictions_lower_average_precision_only() -> None:
    items = [item(0), item(1, phrase="A dog")]
    mine = [Prediction(f"p{place}", 0, (0, 5), [[0, 0, 10, 10]], [0.5]) for place in range(2)]
    elsewhere = NegativePrediction("p1", "the man", [[0, 0, 10, 10]], [0.9])
    without, wider = localization(mine, items), localization([*mine, elsewhere], items)
    assert (without.ap, wider.ap) == (100.0, 75.0)
    assert (without.ranked_photos, wider.ranked_photos) == (1.0, 1.5)
    assert without.r1 == wider.r1 == 100.0


def test_a_missing_prediction_is_an_error_or_counts_as_wrong() -> None:
    mine = [Prediction("p0", 0, (0, 5), [[0, 0, 10, 10]], [1])]
    with pytest.raises(DeixisError, match="photo p1, caption 0"):
        localization(mine, [item(0), item(1)])
    result = localization(mine, [item(0), item(1)], missing="miss")
    assert (result.r1, result.upper_bound, result.ap, result.missing) == (50.0, 50.0, 50.0, 1)


def test_no_items_and_an_unknown_protocol_are_errors() -> None:
    with pytest.raises(DeixisError, match="no phrases"):
        localization([], [])
    with pytest.raises(DeixisError, match="protocol 'best'"):
        localization([], [item()], protocol="best")


def test_blind_baselines_are_scored_too() -> None:
    items = [item(0), item(1, boxes=((50, 50, 100, 100),))]
    mine = [Prediction(f"p{place}", 0, (0, 5), [[0, 0, 1, 1]], [1]) for place in range(2)]
    blind = FixedBoxes(single=(0, 0, 0.3, 0.3), by_type={"people": (0.5, 0.5, 1, 1)})
    result = localization(mine, items, blind=blind)
    assert (result.blind_r1, result.blind_single_r1) == (50.0, 0.0)
    assert localization(mine, items).blind_r1 is None


def test_every_score_lies_in_its_interval() -> None:
    items = [item(place, phrase="A man" if place % 3 else "A dog") for place in range(30)]
    mine = [
        Prediction(each.photo, 0, (0, 5), [[0, 0, 10, 10], [0, 0, 10, 2]], [(place * 7) % 5, (place * 3) % 4])
        for place, each in enumerate(items)
    ]
    blind = FixedBoxes(single=(0, 0, 0.3, 0.3), by_type={"people": (0, 0, 0.1, 0.1)})
    result = localization(mine, items, blind=blind)
    assert set(result.interval) == {name for name, value in result.scores.items() if value is not None} - {
        "ranked_photos"
    }
    for name, bounds in result.interval.items():
        assert bounds.low <= result.scores[name] <= bounds.high, name
    assert result.interval["ap"].low < result.ap < result.interval["ap"].high


@settings(max_examples=80)
@given(cases(), st.sampled_from(["area", "11-point"]), st.data())
def test_a_bootstrap_sample_scores_like_its_expanded_photos(case, rule, data) -> None:
    items, predictions = case
    predictions = [with_distinct_scores(each, place) for place, each in enumerate(predictions)]
    photos = list(dict.fromkeys(each.photo for each in items))
    drawn = data.draw(st.lists(st.integers(0, 3), min_size=len(photos), max_size=len(photos)).filter(any))
    copies = dict(zip(photos, drawn, strict=True))
    written_items = [replace(each, photo=f"{each.photo}{copy}") for each in items for copy in range(copies[each.photo])]
    phrases = {distinct_phrase(each.phrase) for each in written_items}
    written = [
        replace(each, photo=f"{each.photo}{copy}")
        for each in predictions
        for copy in range(copies[each.photo])
        if isinstance(each, Prediction) or distinct_phrase(each.phrase) in phrases
    ]
    expected = localization(written, written_items, ap_rule=rule, rounds=2)
    boxes = RankedPredictions.from_predictions(predictions, items)
    for name, statistic in score_statistics(boxes, rule).items():
        if getattr(expected, name) is not None:  # a sample may have no type
            assert statistic(np.array([drawn], dtype=float))[0] == pytest.approx(getattr(expected, name)), name


def with_distinct_scores(prediction: Prediction | NegativePrediction, place: int) -> Prediction | NegativePrediction:
    """Without ties, a box and its copies are adjacent in the ranking."""
    return replace(prediction, scores=prediction.scores + 1e-3 * place + 1e-5 * np.arange(len(prediction.scores)))


def test_by_phrase_has_the_most_frequent_phrases_and_breaks_ties_by_name() -> None:
    phrases = ["A dog", "the dog", "a cat", "An ox"]
    items = [item(place, phrase=phrase) for place, phrase in enumerate(phrases)]
    mine = [Prediction(each.photo, 0, (0, 5), [[0, 0, 10, 10]], [1]) for each in items]
    assert list(localization(mine, items, phrases=2).by_phrase) == ["dog", "cat"]


def test_only_a_better_system_is_significantly_better() -> None:
    items = [item(place) for place in range(40)]
    good = [Prediction(each.photo, 0, (0, 5), [[0, 0, 10, 10]], [1]) for each in items]
    poor = [
        Prediction(each.photo, 0, (0, 5), [[0, 0, 10, 10 if place % 2 else 1]], [1]) for place, each in enumerate(items)
    ]
    found = compare_localization(good, poor, items, rounds=500)
    assert found["r1"].difference == found["macro_r1"].difference == 50.0
    assert found["r1"].p < 0.05
    assert found["ap"].difference == found["macro_ap_nms"].difference > 0
    assert found["ap"].p < 0.05
    assert compare_localization(good, good, items, rounds=500)["r1"].p == 1.0


GOLD = (0.0, 0.0, 10.0, 10.0)

Mentions = Sequence[tuple[str, str, str]]
"""Photo, phrase and type of each mention."""

MENTIONS: Mentions = [
    *((photo, "A man", "people") for photo in "abcdefgab"),
    *((photo, "two men", "people") for photo in "cc"),
    *((photo, "the dog", "animals") for photo in "efe"),
    *((photo, "a red ball", "other") for photo in "gab"),
]


def items_of(mentions: Mentions) -> list[Item]:
    return [
        Item(photo, place, (0, len(phrase)), phrase, (kind,), (GOLD,))
        for place, (photo, phrase, kind) in enumerate(mentions)
    ]


def predictions_of(items: Sequence[Item], seed: int = 0) -> list[Prediction]:
    """Twelve boxes each, a tenth of them correct; no two scores are equal."""
    rng = np.random.default_rng(seed)
    made = []
    for item in items:
        shift = rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], size=(12, 1))
        made.append(Prediction(item.photo, item.caption, item.span, np.array(GOLD) + shift, rng.random(12)))
    return made


def plain_intervals(
    predictions: Sequence[Prediction],
    items: Sequence[Item],
    elsewhere: Sequence[NegativePrediction],
    rounds: int,
    seed: int,
):
    """Draw photos, repeat the mentions of the group as often as their photos were drawn, and score them."""
    drawn = []
    for numbers in np.random.default_rng(seed).integers(0, 7, size=(rounds, 7)).tolist():
        photos = sorted("abcdefg"[number] for number in numbers)
        held = [place for photo in photos for place, item in enumerate(items) if item.photo == photo]
        if held:
            more = [each for photo in photos for each in elsewhere if each.photo == photo]
            drawn.append(plain_scores([predictions[place] for place in held], [items[place] for place in held], more))
    assert len(drawn) > rounds / 2
    return len(drawn), np.quantile(drawn, [0.025, 0.975], axis=0).T


def test_group_intervals_agree_with_a_plain_loop_over_samples() -> None:
    items = items_of(MENTIONS)
    predictions = predictions_of(items)
    elsewhere = [NegativePrediction("b", "dog", np.array([GOLD, GOLD]), np.array([0.55, 0.95]))]
    result = localization([*predictions, *elsewhere], items, rounds=60)
    groups = groups_of(items)
    del groups["by_phrase", "two men"]  # they are all in one photo
    sample_counts = set()
    for (table, name), places in groups.items():
        mine, wanted = [predictions[place] for place in places], [items[place] for place in places]
        others = elsewhere if (table, name) == ("by_phrase", "dog") else []
        row = getattr(result, table)[name]
        assert [getattr(row, score) for score in SCORES] == pytest.approx(plain_scores(mine, wanted, others)), name
        held, bounds = plain_intervals(mine, wanted, others, rounds=60, seed=0)
        sample_counts.add(held)
        for score, expected in zip(SCORES, bounds, strict=True):
            assert (row.interval[score].low, row.interval[score].high) == pytest.approx(expected), (name, score)
        assert (row.n, row.photos) == (len(places), len({item.photo for item in wanted}))
        assert row.no_interval is None
    assert min(sample_counts) < 60  # some samples have no dog


def test_a_group_without_an_interval_is_plain_json() -> None:
    items = items_of(MENTIONS)
    document = localization(predictions_of(items), items, rounds=50).as_json()
    row = document["by_phrase"]["two men"]
    assert (row["n"], row["photos"]) == (2, 1)
    assert row["interval"] == dict.fromkeys(SCORES)
    assert row["no_interval"] == ONE_PHOTO
    json.dumps(document, allow_nan=False)


def test_three_of_ten_reach_a_recall_of_three_tenths() -> None:
    ranking = PhotoRanking(np.array([True] * 3), np.zeros(3, dtype=np.intp), np.zeros(10, dtype=np.intp))
    assert mean_precision([ranking], 1, "11-point")(np.ones((1, 1))).tolist() == pytest.approx([400 / 11])
