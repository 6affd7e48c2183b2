"""What `deixis annotate review` does and says."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from deixis.cli.output import plural, print_json
from deixis.errors import DeixisError

if TYPE_CHECKING:
    from deixis.annotate.explaining import Story, Told
    from deixis.annotate.project import Project


def decide_on(
    opened: Project,
    reviewer: str | None,
    photo: str | None,
    mention: str | None,
    decision: str | None,
    event: int | None,
    reinstated: str | None,
    json: bool,
) -> None:
    """Do what a reviewer has decided, and say so."""
    from deixis.annotate import control
    from deixis.annotate.events import MARKINGS
    from deixis.annotate.people import find_worker
    from deixis.annotate.recording import undo
    from deixis.annotate.reviewing import mark, rule
    from deixis.annotate.walks import Task

    if reviewer is None:
        raise DeixisError("--as NAME: say who decides; make a reviewer with: deixis annotate invite --role reviewer")
    with opened.database.reading() as connection:
        who = find_worker(connection, reviewer)
    if reinstated:
        name, _, task = reinstated.rpartition(":")
        if task not in set(Task) or not who.reviews:
            raise DeixisError(f"--reinstate {reinstated}: give NAME:TASK, a task being one of: {', '.join(Task)}")
        with opened.database.writing() as connection:
            level = control.reinstate(opened, connection, find_worker(connection, name).id, Task(task))
        answer: dict[str, object] = {"worker": name, "task": task, "level": level.value}
    elif event is not None:
        answer = {"event": undo(opened, who.id, event).event, "undone": event}
    elif photo is None or mention is None or decision is None:
        raise DeixisError("--decide: name the photo and the --mention that it is about")
    else:
        decided = (mark if decision in MARKINGS else rule)(opened, who.id, photo, mention, decision)
        answer = {"event": decided.event, "photo": photo, "mention": mention, "decision": decision}
    if json:
        print_json(answer)
    else:
        print(", ".join(f"{key} {value}" for key, value in answer.items()))


def explain_photo(opened: Project, photo: str, until: int | None, json: bool) -> None:
    """Tell the story of every chain of a photo."""
    from deixis.annotate.explaining import explain

    stories, not_counted = explain(opened, photo, until=until)
    if json:
        lost = [asdict(each) for each in not_counted]
        print_json({"photo": photo, "chains": [asdict(story) for story in stories], "not_counted": lost})
        return
    for story in stories:
        _print_story(story)
    if not_counted:
        print("counts no more:")
        _print_told(not_counted)


def _print_story(story: Story) -> None:
    named = ", ".join(f"{text} [{place}]" for text, place in zip(story.phrases, story.mentions, strict=True))
    boxes = f", {plural(len(story.boxes), 'box', 'boxes')}" if story.boxes else ""
    print(f"{named} ({', '.join(story.types)}): {story.place}{boxes}")
    _print_told(story.told)


def _print_told(told: list[Told] | tuple[Told, ...]) -> None:
    for each in told:
        print(f"  #{each.event} {each.who}, {each.said} → {each.led_to}")


def list_queue(opened: Project, project: Path, json: bool) -> None:
    """Tell what waits for a reviewer."""
    from deixis.annotate.reviewing import review_queue

    queue = review_queue(opened)
    if json:
        print_json([asdict(item) for item in queue])
        return
    for item in queue:
        held = "holds work up; " if item.holds_up else ""
        print(f"{item.photo} [{item.mention}] {item.phrase}: {held}{item.reason} (#{item.event})")
    if not queue:
        print("nothing waits for a reviewer")
    else:
        print(f"next: deixis annotate review {project} {queue[0].photo}")
