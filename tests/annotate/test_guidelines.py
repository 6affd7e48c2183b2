"""Guidelines of the tasks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deixis.annotate.events import Judged
from deixis.annotate.guidelines import (
    Example,
    Guideline,
    default_guidelines,
    keep_default_guidelines,
    read_guideline_history,
    read_guidelines,
    write_guideline,
)
from deixis.annotate.store import RefusedError
from deixis.annotate.workflow import Task, allowed_answers
from tests.annotate.conftest import MakeProject, on_both_databases
from tests.annotate.fakes import ask, people, record, snapshot


def test_every_task_has_guidelines_whose_examples_are_answers() -> None:
    assert set(default_guidelines()) == set(Task)
    for task, guideline in default_guidelines().items():
        if task is Task.OWN:  # its answers are the lead's
            continue
        answers = {example.answer for example in guideline.examples}
        assert answers <= {answer.value for answer in allowed_answers(task)}
        assert len(answers) > 1 or task is Task.GROUP, f"the examples of {task} show one answer only"


def test_guidelines_are_stored_unchanged(new_project: MakeProject) -> None:
    project, _ = new_project()
    mine = Guideline("<script>alert(1)</script>\n\n- שלום 🐕", (Example("“a”", "no", "because"),))
    write_guideline(project, Task.LINK, mine)
    write_guideline(project, Task.LINK, mine)
    assert read_guidelines(project) == {**default_guidelines(), Task.LINK: replace(mine, version=2)}


@on_both_databases
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
        default_guidelines()[Task.LINK].text,
        "first",
        "second",
    ]


def test_a_project_keeps_the_defaults_that_its_workers_saw(
    new_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, _ = new_project()
    keep_default_guidelines(project)
    old = default_guidelines()[Task.LINK]
    monkeypatch.setitem(default_guidelines(), Task.LINK, Guideline("of a newer deixis"))
    keep_default_guidelines(project)
    assert read_guidelines(project)[Task.LINK] == old
    write_guideline(project, Task.LINK, Guideline("mine"))
    assert [(each.version, each.text) for each in read_guideline_history(project, Task.LINK)] == [
        (0, old.text),
        (1, "mine"),
    ]


def test_defaults_are_a_new_version_where_earlier_judgements_may_have_followed_others(new_project: MakeProject) -> None:
    project, _ = new_project()
    [ann] = people(project, "Ann")
    record(project, ann, ask(project, ann).token, "yes")  # with a deixis that did not store its defaults
    keep_default_guidelines(project)
    assert read_guidelines(project)[Task.LINK] == replace(default_guidelines()[Task.LINK], version=1)
    assert read_guidelines(project)[Task.QUALITY].version == 0


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
    assert read_guidelines(project) == default_guidelines()
