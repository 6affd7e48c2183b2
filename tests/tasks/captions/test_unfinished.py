"""A run that was stopped: what it has written is taken, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deixis.errors import DeixisError, PhotoError
from deixis.files.progress import OnProgress, silent
from deixis.models.decoding import Generated
from deixis.tasks.captions.captioning import CaptionResult
from deixis.tasks.captions.unfinished import unfinished


class Writer:
    """Writes a photo's name, and stops at a name when told to."""

    def __init__(self, stop_at: str = "") -> None:
        self.stop_at = stop_at
        self.looked_at: list[str] = []

    def __call__(
        self, paths: Sequence[Path], on_progress: OnProgress = silent
    ) -> Iterator[tuple[Path, CaptionResult | PhotoError]]:
        for path in paths:
            if path.name == self.stop_at:
                raise KeyboardInterrupt
            self.looked_at.append(path.name)
            if path.name.startswith("bad"):
                yield path, PhotoError(path, "not a photo")
            else:
                sentences = Generated(("a", path.stem), -1 / 3), Generated(("a",), -2.5, finished=False)
                yield path, CaptionResult(sentences, (0.7, 0.1))


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in ("one.jpg", "bad.jpg", "two \udcff.jpg", "three.jpg")]
    for path in paths:
        path.write_bytes(path.name.encode(errors="surrogateescape"))
    return paths


def written(table: Path, photos: list[Path], writer: Writer, plan: str = "plan") -> list[object]:
    with unfinished(table, plan) as kept:
        return [result for _, result in kept.going_on(writer, photos)]


def stopped(table: Path, photos: list[Path]) -> Path:
    """What a run leaves that is stopped before the last photo."""
    with pytest.raises(KeyboardInterrupt):
        written(table, photos, Writer(stop_at="three.jpg"))
    return table.with_name(f".{table.name}.unfinished")


def test_a_run_that_was_stopped_goes_on_and_gives_what_an_unbroken_one_gives(
    tmp_path: Path, photos: list[Path]
) -> None:
    left, writer = stopped(tmp_path / "a.csv", photos), Writer()
    assert left.exists()
    found = written(tmp_path / "a.csv", photos, writer)
    assert writer.looked_at == ["bad.jpg", "three.jpg"]
    unbroken = written(tmp_path / "b.csv", photos, Writer())
    assert [found[place] for place in (0, 2, 3)] == [unbroken[place] for place in (0, 2, 3)]
    assert isinstance(found[1], PhotoError)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in photos}


@pytest.mark.parametrize("end", [b'{"photo": "hal', b'{"photo": 3}\n', b"\xff\n"])
def test_a_line_that_was_not_finished_or_is_not_ours_does_no_harm(
    tmp_path: Path, photos: list[Path], end: bytes
) -> None:
    left, writer = stopped(tmp_path / "a.csv", photos), Writer()
    with left.open("ab") as file:
        file.write(end)
    assert written(tmp_path / "a.csv", photos, writer)[0] == CaptionResult(
        (Generated(("a", "one"), -1 / 3), Generated(("a",), -2.5, finished=False)), (0.7, 0.1)
    )
    assert "three.jpg" in writer.looked_at


def test_what_was_kept_after_a_torn_line_is_kept_again(tmp_path: Path, photos: list[Path]) -> None:
    left = stopped(tmp_path / "a.csv", photos[:2] + photos[3:])
    with left.open("ab") as file:
        file.write(b'{"torn')
    stopped(tmp_path / "a.csv", photos)
    writer = Writer()
    written(tmp_path / "a.csv", photos, writer)
    assert writer.looked_at == ["bad.jpg", "three.jpg"]


def test_photos_that_have_changed_and_other_plans_begin_anew(tmp_path: Path, photos: list[Path]) -> None:
    stopped(tmp_path / "a.csv", photos)
    photos[0].write_bytes(b"another photo")
    writer = Writer()
    written(tmp_path / "a.csv", photos, writer)
    assert writer.looked_at == ["one.jpg", "bad.jpg", "three.jpg"]
    stopped(tmp_path / "a.csv", photos)
    writer = Writer()
    written(tmp_path / "a.csv", photos, writer, plan="another")
    assert len(writer.looked_at) == 4


def test_a_run_that_fails_before_its_first_caption_leaves_nothing(tmp_path: Path, photos: list[Path]) -> None:
    with pytest.raises(KeyboardInterrupt):
        written(tmp_path / "a.csv", photos, Writer(stop_at="one.jpg"))
    assert not list(tmp_path.glob(".*"))


def test_two_runs_do_not_write_the_same_table(tmp_path: Path, photos: list[Path]) -> None:
    with unfinished(tmp_path / "a.csv", "plan"), pytest.raises(DeixisError, match="another process is writing it"):
        written(tmp_path / "a.csv", photos, Writer())
