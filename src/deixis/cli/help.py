"""The help texts: groups of commands, whole sentences, and no types of Python."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Sections = Mapping[str, Sequence[str]]
"""The headings of the list of commands, each with its commands."""

_TYPE = re.compile(r" <(?:list\[)?\w+\]?>$")
_BETWEEN = re.compile(r"(\d+)<=x<=(\d+)")
_AT_LEAST = re.compile(r"x>=(\d+)")


def clarify_help(command: Any, sections: Sections | None = None) -> None:
    """Change the help of a command of typer, and of the commands below it.

    Lists of commands are not cut at the width of the terminal, arguments are listed without their types, and ranges of
    numbers are written in words. The commands of a group are listed under `sections`, in their order.
    """
    for parameter in command.params:
        parameter.get_help_record = _plain_record(parameter.get_help_record)
    commands = getattr(command, "commands", None)
    if commands is None:
        return
    for child in commands.values():
        clarify_help(child)

    def format_commands(_: Any, formatter: Any) -> None:
        for heading, names in (sections or {"Commands": list(commands)}).items():
            rows = [(name, _summary(commands[name])) for name in names if not commands[name].hidden]
            with formatter.section(heading):
                formatter.write_dl(rows, col_spacing=_column(commands, rows))

    command.format_commands = format_commands


def _plain_record(get_help_record: Any) -> Any:
    def record(context: Any) -> tuple[str, str] | None:
        found = get_help_record(context)
        if found is None:
            return None
        name, text = found
        return _TYPE.sub("", name), _AT_LEAST.sub(r"at least \1", _BETWEEN.sub(r"\1 to \2", text))

    return record


def _summary(command: Any) -> str:
    """Return the first paragraph of the help of a command."""
    text = command.short_help or (command.help or "").partition("\n\n")[0]
    return " ".join(text.split())


def _column(commands: Mapping[str, Any], rows: Sequence[tuple[str, str]]) -> int:
    """Return the space after the longest name, so that the columns of all sections are at the same place."""
    return 2 + max(map(len, commands)) - max((len(name) for name, _ in rows), default=0)
