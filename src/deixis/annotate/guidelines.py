"""The guidelines of each task, with examples. Owners can edit them.

They are plain text: a blank line starts a paragraph, and a line that starts with "- " is a list item. Every edit is a
new version. Judgements record the version that the worker saw, so a project stores the texts of all versions: version 0
is the default of the deixis that served it first, which a newer deixis does not replace.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from deixis.annotate.events import Judged
from deixis.annotate.store import RefusedError, events, properties, read_property, write_property
from deixis.annotate.workflow import Task

if TYPE_CHECKING:
    from deixis.annotate.project import Project

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


@cache
def default_guidelines() -> dict[Task, Guideline]:
    """Read the defaults of all tasks."""
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    return {
        Task(task): Guideline(each["text"], tuple(Example(**example) for example in each["examples"]))
        for task, each in found.items()
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
            default = asdict(replace(default_guidelines()[task], version=version))
            write_property(connection, _KEY + task.value, json.dumps(default))


def read_guidelines(project: Project) -> dict[Task, Guideline]:
    with project.database.reading() as connection:
        rows = connection.execute(select(properties).where(properties.c.key.startswith(_KEY))).all()
    edited = {key.removeprefix(_KEY): _from_json(value) for key, value in rows}
    found = {task: edited.get(task.value, default_guidelines()[task]) for task in Task}
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
    answers = project.settings.answers_of(task)
    for example in guideline.examples:
        if answers and example.answer not in answers:
            raise RefusedError(
                f"{example.answer[:40]!r} is not an answer of the task {task.value}; choose from: {', '.join(answers)}"
            )
        if max(len(example.shown), len(example.why)) > MAX_EXAMPLE_LENGTH:
            raise RefusedError(f"an example has at most {MAX_EXAMPLE_LENGTH} characters")
    with project.database.writing() as connection:
        before = read_property(connection, _KEY + task.value)
        old = _from_json(before) if before else default_guidelines()[task]
        write_property(connection, f"{_OLD_KEY}{task.value}:{old.version}", before or json.dumps(asdict(old)))
        new = replace(guideline, version=old.version + 1)
        write_property(connection, _KEY + task.value, json.dumps(asdict(new)).replace("\\u0000", ""))
    project.guideline_versions[task] = new.version
    return new


def _from_json(text: str) -> Guideline:
    plain = json.loads(text)
    examples = tuple(Example(**example) for example in plain["examples"])
    return Guideline(plain["text"], examples, plain.get("version", 1))  # edits were not counted before
