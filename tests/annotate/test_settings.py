"""Settings of a project."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from deixis.annotate.settings import Settings, explain_lockouts, read_presets, read_settings, write_settings
from deixis.errors import DeixisError


def test_settings_survive_a_round_trip(tmp_path: Path) -> None:
    chosen = Settings(first_items=5, lease_s=60.0, never_merged=(("people", "animals"),))
    write_settings(chosen, tmp_path / "settings.json")
    assert read_settings(tmp_path / "settings.json") == chosen


def test_missing_settings_have_the_defaults_of_the_paper(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text('{"pay_per_hour": 12}')
    read = read_settings(tmp_path / "settings.json")
    assert (read.pay_per_hour, read.first_items, read.hidden_share, read.history_items) == (12.0, 30, 0.02, 500)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{", "settings.json"),
        ("[]", "settings.json"),
        ('{"frist_items": 3}', "frist_items"),
        ('{"first_items": "many"}', "first_items"),
        ('{"hidden_share": 2}', "hidden_share"),
        ('{"judgements_to_end": 0}', "judgements_to_end"),
        ('{"test_questions": -1}', "test_questions"),
        ('{"first_items": -1}', "first_items"),
        ('{"lease_s": 0}', "lease_s"),
        ('{"boxes_show_from": 2}', "boxes_show_from"),
        ('{"pay_per_hour": NaN}', "pay_per_hour"),
        ('{"longest_item_s": Infinity}', "longest_item_s"),
        ('{"links_no_below": 0.8, "links_yes_from": 0.7}', "links_no_below"),
        ('{"order": "size"}', "order"),
        ('{"independent": 1}', "independent"),
        ('{"never_merged": 1.5}', "never_merged"),
        ('{"never_merged": ["people"]}', "never_merged"),
        ('{"never_merged": [["people"]]}', "never_merged"),
        ('{"never_merged": [["people", [[1]]]]}', "never_merged"),
        (f'{{"first_items": 1{400 * "0"}}}', "first_items"),
        (f'{{"lease_s": 1{400 * "0"}}}', "lease_s"),
        ('{"absent_after_h": 1e308}', "absent_after_h"),
        (f'{{"question": {{"name": "a", "text": "b", "votes": 1{400 * "0"}}}}}', "votes"),
        ('{"currency": "\\ud800"}', "settings.json"),
    ],
)
def test_invalid_settings_are_errors_that_name_the_setting(text: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(DeixisError) as error:
        read_settings(path)
    assert str(error.value).startswith(str(path))
    assert name in str(error.value)


def test_every_setting_is_documented() -> None:
    assert Settings.__doc__ is not None
    for field in fields(Settings):
        assert field.name in Settings.__doc__


def test_presets_are_settings_that_lock_nobody_out() -> None:
    for size, preset in read_presets().items():
        settings = Settings(**preset)
        assert explain_lockouts(settings, int(size)) == []
    assert explain_lockouts(Settings(), 1)
    assert explain_lockouts(Settings(test_questions=3, test_accuracy=0.8, test_attempts=1))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(test_questions=3, test_accuracy=1.0, test_attempts=1), "one wrong answer of 3"),
        (Settings(first_items=5, first_accuracy=0.9), "use 10 or more"),
        (Settings(hidden_share=1.0), "hidden_share 1"),
        (Settings(good_box_iou=1.0), "good_box_iou 1"),
        (Settings(judgements_to_end=3, votes_to_review=2), "every vote goes to a reviewer"),
    ],
)
def test_settings_that_lock_everybody_out_are_explained(settings: Settings, said: str) -> None:
    assert any(said in line for line in explain_lockouts(settings, 9))


def test_settings_with_room_for_one_wrong_answer_are_not_advised_against() -> None:
    assert explain_lockouts(Settings(first_items=10, first_accuracy=0.9), 9) == []
    assert explain_lockouts(Settings(test_questions=10, test_accuracy=0.9, test_attempts=1), 9) == []
