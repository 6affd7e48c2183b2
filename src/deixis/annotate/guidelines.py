"""What workers are told about each task, with examples: ours at first, then as the project's owner edits them.

They are plain text. A blank line begins a paragraph, a line that begins with "- " is a point of a list.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy import delete, insert, select

from deixis.annotate.changing import RefusedError
from deixis.annotate.project import Project
from deixis.annotate.store.schema import about
from deixis.annotate.walks import Task
from deixis.annotate.workflow import answers_to

LONGEST_TEXT = 10_000
LONGEST_EXAMPLE = 500
MOST_EXAMPLES = 20
_KEY = "guidelines:"


@dataclass(frozen=True, slots=True)
class Example:
    """What is shown, the right answer, and why it is right."""

    shown: str
    answer: str
    why: str


@dataclass(frozen=True, slots=True)
class Guideline:
    """What workers are told about a task."""

    text: str
    examples: tuple[Example, ...] = ()


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
        "- box: it can be seen, and has borders.\n"
        "- scene: it is the place as a whole, or an event.\n"
        "- no box: it cannot be seen in the photo, or has no place in it.",
        (
            Example("“a red ball”", "box", "It can be seen and has borders."),
            Example("“a busy street”", "scene", "It is the place where everything happens."),
            Example("“the distance”", "no box", "It is nothing that could be pointed at."),
        ),
    ),
    Task.DRAWING: Guideline(
        "Draw one box around something that the marked phrase names and that has no box yet.\n\n"
        "- As small as possible, with every visible part inside.\n"
        "- One box for each thing, if they can be told apart: two dogs, two boxes. One box for a crowd.\n"
        "- If everything has a box already, or nothing can be drawn, say so.",
        (
            Example("“two dogs”, one has a box", "drawn", "The other dog needs a box of its own."),
            Example("“a hat” that is not in the photo", "no more", "There is nothing to draw."),
        ),
    ),
    Task.QUALITY: Guideline(
        "Is the highlighted box a good one for the marked phrase?\n\n"
        "- good: it shows what the phrase names, all of it, and little else.\n"
        "- bad: it cuts something off, is much too large, or shows something else, or several things at once.",
        (
            Example("“a dog”, the box ends at its neck", "bad", "The head is cut off."),
            Example("“a dog”, the box leaves a narrow margin", "good", "A few pixels do not matter."),
        ),
    ),
    Task.COVERAGE: Guideline(
        "Does everything that the marked phrase names have a box?\n\n"
        "- all: nothing is missing.\n"
        "- more: something that the phrase names has no box yet.",
        (
            Example("“three girls”, two boxes", "more", "One girl has no box."),
            Example("“a crowd”, one box around it", "all", "A crowd has one box."),
        ),
    ),
}


def read_guidelines(project: Project) -> dict[Task, Guideline]:
    """What workers are told, for all tasks."""
    with project.database.reading() as connection:
        rows = connection.execute(select(about.c.key, about.c.value).where(about.c.key.startswith(_KEY))).all()
    edited = {key.removeprefix(_KEY): _from_json(value) for key, value in rows}
    return {task: edited.get(task.value, DEFAULTS[task]) for task in Task}


def write_guideline(project: Project, task: Task, guideline: Guideline) -> None:
    """Keep what the owner wrote about a task.

    Raises
    ------
    RefusedError
        Where it is too long, or an example's answer is none of the task's.
    """
    if len(guideline.text) > LONGEST_TEXT or len(guideline.examples) > MOST_EXAMPLES:
        raise RefusedError(f"guidelines have at most {LONGEST_TEXT:,} characters and {MOST_EXAMPLES} examples")
    answers = [answer.value for answer in answers_to(task)]
    for example in guideline.examples:
        if example.answer not in answers:
            raise RefusedError(
                f"{example.answer[:40]!r} is no answer in {task.value}; choose from: {', '.join(answers)}"
            )
        if max(len(example.shown), len(example.why)) > LONGEST_EXAMPLE:
            raise RefusedError(f"an example has at most {LONGEST_EXAMPLE} characters")
    text = json.dumps(asdict(guideline)).replace("\\u0000", "")
    with project.database.writing() as connection:
        connection.execute(delete(about).where(about.c.key == _KEY + task.value))
        connection.execute(insert(about), {"key": _KEY + task.value, "value": text})


def _from_json(text: str) -> Guideline:
    plain = json.loads(text)
    return Guideline(plain["text"], tuple(Example(**example) for example in plain["examples"]))
