"""The folders of the user."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deixis.storage.user_folders import cache_folder, config_folder, data_folder

FOLDERS = [
    (cache_folder, "XDG_CACHE_HOME", ".cache"),
    (config_folder, "XDG_CONFIG_HOME", ".config"),
    (data_folder, "XDG_DATA_HOME", ".local/share"),
]


@pytest.mark.parametrize(("folder", "variable", "usual"), FOLDERS)
def test_a_variable_comes_before_the_home_folder(
    folder: object, variable: str, usual: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "chosen"))
    assert folder() == tmp_path / "chosen" / "deixis"
    monkeypatch.delenv(variable)
    assert folder() == tmp_path / usual / "deixis"
