"""The command itself: its verbs, and what happens when one fails."""

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
    demo,
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
from deixis.errors import DeixisError

# Typer brings its own copy of click in some versions and uses the package in others; these are click's classes in both.
_UsageError = typer.BadParameter.__bases__[0]
_ClickError = _UsageError.__bases__[0]
_CTRL_C = 130

app = typer.Typer(
    name="deixis",
    help="Point at pictures with words: find photos by sentence, find phrases in photos, write captions, and train, "
    "score and feed the models that do so.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help comes twice as fast
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
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


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"deixis {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    """Options of the command itself."""


def main() -> None:
    """Run the command: exit with 0 on success, 2 on a user's mistake, 1 on a failure of ours."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # names of files that are no UTF-8 come out as they went in
            stream.reconfigure(errors="surrogateescape")
    sys.exit(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    try:
        code: int = app(arguments, prog_name="deixis", standalone_mode=False) or 0
        sys.stdout.flush()  # here, so that a reader who has gone is noticed below and not at the very end
        return _stopped() if code == _CTRL_C else code  # some versions of typer turn Ctrl-C into this code themselves
    except DeixisError as error:
        _say(f"deixis: {_one_line(str(error))}")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        return _stopped()
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        _say(f"deixis: {error.filename or 'the system'}: {error.strerror or _one_line(str(error))}")
        return 2
    except Exception as error:
        if isinstance(error, _ClickError):
            return _mistyped(error)
        if os.environ.get("DEIXIS_DEBUG"):
            raise
        _say(f"deixis: a failure of ours, {type(error).__name__}: {_one_line(str(error))} (DEIXIS_DEBUG=1 shows where)")
        return 1


def _stopped() -> int:
    _say("deixis: stopped; what was finished is kept, and nothing half-made")
    return _CTRL_C


def _mistyped(error: Any) -> int:
    """One line about an option or a verb that is not there; typing no verb at all has shown the help already."""
    if type(error).__name__ != "NoArgsIsHelpError":
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "deixis"
        _say(f"{command}: {_one_line(error.format_message())} (see {command} --help)")
    return 2


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    main()
