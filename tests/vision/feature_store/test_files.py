"""The manifest of a feature store round-trips, and invalid ones are refused."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.vision.feature_store.files import (
    Contents,
    Shard,
    StoreManifest,
    check_contents,
    read_manifest,
    write_manifest,
)
from tests.unchecked import without_checksums

CONTENTS = Contents("colours", "colours-1", 3, 3, 10, "corners", 7, "corners-1")
MANIFEST = StoreManifest(CONTENTS, (Shard("000000-ab.safetensors", 4, 100, "ab" * 32, (1, 3)),))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_manifest(MANIFEST, tmp_path)
    return tmp_path


def test_a_manifest_round_trips(folder: Path) -> None:
    assert read_manifest(folder) == MANIFEST


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "manifest.json: damaged"),
        ("[" * 200_000, "manifest.json: damaged"),
        ("[]", "manifest.json"),
        ('{"format": "deixis-features", "version": 99}', "version 99"),
        ('{"format": "deixis-features", "version": 1}', "damaged"),
    ],
)
def test_a_damaged_manifest_is_named(folder: Path, text: str, words: str) -> None:
    (folder / "manifest.json").write_text(text)
    with pytest.raises(DeixisError, match=words):
        read_manifest(folder)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("shards", "file", "../elsewhere.safetensors"),
        ("shards", "file", "abc.safetensors"),
        ("shards", "file", 5),
        ("shards", "photos", "x"),
        ("shards", "bytes", 1.5),
        ("shards", "sha256", None),
        ("shards", "gone", "13"),
        ("shards", "gone", ["1"]),
        ("shards", "gone", [4]),
        ("document", "shards", {}),
        ("document", "shards", ["x"]),
        ("document", "contents", "x"),
        ("contents", "dimension", True),
        ("contents", "dimension", -1),
        ("contents", "top", "many"),
        ("contents", "fingerprint", 5),
        ("contents", "proposer_fingerprint", 5),
        ("contents", "colour", "red"),
    ],
)
def test_an_invalid_manifest_entry_is_refused(folder: Path, part: str, name: str, value: object) -> None:
    without_checksums(folder)
    path = folder / "manifest.json"
    document = json.loads(path.read_text())
    parts = {"document": document, "contents": document["contents"], "shards": document["shards"][0]}
    parts[part][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DeixisError, match="^[^\n]*manifest.json: damaged"):
        read_manifest(folder)


def test_a_manifest_that_may_not_be_read_is_not_called_damaged(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DeixisError, match=r"manifest.json: cannot be read \(Permission denied\)$"):
        read_manifest(folder)


def test_a_folder_that_is_no_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="nowhere: not a feature store"):
        read_manifest(tmp_path / "nowhere")
    with pytest.raises(DeixisError, match="deixis features DATA"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(CONTENTS, fingerprint="colours-2"), r"colours \(colours-1\)"),
        (replace(CONTENTS, crops=0), "crops 10, not 0"),
        (replace(CONTENTS, proposer="edges"), "proposer corners, not edges"),
        (replace(CONTENTS, top=8), "top 7, not 8"),
        (replace(CONTENTS, proposer_fingerprint="corners-2"), r"corners \(corners-1\)"),
    ],
)
def test_other_contents_are_refused(other: Contents, words: str) -> None:
    with pytest.raises(DeixisError, match=f"^store: .*{words}.*--out"):
        check_contents(Path("store"), CONTENTS, other)


def test_another_name_of_the_same_encoder_is_accepted() -> None:
    check_contents(Path("store"), CONTENTS, replace(CONTENTS, encoder="colours:moved"))
