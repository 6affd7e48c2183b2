"""What people see of their own work."""

from __future__ import annotations

from sqlalchemy import select

from deixis.annotate.known import add_known
from deixis.annotate.mine import my_work
from deixis.annotate.recording import record
from deixis.annotate.store.schema import known, leases
from deixis.annotate.walks import Answer, Task
from tests.annotate.conftest import MakeProject
from tests.annotate.fakes import answer, ask, gold, people


def test_hours_and_pay_are_of_their_own_judgements(new_project: MakeProject) -> None:
    project, _ = new_project(photos=2, pay_per_hour=36.0)
    ann, bob = people(project, "ann", "bob")
    answer(project, ann, Answer.YES)
    answer(project, bob, Answer.YES)
    mine = my_work(project, ann)
    assert mine.judged == {Task.LINK: 1}
    assert abs(mine.pay - 0.03) < 1e-9
    assert (mine.photos, mine.finished) == (2, 0)


def test_the_test_says_how_far_it_is(new_project: MakeProject) -> None:
    project, _ = new_project(test_questions=2, first_items=1)
    add_known(project, [gold(), gold("other")])
    [ann] = people(project, "ann")
    given = ask(project, ann)

    def test_of_task() -> tuple[int, int] | None:
        return next(each.test for each in my_work(project, ann).standings if each.task is given.task)

    assert test_of_task() == (0, 2)
    with project.database.reading() as connection:
        lease = connection.execute(select(leases).where(leases.c.token == given.token)).one()
        right = connection.scalar(select(known.c.answer).where(known.c.number == lease.known))
    record(project, ann, given.token, str(right))
    assert test_of_task() == (1, 2)
