"""Lists of phrases: read from files, and refused in one line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deixis.errors import DeixisError
from deixis.models.describer.description import PhraseBank

phrases = st.text("abc é'", min_size=1).map(lambda text: " ".join(text.split())).filter(bool)


@given(st.dictionaries(phrases, st.integers(1, 10**9), min_size=1), st.sampled_from(["b.txt", "b.txt.gz"]))
def test_phrases_and_counts_are_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, counts: dict[str, int], name: str
) -> None:
    file = tmp_path_factory.mktemp("bank") / name
    data = "".join(f"{phrase}\t{count}\n" for phrase, count in counts.items()).encode()
    file.write_bytes(gzip.compress(data) if file.suffix == ".gz" else data)
    assert PhraseBank.read(file) == PhraseBank(tuple(counts), tuple(counts.values()))


def test_a_list_may_have_blank_lines_repetitions_and_no_counts(tmp_path: Path) -> None:
    file = tmp_path / "bank.txt"
    file.write_bytes("\ufeff\n  Our  dog Rex \t 4\r\n\n   \n\t\na red bus\nour dog rex\n".encode())
    assert PhraseBank.read(file) == PhraseBank(("our dog rex", "a red bus"), (5, 1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("bank.txt", b"", "bank.txt: "),
        ("bank.txt", b" \n\n\t\n", "bank.txt: "),
        ("bank.txt", b"a dog\t3\na cat\tmany\n", "bank.txt: line 2: 'many'"),
        ("bank.txt", b"a dog\t0\n", "bank.txt: line 1: '0'"),
        ("bank.txt", b"a dog\t-3\n", "bank.txt: line 1: '-3'"),
        ("bank.txt", b"\t12\n", "bank.txt: line 1 "),
        ("bank.txt", b"\xff\xfe\x00", "bank.txt: "),
        ("bank.txt.gz", b"a dog\n", "bank.txt.gz: "),
        ("bank.txt.gz", gzip.compress(b"a dog\n" * 99, mtime=0)[:-12], "bank.txt.gz: "),
        ("bank.txt.gz", gzip.compress(b"a" * (2 << 20)), "bank.txt.gz: "),
    ],
)
def test_an_invalid_list_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, message: str
) -> None:
    monkeypatch.setattr("deixis.models.describer.description._MAX_BYTES", 1 << 20)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DeixisError) as error:
        PhraseBank.read(tmp_path / name)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_frequencies_add_up_to_one() -> None:
    shares = np.exp(PhraseBank(("a", "b", "c"), (5, 3, 2)).log_frequencies())
    assert shares == pytest.approx([0.5, 0.3, 0.2])


def test_a_bank_needs_phrases_and_as_many_counts() -> None:
    with pytest.raises(DeixisError, match="phrase"):
        PhraseBank((), ())
    with pytest.raises(DeixisError, match="counts"):
        PhraseBank(("a dog",), (0,))
