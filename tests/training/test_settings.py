"""Settings from words and files: what is right is taken, what is wrong is named."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.models.cca import CCASettings
from deixis.training.settings import (
    TrainSettings,
    described,
    settings_from,
    settings_from_all,
    settings_from_file,
    settings_from_json,
    settings_to_json,
)


@dataclass(frozen=True)
class Kinds:
    """One of each kind.

    Attributes
    ----------
    whole, number
        Two that share
        their words.
    name : str
        A name.

    Examples
    --------
    shy
        Not a setting's words.
    """

    whole: int = 1
    number: float = 2.0
    name: str = "a"
    shy: bool = False
    size: Literal["small", "large"] = "small"
    layers: tuple[int, ...] = (1, 2)
    pair: tuple[float, float] = (0.0, 1.0)
    limit: int | None = None


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("whole=3", 3),
        ("whole = -3", -3),
        ("number=1e-3", 0.001),
        ("number=2", 2.0),
        ("name=b=c", "b=c"),
        ("name=", ""),
        ("shy=true", True),
        ("shy=No", False),
        ("size=large", "large"),
        ("layers=512,256,1", (512, 256, 1)),
        ("layers=512", (512,)),
        ("layers=", ()),
        ("pair=0.9, 0.99", (0.9, 0.99)),
        ("limit=5", 5),
        ("limit=none", None),
    ],
)
def test_words_become_values_of_their_kind(word: str, value: object) -> None:
    name = word.partition("=")[0].strip()
    found = getattr(settings_from(Kinds(), [word]), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("whole=3.5", "--set whole=3.5: '3.5' is not a whole number"),
        ("number=fast", "--set number=fast: 'fast' is not a number"),
        ("shy=maybe", "--set shy=maybe: 'maybe' is not true or false"),
        ("size=medium", "--set size=medium: 'medium' is none of small, large"),
        ("layers=1,b", "--set layers=1,b: 'b' is not a whole number"),
        ("pair=1", "--set pair=1: 1 values, 2 are needed"),
        ("limit=many", "--set limit=many: 'many' is not a whole number"),
        ("layer=3", "--set layer=3: no setting is called 'layer'; did you mean 'layers'?"),
        ("zzzzz=3", "--set zzzzz=3: no setting is called 'zzzzz'; there are: whole, number, name, shy,"),
        ("whole", "--set whole: write it as key=value"),
    ],
)
def test_a_word_that_is_wrong_is_named_in_one_line(word: str, complaint: str) -> None:
    with pytest.raises(DeixisError) as refusal:
        settings_from(Kinds(), [word])
    assert str(refusal.value).startswith(complaint)
    assert "\n" not in str(refusal.value)


def test_the_last_word_counts() -> None:
    assert settings_from(Kinds(), ["whole=1", "whole=2"]).whole == 2


def test_a_word_goes_to_the_settings_that_have_it() -> None:
    kinds, training = settings_from_all([Kinds(), TrainSettings()], ["whole=7", "epochs=9"])
    assert (kinds.whole, training.epochs) == (7, 9)


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("epochs=0", "epochs=0: must be 1 or more"),
        ("clip=-1", "clip=-1.0: must not be negative"),
        ("learning_rate=0", "learning_rate=0.0: must be greater than 0"),
        ("average=1", "average=1.0: must be at least 0 and less than 1"),
        ("betas=0.9,1", r"betas=\(0.9, 1.0\): must be at least 0 and less than 1"),
        ("learning_rate=nan", "learning_rate=nan: must be greater than 0"),
    ],
)
def test_training_refuses_what_makes_no_sense(word: str, complaint: str) -> None:
    with pytest.raises(DeixisError, match=complaint):
        settings_from(TrainSettings(), [word])


def written(folder: Path, document: Any) -> Path:
    (folder / "settings.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return folder / "settings.json"


def test_a_file_of_settings_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, {"number": 3, "layers": [5], "limit": None, "shy": True, "size": "large"})
    assert settings_from_file([Kinds()], path) == [Kinds(number=3.0, layers=(5,), shy=True, size="large")]


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"whole": "3"}, "settings.json: whole: '3' is not a whole number"),
        ({"whole": True}, "settings.json: whole: True is not a whole number"),
        ({"shy": 1}, "settings.json: shy: 1 is not true or false"),
        ({"layers": 1}, "settings.json: layers: 1 is not a list"),
        ({"layers": ["a"]}, "settings.json: layers: 'a' is not a whole number"),
        ({"size": ["small"]}, "settings.json: size: .'small'. is none of small, large"),
        ({"wole": 1}, "settings.json: no setting is called 'wole'; did you mean 'whole'?"),
        ([1], "settings.json: must hold one JSON object of settings"),
        ("{", "settings.json: not JSON"),
    ],
)
def test_a_file_that_is_wrong_is_named_in_one_line(tmp_path: Path, document: Any, complaint: str) -> None:
    with pytest.raises(DeixisError, match=complaint.replace("?", r"\?")) as refusal:
        settings_from_file([Kinds()], written(tmp_path, document))
    assert "\n" not in str(refusal.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="gone.json: cannot be read"):
        settings_from_file([Kinds()], tmp_path / "gone.json")


@given(
    st.builds(
        Kinds,
        st.integers(),
        st.floats(allow_nan=False),
        st.text(),
        st.booleans(),
        st.sampled_from(["small", "large"]),
        st.lists(st.integers()).map(tuple),
        st.tuples(st.floats(allow_nan=False), st.floats(allow_nan=False)),
        st.none() | st.integers(),
    )
)
def test_settings_survive_json(settings: Kinds) -> None:
    document = json.loads(json.dumps(settings_to_json(settings)))
    assert settings_from_json(Kinds, document, "run.json") == settings


def test_settings_of_a_newer_program_are_refused_by_name() -> None:
    with pytest.raises(DeixisError, match="run.json: no setting is called 'colour'"):
        settings_from_json(TrainSettings, {"colour": 3}, "run.json")


def test_words_about_settings_come_from_the_docstring() -> None:
    words = described(Kinds)
    assert words["whole"] == words["number"] == "Two that share their words."
    assert words["name"] == "A name."
    assert words["shy"] == ""


@pytest.mark.parametrize("kind", [TrainSettings, CCASettings])
def test_every_setting_is_described(kind: type) -> None:
    assert [name for name, words in described(kind).items() if not words] == []
    assert list(described(kind)) == [f.name for f in fields(kind)]
