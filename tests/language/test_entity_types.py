"""Entity types of phrases."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.data.records import ENTITY_TYPES
from deixis.language.entity_types import EntityTypes
from deixis.storage.artifacts import read_config


@pytest.fixture(scope="module")
def shipped() -> EntityTypes:
    return EntityTypes.shipped()


@pytest.mark.parametrize(
    ("phrase", "types"),
    [
        ("A young man", ("people",)),
        ("his left hand", ("bodyparts",)),
        ("two brown dogs", ("animals",)),
        ("a red T-shirt", ("clothing",)),
        ("an acoustic guitar", ("instruments",)),
        ("a yellow car", ("vehicles",)),
        ("the beach", ("scene",)),
        ("a frisbee", ("other",)),
        ("a crowded bus", ("vehicles", "scene")),
        ("a group of people", ("people",)),
        ("a hot dog", ("other",)),
        ("his camera", ("other",)),  # "the camera" is not visual
    ],
)
def test_the_head_determines_the_types(shipped: EntityTypes, phrase: str, types: tuple[str, ...]) -> None:
    assert shipped.types_of(phrase.split()) == types


def test_a_chunk_that_is_only_a_colour_is_clothing_and_a_coloured_thing_is_not(shipped: EntityTypes) -> None:
    assert shipped.types_of(["Dark", "Turquoise"]) == ("clothing",)
    assert shipped.types_of(["black", "and", "white"]) == ("clothing",)
    assert shipped.types_of(["black", "cars"]) == ("vehicles",)


@pytest.mark.parametrize("phrase", ["Themselves", "the air", "one of them", "each other", "a trick", "The camera"])
def test_non_visual_phrases_have_no_type(shipped: EntityTypes, phrase: str) -> None:
    assert shipped.types_of(phrase.split()) == ()


def test_unknown_heads_use_their_singular_plural_or_suffix() -> None:
    types = EntityTypes({"zebra": ("animals",), "boots": ("clothing",), "shirt": ("clothing",)}, {}, {})
    assert types.types_of(["zebras"]) == ("animals",)
    assert types.types_of(["boot"]) == ("clothing",)
    assert types.types_of(["rainshirt"]) == ("clothing",)
    assert types.types_of(["a", "stuntwoman"]) == ("people",)
    assert types.types_of(["a", "quux"]) == ("other",)


def test_a_dictionary_is_saved_grouped_by_type(tmp_path: Path) -> None:
    types = EntityTypes({"bus": ("vehicles", "scene")}, {("hot", "dog"): ("other",)}, {"from": "here"})
    types.save(tmp_path / "types")
    assert read_config(tmp_path / "types")["settings"]["types"] == {
        "other": {"heads": [], "pairs": ["hot dog"]},
        "vehicles/scene": {"heads": ["bus"], "pairs": []},
    }
    assert EntityTypes.load(tmp_path / "types") == types


@given(st.lists(st.text(max_size=8), max_size=4))
def test_any_words_get_known_types_or_none(words: list[str]) -> None:
    assert set(EntityTypes.shipped().types_of(words)) <= set(ENTITY_TYPES)
