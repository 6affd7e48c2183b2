"""Captions of interrupted runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deixis.cli.caption import caption_journal
from deixis.errors import DeixisError, PhotoError
from deixis.models.m_rnn.decoding import GeneratedSentence
from deixis.models.m_rnn.pipeline import CaptionResult
from deixis.storage.progress import OnProgress, no_progress


class FakeCaptioner:
    """Captions a photo by its name, and stops at one name."""

    def __init__(self, stop_at: str = "") -> None:
        self.stop_at = stop_at
        self.captioned: list[str] = []

    def __call__(
        self, paths: Sequence[Path], on_progress: OnProgress = no_progress
    ) -> Iterator[tuple[Path, CaptionResult | PhotoError]]:
        for path in paths:
            if path.name == self.stop_at:
                raise KeyboardInterrupt
            self.captioned.append(path.name)
            if path.name.startswith("bad"):
                yield path, PhotoError(path, "not a photo")
            else:
                sentences = GeneratedSentence(("a", path.stem), -1 / 3), GeneratedSentence(("a",), -2.5, finished=False)
                yield path, CaptionResult(sentences, (0.7, 0.1))


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("one.jpg", "bad.jpg", "two \udcff.jpg", "three.jpg")]
    for path in paths:
        path.write_bytes(path.name.encode(errors="surrogateescape"))
    return paths


def run(table: Path, photos: list[Path], captioner: FakeCaptioner, plan: str = "plan") -> list[object]:
    with caption_journal(table, plan) as journal:
        return [result for _, result in journal.resume(captioner, photos)]


def interrupt(table: Path, photos: list[Path]) -> Path:
    """Interrupt a run before the last photo; return the file that it leaves."""
    with pytest.raises(KeyboardInterrupt):
        run(table, photos, FakeCaptioner(stop_at="three.jpg"))
    return table.with_name(f".{table.name}.unfinished")


@pytest.mark.parametrize("end", [b'{"photo": "hal', b'{"photo": 3}\n', b"\xff\n"])
def test_incomplete_and_foreign_lines_are_ignored(tmp_path: Path, photos: list[Path], end: bytes) -> None:
    left, captioner = interrupt(tmp_path / "a.csv", photos), FakeCaptioner()
    with left.open("ab") as file:
        file.write(end)
    assert run(tmp_path / "a.csv", photos, captioner)[0] == CaptionResult(
        (GeneratedSentence(("a", "one"), -1 / 3), GeneratedSentence(("a",), -2.5, finished=False)), (0.7, 0.1)
    )
    assert "three.jpg" in captioner.captioned


def test_lines_written_after_an_incomplete_line_are_read(tmp_path: Path, photos: list[Path]) -> None:
    left = interrupt(tmp_path / "a.csv", photos[:2] + photos[3:])
    with left.open("ab") as file:
        file.write(b'{"torn')
    interrupt(tmp_path / "a.csv", photos)
    captioner = FakeCaptioner()
    run(tmp_path / "a.csv", photos, captioner)
    assert captioner.captioned == ["bad.jpg", "three.jpg"]


def test_changed_photos_and_other_plans_start_again(tmp_path: Path, photos: list[Path]) -> None:
    interrupt(tmp_path / "a.csv", photos)
    photos[0].write_bytes(b"another photo")
    captioner = FakeCaptioner()
    run(tmp_path / "a.csv", photos, captioner)
    assert captioner.captioned == ["one.jpg", "bad.jpg", "three.jpg"]
    interrupt(tmp_path / "a.csv", photos)
    captioner = FakeCaptioner()
    run(tmp_path / "a.csv", photos, captioner, plan="another")
    assert len(captioner.captioned) == 4


def test_a_run_that_fails_before_its_first_caption_leaves_no_file(tmp_path: Path, photos: list[Path]) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a.csv", photos, FakeCaptioner(stop_at="one.jpg"))
    assert not list(tmp_path.glob(".*"))


def test_two_runs_cannot_write_the_same_table(tmp_path: Path, photos: list[Path]) -> None:
    with caption_journal(tmp_path / "a.csv", "plan"), pytest.raises(DeixisError, match="a.csv"):
        run(tmp_path / "a.csv", photos, FakeCaptioner())
