"""The list of things that are easily taken for each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.errors import DatasetError
from deixis.models.near_things import find_thing, read_groups, shipped_groups


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
