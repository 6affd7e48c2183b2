"""Routes of owners: progress, workers, photos and phrases."""

from __future__ import annotations

import time
from dataclasses import asdict
from threading import Lock
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy import func, select
from starlette.exceptions import HTTPException

from deixis.annotate.people import (
    MODEL_ROLE,
    change_worker,
    forget_worker,
    invite,
    renew_invitation,
    resume_worker,
    suspend_worker,
)
from deixis.annotate.progress import format_pay, read_pace, read_progress
from deixis.annotate.project import Project
from deixis.annotate.review import PhotoPhrases, edit_phrases, read_phrases
from deixis.annotate.store import photos, workers
from deixis.annotate.web.context import AppContext, errors
from deixis.annotate.web.photos import split_captions
from deixis.annotate.web.schemas import (
    CaptionText,
    Dashboard,
    EmptyResponse,
    InviteRequest,
    LinkResponse,
    PeopleResponse,
    Person,
    PhotoEntry,
    PhotoId,
    PhotosResponse,
    PhraseInfo,
    PhrasesRequest,
    PhrasesResponse,
    WorkerChangeRequest,
    WorkerId,
)
from deixis.errors import DeixisError

_ERRORS = errors(401, 403, 404)
_CACHE_S = 10.0
_CSV: dict[str, Any] = {"content": {"text/csv": {"schema": {"type": "string"}}}}


def add_owner_routes(routes: APIRouter, context: AppContext) -> None:
    _add_progress_routes(routes, context)
    _add_people_routes(routes, context)
    _add_photo_routes(routes, context)


class _DashboardCache:
    """Computes the dashboard at most once in ten seconds."""

    def __init__(self, project: Project) -> None:
        self._project, self._lock = project, Lock()
        self._cached: Dashboard | None = None
        self._read_at = 0.0

    def read(self) -> Dashboard:
        with self._lock:
            if self._cached is None or time.monotonic() - self._read_at > _CACHE_S:
                progress = asdict(read_progress(self._project))
                self._cached = Dashboard(**progress, pace=read_pace(self._project))
                self._read_at = time.monotonic()
            return self._cached


def _add_progress_routes(routes: APIRouter, context: AppContext) -> None:
    cache = _DashboardCache(context.project)

    @routes.get("/dashboard", summary="Progress of the project", responses=errors(401, 403))
    async def dashboard(request: Request) -> Dashboard:
        await context.authentication.require_reviewer(request)
        return await context.readers.run(cache.read)

    @routes.get("/pay.csv", summary="Hours and pay", responses={200: _CSV, **errors(401, 403)}, response_class=Response)
    async def pay(request: Request) -> Response:
        await context.authentication.require_owner(request)
        progress = await context.readers.run(read_progress, context.project)
        table = format_pay(progress.workers, progress.currency)
        return Response(table, media_type="text/csv", headers={"content-disposition": 'attachment; filename="pay.csv"'})


def _add_people_routes(routes: APIRouter, context: AppContext) -> None:
    project, authentication, readers = context.project, context.authentication, context.readers

    async def find_person(worker: str) -> Person:
        for person in await readers.run(_read_people, project):
            if person.worker == worker:
                return person
        raise HTTPException(404, "no such worker in this project")

    @routes.get("/people", summary="All workers", responses=errors(401, 403))
    async def people(request: Request) -> PeopleResponse:
        await authentication.require_owner(request)
        return PeopleResponse(people=await readers.run(_read_people, project))

    @routes.post("/people", summary="Invite a worker", responses=errors(401, 403, 409))
    async def invite_worker(request: Request, body: InviteRequest) -> LinkResponse:
        await authentication.require_owner(request)
        worker, token = await readers.run(lambda: invite(project, **body.model_dump()))
        return LinkResponse(worker=worker, link=context.join_link(token))

    @routes.post("/people/{worker}/invitation", summary="Renew an invitation", responses=_ERRORS)
    async def renew(request: Request, worker: Annotated[WorkerId, Path()]) -> LinkResponse:
        await authentication.require_owner(request)
        await find_person(worker)
        token = await readers.run(renew_invitation, project, worker)
        authentication.clear_cache()
        return LinkResponse(worker=worker, link=context.join_link(token))

    @routes.post(
        "/people/{worker}", summary="Vouch for a worker, change the role, suspend or resume", responses=_ERRORS
    )
    async def change(request: Request, worker: Annotated[WorkerId, Path()], body: WorkerChangeRequest) -> Person:
        owner = await authentication.require_owner(request)
        await find_person(worker)
        if worker == owner.id and body.role is not None:
            raise DeixisError("owners cannot change their own role; ask another owner")
        if worker == owner.id and body.suspended:
            raise DeixisError("owners cannot suspend themselves; ask another owner")
        await readers.run(lambda: change_worker(project, worker, role=body.role, vouched=body.vouched))
        if body.suspended is not None:
            await readers.run(suspend_worker if body.suspended else resume_worker, project, worker)
        authentication.clear_cache()
        return await find_person(worker)

    @routes.delete("/people/{worker}", summary="Delete the personal data of a worker", responses=_ERRORS)
    async def forget(request: Request, worker: Annotated[WorkerId, Path()]) -> EmptyResponse:
        owner = await authentication.require_owner(request)
        await find_person(worker)
        if worker == owner.id:
            raise DeixisError("owners cannot delete their own data; ask another owner")
        await readers.run(forget_worker, project, worker)
        authentication.clear_cache()
        return EmptyResponse()


def _read_people(project: Project) -> list[Person]:
    people = select(workers).where(workers.c.role != MODEL_ROLE)
    with project.database.reading() as connection:
        rows = connection.execute(people.order_by(workers.c.invited_at, workers.c.id)).all()
    return [
        Person(
            worker=row.id,
            name=row.name,
            role=row.role,
            vouched=row.vouched,
            joined=row.joined_at is not None,
            forgotten=row.forgotten,
            suspended=row.suspended_at is not None,
            history_items=row.history_items,
            history_accuracy=row.history_accuracy,
        )
        for row in rows
    ]


def _add_photo_routes(routes: APIRouter, context: AppContext) -> None:
    project, library = context.project, context.library

    @routes.get("/photos", summary="The photos to annotate", responses=errors(401, 403))
    async def list_photos(
        request: Request,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> PhotosResponse:
        await context.authentication.require_owner(request)
        return await context.readers.run(_read_photos, context, offset, limit)

    @routes.get("/photos/{photo_id}/phrases", summary="The phrases of a photo", responses=_ERRORS)
    async def phrases(request: Request, photo_id: Annotated[PhotoId, Path()]) -> PhrasesResponse:
        await context.authentication.require_owner(request)

        def read() -> PhrasesResponse:
            return _describe_phrases(context, read_phrases(project, library.find_photo(photo_id)))

        return await context.readers.run(read)

    @routes.put("/photos/{photo_id}/phrases", summary="Edit the phrases of a photo", responses=_ERRORS)
    async def edit(request: Request, photo_id: Annotated[PhotoId, Path()], body: PhrasesRequest) -> PhrasesResponse:
        owner = await context.authentication.require_owner(request)
        wanted = [(phrase.id, tuple(phrase.types)) for phrase in body.phrases]

        def write() -> PhrasesResponse:
            return _describe_phrases(context, edit_phrases(project, owner.id, library.find_photo(photo_id), wanted))

        return await context.readers.run(write)


def _read_photos(context: AppContext, offset: int, limit: int) -> PhotosResponse:
    annotated = photos.c.known.is_(False)
    columns = (photos.c.id, photos.c.last_event, photos.c.finished, photos.c.waiting)
    with context.project.database.reading() as connection:
        total = connection.scalar(select(func.count()).select_from(photos).where(annotated)) or 0
        chosen = select(*columns).where(annotated).order_by(photos.c.place).offset(offset).limit(limit)
        rows = connection.execute(chosen).all()
    entries = [
        PhotoEntry(
            photo=context.describe_photo(row.id),
            name=row.id,
            begun=row.last_event > 0,
            finished=row.finished,
            waiting=row.waiting,
        )
        for row in rows
    ]
    return PhotosResponse(total=total, photos=entries)


def _describe_phrases(context: AppContext, found: PhotoPhrases) -> PhrasesResponse:
    texts = found.material.captions
    captions = split_captions(enumerate(texts), [phrase.id for phrase in found.phrases])
    return PhrasesResponse(
        photo=context.describe_photo(found.material.photo),
        begun=found.begun,
        captions=[CaptionText(text=texts[caption["number"]], **caption) for caption in captions],
        phrases=[PhraseInfo(id=each.id, text=each.text, types=list(each.types)) for each in found.phrases],
    )
