"""Where indexes are: the default index of the user, named indexes, folders and databases."""

from __future__ import annotations

import os
import re
import tomllib
from os import PathLike, fspath
from pathlib import Path
from shlex import quote
from typing import Any

from deixis.errors import DeixisError
from deixis.storage.files import config_folder, data_folder
from deixis.storage.sql import hide_password, is_postgres

VARIABLE = "DEIXIS_INDEX"
DEFAULT_NAME = "photos"
_SUFFIX = ".deixis"
_NAME = re.compile(r"[^\W_][\w.-]*")


def config_file() -> Path:
    """Return the file of settings, which need not exist: ``index = "@family"`` names the default index."""
    return config_folder() / "config.toml"


def default_place() -> str:
    """Return the place of the default index, from ``DEIXIS_INDEX``, the file of settings, or in the data folder."""
    chosen = os.environ.get(VARIABLE) or _settings().get("index")
    return _named(DEFAULT_NAME) if not chosen else _place(chosen)


def index_place(index: str | PathLike[str] | None = None) -> str:
    """Return the folder or the address of an index.

    Parameters
    ----------
    index
        None for the default index, ``@NAME`` for a named one, a folder, or a ``postgresql://`` address.

    Examples
    --------
    >>> index_place("photos.deixis")
    'photos.deixis'
    >>> Path(index_place("@holiday")).name
    'holiday.deixis'
    """
    return default_place() if index is None else _place(fspath(index))


def named_places() -> dict[str, str]:
    """Return the places of the named indexes, by name: those of the file of settings, and of the data folder."""
    folders = sorted(data_folder().glob(f"*{_SUFFIX}")) if data_folder().is_dir() else []
    return {path.name.removesuffix(_SUFFIX): str(path) for path in folders} | _named_in_settings()


def place_option(place: str | PathLike[str], option: str = "--index") -> str:
    """Return the option, after a space, that names an index in a suggested command; empty for the default one."""
    place = fspath(place)
    if place == default_place():
        return ""
    for name, known in named_places().items():
        if known == place:
            return f" {option} @{name}"
    if Path(place).parent == data_folder() and place.endswith(_SUFFIX):  # a name that no index has yet
        return f" {option} @{Path(place).name.removesuffix(_SUFFIX)}"
    return f" {option} {quote(hide_password(place))}"


def _place(index: str) -> str:
    if index.startswith("@"):
        return _named(index[1:])
    return index if is_postgres(index) or not index.startswith("~") else str(Path(index).expanduser())


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise DeixisError(f"@{name}: not the name of an index; use letters, digits, . and -, such as @holiday")
    return _named_in_settings().get(name) or str(data_folder() / f"{name}{_SUFFIX}")


def _named_in_settings() -> dict[str, str]:
    return {name: _place(place) for name, place in _settings().get("indexes", {}).items() if place[:1] != "@"}


def _settings() -> dict[str, Any]:
    file = config_file()
    try:
        settings = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise DeixisError(f"{file}: not valid TOML ({error})") from None
    indexes = settings.get("indexes", {})
    is_valid = isinstance(settings.get("index", ""), str) and isinstance(indexes, dict)
    if not is_valid or not all(isinstance(place, str) for place in indexes.values()) or settings.keys() - _KEYS:
        raise DeixisError(f'{file}: may have index = "PLACE" and a table [indexes] with NAME = "PLACE", nothing else')
    return settings


_KEYS = {"index", "indexes"}
