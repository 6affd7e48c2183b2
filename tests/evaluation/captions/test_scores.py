from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DatasetError, DeixisError
from deixis.evaluation.captions import CaptionScores, caption_scores, compare_captions, perplexity_scores
from deixis.evaluation.captions.metrics import bleu_from, bleu_statistics

REFERENCES = {
    "1": ["A dog runs in the snow.", "A brown dog is running."],
    "2": ["Two men play guitar.", "Men with guitars on a stage"],
    "3": ["A child eats an apple."],
}
GOOD = {"1": "A brown dog runs in the snow", "2": "Two men play the guitar", "3": "The child eats an apple"}
BAD = {"1": "a man", "2": "a man", "3": "a man eats"}

DIVERSITY = {"distinct_1", "distinct_2", "distinct_sentences"}
COMPARED = {"bleu1", "bleu2", "bleu3", "bleu4", "cider", "cider_d", "rouge_l", "meteor", *DIVERSITY}


@pytest.fixture(scope="module")
def good() -> CaptionScores:
    return caption_scores(GOOD, REFERENCES, training=["two men play the guitar!", "a cat"])


def test_scores_are_percentages_in_the_order_of_the_references(good: CaptionScores) -> None:
    assert good.photos == ("1", "2", "3")
    assert good.n == 3
    assert good.bleu1 > good.bleu2 > good.bleu3 > good.bleu4 > 1
    assert good.novel == pytest.approx(200 / 3)
    assert good.distinct_sentences == 3
    assert good.cider_d == pytest.approx(good.per_photo["cider_d"].mean())
    assert good.rouge_l == pytest.approx(good.per_photo["rouge_l"].mean())


def test_corpus_bleu_comes_from_sums_not_from_the_mean_of_photos(good: CaptionScores) -> None:
    sums = bleu_statistics(good.captions).sum(axis=0)
    assert good.bleu4 == pytest.approx(100 * bleu_from(sums)[3])
    assert good.bleu4 != pytest.approx(good.per_photo["bleu4"].mean())


def test_drawing_every_photo_twice_does_not_change_the_scores(good: CaptionScores) -> None:
    for name, statistic in good.statistics.items():
        assert statistic(np.full((1, 3), 2.0))[0] == pytest.approx(getattr(good, name)), name


def test_drawing_one_photo_gives_its_own_value(good: CaptionScores) -> None:
    for name in good.statistics.keys() - DIVERSITY:
        statistic = good.statistics[name]
        assert statistic(np.array([[0.0, 1.0, 0.0]]))[0] == pytest.approx(good.per_photo[name][1]), name


def test_every_score_lies_in_its_interval(good: CaptionScores) -> None:
    assert {*COMPARED, "novel"} <= set(good.interval)
    for name, bounds in good.interval.items():
        assert bounds.low <= getattr(good, name) <= bounds.high, name


def test_the_result_is_plain_json(good: CaptionScores) -> None:
    document = json.loads(json.dumps(good.as_json()))
    assert document["bleu4"] == good.bleu4
    assert document["n"] == 3
    assert document["interval"]["meteor"] == [good.interval["meteor"].low, good.interval["meteor"].high]
    assert "shipped table" in document["protocol"]
    assert "shorter" in document["ties"]
    assert "captions" not in document


def test_novelty_needs_training_captions_and_paraphrases_are_optional() -> None:
    scores = caption_scores(GOOD, REFERENCES, paraphrases=None)
    assert "METEOR 1.5 English with exact, stem and synonym" in scores.protocol
    assert scores.novel is None
    assert scores.as_json()["novel"] is None
    assert "novel" not in scores.interval


def test_better_captions_are_better_by_every_score(good: CaptionScores) -> None:
    found = compare_captions(good, caption_scores(BAD, REFERENCES), rounds=200)
    assert set(found) >= COMPARED
    assert all(found[name].difference > 0 for name in COMPARED)
    assert found["cider_d"].difference == pytest.approx(good.cider_d - caption_scores(BAD, REFERENCES).cider_d)


def test_only_the_same_photos_references_and_protocol_can_be_compared(good: CaptionScores) -> None:
    fewer = {photo: REFERENCES[photo] for photo in ("1", "2")}
    with pytest.raises(DatasetError, match="same photos"):
        compare_captions(good, caption_scores({"1": "a", "2": "b"}, fewer))
    with pytest.raises(DatasetError, match="references"):
        compare_captions(good, caption_scores(GOOD, REFERENCES | {"3": ["A child."]}))
    with pytest.raises(DeixisError, match="protocol"):
        compare_captions(good, caption_scores(GOOD, REFERENCES, paraphrases=None))


@pytest.mark.parametrize(
    ("candidates", "references", "message"),
    [
        ({}, {}, "references"),
        ({"1": "a"}, {"1": ["a"], "2": ["b"]}, "photo 2"),
        ({"1": "a", "2": "b"}, {"1": ["a"]}, "photo 2"),
        ({"1": "a"}, {"1": []}, "photo 1"),
        ({"1": "a"}, {"1": "a dog"}, "photo 1"),
        ({"1": float("nan")}, {"1": ["a"]}, "photo 1.*nan"),
        ({"1": "a"}, {"1": ["a", None]}, "photo 1.*None"),
    ],
)
def test_invalid_captions_are_reported_in_one_line_with_the_photo(
    candidates: dict[str, str], references: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(DatasetError, match=message) as caught:
        caption_scores(candidates, references)
    assert "\n" not in str(caught.value)


def test_an_empty_caption_scores_zero() -> None:
    scores = caption_scores(GOOD | {"2": "..."}, REFERENCES)
    assert {name: values[1] for name, values in scores.per_photo.items()} == pytest.approx(
        dict.fromkeys(scores.per_photo, 0.0), abs=1e-3
    )


def test_a_single_photo_can_be_scored() -> None:
    scores = caption_scores({"1": "a dog"}, {"1": ["a dog"]})
    assert scores.bleu2 == pytest.approx(100)
    assert scores.meteor == 100
    assert scores.cider == 0  # document frequencies need other photos


logarithms = st.lists(st.lists(st.floats(-20, 0), min_size=1, max_size=6), min_size=1, max_size=6)


@given(logarithms)
def test_perplexity_is_two_to_the_mean_of_minus_log2_over_all_words(sentences: list[list[float]]) -> None:
    scores = perplexity_scores(sentences, base=2)
    flat = [value for sentence in sentences for value in sentence]
    assert scores.perplexity == pytest.approx(2 ** (-sum(flat) / len(flat)))


@given(logarithms)
def test_the_base_of_the_logarithms_does_not_matter(sentences: list[list[float]]) -> None:
    natural = [[value * math.log(2) for value in sentence] for sentence in sentences]
    assert perplexity_scores(natural).perplexity == pytest.approx(perplexity_scores(sentences, base=2).perplexity)


def test_end_tokens_do_not_count_in_the_oov_rate() -> None:
    assert perplexity_scores([[-1.0] * 5, [-1.0] * 3], unknown=[1, 2]).oov == pytest.approx(100 * 3 / 6)
    assert perplexity_scores([[-1.0]]).oov is None


def test_photos_are_the_units_of_the_bootstrap_of_perplexity() -> None:
    sentences = [[-1.0, -1.0], [-3.0, -3.0]] * 10
    assert perplexity_scores(sentences, photos=[n // 2 for n in range(20)], base=2).interval["perplexity"].low == 4.0
    alone = perplexity_scores(sentences, base=2)
    assert alone.interval["perplexity"].low < 4.0 < alone.interval["perplexity"].high


@pytest.mark.parametrize(
    ("sentences", "options", "message"),
    [
        ([], {}, "no sentences"),
        ([[-1.0], []], {}, "sentence 1"),
        ([[-1.0, math.nan]], {}, "sentence 0, word 1.*nan"),
        ([[-math.inf]], {}, "word 0.*-inf"),
        ([[0.5]], {}, "word 0.*0.5"),
        ([[-1.0, -1.0]], {"unknown": [2]}, "sentence 0.*2 unknown"),
        ([[-1.0]], {"unknown": [0, 0]}, "1 sentences but 2 counts"),
        ([[-1.0]], {"photos": ["1", "2"]}, "1 sentences but 2 photos"),
    ],
)
def test_invalid_input_is_reported_with_the_sentence_and_word(
    sentences: list[list[float]], options: dict[str, list[int]], message: str
) -> None:
    with pytest.raises(DatasetError, match=message):
        perplexity_scores(sentences, **options)
