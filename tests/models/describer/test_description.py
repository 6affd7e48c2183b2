"""Regions described with phrases of a bank, by models that a test can see through and by the shipped one."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.models.describer import description
from deixis.models.describer.description import (
    Describer,
    DescribingPhrase,
    DescriptionSettings,
    PhraseBank,
    RegionDescription,
    clip_region,
    description_from_artifact,
    draw_descriptions,
    estimate_objectness,
    parse_region,
    select_diverse,
    select_salient,
)
from deixis.vision.proposals import Proposals
from tests.models.colours import describer

DOGS = SAMPLES / "images" / "dogs.jpg"


@pytest.fixture
def red_and_blue() -> Image.Image:
    photo = Image.new("RGB", (80, 40), "red")
    photo.paste("blue", (40, 0, 80, 40))
    return photo


COLOURS = PhraseBank(("red", "a red", "blue", "green", "red blue"), (1, 5, 2, 2, 1))


def test_each_half_is_described_by_its_colour_and_no_region_twice(red_and_blue: Image.Image) -> None:
    found = describer(COLOURS, scale=10, bias=-5).describe(red_and_blue, top=1)
    assert [(region.box, region.phrases[0].text) for region in found] == [
        ((0, 0, 40, 40), "red"),
        ((40, 0, 80, 40), "blue"),
    ]
    assert found[0].phrases[0].score == pytest.approx(1 / (1 + np.exp(-5)), abs=1e-3)


def test_a_requested_region_is_clipped_to_the_photo(red_and_blue: Image.Image) -> None:
    found = describer(COLOURS).describe(red_and_blue, (45, 5, 900, 35), top=1)
    assert [(region.box, region.phrases[0].text) for region in found] == [((45, 5, 80, 35), "blue")]


def test_phrases_with_the_same_words_appear_once(red_and_blue: Image.Image) -> None:
    (region,) = describer(COLOURS).describe(red_and_blue, (0, 0, 40, 40), top=5)
    texts = [phrase.text for phrase in region.phrases]
    assert texts[0] == "red"
    assert sorted(texts) == ["blue", "green", "red", "red blue"]
    # The model does not know these words.
    (region,) = describer(PhraseBank(("a wall", "the wall", "red"), (1, 1, 1))).describe(red_and_blue, (0, 0, 40, 40))
    assert sorted(phrase.text for phrase in region.phrases) == ["a wall", "red"]


def test_the_prior_ranks_frequent_phrases_first(red_and_blue: Image.Image) -> None:
    bank = PhraseBank(("red", "red blue"), (1, 1000))
    assert describer(bank).describe(red_and_blue, (0, 0, 40, 40))[0].phrases[0].text == "red"
    assert describer(bank, prior=0.1).describe(red_and_blue, (0, 0, 40, 40))[0].phrases[0].text == "red blue"


def test_more_diversity_prefers_different_phrases_to_better_ones(red_and_blue: Image.Image) -> None:
    bank = PhraseBank(("red", "red blue", "green"), (1, 1, 1))
    settings = {"scale": 2.0}
    alike = describer(bank, phrase_diversity=0.0, **settings).describe(red_and_blue, (0, 0, 40, 40), top=2)
    unlike = describer(bank, phrase_diversity=0.8, **settings).describe(red_and_blue, (0, 0, 40, 40), top=2)
    assert [phrase.text for phrase in alike[0].phrases] == ["red", "red blue"]
    assert [phrase.text for phrase in unlike[0].phrases] == ["red", "green"]


def test_a_photo_without_proposals_has_no_descriptions(red_and_blue: Image.Image) -> None:
    made = describer(COLOURS)
    made.pipeline.provenance = replace(made.pipeline.provenance, max_proposals=0)
    assert made.describe(red_and_blue) == []


def test_phrases_and_settings_are_saved_unchanged() -> None:
    made = describer(COLOURS, prior=0.05, scale=7, bias=-2)
    bank, settings = description_from_artifact(made.to_artifact())
    assert (bank, settings) == (COLOURS, made.settings)


@pytest.mark.parametrize(
    "changes", [{"prior": "much"}, {"colour": 1}, {"scale": float("nan")}, {"phrases": {"a": "b"}}]
)
def test_a_damaged_description_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    model = deixis.load("describer")
    assert model.describer_part is not None
    model.describer_part = replace(model.describer_part, settings=model.describer_part.settings | changes)
    model.save_pretrained(tmp_path / "damaged")
    with pytest.raises(DeixisError) as error:
        deixis.load(tmp_path / "damaged").describe(DOGS)
    assert "\n" not in str(error.value)


def test_the_picture_has_a_line_with_a_few_phrases_for_each_region() -> None:
    phrases = tuple(DescribingPhrase(text, 0.5) for text in ("one", "two", "three", "four"))
    regions = [RegionDescription((10 * n, 5, 10 * n + 60, 90), phrases) for n in range(10)]
    photo = Image.new("RGB", (300, 200), "grey")
    heights = [draw_descriptions(photo, regions[:count]).height for count in (0, 1, 10)]
    assert heights[0] < heights[1] < heights[2]
    assert draw_descriptions(photo, regions[:1], top=3) == draw_descriptions(
        photo, [RegionDescription(regions[0].box, phrases[:3])]
    )


def test_the_shipped_model_describes_the_dogs() -> None:
    found = deixis.load("describer").describe(DOGS)
    assert 2 <= len(found) <= 10
    assert sum("dog" in region.phrases[0].text for region in found) >= 1
    for region in found:
        assert len(region.phrases) == 2
        assert len({phrase.text for phrase in region.phrases}) == 2
        assert all(0 < phrase.score < 1 for phrase in region.phrases)


def test_any_embedding_model_describes_with_the_shipped_phrases() -> None:
    for model in ("grounder", "two-branch"):
        (region,) = deixis.describe(DOGS, (187, 268, 309, 445), top=3, model=model)
        assert len(region.phrases) == 3
        assert "dog" in region.phrases[0].text


def test_phrases_are_ordered_by_probability_and_improbable_ones_are_left_out(red_and_blue: Image.Image) -> None:
    bank = PhraseBank(("red", "red wall", "blue"), (1, 1, 1))
    (region,) = describer(bank, scale=6, bias=-2).describe(red_and_blue, (0, 0, 40, 40), top=3)
    scores = [phrase.score for phrase in region.phrases]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 0.15
    assert "blue" not in [phrase.text for phrase in region.phrases]
    assert describer(bank, scale=6, bias=-20).describe(red_and_blue, (0, 0, 40, 40))[0].phrases == ()
    assert describer(bank, scale=6, bias=-20).describe(red_and_blue) == []


def test_a_model_without_calibrated_description_leaves_out_no_phrase_as_improbable(
    red_and_blue: Image.Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = PhraseBank(("red", "blue"), (1, 1))
    pipeline = describer(bank).pipeline
    monkeypatch.setattr(description, "_shipped_description", lambda: (bank, DescriptionSettings(bias=-20)))
    monkeypatch.setattr(description, "_long_phrases", lambda: (bank, DescriptionSettings()))
    (tmp_path / "bank.txt").write_text("red\nblue\n")
    own = Describer.of(pipeline)
    for each in (own, own.with_phrases(tmp_path / "bank.txt"), own.with_long_phrases()):
        (region,) = each.describe(red_and_blue, (0, 0, 40, 40))
        assert region.phrases[0].text == "red"
        assert region.phrases[0].score < 1e-6
        assert each.describe(red_and_blue)


def test_only_phrases_of_the_users_bank_are_chosen(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("our dog rex\n\nthe violin\n")
    (region,) = deixis.describe(DOGS, (187, 268, 309, 445), bank=file)
    assert [phrase.text for phrase in region.phrases] == ["our dog rex"]  # there is no violin


SIZE = (100, 80)


@pytest.mark.parametrize("typed", ["", "1,2,3", "1,2,3,4,5", "1,2,three,4", "1;2;3;4"])
def test_a_region_that_is_not_four_numbers_is_refused(typed: str) -> None:
    with pytest.raises(DeixisError, match="x1,y1,x2,y2"):
        parse_region(typed)


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ((50, 10, 20, 40), "region 50,10,20,40: "),
        ((50, 40, 60, 40), "region 50,40,60,40: "),
        ((100, 10, 140, 40), "region 100,10,140,40: "),
        ((-30, -30, -1, -1), "100 × 80"),
        ((-30, 0, 0.5, 40), "100 × 80"),
        ((0, 0, float("nan"), 9), "region 0,0,"),
        ((0, 0, 9), "region 0,0,"),
    ],
)
def test_an_invalid_region_is_refused(region: tuple[float, ...], message: str) -> None:
    with pytest.raises(DeixisError) as error:
        clip_region(region, SIZE)
    assert message in str(error.value)


side = st.floats(-50, 150)


@given(side, side, side, side)
def test_an_accepted_region_lies_within_the_photo(x1: float, y1: float, x2: float, y2: float) -> None:
    try:
        left, top, right, bottom = clip_region((x1, y1, x2, y2), SIZE)
    except DeixisError:
        return
    assert (left, right) == (max(x1, 0), min(x2, SIZE[0]))
    assert (top, bottom) == (max(y1, 0), min(y2, SIZE[1]))
    assert min(right - left, bottom - top) >= 1


BOXES = np.array(
    [[0, 0, 60, 60], [0, 0, 60, 56], [10, 10, 40, 40], [10, 50, 30, 58], [70, 0, 100, 40], [70, 50, 99, 79]],
    dtype=np.float64,
)
LOOKS = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]], dtype=np.float64)
KINDS = np.arange(6)


def test_of_overlapping_or_nested_similar_regions_one_is_selected() -> None:
    worth = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.1])
    found = select_salient(BOXES, worth, LOOKS, KINDS, 10, 0.4).tolist()
    # 1 and 2 are 0 again, 3 lies within it and is something else, 5 is worth too little
    assert sorted(found) == [0, 3, 4]
    assert found[0] == 0


def test_of_overlapping_regions_with_the_same_phrase_one_is_selected() -> None:
    boxes = np.array([[0, 0, 40, 40], [20, 0, 60, 40], [60, 0, 99, 40]], dtype=float)
    worth, looks = np.array([0.9, 0.8, 0.7]), np.eye(3)
    assert select_salient(boxes, worth, looks, np.array([7, 8, 7]), 3, 0.4).tolist() == [0, 2, 1]
    assert select_salient(boxes, worth, looks, np.array([7, 7, 7]), 3, 0.4).tolist() == [0, 2]


def test_at_most_the_requested_number_of_regions_is_selected() -> None:
    assert len(select_salient(BOXES, np.ones(6), LOOKS, KINDS, 2, 0.4)) == 2
    assert select_salient(np.zeros((0, 4)), np.zeros(0), np.zeros((0, 3)), np.zeros(0, np.intp), 2, 0.4).tolist() == []


def test_the_objectness_of_a_region_is_that_of_the_most_overlapping_proposal() -> None:
    proposals = Proposals(np.array([[0, 0, 10, 10], [50, 50, 90, 70]], dtype=float), np.array([0.8, 0.5]))
    found = estimate_objectness(np.array([[0, 0, 10, 5], [50, 50, 90, 70], [95, 0, 99, 5]], dtype=float), proposals)
    assert found == pytest.approx([0.4, 0.5, 0])
    assert estimate_objectness(BOXES, Proposals(np.zeros((0, 4)), np.zeros(0))).tolist() == [0] * 6


def select_by_loop(relevance: list[float], alike: np.ndarray, most: int, weight: float) -> list[int]:
    chosen: list[int] = []
    while len(chosen) < min(most, len(relevance)):
        values = {}
        for place in range(len(relevance)):
            if place not in chosen:
                nearest = max((alike[place, other] for other in chosen), default=0.0)
                values[place] = (1 - weight) * relevance[place] - weight * nearest
        chosen.append(max(values, key=lambda item: (values[item], -item)))
    return chosen


@given(st.integers(0, 500), st.integers(0, 9), st.integers(0, 12), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_the_selection_equals_a_plain_loop(seed: int, count: int, most: int, weight: float) -> None:
    generator = np.random.default_rng(seed)
    relevance = generator.random(count)
    alike = generator.uniform(-1, 1, (count, count))
    alike = (alike + alike.T) / 2
    found = select_diverse(relevance, lambda item: alike[item], most, weight=weight).tolist()
    assert found == select_by_loop(relevance.tolist(), alike, most, weight)


def test_too_similar_items_are_never_selected() -> None:
    alike = np.array([[1, 0.99, 0.2], [0.99, 1, 0.2], [0.2, 0.2, 1]])
    assert select_diverse([0.9, 0.8, 0.1], lambda item: alike[item], 3, max_similarity=0.95).tolist() == [0, 2]


phrases = st.text("abc é'", min_size=1).map(lambda text: " ".join(text.split())).filter(bool)


@given(st.dictionaries(phrases, st.integers(1, 10**9), min_size=1), st.sampled_from(["b.txt", "b.txt.gz"]))
def test_phrases_and_counts_are_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int], name: str
) -> None:
    file = tmp_path_factory.mktemp("bank") / name
    data = "".join(f"{phrase}\t{count}\n" for phrase, count in counts.items()).encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    assert PhraseBank.read(file) == PhraseBank(tuple(counts), tuple(counts.values()))


def test_a_list_may_have_blank_lines_repetitions_and_no_counts(tmp_path: Path) -> None:
    file = tmp_path / "bank.txt"
    file.write_bytes("\ufeff\n  Our  dog Rex \t 4\r\n\n   \n\t\na red bus\nour dog rex\n".encode())
    assert PhraseBank.read(file) == PhraseBank(("our dog rex", "a red bus"), (5, 1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bank.txt", b"", "bank.txt: "),
        ("bank.txt", b" \n\n\t\n", "bank.txt: "),
        ("bank.txt", b"a dog\t3\na cat\tmany\n", "bank.txt: line 2: 'many'"),
        ("bank.txt", b"a dog\t0\n", "bank.txt: line 1: '0'"),
        ("bank.txt", b"a dog\t-3\n", "bank.txt: line 1: '-3'"),
        ("bank.txt", b"\t12\n", "bank.txt: line 1 "),
        ("bank.txt", b"\xff\xfe\x00", "bank.txt: "),
        ("bank.txt.gz", b"a dog\n", "bank.txt.gz: "),
        ("bank.txt.gz", gzip.compress(b"a dog\n" * 99, mtime=0)[:-12], "bank.txt.gz: "),
        ("bank.txt.gz", gzip.compress(b"a" * (2 << 20)), "bank.txt.gz: "),
    ],
)
def test_an_invalid_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
) -> None:
    monkeypatch.setattr("deixis.models.describer.description._MAX_BYTES", 1 << 20)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DeixisError) as error:
        PhraseBank.read(tmp_path / name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_frequencies_add_up_to_one() -> None:
    shares = np.exp(PhraseBank(("a", "b", "c"), (5, 3, 2)).log_frequencies())
    assert shares == pytest.approx([0.5, 0.3, 0.2])


def test_a_bank_needs_phrases_and_as_many_counts() -> None:
    with pytest.raises(DeixisError, match="phrase"):
        PhraseBank((), ())
    with pytest.raises(DeixisError, match="counts"):
        PhraseBank(("a dog",), (0,))
