"""Safe file names and file hashes."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from pathlib import Path

import pytest

from deixis.storage.files import (
    cache_folder,
    config_folder,
    data_folder,
    hash_file,
    is_file_name,
    is_relative_path,
    open_regular,
)


@pytest.mark.parametrize("name", ["1", "a b", "a.b", "Bildschirmfoto\u202f3", "写真", "12:30", "...", "-x"])
def test_portable_file_names_are_accepted(name: str) -> None:
    assert is_file_name(name)


@pytest.mark.parametrize("name", ["", " ", ".", "..", "a/b", "a\\b", "C:x", "a\0b", "a\nb", "\x7f"])
def test_paths_and_control_characters_are_no_file_names(name: str) -> None:
    assert not is_file_name(name)


@pytest.mark.parametrize("path", ["a.jpg", "a/b.jpg", "a\\b.jpg", "..a/b..jpg"])
def test_paths_inside_a_folder_are_accepted(path: str) -> None:
    assert is_relative_path(path)


@pytest.mark.parametrize(
    "path", ["", "/a", "\\a", "C:\\a", "C:a", "../a", "a/../../b", "a\\..\\..\\b", "\\\\host\\x\\a", "a\0"]
)
def test_paths_that_leave_a_folder_are_refused(path: str) -> None:
    assert not is_relative_path(path)


@pytest.mark.parametrize("content", [b"", b"dog", b"\x00" * 300_000])
def test_the_hash_is_the_sha256_of_the_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert hash_file(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_a_pipe_and_a_folder_are_refused_with_the_reason_and_their_path(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, code, reason in (
        (tmp_path / "pipe", errno.EINVAL, "not a regular file"),
        (tmp_path, errno.EISDIR, os.strerror(errno.EISDIR)),
    ):
        with pytest.raises(OSError) as caught:  # noqa: PT011
            open_regular(path)
        assert (caught.value.errno, caught.value.strerror, caught.value.filename) == (code, reason, str(path))


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
