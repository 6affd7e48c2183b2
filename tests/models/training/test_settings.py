"""Settings from assignments, JSON files and presets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.models.cca.spec import CCASettings
from deixis.models.training.settings import (
    Settings,
    TrainSettings,
    describe_fields,
    describe_settings,
    read_presets,
    settings_to_json,
    train_command,
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


KINDS = Settings((Kinds(),))


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
def test_assignments_become_values_of_the_type_of_the_setting(word: str, value: object) -> None:
    name = word.partition("=")[0].strip()
    found = getattr(KINDS.with_assignments([word])[Kinds], name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("assignment", "names"),
    [
        ("whole=3.5", "whole=3.5"),
        ("number=fast", "number=fast"),
        ("shy=maybe", "shy=maybe"),
        ("size=medium", "size=medium.*small, large"),
        ("layers=1,b", "layers=1,b"),
        ("pair=1", "pair=1.*2"),
        ("limit=many", "limit=many"),
        ("layer=3", "layer=3.*'layers'"),
        ("zzzzz=3", "zzzzz=3.*whole, number, name, shy,"),
        ("whole", "whole.*key=value"),
        ("number=nan", "number=nan"),
        ("pair=1,-inf", "pair=1,-inf"),
        ("number=1e999", "number=1e999"),
    ],
)
def test_a_wrong_assignment_is_named_in_one_line(assignment: str, names: str) -> None:
    with pytest.raises(DeixisError, match=names) as error:
        KINDS.with_assignments([assignment])
    assert "\n" not in str(error.value)


def test_an_assignment_goes_to_the_settings_that_have_the_name() -> None:
    found = Settings((Kinds(), TrainSettings())).with_assignments(["whole=1", "epochs=9", "whole=7"])
    assert (found[Kinds].whole, found[TrainSettings].epochs) == (7, 9)
    assert found.names[0] == "whole"
    assert found.get(CCASettings) is None


def written(folder: Path, document: Any) -> Path:
    (folder / "settings.json").write_text(document if isinstance(document, str) else json.dumps(document))
    return folder / "settings.json"


def test_a_file_of_settings_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, {"number": 3, "layers": [5], "limit": None, "shy": True, "size": "large"})
    assert KINDS.with_file(path)[Kinds] == Kinds(number=3.0, layers=(5,), shy=True, size="large")


@pytest.mark.parametrize(
    ("document", "names"),
    [
        ({"whole": "3"}, "settings.json: whole"),
        ({"whole": True}, "settings.json: whole"),
        ({"shy": 1}, "settings.json: shy"),
        ({"layers": 1}, "settings.json: layers"),
        ({"layers": ["a"]}, "settings.json: layers"),
        ({"size": ["small"]}, "settings.json: size.*small, large"),
        ({"wole": 1}, "settings.json: .*'wole'.*'whole'"),
        ([1], "settings.json"),
        ("{", "settings.json"),
    ],
)
def test_a_wrong_file_is_named_in_one_line(tmp_path: Path, document: Any, names: str) -> None:
    with pytest.raises(DeixisError, match=names) as error:
        KINDS.with_file(written(tmp_path, document))
    assert "\n" not in str(error.value)
    with pytest.raises(DeixisError, match="gone.json"):
        KINDS.with_file(tmp_path / "gone.json")


@given(
    st.builds(
        Kinds,
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
        st.booleans(),
        st.sampled_from(["small", "large"]),
        st.lists(st.integers()).map(tuple),
        st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2),
        st.none() | st.integers(),
    )
)
def test_settings_are_unchanged_by_json(settings: Kinds) -> None:
    document = json.loads(json.dumps(settings_to_json(settings)))
    assert KINDS.with_values(document)[Kinds] == settings


def test_presets_extend_earlier_ones(tmp_path: Path) -> None:
    path = tmp_path / "presets.toml"
    path.write_text('["a/b"]\nwhole = 3\nsize = "large"\n["a/c"]\nextends = "a/b"\nwhole = 4\n["a/d"]\n')
    assert read_presets(path) == {
        "a/b": {"whole": 3, "size": "large"},
        "a/c": {"whole": 4, "size": "large"},
        "a/d": {},
    }


@pytest.mark.parametrize("text", ["[", "whole = 3", '[a]\nextends = "b"'])
def test_a_wrong_file_of_presets_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "presets.toml").write_text(text)
    with pytest.raises(DeixisError, match="presets.toml"):
        read_presets(tmp_path / "presets.toml")


def test_descriptions_of_settings_come_from_the_docstring() -> None:
    words = describe_fields(Kinds)
    assert words["whole"] == words["number"] == "Two that share their words."
    assert words["name"] == "A name."
    assert words["shy"] == ""
    described = {setting.name: setting for setting in describe_settings(KINDS)}
    assert described["size"].choices == ("small", "large")
    assert (described["layers"].default, described["limit"].default) == ("1,2", "none")


def test_the_command_has_the_settings_that_differ_from_the_defaults() -> None:
    changed = KINDS.with_assignments(["name=two words", "layers=3"])
    command = train_command("toy", Path("my data"), changed, KINDS)
    assert command == "deixis train toy --data 'my data' --set 'name=two words' --set layers=3"
