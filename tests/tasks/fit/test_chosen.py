"""Settings by name, by file and by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.models.two_branch import PAPERS
from deixis.tasks.fit.cca import CCATraining
from deixis.tasks.fit.chosen import MODELS, Chosen, choose, defaults, in_words, named
from deixis.tasks.fit.typed import typed
from deixis.tasks.learning import Learning
from deixis.training.samplers import SCHEDULES


@pytest.mark.parametrize("model", MODELS)
def test_every_setting_has_one_owner_a_default_and_a_meaning(model: str) -> None:
    found = in_words(model)  # type: ignore[arg-type]
    assert len({setting.name for setting in found}) == len(found)
    assert [setting.name for setting in found if not setting.meaning] == []
    assert {setting.name for setting in found} == set(defaults(model).to_json())  # type: ignore[arg-type]


@pytest.mark.parametrize("model", MODELS)
def test_every_named_choice_is_reached_by_its_name_and_by_hand(model: str) -> None:
    for name, chosen in named(model).items():  # type: ignore[arg-type]
        assert choose(model, name, []) == chosen  # type: ignore[arg-type]
        by_hand = [f"{key}={typed(value)}" for key, value in chosen.to_json().items()]
        assert choose(model, None, by_hand) == chosen  # type: ignore[arg-type]


def test_the_papers_networks_come_with_their_schedules_and_text() -> None:
    name = "papers/two-branch-phrases-no-neighbours"
    expected = Chosen(Learning(learn="phrases", top=200, text="hglmm"), PAPERS[name], SCHEDULES[name])
    assert named("two-branch")[name] == expected
    assert named("similarity")["papers/similarity-sentences"].learning.learn == "sentences"


def test_the_rows_of_flickr30k_entities() -> None:
    found = named("cca")
    assert found["papers/cca-chunks-1"].learning == Learning(learn="phrases", most_regions=1, text="fisher")
    assert found["papers/cca-joint"].learning.learn == "both"


def test_a_file_goes_over_the_defaults_and_what_is_typed_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "few.json").write_text('{"components": 3, "power": 2, "learn": "phrases"}')
    chosen = choose("cca", str(tmp_path / "few.json"), ["components=4"])
    assert chosen == Chosen(Learning(learn="phrases"), CCATraining(components=4, power=2.0))


@pytest.mark.parametrize(
    ("model", "settings", "words"),
    [
        ("cca", "papers/cca-chunk", "cca has no settings of this name; did you mean 'papers/cca-chunks'?"),
        ("similarity", "deixis/x", "similarity has no settings of this name; there are: papers/similarity-phrases, "),
        ("cca", "nowhere.json", "nowhere.json: cannot be read"),
    ],
)
def test_names_that_are_not_there_are_one_line(model: str, settings: str, words: str) -> None:
    with pytest.raises(DeixisError) as refusal:
        choose(model, settings, [])  # type: ignore[arg-type]
    assert words in str(refusal.value)


def test_a_similarity_network_reads_no_words() -> None:
    with pytest.raises(DeixisError, match="no setting is called 'reader'"):
        choose("similarity", None, ["reader=lstm"])
