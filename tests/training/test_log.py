"""The log: whole lines, cut back to what a checkpoint knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from deixis.errors import DeixisError
from deixis.training.log import Log, read_log


def test_what_was_appended_is_read(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    assert log.size == 0
    log.append({"step": 1})
    log.append({"step": 2, "note": "ü\n"})
    assert read_log(log.path) == [{"step": 1}, {"step": 2, "note": "ü\n"}]


def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step": 2')
    assert read_log(tmp_path / "log.jsonl") == [{"step": 1}]


def test_a_torn_line_elsewhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 1}\n{"step": \n{"step": 3}\n')
    with pytest.raises(DeixisError, match=r"log.jsonl: line 2 is not JSON"):
        read_log(tmp_path / "log.jsonl")


def test_cutting_forgets_what_came_later_torn_or_not(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.append({"step": 1})
    size = log.size
    log.append({"step": 2})
    with log.path.open("a") as file:
        file.write('{"st')
    log.cut(size)
    log.append({"step": 3})
    assert read_log(log.path) == [{"step": 1}, {"step": 3}]


def test_cutting_never_makes_a_log_longer(tmp_path: Path) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.cut(100)
    assert not log.path.exists()
    log.append({"step": 1})
    log.cut(100)
    assert read_log(log.path) == [{"step": 1}]


def test_a_log_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").mkdir()
    with pytest.raises(DeixisError, match="log.jsonl"):
        Log(tmp_path / "log.jsonl").append({"step": 1})
