"""Questions and answers, and what workers see besides."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from deixis.annotate.answering import (
    Take,
    Turn,
    Wanted,
    answering,
    giving_back,
    keep_turn,
    next_turn,
    take_undo_turn,
)
from deixis.annotate.control import Standing
from deixis.annotate.guidelines import Example, Guideline, read_guidelines, write_guideline
from deixis.annotate.mine import Mine, my_work
from deixis.annotate.recording import Done
from deixis.annotate.walks import Task
from deixis.annotate.workforce import Assignment, count_item, find_assignment
from deixis.server.annotate.asking import Answered, GivenBack, GuidelineText, Next, PhotoId, Undo
from deixis.server.annotate.desk import Desk, errors
from deixis.server.annotate.outside import progress_said
from deixis.server.annotate.saying import (
    GuidelinesSaid,
    MeSaid,
    NextSaid,
    ProjectSaid,
    TaskMine,
    TestSaid,
    TurnSaid,
    UndoSaid,
)
from deixis.server.annotate.visitors import Visitor
from deixis.server.pictures import LONGEST_SIDE

_A_DAY = "private, max-age=86400"
_JPEG: dict[str, Any] = {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
_REFUSED = (401, 403, 404, 410, 429)


def add_work(routes: APIRouter, desk: Desk) -> None:
    """The routes of workers."""
    _add_turns(routes, desk)
    _add_photo(routes, desk)

    @routes.get("/me", summary="One's own work", responses=errors(401))
    async def me(request: Request) -> MeSaid:
        visitor = await desk.reception.worker(request)
        return _me(desk, await desk.reading.run(my_work, desk.project, visitor.id))

    @routes.get("/guidelines", summary="What workers are told about each task", responses=errors(401))
    async def guidelines(request: Request) -> GuidelinesSaid:
        await desk.reception.worker(request)
        return GuidelinesSaid(tasks=await desk.reading.run(read_guidelines, desk.project))

    @routes.put("/guidelines/{task}", summary="Edit what workers are told", responses=errors(401, 403))
    async def edit_guideline(request: Request, task: Task, asked: GuidelineText) -> Guideline:
        await desk.reception.owner(request)
        examples = tuple(Example(each.shown, each.answer, each.why) for each in asked.examples)
        written = Guideline(asked.text, examples)
        await desk.reading.run(write_guideline, desk.project, task, written)
        return written


def _add_turns(routes: APIRouter, desk: Desk) -> None:
    # These four answer with plain dictionaries: checking our own words a hundred times a second takes time.
    @routes.post("/next", summary="The next question", responses={200: {"model": NextSaid}, **errors(401, 403, 429)})
    async def next_(request: Request, asked: Next) -> Response:
        visitor = await desk.reception.busy_worker(request)
        turn, _ = await _take(desk, visitor, None, asked)
        return JSONResponse({"question": await desk.question(turn.given, visitor), "why": turn.why})

    @routes.post("/answer", summary="Answer a question", responses={200: {"model": TurnSaid}, **errors(*_REFUSED)})
    async def answer(request: Request, asked: Answered) -> Response:
        visitor = await desk.reception.busy_worker(request)
        given = (asked.token, asked.answer, asked.box, asked.seconds, asked.remark)
        return await turned(visitor, answering(desk.project, visitor.id, *given), asked.next)

    @routes.post("/skip", summary="Give a question back", responses={200: {"model": TurnSaid}, **errors(*_REFUSED)})
    async def skip(request: Request, asked: GivenBack) -> Response:
        visitor = await desk.reception.busy_worker(request)
        given = (asked.token, asked.bad_phrase, asked.seconds, asked.remark)
        return await turned(visitor, giving_back(desk.project, visitor.id, *given), asked.next)

    @routes.post(
        "/undo",
        summary="Take a judgement back; its question comes again",
        responses={200: {"model": UndoSaid}, **errors(*_REFUSED)},
    )
    async def undo(request: Request, asked: Undo) -> Response:
        visitor = await desk.reception.busy_worker(request)

        def work(connection: Connection) -> Turn:
            taken_back = take_undo_turn(desk.project, connection, visitor.id, asked.event)
            if visitor.session.assignment and taken_back.recorded and not taken_back.recorded.again:
                count_item(connection, visitor.session.assignment, -1)
            return taken_back

        turn = await desk.writer.run(work, keep_turn)
        assert turn.recorded is not None  # noqa: S101 - an undo records
        question = await desk.question(turn.given, visitor)
        return JSONResponse({**asdict(turn.recorded), "question": question})

    async def turned(visitor: Visitor, take: Take, wanted: Next | None) -> Response:
        turn, assignment = await _take(desk, visitor, take, wanted)
        standing = turn.done.standing if turn.done else None
        assert turn.recorded is not None  # noqa: S101 - an answer records
        external = None
        if assignment is not None:
            external = progress_said(assignment, nothing_left=turn.why is not None).model_dump()
        return JSONResponse(
            {
                "event": turn.recorded.event,
                "again": turn.recorded.again,
                "next": await desk.question(turn.given, visitor),
                "why": turn.why,
                "standing": _standing(standing) if standing else None,
                "external": external,
            }
        )


async def _take(desk: Desk, visitor: Visitor, take: Take | None, asked: Next | None) -> tuple[Turn, Assignment | None]:
    """Record and find the next question in one transaction; count it where somebody was sent from outside."""
    project, worker = desk.project, visitor.id
    wanted = Wanted(tuple(asked.besides), tuple(asked.tasks or Task)) if asked is not None else None

    def work(connection: Connection) -> tuple[Turn, Assignment | None]:
        done = take(connection) if take else None
        assignment = _counted(connection, visitor, done)
        enough = assignment is not None and assignment.is_done
        return next_turn(project, connection, worker, done, None if enough else wanted), assignment

    return await desk.writer.run(work, lambda done: keep_turn(done[0]))


def _counted(connection: Connection, visitor: Visitor, done: Done | None) -> Assignment | None:
    """The assignment of somebody who was sent from outside, with what they have just done."""
    if visitor.session.assignment is None:
        return None
    assignment = find_assignment(connection, visitor.session.assignment)
    if assignment is None or (assignment.is_done and done is not None and not done.recorded.again):
        raise HTTPException(403, "this assignment is done")
    return count_item(connection, assignment.id) if done is not None and not done.recorded.again else assignment


def _standing(standing: Standing) -> dict[str, Any]:
    test = {"done": standing.test[0], "of": standing.test[1]} if standing.test else None
    return {"task": standing.task.value, "level": standing.level.value, "test": test}


def _me(desk: Desk, mine: Mine) -> MeSaid:
    tasks = [
        TaskMine(
            task=each.task,
            level=each.level,
            test=TestSaid(done=each.test[0], of=each.test[1]) if each.test else None,
            judged=mine.judged.get(each.task, 0),
        )
        for each in mine.standings
    ]
    return MeSaid(
        project=ProjectSaid(name=desk.name, photos=mine.photos, finished=mine.finished),
        tasks=tasks,
        judged=sum(mine.judged.values()),
        hours=mine.hours,
        pay=mine.pay,
        currency=desk.project.settings.currency,
    )


def _add_photo(routes: APIRouter, desk: Desk) -> None:
    @routes.get(
        "/photos/{photo_id}/image",
        summary="A photo",
        responses={200: _JPEG, **errors(401, 404)},
        response_class=Response,
    )
    async def image(
        request: Request,
        photo_id: Annotated[PhotoId, Path()],
        side: Annotated[int, Query(ge=64, le=LONGEST_SIDE)] = LONGEST_SIDE,
        key: Annotated[str, Query(max_length=60, description="Where browsers send no cookie.")] = "",
    ) -> Response:
        if not desk.gallery.is_key_for(photo_id, key):
            await desk.reception.worker(request)
        encoded = await desk.reading.run(desk.gallery.picture, photo_id, side)
        return Response(encoded, media_type="image/jpeg", headers={"cache-control": _A_DAY})
