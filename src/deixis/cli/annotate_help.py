"""`deixis annotate propose`: help from models, where a project's owner wants it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import Json, note, plural, print_json, progress

if TYPE_CHECKING:
    from deixis.annotate.help.proposing import Proposing
    from deixis.annotate.project import Project

Propose = Annotated[
    str | None,
    typer.Option(
        metavar="links,boxes", help="Let models propose links, boxes or both, for people to accept or correct."
    ),
]
Order = Annotated[
    str | None, typer.Option(metavar="ORDER", help="added, or uncertain: what models know least about comes first.")
]


def propose(
    project: Annotated[Path, typer.Argument(metavar="PROJECT", help="A project's directory.", show_default=False)],
    json: Json = False,
) -> None:
    """Let models propose what the project's settings ask for; photos that people have begun stay as they are."""
    from deixis.annotate.opening import open_to_work

    opened = open_to_work(project)
    try:
        done = _proposed(opened)
    finally:
        opened.close()
    if json:
        print_json({"project": str(project), "photos": done.photos, "begun": done.begun, "known_questions": done.known})
    else:
        _tell(done)


def tell_proposed(project: Project) -> None:
    """Let models propose, and say what they did."""
    _tell(_proposed(project))


def _proposed(project: Project) -> Proposing:
    from deixis.annotate.help.helping import propose_as_set

    with progress("photos") as on_progress:
        return propose_as_set(project, on_progress)


def _tell(done: Proposing) -> None:
    note(f"proposals for {plural(done.photos, 'photo')}, marks on {plural(done.known, 'known question')}")
    if done.begun:
        note(f"left alone: {plural(done.begun, 'photo')} that people have begun")
