"""What models score, query by query, against the evaluation itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deixis.data.dataset import Dataset
from deixis.errors import DatasetError
from deixis.evaluation.captions import caption_scores, compare_captions
from deixis.evaluation.grounding import localization
from deixis.evaluation.localization_items import Item
from deixis.evaluation.localized import Localized
from deixis.evaluation.of_data import regions_of
from deixis.evaluation.predictions import Prediction, match_predictions
from deixis.evaluation.retrieval import region_retrieval
from deixis.experiments.claims import judge
from deixis.experiments.outcomes import Measured, Outcome
from deixis.experiments.records import Claim, Training
from deixis.experiments.runs import Runs
from deixis.experiments.scored import Scored, captioned, localized_outcome, score_grounding, score_regions
from deixis.experiments.trained import Workshop
from deixis.tasks.pointing import gold_region_scores
from tests.tasks.quarters import make_quarters, use_small_encoders

WORDS = ("a man", "A man", "the man", "a red hat", "two dogs")
TYPES = (("people",), ("people",), ("people", "other"), ("clothing",), ("animals",))


def localised(seed: int = 0) -> tuple[list[Prediction], list[Item]]:
    """Mentions of five phrases in twelve photos, and boxes that are right now and then."""
    rng = np.random.default_rng(seed)
    items, given = [], []
    for number in range(60):
        place = number % 5
        items.append(Item(str(number // 5), place, (0, len(WORDS[place])), WORDS[place], TYPES[place], ((0, 0, 9, 9),)))
        starts = rng.integers(0, 8, (6, 1))
        boxes = np.hstack([starts, starts, starts + 9, starts + 9]).astype(float)
        given.append(Prediction(items[-1].photo, place, items[-1].span, boxes, rng.random(6)))
    return given, items


def test_localisation_has_the_scores_of_the_evaluation_by_type_and_by_phrase() -> None:
    given, items = localised()
    found = localized_outcome(Localized.of(match_predictions(given, items), items, "union")).scores
    plain = localization(given, items, rounds=5)
    for name in ("r1", "r5", "r10", "upper_bound"):
        assert found[name] == found[f"overall_{name}"] == pytest.approx(getattr(plain, name))
        for kind, scores in plain.by_type.items():
            assert found[f"{kind}_{name}"] == pytest.approx(getattr(scores, name))
    for name in ("ap", "ap_nms"):
        assert found[f"“man”_{name}"] == pytest.approx(getattr(plain.by_phrase["man"], name))
        assert found[f"people_{name}"] == pytest.approx(getattr(plain.by_type["people"], name))
        assert found[f"overall_{name}"] == pytest.approx(getattr(plain, f"macro_{name}"))
    assert (found["“man”_n"], found["“two dogs”_n"], found["people_n"], found["overall_n"]) == (36, 12, 36, 60)


def test_intervals_by_type_are_those_of_the_evaluation() -> None:
    given, items = localised()
    outcome = localized_outcome(Localized.of(match_predictions(given, items), items, "union"))
    plain = localization(given, items).by_type["people"].interval["r1"]
    found = Measured([outcome], "people").interval("r1")
    assert found is not None
    assert plain is not None
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high))


@pytest.fixture
def quarters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    use_small_encoders(monkeypatch)
    return make_quarters(tmp_path, 18)


def test_gold_regions_ask_for_their_phrases(quarters: Dataset) -> None:
    changes = ("components=2", "regularisation=0.01", "top=4")
    bundle = Workshop(quarters, Runs(quarters.path / "runs"), changes).bundle(Training("cca", "papers/cca-chunks"), 0)
    on = Scored(quarters, quarters.split("dev"))
    gold = regions_of(on.photos)
    plain = region_retrieval(
        gold_region_scores(bundle, on.seen_by(bundle), gold),
        gold.positives,
        phrases=gold.phrases,
        photo_of_region=gold.photo_of_region,
    )
    found = score_regions(bundle, on)
    assert found.scores == plain.scores
    assert found.photos == 6


def test_a_split_without_boxes_is_one_line(quarters: Dataset) -> None:
    with pytest.raises(DatasetError, match="no phrase of the split to score on has a box"):
        score_grounding(None, Scored(quarters, quarters.photos[:0]))  # type: ignore[arg-type]


PEOPLE = {str(number): ("a dog runs in the snow", "the dog is running") for number in range(30)}


def outcome_of(caption: str, wrong: int) -> Outcome:
    made = {photo: caption if int(photo) >= wrong else "a cat" for photo in PEOPLE}
    return captioned({photo: (made[photo], PEOPLE[photo]) for photo in PEOPLE}, ["a cat"], perplexity=12.5)


def test_captions_have_the_scores_of_the_evaluation(tmp_path: Path) -> None:
    outcome = outcome_of("a dog runs in snow", wrong=10)
    plain = caption_scores({photo: made for photo, (made, _) in outcome.captions.items()}, PEOPLE, training=["a cat"])
    assert {name: outcome.scores[name] for name in ("bleu4", "cider", "novel")} == pytest.approx(
        {"bleu4": plain.bleu4, "cider": plain.cider, "novel": plain.novel}
    )
    assert outcome.scores["perplexity"] == 12.5
    outcome.save(tmp_path)
    loaded = Outcome.load(tmp_path)
    assert (loaded.scores, loaded.captions, loaded.photos) == (outcome.scores, outcome.captions, 30)


def test_claims_about_captions_are_judged_by_photos() -> None:
    better, worse = outcome_of("a dog runs in snow", wrong=5), outcome_of("a dog runs in snow", wrong=15)
    found = judge(Claim("a over b", "a", "b", "bleu1"), Measured([better]), Measured([worse]), rounds=500)
    plain = compare_captions(
        *(caption_scores({p: made for p, (made, _) in each.captions.items()}, PEOPLE) for each in (better, worse)),
        rounds=500,
    )["bleu1"]
    assert found is not None
    assert found.verdict == "holds"
    assert (found.found.low, found.found.high) == pytest.approx((plain.low, plain.high))
