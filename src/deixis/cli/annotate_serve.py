"""`deixis annotate serve`, `hire` and `settle`: the workbench in browsers, for one's own people and for hired ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deixis.cli.output import Json, note, plural, print_json

Folder = Annotated[Path, typer.Argument(metavar="PROJECT", help="A project's directory.", show_default=False)]
Live = Annotated[bool, typer.Option("--live", help="In earnest; otherwise in the sandbox, where nothing is paid.")]


def serve(
    project: Folder,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen. Any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65535, help="7861, or a free one where that is taken; 0 for any."),
    ] = None,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Where people find it, if a server that speaks HTTPS stands before it.")
    ] = "",
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.")] = False,
) -> None:
    """Let people work in their browsers; the first owner is invited at once. Ctrl-C ends it."""
    from deixis.annotate.opening import open_to_work
    from deixis.server.annotate.running import Serving, serve_project
    from deixis.server.listening import Address

    opened = open_to_work(project)
    try:
        serving = Serving(Address(host, port), url)
        serve_project(opened, serving, say=lambda link: print(link, flush=True), open_browser=not no_open)
    finally:
        opened.close()


def hire(
    project: Folder,
    url: Annotated[
        str, typer.Option(metavar="URL", help="Where the world reaches the server: https://…", show_default=False)
    ],
    people: Annotated[int, typer.Option(metavar="N", help="How many may take it, each once.", show_default=False)],
    reward: Annotated[
        float, typer.Option(metavar="DOLLARS", help="What each is paid, in US dollars.", show_default=False)
    ],
    items: Annotated[int, typer.Option(metavar="N", help="Questions that each answers.")] = 20,
    minutes: Annotated[int, typer.Option(help="How long each has.")] = 60,
    days: Annotated[int, typer.Option(help="How long it is offered.")] = 7,
    live: Live = False,
    json: Json = False,
) -> None:
    """Offer questions to Mechanical Turk (needs boto3 and AWS credentials)."""
    from deixis.annotate.opening import open_to_work
    from deixis.server.annotate.app import project_secret
    from deixis.server.annotate.turk import Offer, offer, turk_client

    wanted = Offer(url, people, reward, items, minutes, days)
    opened = open_to_work(project)
    try:
        hit = offer(opened, turk_client(live=live), wanted, project_secret(opened))
    finally:
        opened.close()
    if json:
        print_json({"hit": hit, "live": live, "people": people, "items": items})
        return
    print(f"HIT {hit}: {plural(people, 'person', 'people')}, {plural(items, 'question')} each")
    note("in the sandbox; --live pays" if not live else f"costs up to ${people * reward:,.2f} and fees")
    print(f"next: keep deixis annotate serve {project} --url {url} running; later: deixis annotate settle {project}")


def settle(project: Folder, live: Live = False, json: Json = False) -> None:
    """Approve the assignments of Mechanical Turk that were done; the others are listed."""
    from dataclasses import asdict

    from deixis.annotate.opening import open_to_work
    from deixis.server.annotate.turk import settle as pay
    from deixis.server.annotate.turk import turk_client

    opened = open_to_work(project)
    try:
        done = pay(opened, turk_client(live=live))
    finally:
        opened.close()
    if json:
        print_json(asdict(done))
        return
    print(f"{plural(len(done.approved), 'assignment')} approved")
    for name in done.not_done:
        print(f"{name}: not all questions were answered; approve or reject it yourself")
    for name in done.unknown:
        print(f"{name}: was not done here by the one who handed it in; approve or reject it yourself")
