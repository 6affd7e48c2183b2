"""What owners see and do: progress, pay, people, photos and their phrases."""

from __future__ import annotations

import time
from dataclasses import asdict
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy import func, select
from starlette.exceptions import HTTPException

from deixis.annotate.people import MODEL, change, forget, invite, invite_again
from deixis.annotate.phrases import Phrases, edit_phrases, phrases_of
from deixis.annotate.progress import pace, pay_table, progress
from deixis.annotate.store.schema import photos, workers
from deixis.errors import DeixisError
from deixis.server.annotate.asking import Invitation, PersonChange, PhotoId, PhraseList, WorkerId
from deixis.server.annotate.desk import Desk, errors
from deixis.server.annotate.saying import (
    CaptionText,
    Dashboard,
    HourSaid,
    LinkSaid,
    Nothing,
    PeopleSaid,
    Person,
    PhotoEntry,
    PhotosSaid,
    PhraseSaid,
    PhrasesSaid,
)
from deixis.server.annotate.showing import captions_shown

_REFUSED = (401, 403, 404)
_KEPT_FOR_S = 10.0
_CSV: dict[str, Any] = {"content": {"text/csv": {"schema": {"type": "string"}}}}


class _Looked:
    """How far the project is; looked up again after a while, by one at a time."""

    def __init__(self, desk: Desk) -> None:
        self._project, self._lock = desk.project, Lock()
        self._found: Dashboard | None = None
        self._at = 0.0

    def now(self) -> Dashboard:
        with self._lock:
            if self._found is None or time.monotonic() - self._at > _KEPT_FOR_S:
                found = asdict(progress(self._project))
                self._found = Dashboard(**found, pace=[HourSaid(**asdict(hour)) for hour in pace(self._project)])
                self._at = time.monotonic()
            return self._found


def add_ownership(routes: APIRouter, desk: Desk) -> None:
    """The routes of owners."""
    _add_progress(routes, desk)
    _add_people(routes, desk)
    _add_photos(routes, desk)


def _add_progress(routes: APIRouter, desk: Desk) -> None:
    looked = _Looked(desk)

    @routes.get("/dashboard", summary="How far the project is", responses=errors(401, 403))
    async def dashboard(request: Request) -> Dashboard:
        await desk.reception.reviewer(request)
        return await desk.reading.run(looked.now)

    @routes.get("/pay.csv", summary="Hours and pay", responses={200: _CSV, **errors(401, 403)}, response_class=Response)
    async def pay(request: Request) -> Response:
        await desk.reception.owner(request)
        found = await desk.reading.run(progress, desk.project)
        table = pay_table(found.workers, found.currency)
        return Response(table, media_type="text/csv", headers={"content-disposition": 'attachment; filename="pay.csv"'})


def _add_people(routes: APIRouter, desk: Desk) -> None:
    async def person(worker: str) -> Person:
        for each in await desk.reading.run(_people, desk):
            if each.worker == worker:
                return each
        raise HTTPException(404, "nobody of that id is in this project")

    @routes.get("/people", summary="Everybody", responses=errors(401, 403))
    async def people(request: Request) -> PeopleSaid:
        await desk.reception.owner(request)
        return PeopleSaid(people=await desk.reading.run(_people, desk))

    @routes.post("/people", summary="Invite somebody", responses=errors(401, 403, 409))
    async def invitation(request: Request, asked: Invitation) -> LinkSaid:
        await desk.reception.owner(request)

        def invited() -> LinkSaid:
            worker, token = invite(desk.project, **asked.model_dump())
            return LinkSaid(worker=worker, link=desk.join_link(token))

        return await desk.reading.run(invited)

    @routes.post("/people/{worker}/invitation", summary="Invite somebody again", responses=errors(*_REFUSED))
    async def again(request: Request, worker: Annotated[WorkerId, Path()]) -> LinkSaid:
        await desk.reception.owner(request)
        await person(worker)
        token = await desk.reading.run(invite_again, desk.project, worker)
        desk.reception.forget_all()
        return LinkSaid(worker=worker, link=desk.join_link(token))

    @routes.post("/people/{worker}", summary="Vouch for somebody, or give another role", responses=errors(*_REFUSED))
    async def changed(request: Request, worker: Annotated[WorkerId, Path()], asked: PersonChange) -> Person:
        owner = await desk.reception.owner(request)
        await person(worker)
        if worker == owner.id and asked.role is not None:
            raise DeixisError("somebody else must change your role, or the project could be left without an owner")
        await desk.reading.run(lambda: change(desk.project, worker, role=asked.role, vouched=asked.vouched))
        desk.reception.forget_all()
        return await person(worker)

    @routes.delete("/people/{worker}", summary="Forget somebody's name and words", responses=errors(*_REFUSED))
    async def forgotten(request: Request, worker: Annotated[WorkerId, Path()]) -> Nothing:
        owner = await desk.reception.owner(request)
        await person(worker)
        if worker == owner.id:
            raise DeixisError("somebody else must forget you, or the project could be left without an owner")
        await desk.reading.run(forget, desk.project, worker)
        desk.reception.forget_all()
        return Nothing()


def _people(desk: Desk) -> list[Person]:
    with desk.project.database.reading() as connection:
        people = select(workers).where(workers.c.role != MODEL)
        rows = connection.execute(people.order_by(workers.c.invited_at, workers.c.id)).all()
    return [
        Person(
            worker=row.id,
            name=row.name,
            role=row.role,
            vouched=row.vouched,
            joined=row.joined_at is not None,
            forgotten=row.forgotten,
            history_items=row.history_items,
            history_accuracy=row.history_accuracy,
        )
        for row in rows
    ]


def _add_photos(routes: APIRouter, desk: Desk) -> None:
    @routes.get("/photos", summary="The photos that are annotated", responses=errors(401, 403))
    async def listed(
        request: Request,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> PhotosSaid:
        await desk.reception.owner(request)
        return await desk.reading.run(_photos, desk, offset, limit)

    @routes.get("/photos/{photo_id}/phrases", summary="The phrases of a photo", responses=errors(*_REFUSED))
    async def phrases(request: Request, photo_id: Annotated[PhotoId, Path()]) -> PhrasesSaid:
        await desk.reception.owner(request)
        return await desk.reading.run(lambda: _phrases(desk, phrases_of(desk.project, desk.gallery.photo_of(photo_id))))

    @routes.put("/photos/{photo_id}/phrases", summary="Edit the phrases of a photo", responses=errors(*_REFUSED))
    async def edit(request: Request, photo_id: Annotated[PhotoId, Path()], asked: PhraseList) -> PhrasesSaid:
        owner = await desk.reception.owner(request)
        wanted = [(phrase.id, tuple(phrase.types)) for phrase in asked.phrases]
        return await desk.reading.run(
            lambda: _phrases(desk, edit_phrases(desk.project, owner.id, desk.gallery.photo_of(photo_id), wanted))
        )


def _photos(desk: Desk, offset: int, limit: int) -> PhotosSaid:
    ours = photos.c.known.is_(False)
    columns = (photos.c.id, photos.c.last_event, photos.c.finished, photos.c.waiting)
    with desk.project.database.reading() as connection:
        total = connection.scalar(select(func.count()).select_from(photos).where(ours)) or 0
        chosen = select(*columns).where(ours).order_by(photos.c.place).offset(offset).limit(limit)
        rows = connection.execute(chosen).all()
    entries = [
        PhotoEntry(
            photo=desk.photo(row.id),
            name=row.id,
            begun=row.last_event > 0,
            finished=row.finished,
            waiting=row.waiting,
        )
        for row in rows
    ]
    return PhotosSaid(total=total, photos=entries)


def _phrases(desk: Desk, found: Phrases) -> PhrasesSaid:
    captions = captions_shown(enumerate(found.material.captions), [phrase.id for phrase in found.phrases])
    texts = found.material.captions
    return PhrasesSaid(
        photo=desk.photo(found.material.photo),
        begun=found.begun,
        captions=[CaptionText(text=texts[caption["number"]], **caption) for caption in captions],
        phrases=[PhraseSaid(id=each.id, text=each.text, types=list(each.types)) for each in found.phrases],
    )
