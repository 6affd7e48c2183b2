"""The thresholds of a project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deixis.annotate.settings import Settings, read_settings, write_settings
from deixis.errors import DeixisError


def test_settings_come_back_as_they_were_written(tmp_path: Path) -> None:
    chosen = Settings(first_items=5, lease_s=60.0, never_merged=(("people", "animals"),))
    write_settings(chosen, tmp_path / "settings.json")
    assert read_settings(tmp_path / "settings.json") == chosen


def test_what_is_not_said_is_as_the_paper_has_it(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"pay_per_hour": 12}')
    read = read_settings(tmp_path / "settings.json")
    assert (read.pay_per_hour, read.first_items, read.hidden_share, read.history_items) == (12.0, 30, 0.02, 500)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "expected one JSON object"),
        ('{"frist_items": 3}', "there is no setting 'frist_items'"),
        ('{"first_items": "many"}', "first_items is 'many'; expected something like 30"),
        ('{"hidden_share": 2}', "hidden_share is 2.0; it is a share"),
        ('{"judgements_to_end": 0}', "judgements_to_end is 0; it must be at least 1"),
        ('{"lease_s": 0}', "lease_s is 0.0"),
        ('{"independent": 1}', "independent is 1; expected something like True"),
        ('{"never_merged": 1.5}', "never_merged is 1.5; expected pairs such as"),
        ('{"never_merged": ["people"]}', "never_merged is ['people']; expected pairs such as"),
    ],
)
def test_a_mistake_in_the_settings_is_one_clear_line(given: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(given)
    with pytest.raises(DeixisError) as error:
        read_settings(path)
    assert str(error.value).startswith(str(path))
    assert said in str(error.value)


def test_every_setting_is_explained() -> None:
    assert Settings.__doc__ is not None
    for name in json.loads(json.dumps(Settings().__dict__)):
        assert name in Settings.__doc__
