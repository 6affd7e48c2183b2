"""The help of the command."""

from __future__ import annotations

import re

import pytest

from deixis.cli.main import VERBS
from tests.cli.conftest import Command


@pytest.mark.parametrize("arguments", [(), ("help",), ("-h",), ("--help",)])
def test_the_command_alone_shows_the_help_with_the_verbs_for_photos_first(
    arguments: tuple[str, ...], command: Command
) -> None:
    out, err = command(*arguments)
    assert err == ""
    assert out == command("--help")[0]
    assert re.findall(r"^([A-Z][\w ]+):$", out, re.MULTILINE) == ["Options", *VERBS]
    first = ["index", "search", "serve", "ground", "caption", "describe"]
    assert re.findall(r"^  ([a-z]+)  ", out[out.index("Photos:") :], re.MULTILINE)[:6] == first


def test_no_line_is_cut(command: Command) -> None:
    assert "..." not in command("--help")[0].replace("[ARGS]...", "")


@pytest.mark.parametrize("verb", [verb for verbs in VERBS.values() for verb in verbs])
def test_no_help_shows_types_of_python(verb: str, command: Command) -> None:
    out, _ = command("help", verb)
    assert out == command(verb, "--help")[0]
    assert not re.search(r"<(list|str|path|int)", out)


def test_a_group_alone_shows_its_commands(command: Command) -> None:
    assert command("data")[0] == command("data", "--help")[0]


def test_completion_knows_verbs_and_options(
    command: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_DEIXIS_COMPLETE", "complete_bash")
    for words, expected in (("deixis des", "describe"), ("deixis search --exp", "--explain")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        with pytest.raises(SystemExit):
            command()
        assert capsys.readouterr().out.split() == [expected]
