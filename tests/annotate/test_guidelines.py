"""Guidelines of the tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deixis.annotate.events import Judged
from deixis.annotate.guidelines import (
    DEFAULTS,
    Example,
    Guideline,
    read_guideline_history,
    read_guidelines,
    write_guideline,
)
from deixis.annotate.transactions import RefusedError
from deixis.annotate.workflow import Task, allowed_answers
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import ask, people, record, snapshot


def test_every_task_has_guidelines_whose_examples_are_answers() -> None:
    assert set(DEFAULTS) == set(Task)
    for task, guideline in DEFAULTS.items():
        answers = {example.answer for example in guideline.examples}
        assert answers <= {answer.value for answer in allowed_answers(task)}
        assert len(answers) > 1 or task is Task.GROUP, f"the examples of {task} show one answer only"


def test_guidelines_are_stored_unchanged(new_project: MakeProject) -> None:
    project, _ = new_project()
    mine = Guideline("<script>alert(1)</script>\n\n- שלום 🐕", (Example("“a”", "no", "because"),))
    write_guideline(project, Task.LINK, mine)
    write_guideline(project, Task.LINK, mine)
    assert read_guidelines(project) == {**DEFAULTS, Task.LINK: replace(mine, version=2)}


def test_judgements_record_the_version_that_the_worker_saw(new_project: MakeProject) -> None:
    project, _ = new_project(4)
    [ann] = people(project, "Ann")
    versions = []
    for text, shown in (("", None), ("first", None), ("second", 1), ("", 99)):
        if text:
            write_guideline(project, Task.LINK, Guideline(text))
        question = ask(project, ann, tasks=[Task.LINK])
        record(project, ann, question.token, "no", guideline=shown)
        [judged] = snapshot(project, question.photo).events
        assert isinstance(judged, Judged)
        versions.append(judged.guideline)
    assert versions == [0, 1, 1, 2]
    assert [each.text for each in read_guideline_history(project, Task.LINK)] == [
        DEFAULTS[Task.LINK].text,
        "first",
        "second",
    ]


@pytest.mark.parametrize(
    "guideline",
    [
        Guideline("x" * 10_001),
        Guideline("", (Example("", "box", ""),)),
        Guideline("", (Example("x" * 501, "yes", ""),)),
        Guideline("", (Example("", "yes", ""),) * 21),
    ],
)
def test_long_guidelines_and_invalid_examples_are_refused(new_project: MakeProject, guideline: Guideline) -> None:
    project, _ = new_project()
    with pytest.raises(RefusedError):
        write_guideline(project, Task.LINK, guideline)
    assert read_guidelines(project) == DEFAULTS
