"""Progress and hints: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.cli import output
from deixis.cli.main import _run
from deixis.data.samples import SAMPLES


def test_only_problems_are_printed_where_nobody_watches(
    sample_index: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    cat = str(SAMPLES / "images" / "cat.jpg")
    index = ["--index", str(sample_index)]
    for arguments, problem in (
        (["index", str(tmp_path), cat, "--into", str(tmp_path / "index")], "broken.jpg"),
        (["search", "an animal", "--top", "1", *index], ""),
        (["search", "a zebra crossing", *index], ""),
        (["ground", cat, "a cat"], ""),
        (["caption", cat, "--csv", str(tmp_path / "captions.csv")], ""),
    ):
        assert _run(arguments) == 0
        printed = capsys.readouterr().err
        assert printed.count("\n") == bool(problem), printed
        assert problem in printed


def test_a_terminal_shows_a_bar_and_hides_a_stage_of_unknown_length_when_the_next_one_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output.sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with output.progress("photos") as on_progress:
        on_progress("finding", 12, None)
        on_progress("encoding", 1, 12)
        capsys.readouterr()
        on_progress("encoding", 12, 12)
    out, printed = capsys.readouterr()
    assert "12/12" in printed
    assert "finding" not in printed
    assert out == ""
