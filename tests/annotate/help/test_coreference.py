"""Which mentions name the same."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.annotate.help.coreference import SHIPPED, Coreference, grouped, possible_pairs
from deixis.annotate.help.mention_facts import facts_of
from deixis.annotate.material import material_of
from deixis.errors import DeixisError
from tests.annotate.fakes import gold, photo


def test_the_shipped_model_is_small_and_has_a_card() -> None:
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 500_000
    assert (SHIPPED / "README.md").is_file()


def test_other_words_for_the_same_are_found_and_different_things_are_not() -> None:
    material = material_of(photo("A young girl throws a red ball to her dog.", "A child plays with a puppy and a toy."))
    chains = {
        frozenset(material.mentions[place].text for place in chain) for chain in Coreference.shipped().chains(material)
    }
    assert {"A young girl", "A child"} in chains
    assert {"her dog", "a puppy"} in chains
    assert not any({"a red ball", "her dog"} <= chain for chain in chains)


def test_only_what_people_could_be_asked_about_is_likely_at_all() -> None:
    material = material_of(gold())
    pairs = possible_pairs(facts_of(material))
    assert set(Coreference.shipped().probabilities(material)) == set(pairs)
    for a, b in pairs:
        one, other = material.mentions[a], material.mentions[b]
        assert one.caption != other.caption
        assert set(one.types) & set(other.types)


def test_a_photo_with_one_mention_has_one_chain() -> None:
    assert Coreference.shipped().chains(material_of(photo("A dog."))) == [[0]]


def test_a_model_opens_again_as_it_was_saved(tmp_path: Path) -> None:
    model = Coreference.shipped()
    model.save(tmp_path / "copy", half=True)
    again = Coreference.load(tmp_path / "copy")
    assert again.fingerprint == model.fingerprint
    assert (again.words, again.join_from) == (model.words, model.join_from)
    material = material_of(gold())
    assert again.probabilities(material) == model.probabilities(material)


def test_a_damaged_model_is_one_clear_line(tmp_path: Path) -> None:
    Coreference.shipped().save(tmp_path / "copy")
    file = tmp_path / "copy" / "settings.json"
    file.write_text(file.read_text().replace(" the ", " "))
    with pytest.raises(DeixisError, match="copy: damaged"):
        Coreference.load(tmp_path / "copy")


@given(st.data())
def test_groups_hold_every_mention_once_and_never_a_pair_that_was_not_listed(data: st.DataObject) -> None:
    count = data.draw(st.integers(0, 7))
    pairs = list(combinations(range(count), 2))
    listed = data.draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    likely = {pair: data.draw(st.floats(0, 1)) for pair in listed}
    groups = grouped(count, likely, 0.5)
    assert sorted(place for group in groups for place in group) == list(range(count))
    for group in groups:
        assert set(combinations(group, 2)) <= set(listed)
