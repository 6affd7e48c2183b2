"""Mistakes of users that are one line and not success: impossible sizes, empty paths, work that skipped everything."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.models.m_rnn.decoding import Decoding
from deixis.search.results import Hit, PhotoRecord, write_csv
from deixis.storage.remote import photo_path


@pytest.mark.parametrize("settings", [{"beam": 1_000_000}, {"max_length": 10**9}, {"temperature": math.inf}])
def test_impossible_settings_of_captions_are_refused(settings: dict[str, float]) -> None:
    (name,) = settings
    with pytest.raises(DeixisError, match=name):
        Decoding(method="sample" if name == "temperature" else "beam", **settings)  # type: ignore[arg-type]


def test_an_empty_path_is_not_this_folder() -> None:
    with pytest.raises(DeixisError, match="empty"):
        photo_path("")


def test_file_names_are_no_formulas_in_a_spreadsheet(tmp_path: Path) -> None:
    record = PhotoRecord("1", Path("=1+1.jpg"), (1, 1))
    write_csv(tmp_path / "hits.csv", [Hit(record, 0.5, None)])
    assert ",'=1+1.jpg" in (tmp_path / "hits.csv").read_text()
