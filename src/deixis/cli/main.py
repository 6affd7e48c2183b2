"""The command `deixis`: its verbs, and how failures are reported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from deixis import __version__
from deixis.cli.output import note, protect_terminals
from deixis.errors import DeixisError, missing_package

# Typer brings its own copy of click in some versions and uses the package in others; these are click's classes in both.
_UsageError = typer.BadParameter.__bases__[0]
_ClickError = _UsageError.__bases__[0]
_CTRL_C = 130

VERBS = {
    "Photos": {
        "index": "index:index",
        "search": "search:search",
        "serve": "serve:serve",
        "ground": "ground:ground",
        "caption": "caption:caption",
        "describe": "describe:describe",
        "match": "match:match",
        "demo": "serve:demo",
    },
    "Data sets": {
        "data": "data:app",
        "annotate": "annotate:app",
        "verify": "verify:verify",
    },
    "Research": {
        "models": "models:models",
        "train": "train:train",
        "evaluate": "evaluate:app",
        "table": "table:table",
        "features": "features:features",
        "calibrate": "calibrate:calibrate",
        "map": "map:map_",
    },
}
"""The module and the function, or the group of functions, of each verb, by heading, in the order of the help."""

_MODULES = {verb: place for verbs in VERBS.values() for verb, place in verbs.items()}
_HELP = ("-h", "--help")
_TYPE = re.compile(r" <(?:list\[)?\w+\]?>$")
_BETWEEN = re.compile(r"(\d+)<=x<=(\d+)")
_AT_LEAST = re.compile(r"x>=(\d+)")
_MINUS_WORD = re.compile(r'-(?:"|[^\W\d_]).')
"""A word that a query excludes, not an option of one letter or of two minus signs."""


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"deixis {__version__}")
        raise typer.Exit


def _about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of the command itself."""


def make_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the command with all verbs, or with the one that the arguments start with: others are not imported."""
    verb = arguments[0] if arguments and arguments[0] in _MODULES else None
    app = typer.Typer(
        name="deixis",
        help="Search photos by sentence, ground phrases in photos, write captions, annotate data sets, and train and "
        "evaluate models.",
        epilog="deixis COMMAND --help explains a command. First steps: deixis index FOLDER, then deixis search "
        '"two dogs in the snow".',
        rich_markup_mode=None,  # plain help is printed twice as fast
        add_completion=verb is None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": list(_HELP)},
    )
    app.callback()(_about)
    for name in _MODULES if verb is None else (verb,):
        module, _, function = _MODULES[name].partition(":")
        found = getattr(import_module(f"deixis.cli.{module}"), function)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def make_command(arguments: Sequence[str]) -> Any:
    """Return the command that the arguments need, with the help that they ask for."""
    command = typer.main.get_command(make_app(arguments))
    if not set(_HELP).isdisjoint(arguments):
        has_all = set(_MODULES) <= set(command.commands)  # type: ignore[attr-defined]
        _clarify_help(command, {heading: list(verbs) for heading, verbs in VERBS.items()} if has_all else None)
    return command


def _clarify_help(command: Any, sections: Mapping[str, Sequence[str]] | None = None) -> None:
    """Write ranges in words and without types of Python, and list commands uncut, those of a group under `sections`."""
    for parameter in command.params:
        parameter.get_help_record = _plain_record(parameter.get_help_record)
    commands = getattr(command, "commands", None)
    if commands is None:
        return
    for child in commands.values():
        _clarify_help(child)

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


def _with_help(arguments: list[str]) -> list[str]:
    """Turn no arguments, and ``help VERB``, into ``--help``."""
    if not arguments and "_DEIXIS_COMPLETE" not in os.environ:
        return ["--help"]
    if arguments and arguments[0] == "help":
        return [*arguments[1:], "--help"]
    if len(arguments) == 1 and _MODULES.get(arguments[0], "").endswith(":app"):  # a group without a command
        return [*arguments, "--help"]
    return arguments


def _with_minus_words(arguments: list[str], search: Any) -> list[str]:
    """Put words with a minus behind ``--``, so that ``deixis search dog -snow`` needs no quotes."""
    takes_value = {
        name: not getattr(parameter, "is_flag", True) for parameter in search.params for name in parameter.opts
    }
    kept: list[str] = []
    words: list[str] = []
    for place, argument in enumerate(arguments):
        if argument == "--":
            return [*kept, *arguments[place:], *words]
        is_value = bool(kept) and takes_value.get(kept[-1], False)
        is_word = _MINUS_WORD.match(argument) and argument not in takes_value and not is_value
        (words if is_word else kept).append(argument)
    return [*kept, "--", *words] if words else kept


def main() -> None:
    """Run the command. Exit codes: 0 success, 2 user error, 1 internal error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # file names that are not UTF-8 are printed unchanged
            stream.reconfigure(errors="surrogateescape")
    protect_terminals()
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    try:
        arguments = _with_help(arguments)
        command = make_command(arguments)
        if arguments[:1] == ["search"]:
            arguments = _with_minus_words(arguments, command.commands["search"])
        code: int = command(arguments, prog_name="deixis", standalone_mode=False) or 0
        sys.stdout.flush()  # here, so that a closed pipe is handled below
        return _interrupted() if code == _CTRL_C else code  # some versions of typer turn Ctrl-C into this code
    except DeixisError as error:
        note(f"deixis: {_one_line(str(error))}")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except (BrokenPipeError, SystemExit) as error:  # the reader of our output, such as `head`, has closed it
        if isinstance(error, SystemExit) and not isinstance(error.__context__, BrokenPipeError):
            raise
        for stream in (sys.stdout, sys.stderr):  # both may be the same pipe
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return 0
    except OSError as error:
        note(f"deixis: {error.filename or 'the system'}: {error.strerror or _one_line(str(error))}")
        return 2
    except MemoryError:
        note("deixis: out of memory; completed work was saved")
        return 2
    except Exception as error:
        if isinstance(error, _ClickError):
            return _report_usage_error(error)
        if isinstance(error, ModuleNotFoundError) and (missing := missing_package(error)):
            note(f"deixis: {missing}")
            return 2
        if os.environ.get("DEIXIS_DEBUG"):
            raise
        note(f"deixis: internal error, {type(error).__name__}: {_one_line(str(error))} (DEIXIS_DEBUG=1 shows more)")
        return 1


def _interrupted() -> int:
    note("deixis: interrupted; completed work was saved")
    return _CTRL_C


def _report_usage_error(error: Any) -> int:
    """Report an unknown option or command in one line."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "deixis"
    note(f"{command}: {_one_line(error.format_message())} (see {command} --help)")
    return 2


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
