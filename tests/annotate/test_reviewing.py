"""Reviewers: what waits for them, and what they decide."""

from __future__ import annotations

import pytest

from deixis.annotate.assigning import next_question
from deixis.annotate.changing import RefusedError
from deixis.annotate.people import Role
from deixis.annotate.project import Project
from deixis.annotate.recording import record, skip
from deixis.annotate.reviewing import mark, review_queue, rule
from deixis.annotate.walks import Answer, Task
from deixis.errors import DeixisError
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, ask, people


def to_requirement(project: Project, worker: str) -> None:
    answer(project, worker, Answer.YES, Task.LINK)
    answer(project, worker, Answer.YES, Task.VERIFY)


def test_a_chain_that_cycles_waits_for_a_reviewer_whose_word_ends_it(new_project: MakeProject) -> None:
    project, _ = new_project(1, votes_to_review=3)
    workers = people(project, "Ann", "Bob", "Cy")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    to_requirement(project, workers[0])
    answer(project, workers[0], Answer.BOX, Task.REQUIREMENT)
    answer(project, workers[1], Answer.NO_MORE, Task.DRAWING)
    answer(project, workers[2], Answer.BOX, Task.REQUIREMENT)
    assert next_question(project, rob) is None
    [item] = review_queue(project)
    assert (item.photo, item.phrase, item.holds_up) == ("dog0", "The dog", True)
    with pytest.raises(RefusedError, match="has no box, so not all can be drawn"):
        rule(project, rob, "dog0", item.mention, "all")
    with pytest.raises(RefusedError, match="only reviewers and owners"):
        rule(project, workers[0], "dog0", item.mention, "no box")
    with pytest.raises(RefusedError, match="is no answer in review"):
        rule(project, rob, "dog0", item.mention, "perhaps")
    with pytest.raises(RefusedError, match="no chain has the mention 0:1-2"):
        rule(project, rob, "dog0", "0:1-2", "no box")
    with pytest.raises(RefusedError, match="there is no photo 'cat'"):
        rule(project, rob, "cat", item.mention, "no box")
    rule(project, rob, "dog0", "0:0-5", "no box")
    assert review_queue(project) == []
    with project.database.reading() as connection:
        assert project.folds.at(connection, "dog0").state.finished


def test_a_remark_waits_until_a_reviewer_has_looked_at_the_photo(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [ann] = people(project, "Ann")
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    given = ask(project, ann)
    record(project, ann, given.token, "yes", remark="  <b>two</b> dogs?  ")
    assert [item.reason for item in review_queue(project)] == ["remark: <b>two</b> dogs?"]
    mark(project, rob, "dog0", "0:0-5", "keep")
    assert review_queue(project) == []


def test_a_phrase_is_dropped_added_and_kept(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    ann, bob = people(project, "Ann", "Bob")
    [rob] = people(project, "Rob", role=Role.OWNER)
    for worker in (ann, bob):
        given = ask(project, worker)
        skip(project, worker, given.token, bad_phrase="1:0-7")
    [item] = review_queue(project)
    assert (item.phrase, item.holds_up) == ("The dog", True)
    with pytest.raises(RefusedError, match="overlaps with 0:0-5"):
        mark(project, rob, "dog0", "0:2-8", "add")
    with pytest.raises(RefusedError, match="is no decision on a phrase"):
        mark(project, rob, "dog0", "0:0-5", "paint")
    with pytest.raises(DeixisError, match="no caption has a mention"):
        mark(project, rob, "dog0", "7:0-5", "drop")
    mark(project, rob, "dog0", "1:0-7", "drop")
    mark(project, rob, "dog0", "1:8-13", "add", types=("other",))
    with project.database.reading() as connection:
        state = project.folds.at(connection, "dog0").state
    assert [chain.shown.text for chain in state.chains] == ["A dog", "jumps"]
    assert review_queue(project) == []


def test_boxes_of_a_chain_that_is_not_whole_cannot_be_decided(new_project: MakeProject) -> None:
    project, _ = new_project(1)
    [rob] = people(project, "Rob", role=Role.REVIEWER)
    with pytest.raises(RefusedError, match="is not whole yet"):
        rule(project, rob, "dog0", "0:0-5", "no box")
