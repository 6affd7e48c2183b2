"""`deixis annotate`: the annotation workbench."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from time import time
from typing import TYPE_CHECKING, Annotated

import typer

from deixis.cli.output import (
    Force,
    Json,
    Out,
    Split,
    To,
    argument,
    flag,
    note,
    numbers_table,
    option,
    plural,
    print_json,
    print_result,
    print_table,
    progress,
)
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.annotate.help.proposals import ProposalCounts
    from deixis.annotate.progress import Progress
    from deixis.annotate.project import Additions, Project
    from deixis.annotate.review import HistoryEntry

app = typer.Typer(help="Annotate captioned photos with coreference chains and boxes.", no_args_is_help=True)

Folder = Annotated[Path, argument("PROJECT", "Project directory.")]
Data = Annotated[Path, option("DATA", "Data set directory.", "--data", show_default=False)]
FindMentions = Annotated[
    bool, flag("--find-mentions", "Find phrases in all captions, even if the data set has mentions.")
]
PreAnnotated = Annotated[
    bool, flag("--pre-annotated", "Take the chains and boxes of the data set; workers verify and judge them.")
]
Name = Annotated[str, argument("NAME", "Name or id of the worker.")]
Live = Annotated[bool, flag("--live", "Use the paid service instead of the sandbox.")]

_MAX_LISTED = 5
"""Number of skipped photos that are listed."""


@contextmanager
def _open(folder: Path, *, checked: bool = True) -> Iterator[Project]:
    """Open a project, by default after a check of all rows: figures are never made of damaged ones."""
    from deixis.annotate.project import open_for_work

    with progress("photos") as on_progress:
        project = open_for_work(folder, checked=checked, on_progress=on_progress)
    try:
        yield project
    finally:
        project.close()


@app.command()
def init(
    project: Folder,
    data: Data,
    split: Split = None,
    find_mentions: FindMentions = False,
    pre_annotated: PreAnnotated = False,
    known: Annotated[Path | None, option("DATA", "Annotated photos for qualification tests and hidden checks.")] = None,
    known_split: Annotated[str | None, option("NAME", "Only photos of this split of --known.")] = None,
    database: Annotated[
        str | None, option("URL", "PostgreSQL database; by default, an SQLite file in the project.")
    ] = None,
    propose: Annotated[
        str | None, option("links,boxes", "Let models propose links, boxes or both; workers accept or correct them.")
    ] = None,
    order: Annotated[
        str | None, option("ORDER", "Order of the photos: added, or uncertain (least certain proposals first).")
    ] = None,
    pairs: Annotated[
        Path | None,
        option(
            "FILE", "Judge phrase–region pairs instead: correspondences of hm-lstm, or a prediction file of any system."
        ),
    ] = None,
    group_links: Annotated[
        bool, flag("--group-links", "Ask about all phrases that could be the same at once, not about pairs.")
    ] = False,
    team: Annotated[str | None, option("2|5|50", "Settings for a team of about this size.")] = None,
    sample: Annotated[int, option("N", "Number of pairs to draw at random.", min=1)] = 2000,
    json: Json = False,
) -> None:
    """Create a project from captioned photos."""
    from deixis.annotate.help.proposals import with_proposals
    from deixis.annotate.pairs import create_with_pairs
    from deixis.annotate.progress import count_qualifying_questions
    from deixis.annotate.project import Source, create
    from deixis.annotate.settings import Settings, read_presets
    from deixis.data.dataset import Dataset

    presets = read_presets()
    if team is not None and team not in presets:
        raise DeixisError(f"--team {team}: choose one of: {', '.join(presets)}")
    preset = presets[team] if team else {}
    source = Source(Dataset(data), split, find_mentions, pre_annotated)
    gold = Source(Dataset(known), known_split) if known else None
    settings = with_proposals(Settings(group_links=group_links, **preset), propose, order)
    with progress("photos") as on_progress:
        if pairs is None:
            made, found = create(project, source, known=gold, url=database, settings=settings, on_progress=on_progress)
        else:
            made, found = create_with_pairs(
                project, source, pairs, known=gold, sample=sample, url=database, on_progress=on_progress
            )
    before = count_qualifying_questions(made)
    judges = made.settings.judges_per_pair
    made.close()
    _note_additions(found, source.pre_annotated, data)
    if not found.photos + found.existing:
        raise DeixisError(f"{project}: without photos, since none of {data} can be annotated")
    known_questions = plural(found.known_questions, "question")
    if json:
        counts = {"left_out": found.existing} if pairs is None else {"pairs": found.pairs}
        about = {"project": str(project), "photos": found.photos}
        print_json(about | counts | {"known_questions": found.known_questions})
        return
    if pairs is not None:
        print(f"{project}: {plural(found.pairs, 'pair')}, {known_questions} with known answers")
        note(f"{judges} people judge each pair; judges_per_pair in {project}/settings.json changes that")
        print(f"next: deixis annotate serve {project}; later: deixis annotate pairs {project}")
    else:
        print(f"{project}: {plural(found.photos, 'photo')}, {known_questions} with known answers")
        if found.existing:
            note(f"skipped: {plural(found.existing, 'photo')} used for known questions")
        if found.known_questions:
            note(
                f"before they are trusted, workers answer {before:,} questions with known answers each; "
                f"test_questions and first_items in {project}/settings.json change that"
            )
        else:
            note("without --known, workers cannot be tested, and only drawn boxes are checked")
        print(f"next: edit {project}/settings.json, then: deixis annotate serve {project}")
    print(f'people are invited on its page, or with: deixis annotate invite {project} "NAME" --vouch')


def _note_additions(found: Additions, is_pre_annotated: bool, data: Path) -> None:
    """Report the photos that were skipped, and what models and the data set propose."""
    for reason in found.skipped[:_MAX_LISTED]:
        note(f"skipped: {reason}")
    if len(found.skipped) > _MAX_LISTED:
        note(f"… and {len(found.skipped) - _MAX_LISTED:,} more")
    if is_pre_annotated:
        note(f"chains and boxes of {plural(found.pre_annotated, 'photo')} taken from {data}")
    if found.proposals is not None:
        _note_proposals(found.proposals)


@app.command()
def add(
    project: Folder,
    data: Data,
    split: Split = None,
    find_mentions: FindMentions = False,
    pre_annotated: PreAnnotated = False,
    json: Json = False,
) -> None:
    """Add photos to a project.

    Existing photos stay unchanged. Workers may be active meanwhile.
    """
    from deixis.annotate.project import Source, add_dataset
    from deixis.data.dataset import Dataset

    source = Source(Dataset(data), split, find_mentions, pre_annotated)
    with _open(project) as opened, progress("photos") as on_progress:
        found = add_dataset(opened, source, on_progress=on_progress)
    _note_additions(found, pre_annotated, data)
    if not found.photos + found.existing:
        raise DeixisError(f"{project}: nothing was added, since no photo of {data} can be annotated")
    print_result(
        json,
        {"project": str(project), "photos": found.photos, "there_already": found.existing},
        f"{project}: {plural(found.photos, 'photo')} added, {found.existing:,} existed already",
    )


@app.command()
def invite(
    project: Folder,
    name: Annotated[str, argument("NAME", "Name of the worker in the project.")],
    role: Annotated[str, option("ROLE", "worker, reviewer or owner.")] = "worker",
    vouch: Annotated[bool, flag("--vouch", "Accept the worker without a record of earlier work.")] = False,
    items: Annotated[int, option("N", "Questions that the worker has answered elsewhere.", min=0)] = 0,
    accuracy: Annotated[float, option("A", "Accuracy of these answers, from 0 to 1.", min=0, max=1)] = 0.0,
    renew: Annotated[
        bool, flag("--renew", "Make a new link for somebody who was invited before; their password ends.")
    ] = False,
    json: Json = False,
) -> None:
    """Invite a worker and print the link."""
    from deixis.annotate.people import NameTakenError, Role, change_worker, find_worker, invite, renew_invitation
    from deixis.annotate.project import read_link

    if role not in set(Role):
        raise DeixisError(f"--role {role}: choose one of: {', '.join(Role)}")
    with _open(project) as opened:
        if renew:
            with opened.database.reading() as connection:
                found = find_worker(connection, name.strip())
            if vouch:
                change_worker(opened, found.id, vouched=True)
            worker, token = found.id, renew_invitation(opened, found.id)
            role, vouch = found.role, vouch or found.vouched
        else:
            try:
                worker, token = invite(
                    opened, name, role=Role(role), vouched=vouch, history_items=items, history_accuracy=accuracy
                )
            except NameTakenError as error:
                raise NameTakenError(f"{error}, or use --renew for a new link of the same person") from None
        settings, link = opened.settings, read_link(opened)
    invitation = f"#/join/{token}"
    if json:
        about = {"worker": worker, "name": name.strip(), "role": role, "token": token}
        print_json(about | {"link": link and link + invitation})
        return
    print(f"{name.strip()} ({worker}): {link or '…/'}{invitation}")
    if link is None:
        note(f"… is the address of the server; start it with: deixis annotate serve {project}")
    elif _is_local(link):
        note("the link opens on this machine only; for others, start the server with --url or --host")
    if role == "worker" and not vouch and (items < settings.history_items or accuracy < settings.history_accuracy):
        note(
            f"no questions yet: the project requires {settings.history_items} items at "
            f"{settings.history_accuracy:.0%}; use --vouch, --items and --accuracy, or edit settings.json"
        )


def _is_local(link: str) -> bool:
    """Return whether only this machine can open a link."""
    from deixis.storage.remote import is_loopback, split_url

    return is_loopback(split_url(link).hostname or "")


@app.command()
def assign(
    project: Folder,
    words: Annotated[str, argument("WORDS", "Words of the file name, such as a folder, or of the captions.")],
    to: Annotated[list[str] | None, option("NAME", "Name or id of a worker; repeat it for several.", "--to")] = None,
    everybody: Annotated[bool, flag("--everybody", "End the assignment of these photos.")] = False,
    json: Json = False,
) -> None:
    """Ask only some people about the photos that match.

    They get these photos before all others. The gallery assigns any search.
    """
    from deixis.annotate.gallery import GalleryFilter, assign_photos

    if bool(to) == everybody:
        raise DeixisError("assign: use --to NAME, or --everybody")
    with _open(project) as opened:
        found = assign_photos(opened, None, GalleryFilter(words=words), to or [])
    if not found.photos:
        raise DeixisError(f"{project}: no photo has {words} in its file name or its captions")
    asked = f"only {', '.join(to)}" if to else "everybody"
    print_result(json, {"project": str(project)} | asdict(found), f"{plural(found.photos, 'photo')}: {asked}")
    if found.advice:
        note(found.advice)


@app.command()
def serve(
    projects: Annotated[list[Path], argument("PROJECT...", "Project directories; several have one sign-in.")],
    host: Annotated[
        str,
        option("ADDRESS", "Address to listen on. Links to other addresses than this machine's own contain a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int | None, option("PORT", "Port (default: 7861, or a free one if that is in use; 0: any).", min=0, max=65535)
    ] = None,
    url: Annotated[str, option("URL", "Public address, if an HTTPS reverse proxy forwards requests.")] = "",
    oidc_issuer: Annotated[
        str, option("URL", "Let invited people sign in with this OpenID Connect provider; needs deixis[oidc].")
    ] = "",
    oidc_client: Annotated[
        str, option("ID", "Client id at the provider; its secret, if any, is in DEIXIS_OIDC_SECRET.")
    ] = "",
    no_open: Annotated[bool, flag("--no-open", "Do not open a browser.")] = False,
) -> None:
    """Start the web server of one or several projects; Ctrl-C stops it.

    The first start prints an invitation for the owner.
    """
    from os import environ

    from deixis.annotate.project import read_link, server_lock
    from deixis.annotate.web.app import serve_projects
    from deixis.annotate.web.oidc import OidcSettings
    from deixis.web.server import ServerAddress, leave

    names = [folder.absolute().name for folder in projects]
    if len(names) > 1 and (len(set(names)) < len(names) or not all(map(_is_address_part, names))):
        raise DeixisError(f"{', '.join(names)}: several projects need different names of letters, digits, -, _ and .")
    with ExitStack() as stack:
        opened = {}
        for name, folder in zip(names, projects, strict=True):
            opened[name] = stack.enter_context(_open(folder, checked=False))
            if not stack.enter_context(server_lock(folder)):
                link = read_link(opened[name])
                note(f"another server of {folder} is running at {link}; workers can use both")
        address = ServerAddress(host, port)
        oidc = OidcSettings(oidc_issuer, oidc_client, environ.get("DEIXIS_OIDC_SECRET", "")) if oidc_issuer else None

        def show(link: str) -> None:
            if "#/join/" in link:
                note("the owner's invitation, which works once:")
            print(link, flush=True)
            if _is_local(link):
                note("it opens on this machine only; --url and --host open the workbench to others")

        serve_projects(opened, address, url=url, oidc=oidc, on_start=show, open_browser=not no_open)
    leave()


def _is_address_part(name: str) -> bool:
    """Return whether a name is a part of an address, and not one that the server uses."""
    return bool(re.fullmatch(r"[\w.-]+", name, re.ASCII)) and name not in ("api", "assets", "favicon.ico", ".", "..")


@app.command()
def status(
    project: Folder,
    pay: Annotated[Path | None, option("FILE.csv", "Write the hours and pay of all workers.")] = None,
    json: Json = False,
) -> None:
    """Show progress, cost, agreement and accuracy of workers."""
    from deixis.annotate.progress import format_pay, read_progress
    from deixis.storage.atomic import new_file

    with _open(project) as opened:
        found = read_progress(opened)
    if pay:
        with new_file(pay) as unfinished:
            unfinished.write_text(format_pay(found.workers, found.currency), encoding="utf-8")
    if json:
        print_json(asdict(found))
    else:
        _print_status(found, project)
        if pay:
            note(f"written: {pay}")


def _print_status(found: Progress, project: Path) -> None:
    left = "unknown" if found.hours_left is None else f"about {found.hours_left:,.1f} h of work"
    print(
        f"{found.finished:,} of {plural(found.photos, 'photo')} finished, {found.waiting:,} for review; "
        f"{plural(found.judged, 'judgement')} in {found.hours:,.1f} h, {found.cost:,.2f} {found.currency}; "
        f"{found.per_hour:,.0f} per hour; left: {left}"
    )
    table = numbers_table("task", ("open", "judged", "mean s", "known answers", "agreeing", "votes", "α"))
    for task in found.tasks:
        alpha = "" if task.agreement is None else f"{task.agreement:.2f}"
        agreeing = "" if task.agreeing is None else f"{task.agreeing:.0%}"
        votes = f"{task.votes:,} on {task.compared:,}" if task.compared else ""
        counts = (f"{task.open:,}", f"{task.judged:,}", f"{task.seconds:.1f}", f"{task.known:,}")
        table.add_row(task.task.value, *counts, agreeing, votes, alpha)
    print_table(table)
    for waits_for, count in found.blocked.items():
        note(f"blocked: {plural(count, 'question')} waiting for {waits_for}; see: deixis annotate review {project}")
    for advice in found.advice:
        note(f"settings: {advice}")
    made = found.corrections
    if made.photos:
        note(
            f"corrected by leads: {plural(made.photos, 'photo')}; boxes kept {made.boxes_kept:,}, moved "
            f"{made.boxes_moved:,}, deleted {made.boxes_deleted:,}, added {made.boxes_added:,}; "
            f"same chains for {made.same_chain or 1:.1%} of pairs of phrases"
        )
    if not found.workers:
        return
    table = numbers_table(
        "worker", ("judged", "skipped", "hours", found.currency, "checked", "accuracy", "seen"), "level"
    )
    now = time()
    in_use = {task.task for task in found.tasks}
    for each in found.workers:
        accuracy = "" if each.accuracy is None else f"{each.accuracy:.0%}"
        work = (f"{each.judged:,}", f"{each.skipped:,}", f"{each.hours:.1f}", f"{each.pay:,.2f}", f"{each.checked:,}")
        by_level: dict[str, list[str]] = {}
        for name, level in each.levels.items():
            if name in in_use:
                by_level.setdefault(level, []).append(name)
        levels = "; ".join(f"{level}: {', '.join(names)}" for level, names in by_level.items())
        levels = "suspended by an owner" if each.suspended else levels
        seen = _describe_seen(each.seen_at, now) + (f", {each.waiting:,} waiting" if each.waiting else "")
        table.add_row(each.name or f"({each.worker})", *work, accuracy, seen, levels)
    print_table(table)


def _describe_seen(at: float | None, now: float) -> str:
    if at is None:
        return ""
    minutes = max(now - at, 0) / 60
    sizes = ((1440, "days"), (60, "h"), (1, "min"))
    size, unit = next((each for each in sizes if minutes >= 2 * each[0]), sizes[-1])
    return f"{minutes / size:.0f} {unit} ago"


@app.command()
def pairs(
    project: Folder,
    out: Annotated[Path | None, option("FILE.jsonl", "Write each pair with its votes.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Show the accuracy of phrase–region pairs, by the majority of those who judged them."""
    from json import dumps

    from deixis.annotate.pairs import describe_pairs, score_pairs
    from deixis.storage.atomic import new_file

    with _open(project) as opened:
        scores = score_pairs(opened)
        if not scores.pairs:
            raise DeixisError(f"{project}: no pairs to judge; create a project with: deixis annotate init --pairs FILE")
        if out:
            with new_file(out) as unfinished, unfinished.open("w", encoding="utf-8") as lines:
                lines.writelines(dumps(row, ensure_ascii=False) + "\n" for row in describe_pairs(opened))
    if json:
        print_json(asdict(scores))
        return
    print(
        f"{scores.judged:,} of {plural(scores.pairs, 'pair')} judged, {plural(scores.judgements, 'vote')} of "
        f"{plural(scores.judges, 'person', 'people')}"
    )
    if scores.accuracy is not None:
        interval = scores.interval
        bounds = f" [{interval[0]:.1%}, {interval[1]:.1%}]" if interval else ""
        ties = f", {plural(scores.ties, 'tie')}" if scores.ties else ""
        print(f"right: {scores.right:,} ({scores.accuracy:.1%}{bounds}{ties})")
    if scores.agreement is not None:
        print(f"agreement of the votes: α {scores.agreement:.2f}")
    if out:
        note(f"written: {out}")


@app.command()
def review(
    project: Folder,
    photo: Annotated[str | None, argument("PHOTO", "Show the history of this photo.")] = None,
    reviewer: Annotated[str | None, option("NAME", "Name of the reviewer; required for decisions.", "--as")] = None,
    mention: Annotated[str | None, option("CAPTION:SPAN", "A mention as the history names it, such as 0:2-7.")] = None,
    decide: Annotated[
        str | None,
        option(
            "ANSWER",
            "For a chain: all, more, box, scene or 'no box'; for a phrase: keep, drop or add; "
            "for an open question: an answer of its task, or 'ask again' after skips.",
        ),
    ] = None,
    undo: Annotated[int | None, option("EVENT", "Undo this event.")] = None,
    reinstate: Annotated[str | None, option("NAME:TASK", "Let a suspended worker try again.")] = None,
    reassign: Annotated[str | None, option("NAME", "Give what waits for a worker who is absent to others.")] = None,
    until: Annotated[int | None, option("EVENT", "Show the photo as it was after this event.")] = None,
    json: Json = False,
) -> None:
    """Review photos.

    Without options, list the review queue. With PHOTO, show its history. With --decide, --undo, --reinstate or
    --reassign, record a decision of a reviewer.
    """
    with _open(project) as opened:
        if decide or undo is not None or reinstate or reassign:
            done = _record_decision(opened, reviewer, photo, mention, decide, undo, reinstate, reassign)
            print_result(json, done, ", ".join(f"{key} {value}" for key, value in done.items()))
        elif photo:
            _print_history(opened, photo, until, json)
        else:
            _print_queue(opened, project, json)


def _record_decision(
    opened: Project,
    name: str | None,
    photo: str | None,
    mention: str | None,
    decision: str | None,
    undo: int | None,
    reinstated: str | None,
    absent: str | None,
) -> dict[str, object]:
    """Record what a reviewer decides, and return it."""
    from deixis.annotate.judgements import undo_event
    from deixis.annotate.people import find_worker
    from deixis.annotate.quality import reinstate
    from deixis.annotate.review import decide, reassign
    from deixis.annotate.workflow import Task

    if name is None:
        raise DeixisError("--as NAME: name the reviewer; add one with: deixis annotate invite --role reviewer")
    with opened.database.reading() as connection:
        reviewer = find_worker(connection, name)
    if reinstated:
        if not reviewer.can_review:
            raise DeixisError(f"--as {name}: only reviewers and owners can reinstate workers")
        worker, _, task = reinstated.rpartition(":")
        if task not in set(Task):
            raise DeixisError(f"--reinstate {reinstated}: use NAME:TASK with one of the tasks {', '.join(Task)}")
        with opened.database.writing() as connection:
            level = reinstate(opened, connection, find_worker(connection, worker).id, Task(task))
        return {"worker": worker, "task": task, "level": level.value}
    if absent:
        with opened.database.reading() as connection:
            worker = find_worker(connection, absent).id
        return {"worker": absent} | asdict(reassign(opened, reviewer.id, worker))
    if undo is not None:
        with opened.database.writing() as connection:
            result = undo_event(opened, connection, reviewer.id, undo)
        return {"event": result.event, "undone": undo}
    if photo is None or mention is None or decision is None:
        raise DeixisError("--decide: also give the photo and --mention")
    number = decide(opened, reviewer.id, photo, mention, decision)
    return {"event": number, "photo": photo, "mention": mention, "decision": decision}


def _print_history(opened: Project, photo: str, until: int | None, json: bool) -> None:
    """Print the history of every chain of a photo."""
    from deixis.annotate.review import explain_photo

    chains, not_counted = explain_photo(opened, photo, until=until)
    if json:
        excluded = [asdict(entry) for entry in not_counted]
        print_json({"photo": photo, "chains": [asdict(chain) for chain in chains], "not_counted": excluded})
        return
    for chain in chains:
        named = ", ".join(f"{text} [{mention}]" for text, mention in zip(chain.phrases, chain.mentions, strict=True))
        boxes = f", {plural(len(chain.boxes), 'box', 'boxes')}" if chain.boxes else ""
        print(f"{named} ({', '.join(chain.types)}): {chain.place}{boxes}")
        _print_entries(chain.told)
    if not_counted:
        print("not counted:")
        _print_entries(not_counted)


def _print_entries(entries: Iterable[HistoryEntry]) -> None:
    for entry in entries:
        print(f"  #{entry.event} {entry.who}, {entry.said} → {entry.led_to}")


def _print_queue(opened: Project, project: Path, json: bool) -> None:
    """Print the cases that wait for a reviewer."""
    from deixis.annotate.review import review_queue

    queue = review_queue(opened)
    if json:
        print_json([asdict(case) for case in queue])
        return
    for case in queue:
        held = "holds up work; " if case.holds_up else ""
        print(f"{case.photo} [{case.mention}] {case.phrase}: {held}{case.reason} (#{case.event})")
    if not queue:
        print("the review queue is empty")
    else:
        print(f"next: deixis annotate review {project} {queue[0].photo}")


@app.command()
def export(
    project: Folder,
    to: To,
    out: Out,
    unfinished: Annotated[bool, flag("--unfinished", "Include unfinished photos.")] = False,
    with_photos: Annotated[bool, flag("--with-photos", "Include the image files.")] = False,
    pictures: Annotated[
        bool, flag("--pictures", "Also draw each photo; boxes of models are dotted and labelled.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Export the annotations with the provenance of each chain."""
    from deixis.annotate.export import PROVENANCE_FILE, export_project, image_folders

    with _open(project) as opened, progress("photos") as on_progress:
        folders = [out / "images"] if with_photos else image_folders(opened)
        written, left_out = export_project(
            opened,
            to,
            out,
            unfinished=unfinished,
            with_photos=with_photos,
            pictures=pictures,
            replace=force,
            on_progress=on_progress,
        )
    if json:
        print_json({"out": str(out), "format": to, "photos": written, "left_out": left_out})
        return
    print(f"{out}: {plural(written, 'photo')} as {to}; the provenance of each chain is in {PROVENANCE_FILE}")
    if left_out:
        note(f"skipped: {plural(left_out, 'unfinished photo')}")
    _print_training(to, out, folders)


_IMPORT_OPTIONS = {
    "entities": "--entities {out}",
    "jsonl": "--captions {out}/photos.jsonl",
    "label-studio": "--captions {out}/tasks.json",
}
"""How `deixis data import` reads the formats that hold all that a training needs."""


def _print_training(to: str, out: Path, folders: Sequence[Path]) -> None:
    """Print the commands that train a model on an export; a data set has one photo folder."""
    if to not in _IMPORT_OPTIONS or not folders:
        return
    if len(folders) > 1:
        note("the photos are in several folders; to train on them, export with --with-photos")
        return
    name = out.name.removesuffix(f".{to}")
    data, splits = quote(f"{name}.all.data"), quote(f"{name}.data")
    source = _IMPORT_OPTIONS[to].format(out=quote(str(out)))
    print(f"next: deixis data import {source} --images {quote(str(folders[0]))} --out {data}")
    print(f"then: deixis data split {data} --draw dev=N --rest train --out {splits}")
    print(f"and:  deixis train grounder --data {splits} --out MODEL")


@app.command()
def backup(project: Folder, out: Out, json: Json = False) -> None:
    """Copy a project. Workers may be active meanwhile."""
    from deixis.annotate.project import backup_project

    with _open(project) as opened:
        events = backup_project(opened, out)
    print_result(json, {"out": str(out), "events": events}, f"{out}: {plural(events, 'event')}")


@app.command()
def restore(
    backup: Annotated[Path, argument("BACKUP", "Directory that `backup` made.")],
    project: Folder,
    database: Annotated[str | None, option("URL", "Empty PostgreSQL database; by default, an SQLite file.")] = None,
    force: Annotated[bool, flag("--force", "Replace the project, which is kept beside the new one.")] = False,
    json: Json = False,
) -> None:
    """Make a project of a backup, after a check of all its rows. Its server must not run."""
    from deixis.annotate.project import restore_project
    from deixis.annotate.webhooks import list_webhooks

    events, old = restore_project(backup, project, url=database, replace=force)
    with _open(project) as opened:
        hooks = [each.url for each in list_webhooks(opened)]
    about = {"project": str(project), "events": events, "replaced": str(old) if old else None, "webhooks": hooks}
    kept = [f"the replaced project is in {old}"] if old else []
    kept += [
        f"its server sends events to {url} (deixis annotate webhook {project} --remove ID ends that)" for url in hooks
    ]
    print_result(json, about, f"{project}: {plural(events, 'event')} restored from {backup}", *kept)


@app.command()
def forget(project: Folder, name: Name, json: Json = False) -> None:
    """Delete the personal data of a worker.

    Name, invitation, password and remarks are deleted; judgements stay under an opaque id.
    """
    from deixis.annotate.people import forget_worker

    with _open(project) as opened:
        worker = forget_worker(opened, name)
    line = f"{name}: forgotten; judgements stay under {worker.id}"
    print_result(json, {"worker": worker.id, "forgotten": True}, line)
    if not json:
        note("earlier backups still contain the name")


@app.command()
def suspend(
    project: Folder,
    name: Name,
    resume: Annotated[bool, flag("--resume", "End the suspension.")] = False,
    json: Json = False,
) -> None:
    """Suspend a worker, or end a suspension.

    A suspended worker cannot log in and gets no questions. Name, password and judgements stay.
    """
    from deixis.annotate.people import resume_worker, suspend_worker

    with _open(project) as opened:
        worker = (resume_worker if resume else suspend_worker)(opened, name)
    end = f"{name}: suspended; to end it: deixis annotate suspend {project} {quote(name)} --resume"
    line = f"{name}: may work again" if resume else end
    print_result(json, {"worker": worker.id, "suspended": worker.suspended}, line)


@app.command()
def token(
    project: Folder,
    name: Annotated[str | None, argument("NAME", "Name or id of the worker whose rights the token has.")] = None,
    use: Annotated[str, option("TEXT", "What the token is for.", "--for")] = "script",
    days: Annotated[int, option("N", "Days until it expires.", min=1)] = 365,
    revoke: Annotated[str | None, option("ID", "Revoke the token with this id.")] = None,
    json: Json = False,
) -> None:
    """Make an API token for programs, or list or revoke tokens.

    Without NAME, list the tokens of all workers.
    """
    from datetime import UTC, datetime

    from deixis.annotate.people import create_token, list_tokens, revoke_token

    with _open(project) as opened:
        if revoke:
            revoke_token(opened, revoke)
            print_result(json, {"revoked": revoke}, f"{revoke}: revoked")
        elif name:
            number, secret = create_token(opened, name, use, days=days)
            print_result(json, {"id": number, "token": secret}, secret)
            note("this is shown once; anyone who has it acts as this worker")
        else:
            found = list_tokens(opened)
            lines = (
                f"{each.id}  {each.who}, {each.name}, until {datetime.fromtimestamp(each.until, UTC).date()}"
                for each in found
            )
            if json or found:
                print_result(json, [asdict(each) for each in found], *lines)
            if not found:
                note(f"no tokens; make one with: deixis annotate token {project} NAME")


@app.command()
def webhook(
    project: Folder,
    add: Annotated[str | None, option("URL", "Send messages to this address.")] = None,
    on: Annotated[
        str, option("KINDS", "Messages for --add: judgement, photo.finished, photo.reopened, review.needed.")
    ] = "photo.finished,review.needed",
    remove: Annotated[str | None, option("ID", "Remove a webhook.")] = None,
    retry: Annotated[str | None, option("ID", "Send the messages of a webhook that were given up again.")] = None,
    json: Json = False,
) -> None:
    """Send signed messages about judgements and photos to other programs, or list where they go.

    The server sends them, and again if they fail, for three days.
    """
    from deixis.annotate.webhooks import add_webhook, list_webhooks, remove_webhook, retry_failed

    with _open(project) as opened:
        if add:
            made = add_webhook(opened, add, [kind.strip() for kind in on.split(",")])
            print_result(json, asdict(made), f"{made.id}: {made.url}", f"secret: {made.secret}")
            note("the secret is shown once; receivers check signatures with deixis.annotate.verify_webhook")
        elif remove:
            remove_webhook(opened, remove)
            print_result(json, {"removed": remove}, f"{remove}: removed")
        elif retry:
            count = retry_failed(opened, retry)
            print_result(json, {"again": count}, f"{plural(count, 'message')} will be sent again")
        else:
            found = list_webhooks(opened)
            lines = (
                f"{each.id}  {each.url} ({', '.join(each.kinds)}): {each.waiting:,} waiting, {each.failed:,} given up"
                f"{'; ' + each.error if each.error else ''}"
                for each in found
            )
            if json or found:
                print_result(json, [asdict(each) for each in found], *lines)
            if not found:
                note(f"no webhooks; add one with: deixis annotate webhook {project} --add URL")


@app.command()
def propose(project: Folder, json: Json = False) -> None:
    """Let models propose links and boxes.

    The settings of the project choose the models. Photos with judgements are skipped.
    """
    from deixis.annotate.help.proposals import propose_by_settings

    with _open(project) as opened, progress("photos") as on_progress:
        counts = propose_by_settings(opened, on_progress)
    _note_proposals(counts)
    if json:
        print_json(
            {"project": str(project), "photos": counts.photos, "begun": counts.begun, "known_questions": counts.known}
        )


def _note_proposals(counts: ProposalCounts) -> None:
    note(f"proposals for {plural(counts.photos, 'photo')}, marks on {plural(counts.known, 'known question')}")
    if counts.begun:
        note(f"skipped: {plural(counts.begun, 'photo')} with judgements")


@app.command()
def hire(
    project: Folder,
    url: Annotated[str, option("URL", "Public address of the server: https://…", show_default=False)],
    people: Annotated[int, option("N", "Number of workers; each does one assignment.", show_default=False)],
    reward: Annotated[float, option("DOLLARS", "Payment per assignment, in US dollars.", show_default=False)],
    items: Annotated[int, option("N", "Questions per assignment.")] = 20,
    minutes: Annotated[int, option("N", "Time per assignment, in minutes.")] = 60,
    days: Annotated[int, option("N", "Number of days the HIT is available.")] = 7,
    live: Live = False,
    json: Json = False,
) -> None:
    """Create a HIT on Mechanical Turk.

    Requires boto3 and AWS credentials.
    """
    from deixis.annotate.workforce import Offer, find_workforce

    offer = Offer(url, people, reward, items, minutes, days)
    with _open(project) as opened:
        hit_id = find_workforce().hire(opened, offer, live=live)
    if json:
        print_json({"hit": hit_id, "live": live, "people": people, "items": items})
        return
    print(f"HIT {hit_id}: {plural(people, 'person', 'people')}, {plural(items, 'question')} each")
    note(
        "created in the sandbox; use --live for the paid service"
        if not live
        else f"costs up to ${people * reward:,.2f} plus fees"
    )
    print(f"next: keep deixis annotate serve {project} --url {url} running; later: deixis annotate settle {project}")


@app.command()
def settle(project: Folder, live: Live = False, json: Json = False) -> None:
    """Approve complete assignments on Mechanical Turk.

    Incomplete and unknown assignments are listed.
    """
    from deixis.annotate.workforce import find_workforce

    with _open(project) as opened:
        done = find_workforce().settle(opened, live=live)
    yourself = "approve or reject it yourself"
    print_result(
        json,
        asdict(done),
        f"{plural(len(done.approved), 'assignment')} approved",
        *(f"{name}: not complete; {yourself}" for name in done.not_done),
        *(f"{name}: not done in this project by the worker who submitted it; {yourself}" for name in done.unknown),
    )


@app.command()
def workflow(json: Json = False) -> None:
    """Show the transition table of the tasks."""
    from deixis.annotate.workflow import workflow_rows

    if json:
        print_json([dict(zip(("in", "told", "does", "if", "to"), row, strict=True)) for row in workflow_rows()])
        return
    from rich.table import Table

    table = Table("stage", "answers", "action", "condition", "next stage")
    before = ""
    for row in workflow_rows():
        if before and row[0] != before:
            table.add_section()
        table.add_row(row[0] if row[0] != before else "", *row[1:])
        before = row[0]
    print_table(table)
