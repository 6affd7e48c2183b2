"""Albums as text files: names of photos that a line cannot have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.search.albums import Albums


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_processes_that_change_an_album_at_the_same_time_lose_no_photo(tmp_path: Path) -> None:
    """Two servers of an index, or a server and a command: 184 of 450 photos were left."""
    code = (
        "import sys; from pathlib import Path; from deixis.search.albums import Albums; albums = Albums(sys.argv[1])\n"
        "for number in range(40): albums.change('Holidays', [Path(f'/photos/{sys.argv[2]}-{number}.jpg')])"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), name]) for name in "abc"]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(set(Albums(tmp_path).read("Holidays"))) == 120


def test_a_name_with_another_line_break_stays_in_its_album(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("a\u2028b.jpg", "c\x0cd.jpg", "e\x85f.jpg")]
    Albums(tmp_path).change("dogs", names)
    assert Albums(tmp_path).read("dogs") == names


def test_a_name_of_two_lines_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeixisError, match="line break"):
        Albums(tmp_path).change("dogs", [tmp_path / "a\nb.jpg"])
    assert Albums(tmp_path).names() == []


def test_an_album_that_an_editor_of_windows_wrote_is_read(tmp_path: Path) -> None:
    Albums(tmp_path).change("dogs", [tmp_path / "a.jpg"])
    file = tmp_path / "albums" / "dogs.txt"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n") + b"\r\n")
    assert Albums(tmp_path).read("dogs") == [tmp_path / "a.jpg"]
