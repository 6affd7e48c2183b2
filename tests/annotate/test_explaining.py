"""Why things are as they are."""

from __future__ import annotations

from deixis.annotate.explaining import explain
from deixis.annotate.people import Role
from deixis.annotate.recording import undo
from deixis.annotate.walks import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, people


def test_every_judgement_is_told_with_the_row_that_it_led_along(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    answer(project, bob, Answer.SCENE, Task.REQUIREMENT)
    [story], lost = explain(project, "dog0")
    assert story.phrases == ("A dog", "The dog")
    assert [(told.who, told.said) for told in story.told] == [
        ("Ann", "link: yes"),
        ("Ann", "verify: yes"),
        ("Bob", "requirement: scene"),
    ]
    assert story.told[0].led_to == "join the chain; always; to in a chain"
    assert (story.place, lost) == ("requirement", [])


def test_any_moment_can_be_seen_again_and_what_counts_no_more_says_why(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    link = answer(project, ann, Answer.YES, Task.LINK)
    answer(project, ann, Answer.YES, Task.VERIFY)
    undo(project, rob, link)
    stories, lost = explain(project, "dog0")
    assert [story.place for story in stories] == ["mentions may still join"]
    assert [told.led_to for told in lost] == ["undone by event 3", "what it was about is not there any more"]
    [story], lost = explain(project, "dog0", until=2)
    assert (story.place, lost) == ("requirement", [])
