from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from deixis.errors import DeixisError
from deixis.storage.artifacts import CONFIG, WEIGHTS, Artifact, add_checksums, read_artifact, write_artifact
from deixis.storage.checksums import BLOCK, CheckedFile, FileChecks, seal, unseal
from tests.unchecked import without_checksums

DOCUMENT = {"version": 2, "name": "Žofie", "numbers": [1, 2.5], "none": None}


def test_a_sealed_document_is_json_and_is_read_as_it_was() -> None:
    assert unseal(seal(DOCUMENT)) == DOCUMENT
    assert json.loads(seal(DOCUMENT)).keys() == {*DOCUMENT, "checksum"}


def test_every_flipped_bit_of_a_sealed_document_is_noticed() -> None:
    content = seal(DOCUMENT)
    for position in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[position // 8] ^= 1 << position % 8
        with pytest.raises(ValueError, match=r"."):
            unseal(bytes(flipped))


def test_documents_of_older_versions_have_no_checksum() -> None:
    assert unseal(json.dumps({"version": 1, "name": "dog"}).encode()) == {"version": 1, "name": "dog"}


@pytest.fixture
def file(tmp_path: Path) -> CheckedFile:
    (tmp_path / "file").write_bytes(np.random.default_rng(0).bytes(3 * BLOCK + 100))
    return CheckedFile(tmp_path / "file", FileChecks.of(tmp_path / "file"))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("position", [0, BLOCK - 1, BLOCK, 3 * BLOCK + 99])
def test_a_flipped_bit_anywhere_is_noticed(file: CheckedFile, position: int) -> None:
    flip(file.path, position)
    with pytest.raises(ValueError, match=f"{position // BLOCK * BLOCK:,}"):
        file.check()
    with pytest.raises(ValueError, match="checksum"):
        file.read()


def test_only_the_blocks_that_are_read_are_checked(file: CheckedFile) -> None:
    content = file.path.read_bytes()
    flip(file.path, BLOCK + 5)
    assert file.array(np.uint8, (BLOCK,), 0).tobytes() == content[:BLOCK]
    assert file.array(np.uint8, (9,), 2 * BLOCK + 1).tobytes() == content[2 * BLOCK + 1 : 2 * BLOCK + 10]
    with pytest.raises(ValueError, match="checksum"):
        file.array(np.uint8, (2,), BLOCK - 1)


def test_a_file_of_another_length_is_noticed(file: CheckedFile) -> None:
    with file.path.open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(ValueError, match="bytes instead of"):
        file.array(np.uint8, (1,), 0)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    part = Artifact("inner", {}, {"b": np.arange(4)})
    write_artifact(tmp_path / "saved", Artifact("outer", {"seed": 1}, {"a": np.arange(3.0)}, {"part": part}))
    return tmp_path / "saved"


@pytest.mark.parametrize("name", [WEIGHTS, f"part/{WEIGHTS}", CONFIG, f"part/{CONFIG}"])
def test_every_flipped_byte_of_a_saved_model_is_refused_with_the_name_of_the_file(saved: Path, name: str) -> None:
    sound = (saved / name).read_bytes()
    for position in range(len(sound)):
        flip(saved / name, position)
        with pytest.raises(DeixisError, match=name):
            _read_all(saved)
        (saved / name).write_bytes(sound)
    _read_all(saved)


def _read_all(folder: Path) -> None:
    artifact = read_artifact(folder)
    _ = artifact.arrays["a"], artifact.parts["part"].arrays["b"]


def test_weights_without_a_checksum_are_refused(saved: Path, tmp_path: Path) -> None:
    write_artifact(tmp_path / "empty", Artifact("outer", {}))
    (tmp_path / "empty" / WEIGHTS).write_bytes((saved / WEIGHTS).read_bytes())
    with pytest.raises(DeixisError, match=WEIGHTS):
        read_artifact(tmp_path / "empty")


def test_checksums_are_added_to_a_model_of_an_older_version(saved: Path) -> None:
    before = {path: path.read_bytes() for path in saved.rglob("*") if path.is_file()}
    without_checksums(saved)
    flip(saved / WEIGHTS, -1)
    _read_all(saved)  # an older version notices nothing
    flip(saved / WEIGHTS, -1)
    add_checksums(saved)
    assert {path: path.read_bytes() for path in before} == before
