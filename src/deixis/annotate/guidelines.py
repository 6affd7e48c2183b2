"""The guidelines of each task, with examples. Owners can edit them.

They are plain text: a blank line starts a paragraph, and a line that starts with "- " is a list item. Every edit is a
new version. Judgements record the version that the worker saw, so a project stores the texts of all versions: version 0
is the default of the deixis that served it first, which a newer deixis does not replace.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from sqlalchemy import Connection, select

from deixis.annotate.events import Judged
from deixis.annotate.project import Project
from deixis.annotate.store import events, properties, read_property, write_property
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workflow import Task, allowed_answers

MAX_TEXT_LENGTH = 10_000
MAX_EXAMPLE_LENGTH = 500
MAX_EXAMPLES = 20
_KEY = "guidelines:"
_OLD_KEY = "old guidelines:"


@dataclass(frozen=True, slots=True)
class Example:
    """An example: the shown phrase or box, the correct answer and the reason."""

    shown: str
    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class Guideline:
    """The guideline of a task."""

    text: str
    examples: tuple[Example, ...] = ()
    version: int = 0


DEFAULTS: dict[Task, Guideline] = {
    Task.LINK: Guideline(
        "Two captions describe the same photo. Do the two marked phrases name the same thing or the same people?\n\n"
        "- Look at the photo: words alone can mislead.\n"
        "- Different words may name the same thing, and the same words two things.\n"
        "- A group and one of its members are not the same.",
        (
            Example("“a woman” · “the lady in red”", "yes", "The photo shows one woman, and she wears red."),
            Example("“two boys” · “a boy”", "no", "One phrase names both, the other only one of them."),
        ),
    ),
    Task.VERIFY: Guideline(
        "Do all the marked phrases name the same thing or the same people?\n\n"
        "- One phrase that names something else makes the answer no.",
        (
            Example("“a dog” · “the puppy” · “a brown animal”", "yes", "All three name the dog."),
            Example("“a man” · “a guy” · “a man” who is another man", "no", "Two men are meant."),
        ),
    ),
    Task.REQUIREMENT: Guideline(
        "Could you draw a box around what the marked phrase names?\n\n"
        "- A box can be drawn: it can be seen, and has borders.\n"
        "- Scene or place: it is the place as a whole, or an event.\n"
        "- No box can be drawn: it cannot be seen in the photo, or has no place in it.",
        (
            Example("“a red ball”", "box", "It can be seen and has borders."),
            Example("“a busy street”", "scene", "It is the place where everything happens."),
            Example("“the distance”", "no box", "It is nothing that could be pointed at."),
        ),
    ),
    Task.DRAWING: Guideline(
        "Draw one box around something that the marked phrase names and that has no box yet.\n\n"
        "- As small as possible, with every visible part inside.\n"
        "- One box for each thing, if they can be distinguished: two dogs, two boxes. One box for a crowd.\n"
        "- If everything has a box already, or nothing can be drawn, say so.",
        (
            Example("“two dogs”, one has a box", "drawn", "The other dog needs a box of its own."),
            Example("“a hat” that is not in the photo", "no more", "There is nothing to draw."),
        ),
    ),
    Task.QUALITY: Guideline(
        "Is the highlighted box a good one for the marked phrase?\n\n"
        "- Good: it shows what the phrase names, all of it, and little else.\n"
        "- Bad: it cuts something off, is much too large, or shows something else, or several things at once.\n"
        "- If only its sides are wrong, adjust it.",
        (
            Example("“a dog”, the box ends at its neck", "bad", "The head is cut off."),
            Example("“a dog”, the box leaves a narrow margin", "good", "A few pixels do not matter."),
        ),
    ),
    Task.COVERAGE: Guideline(
        "Does everything that the marked phrase names have a box?\n\n"
        "- All are there: nothing is missing.\n"
        "- One is missing: something that the phrase names has no box yet.\n"
        "- A box is wrong: it shows something else, or fits badly. Somebody else judges it again.",
        (
            Example("“three girls”, two boxes", "more", "One girl has no box."),
            Example("“a crowd”, one box around it", "all", "A crowd has one box."),
        ),
    ),
    Task.GROUP: Guideline(
        "These phrases come from captions of the same photo. Put those together that name the same thing or people.\n\n"
        "- Look at the photo: words alone can mislead.\n"
        "- A group and one of its members are not the same.\n"
        "- A phrase that names something that no other one names stays alone.",
        (
            Example("“a woman” · “the lady in red” · “a dog”", "grouped", "The first two name one woman."),
            Example("“two boys” · “a boy”", "grouped", "Each stays alone: one names both, the other one of them."),
        ),
    ),
    Task.PAIR: Guideline(
        "A program chose this region for the marked phrase. Is it right?\n\n"
        "- Right: the region shows what the phrase names. It need not be tight.\n"
        "- Wrong: it shows something else, less than half of it, or mostly other things.",
        (
            Example("“a dog”, the region shows the dog and some grass", "right", "The dog is what it shows."),
            Example("“a dog”, the region shows the whole street", "wrong", "The dog is a small part of it."),
        ),
    ),
}


def keep_default_guidelines(project: Project) -> None:
    """Store the defaults of the tasks that have no guideline yet, before anybody sees them.

    In a project of an older deixis, which stored none, judgements of version 0 may have been made with other defaults.
    They are version 1 then.
    """
    with project.database.writing() as connection:
        stored = set(connection.scalars(select(properties.c.key).where(properties.c.key.startswith(_KEY))))
        for task in Task:
            if _KEY + task.value in stored:
                continue
            judged = select(events.c.number).where(events.c.kind == Judged.kind, events.c.task == task.value).limit(1)
            version = 0 if connection.execute(judged).first() is None else 1
            default = asdict(replace(DEFAULTS[task], version=version))
            write_property(connection, _KEY + task.value, json.dumps(default))


def read_guidelines(project: Project) -> dict[Task, Guideline]:
    with project.database.reading() as connection:
        rows = connection.execute(select(properties).where(properties.c.key.startswith(_KEY))).all()
    edited = {key.removeprefix(_KEY): _from_json(value) for key, value in rows}
    found = {task: edited.get(task.value, DEFAULTS[task]) for task in Task}
    project.guideline_versions = {task: guideline.version for task, guideline in found.items()}
    return found


def guideline_version(project: Project, connection: Connection, task: Task) -> int:
    """Return the version in force. It is cached, because only the server that asks the questions edits guidelines."""
    if task not in project.guideline_versions:
        text = read_property(connection, _KEY + task.value)
        project.guideline_versions[task] = _from_json(text).version if text else 0
    return project.guideline_versions[task]


def read_guideline_history(project: Project, task: Task) -> list[Guideline]:
    """List the stored versions of a guideline, oldest first."""
    keys = properties.c.key.startswith(f"{_OLD_KEY}{task.value}:") | (properties.c.key == _KEY + task.value)
    with project.database.reading() as connection:
        texts = connection.scalars(select(properties.c.value).where(keys)).all()
    return sorted(map(_from_json, texts), key=lambda guideline: guideline.version)


def write_guideline(project: Project, task: Task, guideline: Guideline) -> Guideline:
    """Store a new version and return it."""
    if len(guideline.text) > MAX_TEXT_LENGTH or len(guideline.examples) > MAX_EXAMPLES:
        raise RefusedError(f"a guideline has at most {MAX_TEXT_LENGTH:,} characters and {MAX_EXAMPLES} examples")
    answers = [answer.value for answer in allowed_answers(task)]
    for example in guideline.examples:
        if example.answer not in answers:
            raise RefusedError(
                f"{example.answer[:40]!r} is not an answer of the task {task.value}; choose from: {', '.join(answers)}"
            )
        if max(len(example.shown), len(example.why)) > MAX_EXAMPLE_LENGTH:
            raise RefusedError(f"an example has at most {MAX_EXAMPLE_LENGTH} characters")
    with project.database.writing() as connection:
        before = read_property(connection, _KEY + task.value)
        old = _from_json(before) if before else DEFAULTS[task]
        write_property(connection, f"{_OLD_KEY}{task.value}:{old.version}", before or json.dumps(asdict(old)))
        new = replace(guideline, version=old.version + 1)
        write_property(connection, _KEY + task.value, json.dumps(asdict(new)).replace("\\u0000", ""))
    project.guideline_versions[task] = new.version
    return new


def _from_json(text: str) -> Guideline:
    plain = json.loads(text)
    examples = tuple(Example(**example) for example in plain["examples"])
    return Guideline(plain["text"], examples, plain.get("version", 1))  # edits were not counted before
