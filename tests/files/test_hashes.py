"""The hash of a file is that of its bytes."""

import hashlib
from pathlib import Path

import pytest

from deixis.files.hashes import hash_of_file


@pytest.mark.parametrize("content", [b"", b"dog", b"\x00" * 300_000])
def test_the_hash_is_that_of_the_bytes(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a").write_bytes(content)
    assert hash_of_file(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_a_missing_file_stays_the_callers_to_explain(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        hash_of_file(tmp_path / "nowhere")
