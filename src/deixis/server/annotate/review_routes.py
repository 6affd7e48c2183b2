"""What reviewers look at and decide, and how far the project is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from sqlalchemy import select

from deixis.annotate import control
from deixis.annotate.events import MARKINGS
from deixis.annotate.explaining import Story, Told, explain
from deixis.annotate.people import find_worker
from deixis.annotate.phrases import phrases_of
from deixis.annotate.reviewing import Waiting, mark, mark_seen, review_queue, rule
from deixis.annotate.standing import Level
from deixis.annotate.state import Reason
from deixis.annotate.store.schema import events, remarks, workers
from deixis.annotate.walks import Stop
from deixis.annotate.workflow import answers_to
from deixis.server.annotate.asking import LARGEST_NUMBER, Decision, PhotoId, Reinstated, Seen
from deixis.server.annotate.desk import Desk, errors
from deixis.server.annotate.saying import (
    CaptionSaid,
    ChainSaid,
    EventSaid,
    LevelSaid,
    Nothing,
    RemarkSaid,
    ReviewEntry,
    ReviewSaid,
    StorySaid,
    ToldSaid,
)
from deixis.server.annotate.showing import captions_shown

_REFUSED = (401, 403, 404)


def add_review(routes: APIRouter, desk: Desk) -> None:
    """The routes of reviewers."""

    @routes.get("/review", summary="What waits for a reviewer", responses=errors(401, 403))
    async def review(
        request: Request,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> ReviewSaid:
        await desk.reception.reviewer(request)

        def look() -> ReviewSaid:
            queue = review_queue(desk.project)
            return ReviewSaid(total=len(queue), items=[_entry(desk, item) for item in queue[offset : offset + limit]])

        return await desk.reading.run(look)

    @routes.get("/review/photos/{photo_id}", summary="Why a photo is as it is", responses=errors(*_REFUSED))
    async def story(
        request: Request,
        photo_id: Annotated[PhotoId, Path()],
        until: Annotated[int | None, Query(ge=1, le=LARGEST_NUMBER, description="As it was after this event.")] = None,
    ) -> StorySaid:
        await desk.reception.reviewer(request)
        return await desk.reading.run(_story, desk, photo_id, until)

    @routes.post("/review/decide", summary="Decide on a chain or a phrase", responses=errors(*_REFUSED))
    async def decide(request: Request, asked: Decision) -> EventSaid:
        reviewer = await desk.reception.reviewer(request)

        def decided() -> EventSaid:
            about = (desk.project, reviewer.id, desk.gallery.photo_of(asked.photo), asked.mention, asked.decision)
            if asked.decision in MARKINGS:
                return EventSaid(event=mark(*about, types=tuple(asked.types)).event)
            return EventSaid(event=rule(*about, remark=asked.remark).event)

        return await desk.reading.run(decided)

    @routes.post("/review/seen", summary="The remarks about a photo were read", responses=errors(*_REFUSED))
    async def seen(request: Request, asked: Seen) -> Nothing:
        reviewer = await desk.reception.reviewer(request)
        await desk.reading.run(lambda: mark_seen(desk.project, reviewer.id, desk.gallery.photo_of(asked.photo)))
        return Nothing()

    @routes.post("/review/reinstate", summary="Let somebody try again", responses=errors(*_REFUSED))
    async def reinstate(request: Request, asked: Reinstated) -> LevelSaid:
        await desk.reception.reviewer(request)

        def reinstated() -> Level:
            with desk.project.database.writing() as connection:
                worker = find_worker(connection, asked.worker)
                return control.reinstate(desk.project, connection, worker.id, asked.task)

        return LevelSaid(level=await desk.reading.run(reinstated))


def _entry(desk: Desk, item: Waiting) -> ReviewEntry:
    if item.remark is not None:
        reason, decisions = "remark", ["seen"]
    elif item.reason == Reason.CYCLES:
        reason, decisions = item.reason, [answer.value for answer in answers_to(Stop.REVIEW)]
    else:
        reason, decisions = item.reason, ["keep", "drop"]
    return ReviewEntry(
        photo=desk.photo(item.photo),
        mention=item.mention,
        phrase=item.phrase,
        reason=reason,
        remark=item.remark,
        event=item.event,
        holds_up=item.holds_up,
        decisions=decisions,
    )


def _story(desk: Desk, photo_id: str, until: int | None) -> StorySaid:
    photo = desk.gallery.photo_of(photo_id)
    chains, not_counted = explain(desk.project, photo, until=until)
    mentions = [phrase.id for phrase in phrases_of(desk.project, photo).phrases]
    captions = captions_shown(enumerate(desk.gallery.sight(photo).captions), mentions)
    return StorySaid(
        photo=desk.photo(photo),
        captions=[CaptionSaid(**caption) for caption in captions],
        chains=[_chain(chain) for chain in chains],
        not_counted=[_told(each) for each in not_counted],
        remarks=_remarks(desk, photo),
    )


def _chain(story: Story) -> ChainSaid:
    return ChainSaid(**{**asdict(story), "told": [_told(each) for each in story.told]})


def _told(told: Told) -> ToldSaid:
    return ToldSaid(**asdict(told))


def _remarks(desk: Desk, photo: str) -> list[RemarkSaid]:
    chosen = (
        select(events.c.number, workers.c.id, workers.c.name, remarks.c.text, remarks.c.seen)
        .join(remarks, remarks.c.event == events.c.number)
        .join(workers, workers.c.id == remarks.c.worker)
        .where(events.c.photo == photo)
        .order_by(events.c.number)
    )
    with desk.project.database.reading() as connection:
        rows = connection.execute(chosen).all()
    return [RemarkSaid(event=row.number, who=row.name or row.id, text=row.text, seen=row.seen) for row in rows]
