"""`deixis annotate`: the annotation workbench."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.annotate_help import Order, Propose, propose, tell_proposed
from deixis.cli.annotate_serve import hire, serve, settle
from deixis.cli.output import Json, note, plural, print_json, print_table, progress
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from deixis.annotate.material import Material
    from deixis.annotate.progress import Progress
    from deixis.data.dataset import Photos
    from deixis.files.progress import OnProgress

app = typer.Typer(help="Make grounded data with people: chains and boxes for captioned photos.", no_args_is_help=True)
app.command()(propose)

Folder = Annotated[Path, typer.Argument(metavar="PROJECT", help="A project's directory.", show_default=False)]
Data = Annotated[Path, typer.Option("--data", metavar="DATA", help="A data set directory.", show_default=False)]
Split = Annotated[str | None, typer.Option(metavar="NAME", help="Only the photos of this split.")]
Find = Annotated[
    bool, typer.Option("--find-mentions", help="Find the phrases in all captions, also where the data has them.")
]
_TOLD = 5
"""So many photos that are left out are named."""

Reviewer = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="The reviewer who decides; needed to decide anything.")
]


@app.command()
def init(
    project: Folder,
    data: Data,
    split: Split = None,
    find_mentions: Find = False,
    known: Annotated[
        Path | None,
        typer.Option(metavar="DATA", help="Annotated photos, for tests and for questions whose answer is known."),
    ] = None,
    known_split: Annotated[str | None, typer.Option(metavar="NAME", help="Only this split of --known.")] = None,
    database: Annotated[
        str | None, typer.Option(metavar="URL", help="PostgreSQL; otherwise a file in the project's directory.")
    ] = None,
    propose: Propose = None,
    order: Order = None,
    json: Json = False,
) -> None:
    """Make a project of captioned photos."""
    from deixis.annotate.help.helping import asking_for, is_asked_for
    from deixis.annotate.known import add_known
    from deixis.annotate.project import add_photos, make_project
    from deixis.annotate.settings import Settings
    from deixis.data.dataset import Dataset

    source = Dataset(data)
    chosen = source.split(split) if split else source.photos
    gold = Dataset(known) if known else None
    checked = (gold.split(known_split) if known_split else gold.photos) if gold else []
    settings = asking_for(Settings(), propose, order)
    made = make_project(project, url=database, images=source.images, settings=settings)
    with progress("photos") as on_progress:
        questions = 0
        for done, photo in enumerate(checked, start=1):
            on_progress("known answers", done, len(checked))
            questions += add_known(made, [photo])
        added, there = add_photos(made, _materials(chosen, find_mentions, on_progress))
    if is_asked_for(settings):
        tell_proposed(made)
    made.close()
    if json:
        print_json({"project": str(project), "photos": added, "left_out": there, "known_questions": questions})
        return
    print(f"{project}: {plural(added, 'photo')}, {plural(questions, 'question')} with known answers")
    if there:
        note(f"left out: {plural(there, 'photo')} that the known answers come from")
    if not questions:
        note("without --known nobody can be tested, and only drawn boxes tell good workers from bad ones")
    print(f'next: edit {project}/settings.json, then: deixis annotate invite {project} "NAME"')


def _materials(photos: Photos, find: bool, on_progress: OnProgress) -> Iterator[Material]:
    """The photos that can be annotated; of the others it is said why."""
    from deixis.annotate.material import material_of
    from deixis.files.progress import told

    refused: list[DeixisError] = []
    for photo in told(photos, "captions", len(photos), on_progress):
        if not photo.sentences:
            refused.append(DeixisError(f"photo {photo.id}: it has no caption"))
            continue
        try:
            yield material_of(photo, given=not find)
        except DeixisError as error:
            refused.append(error)
    for reason in refused[:_TOLD]:
        note(f"left out: {reason}")
    if len(refused) > _TOLD:
        note(f"… and {len(refused) - _TOLD:,} more")


@app.command()
def add(project: Folder, data: Data, split: Split = None, find_mentions: Find = False, json: Json = False) -> None:
    """Add photos, also while people work; those that are there stay as they are."""
    from deixis.annotate.help.helping import is_asked_for
    from deixis.annotate.opening import open_to_work
    from deixis.annotate.project import add_photos
    from deixis.data.dataset import Dataset

    source = Dataset(data)
    opened = open_to_work(project)
    if opened.images and source.images and opened.images.resolve() != source.images.resolve():
        raise DeixisError(f"{data}: its photos are in {source.images}, those of the project in {opened.images}")
    with progress("photos") as on_progress:
        chosen = source.split(split) if split else source.photos
        added, there = add_photos(opened, _materials(chosen, find_mentions, on_progress))
    if is_asked_for(opened.settings):
        tell_proposed(opened)
    opened.close()
    if json:
        print_json({"project": str(project), "photos": added, "there_already": there})
    else:
        print(f"{project}: {plural(added, 'photo')} added, {there:,} there already")


@app.command()
def invite(
    project: Folder,
    name: Annotated[str, typer.Argument(metavar="NAME", help="How they are called in the project.")],
    role: Annotated[str, typer.Option(help="worker, reviewer or owner.")] = "worker",
    vouch: Annotated[bool, typer.Option("--vouch", help="You know them: no history is asked for.")] = False,
    items: Annotated[int, typer.Option(min=0, help="How many items they did elsewhere.")] = 0,
    accuracy: Annotated[float, typer.Option(min=0, max=1, help="And how many of those were right, as a share.")] = 0.0,
    json: Json = False,
) -> None:
    """Invite somebody; prints the link that lets them in, once."""
    from deixis.annotate.opening import open_to_work, served_at
    from deixis.annotate.people import Role, invite

    if role not in set(Role):
        raise DeixisError(f"--role {role}: choose one of: {', '.join(Role)}")
    opened = open_to_work(project)
    worker, token = invite(opened, name, role=Role(role), vouched=vouch, history_items=items, history_accuracy=accuracy)
    settings, link = opened.settings, served_at(opened)
    opened.close()
    if json:
        print_json({"worker": worker, "name": name.strip(), "role": role, "token": token})
        return
    print(f"{name.strip()} ({worker}): {link}#/join/{token}")
    if link.startswith("…"):
        note(f"… is where the project is served: deixis annotate serve {project}")
    if role == "worker" and not vouch and (items < settings.history_items or accuracy < settings.history_accuracy):
        note(
            f"they get no questions yet: {settings.history_items} items at {settings.history_accuracy:.0%} are asked "
            "for; --vouch, or --items and --accuracy, or settings.json"
        )


for verb in (serve, hire, settle):
    app.command()(verb)


@app.command()
def status(
    project: Folder,
    pay: Annotated[Path | None, typer.Option(metavar="FILE.csv", help="Write hours and pay of everybody.")] = None,
    json: Json = False,
) -> None:
    """Show how far it is, what it costs, and how good everybody's work is."""
    from deixis.annotate.opening import open_to_work
    from deixis.annotate.progress import pay_table
    from deixis.annotate.progress import progress as look
    from deixis.files.atomic import new_file

    opened = open_to_work(project)
    found = look(opened)
    opened.close()
    if pay:
        with new_file(pay) as unfinished:
            unfinished.write_text(pay_table(found.workers, found.currency), encoding="utf-8")
    if json:
        print_json(asdict(found))
    else:
        _print_status(found)
        if pay:
            note(f"written: {pay}")


def _print_status(found: Progress) -> None:
    from rich.table import Table

    left = "not known yet" if found.hours_left is None else f"about {found.hours_left:,.1f} h of work"
    print(
        f"{found.finished:,} of {plural(found.photos, 'photo')} finished, {found.waiting:,} for review; "
        f"{plural(found.judged, 'judgement')} in {found.hours:,.1f} h, {found.cost:,.2f} {found.currency}; "
        f"{found.per_hour:,.0f} an hour; left: {left}"
    )
    table = Table("task")
    for heading in ("open", "judged", "mean s", "known answers", "agreement α"):
        table.add_column(heading, justify="right")
    for task in found.tasks:
        alpha = "" if task.agreement is None else f"{task.agreement:.2f}"
        counts = (f"{task.open:,}", f"{task.judged:,}", f"{task.seconds:.1f}", f"{task.known:,}")
        table.add_row(task.task.value, *counts, alpha)
    print_table(table)
    if not found.workers:
        return
    table = Table("worker")
    for heading in ("judged", "hours", found.currency, "checked", "right"):
        table.add_column(heading, justify="right")
    table.add_column("standing")
    for each in found.workers:
        right = "" if each.accuracy is None else f"{each.accuracy:.0%}"
        worth = (f"{each.judged:,}", f"{each.hours:.1f}", f"{each.pay:,.2f}", f"{each.checked:,}", right)
        by_level: dict[str, list[str]] = {}
        for name, level in each.levels.items():
            by_level.setdefault(level, []).append(name)
        standing = "; ".join(f"{level}: {', '.join(names)}" for level, names in by_level.items())
        table.add_row(each.name or f"({each.worker})", *worth, standing)
    print_table(table)


@app.command()
def review(
    project: Folder,
    photo: Annotated[str | None, typer.Argument(metavar="PHOTO", help="Explain this photo.")] = None,
    reviewer: Reviewer = None,
    mention: Annotated[
        str | None, typer.Option(metavar="C:S-E", help="A mention, as the explanation names it: 0:2-7.")
    ] = None,
    decide: Annotated[
        str | None,
        typer.Option(help="Of a chain: all, more, box, scene or 'no box'; of a phrase: keep, drop or add."),
    ] = None,
    undo: Annotated[int | None, typer.Option(metavar="EVENT", help="Take an event back.")] = None,
    reinstate: Annotated[
        str | None, typer.Option(metavar="NAME:TASK", help="Let a suspended worker try again.")
    ] = None,
    until: Annotated[int | None, typer.Option(metavar="EVENT", help="As it was after this event.")] = None,
    json: Json = False,
) -> None:
    """List what waits for a reviewer; explain a photo; decide; undo."""
    from deixis.annotate.opening import open_to_work
    from deixis.cli.annotate_review import decide_on, explain_photo, list_queue

    opened = open_to_work(project)
    try:
        if decide or undo is not None or reinstate:
            decide_on(opened, reviewer, photo, mention, decide, undo, reinstate, json)
        elif photo:
            explain_photo(opened, photo, until, json)
        else:
            list_queue(opened, project, json)
    finally:
        opened.close()


@app.command()
def export(
    project: Folder,
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="entities, coco, odvg, label-studio, jsonl or another.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The directory to make.", show_default=False)],
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Take photos along that are not finished.")] = False,
    with_photos: Annotated[bool, typer.Option("--with-photos", help="Take the photos along.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the directory if it is there.")] = False,
    json: Json = False,
) -> None:
    """Write what was annotated, merged, with where each chain comes from."""
    from deixis.annotate.exporting import PROVENANCE
    from deixis.annotate.exporting import export as write
    from deixis.annotate.opening import open_to_work

    opened = open_to_work(project)
    with progress("photos") as on_progress:
        written, left_out = write(
            opened,
            to,
            out,
            unfinished=unfinished,
            with_photos=with_photos,
            replace_old=force,
            on_progress=on_progress,
        )
    opened.close()
    if json:
        print_json({"out": str(out), "format": to, "photos": written, "left_out": left_out})
        return
    print(f"{out}: {plural(written, 'photo')} as {to}; {PROVENANCE} says how each chain was made")
    if left_out:
        note(f"left out: {plural(left_out, 'photo')} not finished")


@app.command()
def backup(
    project: Folder,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The directory to make.", show_default=False)],
    json: Json = False,
) -> None:
    """Copy a whole project while people work; the copy opens like any other."""
    from deixis.annotate.keeping import backup as copy
    from deixis.annotate.opening import open_to_work

    opened = open_to_work(project)
    events = copy(opened, out)
    opened.close()
    if json:
        print_json({"out": str(out), "events": events})
    else:
        print(f"{out}: {plural(events, 'event')}")


@app.command()
def forget(
    project: Folder, name: Annotated[str, typer.Argument(metavar="NAME", help="Whom.")], json: Json = False
) -> None:
    """Remove a person's name, invitation, password and remarks; their judgements stay, under an id without meaning."""
    from deixis.annotate.opening import open_to_work
    from deixis.annotate.people import forget as remove

    opened = open_to_work(project)
    worker = remove(opened, name)
    opened.close()
    if json:
        print_json({"worker": worker.id, "forgotten": True})
    else:
        print(f"{name}: forgotten; what they judged stays under {worker.id}")
        note("backups made before still hold the name")


@app.command()
def workflow(
    picture: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw it (png, svg or pdf).")] = None,
    json: Json = False,
) -> None:
    """Show the six tasks as the table that runs them: every answer, vote and way."""
    from deixis.annotate.workflow_picture import draw_workflow, rows

    if picture:
        draw_workflow(picture)
    if json:
        print_json([dict(zip(("in", "told", "does", "if", "to"), row, strict=True)) for row in rows()])
        return
    from rich.table import Table

    table = Table("in", "told", "does", "if", "goes to")
    before = ""
    for row in rows():
        if before and row[0] != before:
            table.add_section()
        table.add_row(row[0] if row[0] != before else "", *row[1:])
        before = row[0]
    print_table(table)
    if picture:
        note(f"drawn: {picture}")
