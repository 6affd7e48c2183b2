"""Presence by the shipped models, against a plain computation, and what happens without the photo model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import deixis
from deixis.data.samples import SAMPLES
from deixis.errors import DatasetError, DeixisError
from deixis.language.sentence import Sentence
from deixis.models.base import RegionInputs
from deixis.models.grounder.model import PRESENCE, GrounderPipeline
from deixis.models.grounding import EmbeddingPipeline, Grounding, PhotoProposals
from deixis.models.installed import SHIPPED
from deixis.models.presence import PresenceCalibration, find_thing, read_groups, shipped_groups
from deixis.search.encoder import SearchEncoder
from deixis.storage.artifacts import fingerprint_artifact, read_config, write_config

CAT = SAMPLES / "images" / "cat.jpg"
SENTENCE = "A cat with green eyes looks at a brown bear, a woman and a dog."


def open_grounder(*calibrations: PresenceCalibration) -> GrounderPipeline:
    grounder = cast(GrounderPipeline, deixis.load("grounder"))
    grounder.model.presence_calibrations = calibrations
    return grounder


@pytest.fixture(scope="module")
def grounder() -> GrounderPipeline:
    return cast(GrounderPipeline, deixis.load("grounder"))


@pytest.fixture(scope="module")
def cat(grounder: GrounderPipeline) -> PhotoProposals:
    return grounder.propose(CAT)


@pytest.fixture(scope="module")
def alone(cat: PhotoProposals) -> Grounding:
    """By a grounder without a fit."""
    return open_grounder().ground_regions(cat, SENTENCE)


def figures(found: Grounding) -> list[float]:
    return [phrase.presence or 0.0 for phrase in found.phrases]


def test_animals_that_are_not_there_are_not_taken_for_the_cat(
    grounder: GrounderPipeline, cat: PhotoProposals, alone: Grounding
) -> None:
    found = {phrase.text: phrase.presence or 0.0 for phrase in grounder.ground_regions(cat, SENTENCE).phrases}
    before = {phrase.text: phrase.presence or 0.0 for phrase in alone.phrases}
    assert found["A cat"] > 0.9
    assert max(found["a brown bear"], found["a dog"], found["a woman"]) < 0.3
    assert before["a brown bear"] > 0.7  # what the fit is for


def test_presence_is_a_regression_of_similarities_by_the_photo_model(
    grounder: GrounderPipeline, cat: PhotoProposals
) -> None:
    photos = cast(EmbeddingPipeline, deixis.load("two-branch"))
    whole = photos.encode_images([CAT])[0]
    boxes = cat.proposals.boxes
    inputs = RegionInputs(cat.features.regions(boxes), boxes, cat.proposals.scores, cat.features.whole)
    regions = photos.encode_regions(inputs)
    [calibration] = [each for each in grounder.model.presence_calibrations if each.photo_model == "two-branch"]
    constant, of_photo, of_region, of_people, of_rivals = calibration.weights
    expected = []
    for text in ("A cat", "green eyes", "a brown bear", "a woman", "a dog"):
        vector = photos.encode_sentences([text])[0]
        logit = constant + of_photo * (whole @ vector) + of_region * max(whole @ vector, *(regions @ vector))
        if text == "a woman":
            thing, rivals = "a woman", ["a man"]
            logit += of_people
        elif text != "green eyes":
            thing = text.replace("brown ", "").lower()
            animals = ["a cat", "a dog", "a bear", "a tiger", "a squirrel", "a rabbit", "a leopard", "a lion", "a fox"]
            rivals = [each for each in animals if each != thing]  # the most similar ones to a cat
        if text != "green eyes":
            cosines = [float(whole @ photos.encode_sentences([each])[0]) for each in (thing, *rivals)]
            logit += of_rivals * max(max(cosines[1:]) - cosines[0], -0.1)
        expected.append(1 / (1 + np.exp(-logit)))
    np.testing.assert_allclose(figures(grounder.ground_regions(cat, SENTENCE)), expected, atol=1e-4)


def test_the_fit_changes_presence_only(grounder: GrounderPipeline, cat: PhotoProposals, alone: Grounding) -> None:
    found = grounder.ground_regions(cat, SENTENCE)
    assert figures(found) != figures(alone)
    for mine, theirs in zip(found.phrases, alone.phrases, strict=True):
        assert replace(mine, presence=theirs.presence) == theirs


@pytest.mark.parametrize(
    "change",
    [{"photo_model": "no such model"}, {"fingerprint": "another"}, {"encoder": "another"}],
    ids=["not installed", "trained again", "another encoder"],
)
def test_without_its_photo_model_the_figure_is_the_grounders_own(
    grounder: GrounderPipeline, cat: PhotoProposals, alone: Grounding, change: dict[str, Any]
) -> None:
    fitted = [replace(each, **change) for each in grounder.model.presence_calibrations]
    assert figures(open_grounder(*fitted).ground_regions(cat, SENTENCE)) == figures(alone)
    sentence = Sentence(SENTENCE)
    own = grounder.compare(_regions(grounder, cat), grounder.encode_phrases(sentence.phrases))
    np.testing.assert_allclose(figures(alone), grounder.model.presence_probability(own.max(axis=0)), rtol=1e-4)


def _regions(grounder: GrounderPipeline, photo: PhotoProposals) -> np.ndarray:
    boxes = photo.proposals.boxes / np.tile(photo.features.size, 2)
    vectors = photo.features.regions(photo.proposals.boxes)
    return grounder.encode_regions(RegionInputs(vectors, boxes, photo.proposals.scores, photo.features.whole))


def test_both_shipped_encoders_have_a_fit_to_the_shipped_photo_model() -> None:
    for name in ("grounder", "grounder-fast"):
        opened = cast(GrounderPipeline, deixis.load(name))._calibrated_presence
        assert opened is not None, f"fit again: scripts/fit_presence.py DATA… --model {name}"
        assert opened.photo_model.encoder == deixis.load(name).encoder
        assert opened.calibration is not None
        assert opened.calibration.fingerprint == fingerprint_artifact(SHIPPED / "two-branch")


def test_a_search_and_its_grounder_share_the_photo_model() -> None:
    encoder = SearchEncoder()
    opened = cast(GrounderPipeline, encoder.region_model)._calibrated_presence
    assert opened is not None
    assert opened.photo_model is encoder.photo_model


def set_presence(folder: Path, fits: list[dict[str, object]]) -> None:
    config = read_config(folder)
    config["settings"][PRESENCE] = fits
    write_config(folder, config)


def test_a_saved_grounder_keeps_its_fit_and_settings_can_be_replaced_alone(
    grounder: GrounderPipeline, tmp_path: Path
) -> None:
    grounder.save_pretrained(tmp_path / "copy")
    again = cast(GrounderPipeline, deixis.load(tmp_path / "copy"))
    assert again.model.presence_calibrations == grounder.model.presence_calibrations
    before = fingerprint_artifact(tmp_path / "copy")
    set_presence(tmp_path / "copy", [])
    assert fingerprint_artifact(tmp_path / "copy") == before  # indexes stay valid
    assert cast(GrounderPipeline, deixis.load(tmp_path / "copy")).model.presence_calibrations == ()
    assert read_config(tmp_path / "copy")["settings"]["box_sets"]


def test_a_fit_with_a_wrong_number_of_weights_is_refused(grounder: GrounderPipeline, tmp_path: Path) -> None:
    grounder.save_pretrained(tmp_path / "copy")
    one = {"encoder": "e", "photo_model": "two-branch", "fingerprint": "f", "weights": [1, 2]}
    set_presence(tmp_path / "copy", [one])
    with pytest.raises(DeixisError, match="config.json"):
        deixis.load(tmp_path / "copy")


@pytest.mark.parametrize(
    ("phrase", "thing"),
    [
        ("a bear", "a bear"),
        ("two white polar bears", "a polar bear"),
        ("a teddy bear", None),
        ("a hot dog", "a hot dog"),
        ("three small dogs", "a dog"),
        ("a dog house", None),
        ("cattle", "a cow"),
        ("green eyes", None),
        ("", None),
    ],
)
def test_the_last_words_of_a_phrase_name_a_thing(phrase: str, thing: str | None) -> None:
    found = find_thing(phrase.split())
    assert (found and found[0].things[found[1]].text) == thing


def test_rivals_are_the_others_of_a_group_that_do_not_include_each_other() -> None:
    [animals] = [group for group in shipped_groups() if group.name == "animals"]
    texts = [thing.text for thing in animals.things]
    rivals = {texts[other] for other in animals.rivals(texts.index("a polar bear"))}
    assert {"a cat", "a sheep"} <= rivals
    assert rivals.isdisjoint({"a polar bear", "a bear"})
    [vehicles] = [group for group in shipped_groups() if group.name == "vehicles"]
    texts = [thing.text for thing in vehicles.things]
    assert texts.index("a motorcycle") in vehicles.rivals(texts.index("a bicycle"))  # a bike may be either
    assert all(group.rivals(thing) for group in shipped_groups() for thing in range(len(group.things)))


def test_a_file_is_read_in_groups_and_a_wrong_line_is_named(tmp_path: Path) -> None:
    file = tmp_path / "things.txt"
    file.write_text("# notes\n[pets] unless pet, animal\na dog | dog, -hot dog ; puppy\n\na cat | cat\n", "utf-8")
    [group] = read_groups(file)
    assert (group.name, group.unless) == ("pets", "pet, animal")
    assert group.things[0].words == {"dog", "puppy"}
    file.write_text("[pets] unless pet\na dog\n", "utf-8")
    with pytest.raises(DatasetError, match="line 2"):
        read_groups(file)
