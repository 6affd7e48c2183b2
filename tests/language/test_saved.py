"""Folders of what was learned: whole, plain, and refused in one line when they are not what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.language.saved import FILE, MAX_DEPTH, Saved, read_saved, write_saved


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    part = Saved("inner", {}, {"b": np.arange(4, dtype=np.float32)})
    write_saved(Saved("outer", {"seed": 1}, {"a": np.eye(2)}, {"part": part}), tmp_path / "saved")
    return tmp_path / "saved"


def refused(folder: Path) -> str:
    with pytest.raises(DeixisError) as caught:
        read_saved(folder, "outer")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_written_is_read(folder: Path) -> None:
    saved = read_saved(folder, "outer")
    assert saved.settings == {"seed": 1}
    np.testing.assert_array_equal(saved.arrays["a"], np.eye(2))
    np.testing.assert_array_equal(saved.parts["part"].arrays["b"], np.arange(4))


def test_arrays_stay_on_disk_until_used(folder: Path) -> None:
    assert isinstance(read_saved(folder).arrays["a"], np.memmap)


def test_an_older_one_is_replaced(folder: Path) -> None:
    write_saved(Saved("outer", {"seed": 2}), folder)
    assert read_saved(folder).settings == {"seed": 2}
    assert not (folder / "a.npy").exists()


def test_a_folder_that_deixis_did_not_make_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(DeixisError, match="was not made by deixis"):
        write_saved(Saved("outer", {}), tmp_path / "mine")


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    assert refused(tmp_path / "nowhere").endswith("nothing saved here (saved.json is missing)")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"format": "deixis-language"}', "[" * 100_000, "\ud800"])
def test_a_damaged_document_is_one_clear_line(folder: Path, text: str) -> None:
    (folder / FILE).write_bytes(text.encode("utf-8", errors="surrogatepass"))
    assert FILE in refused(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [("version", 99), ("arrays", {"../../a": ["<f8", 2, 2]}), ("parts", ["../saved"]), ("parts", [3]), ("arrays", [1])],
)
def test_a_hostile_document_is_one_clear_line(folder: Path, key: str, value: object) -> None:
    document = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**document, key: value}))
    assert FILE in refused(folder)


def test_a_truncated_array_is_one_clear_line(folder: Path) -> None:
    whole = (folder / "a.npy").read_bytes()
    for length in (0, 5, 40, len(whole) - 8):
        (folder / "a.npy").write_bytes(whole[:length])
        assert "a.npy" in refused(folder)


def test_an_array_of_another_shape_is_one_clear_line(folder: Path) -> None:
    np.save(folder / "a.npy", np.eye(3))
    assert "holds <f8 (3, 3)" in refused(folder)


def test_a_pickled_array_is_never_opened(folder: Path) -> None:
    np.save(folder / "a.npy", np.array([{"evil": 1}], dtype=object), allow_pickle=True)
    assert "a.npy" in refused(folder)


def test_a_part_that_is_a_link_to_its_own_folder_is_not_followed_for_ever(folder: Path) -> None:
    document = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps({**document, "parts": ["again"]}))
    (folder / "again").symlink_to(folder)
    assert f"nested more than {MAX_DEPTH} deep" in refused(folder)
