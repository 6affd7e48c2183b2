"""Regions described with phrases of a bank, by models that a test can see through and by the shipped one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DeixisError
from deixis.models.describer.description import (
    Describer,
    DescribingPhrase,
    RegionDescription,
    description_from_artifact,
    draw_descriptions,
)
from deixis.models.describer.phrase_bank import PhraseBank
from deixis.models.grounding import load_grounding_model
from deixis.models.pipeline import load
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
    said = [phrase.text for phrase in region.phrases]
    assert said[0] == "red"
    assert "a red" not in said
    assert set(said) == {"red", "red blue", "blue", "green"}


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
        load(tmp_path / "damaged").describe(DOGS)
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


@pytest.fixture(scope="module")
def shipped() -> Describer:
    return load("describer").describer


def test_the_shipped_model_describes_the_dogs(shipped: Describer) -> None:
    found = shipped.describe(DOGS)
    assert 2 <= len(found) <= 10
    assert sum("dog" in region.phrases[0].text for region in found) >= 1
    for region in found:
        assert len(region.phrases) == 5
        assert len({phrase.text for phrase in region.phrases}) == 5
        assert all(0 < phrase.score < 1 for phrase in region.phrases)


def test_the_shipped_bank_holds_short_phrases_that_are_frequent(shipped: Describer) -> None:
    bank = shipped.bank
    assert "a brown dog" in bank.phrases
    assert min(bank.counts) >= 3
    assert max(len(phrase.replace("'s", " 's").split()) for phrase in bank.phrases) <= 6


def test_any_embedding_model_describes_with_the_shipped_phrases() -> None:
    for model in ("grounder", "two-branch"):
        (region,) = deixis.describe(DOGS, (187, 268, 309, 445), top=3, model=model)
        assert len(region.phrases) == 3
        assert "dog" in region.phrases[0].text
    assert (
        Describer(load_grounding_model(), PhraseBank(("a dog", "a violin"), (1, 1)))
        .describe(DOGS, (187, 268, 309, 445), top=1)[0]
        .phrases[0]
        .text
        == "a dog"
    )


def test_only_phrases_of_the_users_bank_are_chosen(tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("our dog rex\n\nthe violin\n")
    (region,) = deixis.describe(DOGS, (187, 268, 309, 445), bank=file)
    assert [phrase.text for phrase in region.phrases] == ["our dog rex", "the violin"]
