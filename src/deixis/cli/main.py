"""The command `deixis`: its verbs, and how failures are reported."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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


class _Group(TyperGroup):
    """A group whose help lists its commands uncut, and the verbs under their headings."""

    def format_commands(self, _: Any, formatter: Any) -> None:
        sections = {"Commands": self.commands} if self.name != "deixis" else VERBS
        width = max(map(len, self.commands))
        for heading, names in sections.items():
            with formatter.section(heading):
                rows = [(f"{name:{width}}", self.commands[name].get_short_help_str(100)) for name in names]
                formatter.write_dl(rows)


def make_app(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return the command with all verbs, or with the one that the arguments start with: others are not imported."""
    verb = arguments[0] if arguments and arguments[0] in _MODULES else None
    app = typer.Typer(
        name="deixis",
        cls=_Group,
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
            app.add_typer(found, name=name, cls=_Group)
        else:
            app.command(name)(found)
    return app


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
        command: Any = typer.main.get_command(make_app(arguments))
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
