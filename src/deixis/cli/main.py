"""The command `deixis`: its verbs, and how failures are reported."""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from deixis import __version__
from deixis.cli import (
    annotate,
    caption,
    data,
    describe,
    evaluate,
    features,
    ground,
    index,
    map,
    models,
    search,
    serve,
    table,
    train,
)
from deixis.cli.output import note
from deixis.errors import DeixisError

# Typer brings its own copy of click in some versions and uses the package in others; these are click's classes in both.
_UsageError = typer.BadParameter.__bases__[0]
_ClickError = _UsageError.__bases__[0]
_CTRL_C = 130

app = typer.Typer(
    name="deixis",
    help="Search photos by sentence, ground phrases in photos, write captions, annotate data sets, and train and "
    "evaluate models.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help is printed twice as fast
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve.demo)
app.command()(index.index)
app.command()(search.search)
app.command()(serve.serve)
app.command()(ground.ground)
app.command()(caption.caption)
app.command()(describe.describe)
app.command("map")(map.map_)
app.add_typer(annotate.app, name="annotate")
app.add_typer(data.app, name="data")
app.add_typer(evaluate.app, name="evaluate")
app.command()(features.features)
app.command()(train.train)
app.command()(table.table)
app.command()(models.models)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"deixis {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command. Exit codes: 0 success, 2 user error, 1 internal error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # file names that are not UTF-8 are printed unchanged
            stream.reconfigure(errors="surrogateescape")
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    try:
        code: int = app(arguments, prog_name="deixis", standalone_mode=False) or 0
        sys.stdout.flush()  # here, so that a closed pipe is handled below
        return _interrupted() if code == _CTRL_C else code  # some versions of typer turn Ctrl-C into this code
    except DeixisError as error:
        note(f"deixis: {_one_line(str(error))}")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        note(f"deixis: {error.filename or 'the system'}: {error.strerror or _one_line(str(error))}")
        return 2
    except Exception as error:
        if isinstance(error, _ClickError):
            return _report_usage_error(error)
        if os.environ.get("DEIXIS_DEBUG"):
            raise
        note(f"deixis: internal error, {type(error).__name__}: {_one_line(str(error))} (DEIXIS_DEBUG=1 shows more)")
        return 1


def _interrupted() -> int:
    note("deixis: interrupted; completed work was saved")
    return _CTRL_C


def _report_usage_error(error: Any) -> int:
    """Report an unknown option or command in one line. Without any command, the help was printed already."""
    if type(error).__name__ != "NoArgsIsHelpError":
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "deixis"
        note(f"{command}: {_one_line(error.format_message())} (see {command} --help)")
    return 2


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
