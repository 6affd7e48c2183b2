"""Routes of the gallery, in which reviewers and owners look at photos and correct them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from deixis.annotate.gallery import (
    Correction,
    CorrectionEntry,
    Disagreement,
    GalleryChain,
    GalleryFilter,
    GalleryPhoto,
    PhotoStage,
    correct,
    list_people,
    list_photos,
    read_photo,
    redo_correction,
    undo_correction,
)
from deixis.annotate.judgements import JudgementResult
from deixis.annotate.review import MAX_PHRASES
from deixis.annotate.web.context import AppContext, errors
from deixis.annotate.web.photos import split_captions
from deixis.annotate.web.schemas import (
    MAX_NUMBER,
    CaptionInfo,
    EmptyRequest,
    MentionId,
    PhotoId,
    PhotoInfo,
    StoredText,
    TypeName,
    WorkerId,
)
from deixis.annotate.workflow import XYXY
from deixis.data.records import ENTITY_TYPES

_ERRORS = errors(401, 403, 404)
_Word = Annotated[StoredText, Field(max_length=60)]


class CorrectionRequest(EmptyRequest):
    """A correction; `deixis.annotate.gallery.Correction` describes the fields."""

    seen: int = Field(ge=0, le=MAX_NUMBER, description="The last event of the photo that the page knows.")
    action: _Word
    mention: MentionId
    box: XYXY | None = None
    box_id: _Word = ""
    mentions: list[MentionId] = Field([], max_length=MAX_PHRASES)
    other: MentionId | None = None
    types: list[TypeName] = Field([], max_length=len(ENTITY_TYPES))
    ending: _Word = ""


class GalleryEntry(BaseModel):
    """A photo with all that the gallery shows."""

    photo: PhotoInfo
    name: str
    stage: PhotoStage
    captions: list[CaptionInfo]
    chains: list[GalleryChain]
    people: list[str]
    disagreements: list[Disagreement]
    corrections: list[CorrectionEntry]
    can_redo: bool
    last_event: int


class PersonName(BaseModel):
    worker: str
    name: str


class GalleryResponse(BaseModel):
    total: int
    people: list[PersonName]
    photos: list[GalleryEntry]


def add_gallery_routes(routes: APIRouter, context: AppContext) -> None:
    project, authentication, readers = context.project, context.authentication, context.readers

    @routes.get("/gallery", summary="Photos with their chains and boxes", responses=errors(401, 403))
    async def gallery(
        request: Request,
        stage: PhotoStage | None = None,
        person: Annotated[WorkerId | None, Query(description="Somebody who worked on the photo.")] = None,
        disagreement: Annotated[bool, Query(description="Only photos on which people disagreed.")] = False,
        changed: Annotated[bool, Query(description="Only photos that were corrected.")] = False,
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
        limit: Annotated[int, Query(ge=1, le=100)] = 24,
    ) -> GalleryResponse:
        await authentication.require_reviewer(request)
        wanted = GalleryFilter(stage, person, disagreement, changed)

        def read() -> GalleryResponse:
            total, found = list_photos(project, wanted, offset=offset, limit=limit)
            people = [PersonName(worker=worker, name=name) for worker, name in list_people(project)]
            return GalleryResponse(total=total, people=people, photos=[_describe(context, each) for each in found])

        return await readers.run(read)

    @routes.get("/gallery/{photo_id}", summary="A photo with its chains and boxes", responses=_ERRORS)
    async def one_photo(request: Request, photo_id: Annotated[PhotoId, Path()]) -> GalleryEntry:
        await authentication.require_reviewer(request)
        return await readers.run(lambda: _read(context, context.library.find_photo(photo_id)))

    _add_correction_routes(routes, context)


def _add_correction_routes(routes: APIRouter, context: AppContext) -> None:
    project, require_reviewer = context.project, context.authentication.require_reviewer

    async def change(photo_id: str, record: Callable[[Connection, str], JudgementResult]) -> GalleryEntry:
        """Record a correction in one transaction and return the photo as it is then."""
        photo = await context.readers.run(context.library.find_photo, photo_id)
        await context.transactions.run(lambda connection: record(connection, photo), JudgementResult.cache)
        return await context.readers.run(_read, context, photo)

    @routes.post("/gallery/{photo_id}/correct", summary="Correct a photo", responses=_ERRORS)
    async def correct_(request: Request, photo_id: Annotated[PhotoId, Path()], body: CorrectionRequest) -> GalleryEntry:
        lead = await require_reviewer(request)
        fields = body.model_dump(exclude={"seen"}) | {"other": body.other or ""}
        wanted = Correction(**fields | {"mentions": tuple(body.mentions), "types": tuple(body.types)})
        return await change(
            photo_id, lambda connection, photo: correct(project, connection, lead.id, photo, wanted, seen=body.seen)
        )

    @routes.post("/gallery/{photo_id}/undo", summary="Undo the last correction of a photo", responses=_ERRORS)
    async def undo(request: Request, photo_id: Annotated[PhotoId, Path()], body: EmptyRequest) -> GalleryEntry:
        lead = await require_reviewer(request)
        return await change(photo_id, lambda connection, photo: undo_correction(project, connection, lead.id, photo))

    @routes.post("/gallery/{photo_id}/redo", summary="Redo the correction that was undone last", responses=_ERRORS)
    async def redo(request: Request, photo_id: Annotated[PhotoId, Path()], body: EmptyRequest) -> GalleryEntry:
        lead = await require_reviewer(request)
        return await change(photo_id, lambda connection, photo: redo_correction(project, connection, lead.id, photo))


def _read(context: AppContext, photo: str) -> GalleryEntry:
    return _describe(context, read_photo(context.project, photo))


def _describe(context: AppContext, found: GalleryPhoto) -> GalleryEntry:
    mentions = [mention for chain in found.chains for mention in chain.mentions]
    captions = split_captions(enumerate(found.captions), mentions)
    return GalleryEntry(
        photo=context.describe_photo(found.photo),
        name=found.photo,
        stage=found.stage,
        captions=[CaptionInfo(**caption) for caption in captions],
        chains=list(found.chains),
        people=list(found.people),
        disagreements=list(found.disagreements),
        corrections=list(found.corrections),
        can_redo=found.can_redo,
        last_event=found.last_event,
    )
