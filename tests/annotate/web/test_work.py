"""Questions and answers over HTTP."""

from __future__ import annotations

from sqlalchemy import func, select, update

from deixis.annotate.known_answers import add_known_photos
from deixis.annotate.material import prepare_photo
from deixis.annotate.people import Role
from deixis.annotate.project import add_photos
from deixis.annotate.state import Reason
from deixis.annotate.store import events, leases
from deixis.annotate.workflow import CHAIN_TASKS
from tests.annotate.conftest import Bench, MakeBench, on_both_databases
from tests.annotate.fakes import gold, photo

BOX = [10.0, 10.0, 60.0, 50.0]


def judged(bench: Bench) -> int:
    with bench.project.database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(events).where(events.c.kind == "judged")) or 0


def test_a_question_contains_all_that_a_page_shows(bench: MakeBench) -> None:
    question = bench().person("Ann").next()
    assert question["task"] == "link"
    assert question["answers"] == ["yes", "no"]
    assert [mention["text"] for mention in question["mentions"]] == ["A dog", "The dog"]
    assert question["captions"][1] == {
        "number": 1,
        "parts": [{"text": "The dog", "mention": "1:0-7"}, {"text": " jumps.", "mention": None}],
    }
    assert (question["photo"]["width"], question["photo"]["height"]) == (100, 80)
    assert "dog0" not in str(question)


def test_an_answer_returns_the_next_question_and_another_can_be_held(bench: MakeBench) -> None:
    ann = bench(photos=3).person("Ann")
    first = ann.next()
    second = ann.next(first["token"])
    response = ann.post("answer", token=first["token"], answer="yes", next={"besides": [second["token"]]})
    assert response["again"] is False
    assert len({first["token"], second["token"], response["next"]["token"]}) == 3
    assert ann.next()["token"] in (second["token"], response["next"]["token"]), "a reloaded page continues"


@on_both_databases
def test_all_six_tasks_can_be_done(bench: MakeBench) -> None:
    opened = bench()
    people = [opened.person(name) for name in ("Ann", "Bob", "Cem", "Dee")]
    tasks = []
    for turn, value in enumerate(["yes", "yes", "box", "drawn", "good", "all", "all"]):
        worker = next(each for each in people[turn % 4 :] + people if each.post("next")["question"])
        question = worker.next()
        tasks.append(question["task"])
        worker.post("answer", token=question["token"], answer=value, box=BOX if value == "drawn" else None)
    assert tasks == ["link", "verify", "requirement", "drawing", "quality", "coverage", "coverage"]
    assert people[0].post("next")["why"]
    dashboard = opened.person("Eve", Role.OWNER).get("dashboard")
    assert (dashboard["finished"], dashboard["judged"]) == (1, 7)


def test_an_expired_question_gives_status_410(bench: MakeBench) -> None:
    opened = bench(lease_s=10.0)
    ann, bob = opened.person("Ann"), opened.person("Bob")
    late = ann.next()["token"]
    opened.clock.now += 11
    bob.next()
    ann.post("answer", 410, token=late, answer="yes")
    assert judged(opened) == 0


def test_invalid_boxes_are_refused_and_the_question_stays_open(bench: MakeBench) -> None:
    opened = bench(photos=0)
    add_photos(opened.project, [prepare_photo(photo("A man."))])
    ann = opened.person("Ann")
    token = ann.next()["token"]
    for body in ('"box": [1, 2, 3]', '"box": "all of it"', '"box": [NaN, 1, 2, 3]', '"box": [1e999, 1, 2, 3]'):
        text = f'{{"token": "{token}", "answer": "drawn", {body}}}'
        answer = ann.client.post("/api/answer", content=text, headers={"content-type": "application/json"})
        assert answer.status_code == 422, answer.text
    ann.post("answer", 422, token=token, answer="no more", box=BOX)
    ann.post("answer", 422, token=token, answer="<b>yes</b>")
    assert ann.post("answer", token=token, answer="drawn", box=BOX)["again"] is False


def test_undo_leases_the_question_again(bench: MakeBench) -> None:
    opened = bench(photos=2)
    ann = opened.person("Ann")
    question = ann.next()
    event = ann.post("answer", token=question["token"], answer="no", next={})["event"]
    undone = ann.post("undo", event=event)
    assert undone["question"]["mentions"] == question["mentions"]
    assert undone["question"]["token"] != question["token"]
    assert ann.post("undo", event=event)["again"] is True
    ann.post("answer", token=undone["question"]["token"], answer="yes")
    assert ann.next()["task"] == "verify"
    bob = opened.person("Bob")
    bob.post("undo", 422, event=event)
    bob.post("undo", 422, event=10**12)


def test_a_question_is_skipped_with_a_bad_phrase_and_a_remark(bench: MakeBench) -> None:
    opened = bench()
    ann, eve = opened.person("Ann"), opened.person("Eve", Role.REVIEWER)
    question = ann.next()
    ann.post("skip", 422, token=question["token"], bad_phrase="0:6-9")
    hostile = '<img src=x onerror="alert(1)"> \u202egnp.exe 🐕'
    ann.post("skip", token=question["token"], bad_phrase="0:0-5", remark=hostile)
    queue = eve.get("review")["items"]
    assert [(item["reason"], item["remark"]) for item in queue] == [
        (Reason.BAD_PHRASE.value, None),
        ("remark", hostile),
    ]
    eve.post("review/seen", photo=question["photo"]["id"])
    assert len(eve.get("review")["items"]) == 1
    eve.post("review/decide", photo=question["photo"]["id"], mention="0:0-5", decision="keep")
    assert eve.get("review")["total"] == 0


def test_requests_that_are_too_large_are_refused(bench: MakeBench) -> None:
    ann = bench().person("Ann")
    token = ann.next()["token"]
    ann.post("skip", 422, token=token, remark="x" * 2001)
    assert ann.post("skip", 413, token=token, remark="x" * 70_000)
    assert ann.client.post("/api/login", files={"photo": b"x" * 200_000}).status_code == 413  # also without a log-in
    assert ann.post("next", 422, besides=["x"] * 1000)
    assert ann.post("answer", 422, token="x" * 1000, answer="yes")


def test_known_questions_cannot_be_recognized(bench: MakeBench) -> None:
    opened = bench(test_questions=1, first_items=2)
    add_known_photos(opened.project, [gold()])
    ann = opened.person("Ann")
    question = ann.next()
    assert question["test"] is True
    response = ann.post("answer", token=question["token"], answer=question["answers"][0], next={})
    assert response["standing"]["task"] == question["task"]
    plain = opened.person("Bob", Role.WORKER)
    with opened.project.database.writing() as connection:
        connection.execute(update(leases).values(purpose="hidden").where(leases.c.worker == ann.worker))
    hidden = ann.post("answer", token=response["next"]["token"], answer=response["next"]["answers"][0], next={})
    assert hidden["standing"] is None
    assert set(hidden["next"] or question) == set(plain.next())


def test_workers_see_their_own_levels_hours_and_pay(bench: MakeBench) -> None:
    ann = bench(pay_per_hour=36.0).person("Ann")
    ann.answer("yes")
    mine = ann.get("me")
    assert mine["judged"] == 1
    assert mine["pay"] == 0.02
    assert {each["task"] for each in mine["tasks"]} == set(CHAIN_TASKS)


def test_workers_without_history_learn_why_there_are_no_questions(bench: MakeBench) -> None:
    opened = bench(history_items=500, history_accuracy=0.95)
    ann = opened.person("Ann")
    eve = opened.person("Eve", Role.OWNER)
    eve.post(f"people/{ann.worker}", vouched=False)
    response = ann.post("next")
    assert response["question"] is None
    assert "500" in response["why"]


def test_hours_of_an_answer_that_came_at_once_are_not_paid(bench: MakeBench) -> None:
    opened = bench()
    ann = opened.person("Ann")
    ann.post("answer", token=ann.next()["token"], answer="no", seconds=3600.0)
    with opened.project.database.reading() as connection:
        assert connection.scalar(select(func.sum(events.c.seconds))) < 60
