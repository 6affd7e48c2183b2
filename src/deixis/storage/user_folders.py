"""The folders of the user for data, settings and caches, as this system has them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_NAME = "deixis"


def data_folder() -> Path:
    """Return the folder for what the user would miss: ``~/.local/share/deixis`` on Linux."""
    return _folder("XDG_DATA_HOME", ".local/share", "Library/Application Support", "")


def config_folder() -> Path:
    """Return the folder for settings: ``~/.config/deixis`` on Linux."""
    return _folder("XDG_CONFIG_HOME", ".config", "Library/Application Support", "")


def cache_folder() -> Path:
    """Return the folder for what can be made again: ``~/.cache/deixis`` on Linux."""
    return _folder("XDG_CACHE_HOME", ".cache", "Library/Caches", "Cache")


def _folder(variable: str, linux: str, mac: str, windows: str) -> Path:
    if base := os.environ.get(variable):
        return Path(base) / _NAME
    if sys.platform == "darwin":
        return Path.home() / mac / _NAME
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / _NAME / windows
    return Path.home() / linux / _NAME
