"""Routes of reviewers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from sqlalchemy import select

from deixis.annotate.people import find_worker
from deixis.annotate.quality import Level, reinstate
from deixis.annotate.review import (
    ReviewCase,
    decide,
    explain_photo,
    mark_remarks_seen,
    read_phrases,
    review_queue,
)
from deixis.annotate.store import events, remarks, workers
from deixis.annotate.web.context import AppContext, errors
from deixis.annotate.web.photos import split_captions
from deixis.annotate.web.schemas import (
    MAX_NUMBER,
    CaptionInfo,
    DecisionRequest,
    EmptyResponse,
    EventResponse,
    HistoryResponse,
    LevelResponse,
    PhotoId,
    ReinstateRequest,
    RemarkInfo,
    ReviewInfo,
    ReviewResponse,
    SeenRequest,
)

_ERRORS = errors(401, 403, 404)


def add_review_routes(routes: APIRouter, context: AppContext) -> None:
    project, authentication, readers = context.project, context.authentication, context.readers

    @routes.get("/review", summary="The review queue", responses=errors(401, 403))
    async def review(
        request: Request,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> ReviewResponse:
        await authentication.require_reviewer(request)

        def read() -> ReviewResponse:
            queue = review_queue(project)
            page = [_describe_case(context, case) for case in queue[offset : offset + limit]]
            return ReviewResponse(total=len(queue), items=page)

        return await readers.run(read)

    @routes.get("/review/photos/{photo_id}", summary="The history of a photo", responses=_ERRORS)
    async def history(
        request: Request,
        photo_id: Annotated[PhotoId, Path()],
        until: Annotated[int | None, Query(ge=1, le=MAX_NUMBER, description="As it was after this event.")] = None,
    ) -> HistoryResponse:
        await authentication.require_reviewer(request)
        return await readers.run(_describe_history, context, photo_id, until)

    @routes.post("/review/decide", summary="Decide on a chain or a phrase", responses=_ERRORS)
    async def decide_(request: Request, body: DecisionRequest) -> EventResponse:
        reviewer = await authentication.require_reviewer(request)

        def record() -> EventResponse:
            about = (project, reviewer.id, context.library.find_photo(body.photo), body.mention, body.decision)
            return EventResponse(event=decide(*about, types=tuple(body.types), remark=body.remark))

        return await readers.run(record)

    @routes.post("/review/seen", summary="Mark the remarks about a photo as read", responses=_ERRORS)
    async def seen(request: Request, body: SeenRequest) -> EmptyResponse:
        reviewer = await authentication.require_reviewer(request)
        await readers.run(lambda: mark_remarks_seen(project, reviewer.id, context.library.find_photo(body.photo)))
        return EmptyResponse()

    @routes.post("/review/reinstate", summary="Let a suspended worker try again", responses=_ERRORS)
    async def reinstate_worker(request: Request, body: ReinstateRequest) -> LevelResponse:
        await authentication.require_reviewer(request)

        def write() -> Level:
            with project.database.writing() as connection:
                worker = find_worker(connection, body.worker)
                return reinstate(project, connection, worker.id, body.task)

        return LevelResponse(level=await readers.run(write))


def _describe_case(context: AppContext, case: ReviewCase) -> ReviewInfo:
    reason = case.reason if case.remark is None else "remark"
    return ReviewInfo(**asdict(case) | {"photo": context.describe_photo(case.photo), "reason": reason})


def _describe_history(context: AppContext, photo_id: str, until: int | None) -> HistoryResponse:
    photo = context.library.find_photo(photo_id)
    chains, not_counted = explain_photo(context.project, photo, until=until)
    mentions = [phrase.id for phrase in read_phrases(context.project, photo).phrases]
    captions = split_captions(enumerate(context.library.read_view(photo).captions), mentions)
    return HistoryResponse(
        photo=context.describe_photo(photo),
        captions=[CaptionInfo(**caption) for caption in captions],
        chains=chains,
        not_counted=not_counted,
        remarks=_read_remarks(context, photo),
    )


def _read_remarks(context: AppContext, photo: str) -> list[RemarkInfo]:
    chosen = (
        select(events.c.number, workers.c.id, workers.c.name, remarks.c.text, remarks.c.seen)
        .join(remarks, remarks.c.event == events.c.number)
        .join(workers, workers.c.id == remarks.c.worker)
        .where(events.c.photo == photo)
        .order_by(events.c.number)
    )
    with context.project.database.reading() as connection:
        rows = connection.execute(chosen).all()
    return [RemarkInfo(event=row.number, who=row.name or row.id, text=row.text, seen=row.seen) for row in rows]
