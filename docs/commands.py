"""Generate the command-line reference from the help texts: python docs/commands.py FILE."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from deixis.cli.main import make_app

_HEAD = """# Commands

Commands print progress and hints on standard error if it is a terminal, and exit with 0 on success, 2 on an error that
the user can fix, 1 on an internal error, and 130 after Ctrl-C. With `--json` they print one JSON document and nothing
else on standard output; only the servers (`demo`, `serve`, `annotate serve`) have no `--json`.
"""


def write_commands(path: Path) -> None:
    """Write the page only if it has changed, so that Sphinx does not rebuild it needlessly."""
    page = "\n".join([_HEAD, *_sections(typer.main.get_command(make_app()), "deixis")])
    if not path.is_file() or path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")


def _sections(command: Any, name: str) -> Iterator[str]:
    subcommands = getattr(command, "commands", None)
    if subcommands:
        for subname, subcommand in subcommands.items():
            if not subcommand.hidden:
                yield from _sections(subcommand, f"{name} {subname}")
        return
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"## {name}\n\n```text\n{name} {usage}\n```\n\n{(command.help or '').strip()}\n"
    rows = [record for parameter in command.params if (record := parameter.get_help_record(context))]
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| `{_cell(option)}` | {_cell(meaning)} |" for option, meaning in rows)
        yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    write_commands(Path(sys.argv[1]))
