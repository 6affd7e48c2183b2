"""Events, and which of them count."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from deixis.annotate.events import (
    ChainDecision,
    Discounted,
    Event,
    Judged,
    PhraseDecision,
    Skipped,
    Undone,
    effective_events,
    make_event,
)
from deixis.annotate.workflow import Answer, Task
from deixis.errors import DeixisError


def judged(number: int, worker: str = "ann", task: Task = Task.LINK) -> Judged:
    return Judged(number=number, worker=worker, task=task, subject=f"{number}", answer=Answer.YES)


EVENTS = [
    Judged(number=1, worker="a", at=2.0, task=Task.DRAWING, subject="x", answer=Answer.DRAWN, box=(1.0, 2.0, 3.0, 4.0)),
    Skipped(number=2, worker="a", task=Task.LINK, subject="x y", bad_phrase="x"),
    ChainDecision(number=3, worker="a", subject="x", answer=Answer.ALL),
    PhraseDecision(number=4, worker="a", mention="0:0-2", decision="add", types=("people",)),
    Undone(number=5, worker="a", event=1),
    Discounted(number=6, worker="a", whom="b", task=Task.VERIFY),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.kind)
def test_events_survive_json(event: Event) -> None:
    common = {"number", "worker", "at"}
    values = {name: value for name, value in asdict(event).items() if name not in common and value is not None}
    body = json.loads(json.dumps(values))
    assert make_event(event.kind, event.number, event.worker, event.at, body) == event


def test_an_unknown_event_kind_is_an_error() -> None:
    with pytest.raises(DeixisError, match="event 9.*dreamt"):
        make_event("dreamt", 9, "ann", 0.0, {})


def test_undone_events_do_not_count_unless_the_undo_is_undone() -> None:
    events: list[Event] = [judged(1), judged(2), Undone(number=3, worker="ann", event=1)]
    assert [event.number for event in effective_events(events)] == [2]
    events.append(Undone(number=4, worker="rob", event=3))
    assert [event.number for event in effective_events(events)] == [1, 2]


def test_discounting_excludes_only_earlier_judgements_of_the_worker_in_the_task() -> None:
    events: list[Event] = [
        judged(1, "ann"),
        judged(2, "bob"),
        judged(3, "ann", Task.VERIFY),
        Discounted(number=4, worker="ann", whom="ann", task=Task.LINK),
        judged(5, "ann"),
    ]
    assert [event.number for event in effective_events(events)] == [2, 3, 5]
    events.append(Undone(number=6, worker="rob", event=4))
    assert [event.number for event in effective_events(events)] == [1, 2, 3, 5]
