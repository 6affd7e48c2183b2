"""Routes of reviewers and owners: review, gallery, progress, people, phrases and exports."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path as FilePath
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Response
from starlette.exceptions import HTTPException

from deixis.annotate.export import export_project
from deixis.annotate.gallery import (
    Assigned,
    Correction,
    GalleryFilter,
    GalleryPhoto,
    PhotoStage,
    assign_photos,
    correct,
    find_photos,
    list_people,
    read_photo,
    redo_correction,
    undo_correction,
)
from deixis.annotate.judgements import JudgementResult
from deixis.annotate.people import (
    Person,
    change_worker,
    find_worker,
    forget_worker,
    invite,
    list_workers,
    renew_invitation,
    resume_worker,
    suspend_worker,
)
from deixis.annotate.progress import format_pay, read_progress
from deixis.annotate.project import PhotoStatus, Project, list_photo_states
from deixis.annotate.quality import Level, reinstate
from deixis.annotate.review import (
    PhotoPhrases,
    Reassigned,
    ReviewCase,
    decide,
    edit_phrases,
    explain_photo,
    list_remarks,
    mark_remarks_seen,
    read_phrases,
    reassign,
    review_queue,
)
from deixis.annotate.web.context import AppContext, AuthenticatedUser, Context, Owner, Reviewer, errors
from deixis.annotate.web.photos import split_captions
from deixis.annotate.web.schemas import (
    MAX_NUMBER,
    AssignRequest,
    CaptionInfo,
    CaptionText,
    CorrectionRequest,
    Dashboard,
    DecisionRequest,
    EmptyRequest,
    EmptyResponse,
    EventResponse,
    GalleryEntry,
    GalleryResponse,
    HistoryResponse,
    InviteRequest,
    LevelResponse,
    LinkResponse,
    PeopleResponse,
    PersonName,
    PhotoEntry,
    PhotoId,
    PhotosResponse,
    PhraseInfo,
    PhrasesRequest,
    PhrasesResponse,
    ReassignRequest,
    ReinstateRequest,
    ReviewInfo,
    ReviewResponse,
    SeenRequest,
    StoredText,
    TypeName,
    WorkerChangeRequest,
    WorkerId,
)
from deixis.errors import DeixisError
from deixis.web.downloads import FileDownload

_SIGNED_IN, _ERRORS = errors(401, 403), errors(401, 403, 404)
_CSV: dict[str, Any] = {"content": {"text/csv": {"schema": {"type": "string"}}}}
_ZIP: dict[str, Any] = {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}

Offset = Annotated[int, Query(ge=0, le=2**31)]
PageSize = Annotated[int, Query(ge=1, le=200)]
PhotoPath = Annotated[PhotoId, Path()]

router = APIRouter()


@router.get("/review", summary="The review queue", responses=_SIGNED_IN)
async def review(context: Context, reviewer: Reviewer, offset: Offset = 0, limit: PageSize = 50) -> ReviewResponse:
    def read() -> ReviewResponse:
        queue = review_queue(context.project)
        page = [_describe_case(context, case) for case in queue[offset : offset + limit]]
        return ReviewResponse(total=len(queue), items=page)

    return await context.readers.run(read)


@router.get("/review/photos/{photo_id}", summary="The history of a photo", responses=_ERRORS)
async def history(
    context: Context,
    reviewer: Reviewer,
    photo_id: PhotoPath,
    until: Annotated[int | None, Query(ge=1, le=MAX_NUMBER, description="As it was after this event.")] = None,
) -> HistoryResponse:
    return await context.readers.run(_describe_history, context, photo_id, until)


@router.post("/review/decide", summary="Decide on a chain or a phrase", responses=_ERRORS)
async def decide_(body: DecisionRequest, context: Context, reviewer: Reviewer) -> EventResponse:
    def record() -> EventResponse:
        about = (context.project, reviewer.id, context.library.find_photo(body.photo), body.mention, body.decision)
        return EventResponse(event=decide(*about, types=tuple(body.types), remark=body.remark))

    return await context.readers.run(record)


@router.post("/review/seen", summary="Mark the remarks about a photo as read", responses=_ERRORS)
async def seen(body: SeenRequest, context: Context, reviewer: Reviewer) -> EmptyResponse:
    photo = await context.readers.run(context.library.find_photo, body.photo)
    await context.readers.run(mark_remarks_seen, context.project, reviewer.id, photo)
    return EmptyResponse()


@router.post("/review/reinstate", summary="Let a suspended worker try again", responses=_ERRORS)
async def reinstate_worker(body: ReinstateRequest, context: Context, reviewer: Reviewer) -> LevelResponse:
    def write() -> Level:
        with context.project.database.writing() as connection:
            worker = find_worker(connection, body.worker)
            return reinstate(context.project, connection, worker.id, body.task)

    return LevelResponse(level=await context.readers.run(write))


@router.post("/review/reassign", summary="Give what waits for a worker to others", responses=_ERRORS)
async def reassign_questions(body: ReassignRequest, context: Context, reviewer: Reviewer) -> Reassigned:
    return await context.readers.run(reassign, context.project, reviewer.id, body.worker)


@router.get("/gallery", summary="Photos with their chains and boxes", responses=_SIGNED_IN)
async def gallery(
    context: Context,
    reviewer: Reviewer,
    stage: PhotoStage | None = None,
    person: Annotated[WorkerId | None, Query(description="Somebody who worked on the photo.")] = None,
    disagreement: Annotated[bool, Query(description="Only photos on which people disagreed.")] = False,
    changed: Annotated[bool, Query(description="Only photos that were corrected.")] = False,
    assigned: Annotated[
        str | None, Query(pattern=r"^(w[0-9a-f]{12})?$", description="To whom it is assigned; empty: to nobody.")
    ] = None,
    words: Annotated[StoredText, Query(max_length=200, description="Parts of the file name or captions.")] = "",
    type_: Annotated[TypeName, Query(alias="type", description="Entity type of a phrase.")] = "",
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 24,
) -> GalleryResponse:
    wanted = GalleryFilter(stage, person, disagreement, changed, assigned, words, type_)

    def read() -> GalleryResponse:
        total, found = find_photos(context.project, wanted, offset=offset, limit=limit)
        people = [PersonName(worker=worker, name=name) for worker, name in list_people(context.project)]
        return GalleryResponse(total=total, people=people, photos=[_describe_photo(context, each) for each in found])

    return await context.readers.run(read)


@router.post("/gallery/assign", summary="Ask only some people about all photos that match", responses=_SIGNED_IN)
async def assign(context: Context, lead: Reviewer, body: AssignRequest) -> Assigned:
    wanted = GalleryFilter(**body.model_dump(exclude={"people"}))
    return await context.readers.run(assign_photos, context.project, lead.id, wanted, body.people)


@router.get("/gallery/{photo_id}", summary="A photo with its chains and boxes", responses=_ERRORS)
async def one_photo(context: Context, reviewer: Reviewer, photo_id: PhotoPath) -> GalleryEntry:
    return await context.readers.run(lambda: _read_photo(context, context.library.find_photo(photo_id)))


async def _change_photo(
    context: AppContext, lead: AuthenticatedUser, photo_id: str, record: Callable[..., JudgementResult]
) -> GalleryEntry:
    """Record a correction in one transaction and return the photo as it is then."""
    photo = await context.readers.run(context.library.find_photo, photo_id)
    await context.transactions.run(lambda connection: record(context.project, connection, lead.id, photo))
    return await context.readers.run(_read_photo, context, photo)


@router.post("/gallery/{photo_id}/correct", summary="Correct a photo", responses=_ERRORS)
async def correct_(context: Context, lead: Reviewer, photo_id: PhotoPath, body: CorrectionRequest) -> GalleryEntry:
    given = body.model_dump(exclude={"seen"}) | {"other": body.other or ""}
    wanted = Correction(**given | {"mentions": tuple(body.mentions), "types": tuple(body.types)})
    return await _change_photo(context, lead, photo_id, partial(correct, wanted=wanted, seen=body.seen))


@router.post("/gallery/{photo_id}/undo", summary="Undo the last correction of a photo", responses=_ERRORS)
async def undo(context: Context, lead: Reviewer, photo_id: PhotoPath, body: EmptyRequest) -> GalleryEntry:
    return await _change_photo(context, lead, photo_id, undo_correction)


@router.post("/gallery/{photo_id}/redo", summary="Redo the correction that was undone last", responses=_ERRORS)
async def redo(context: Context, lead: Reviewer, photo_id: PhotoPath, body: EmptyRequest) -> GalleryEntry:
    return await _change_photo(context, lead, photo_id, redo_correction)


@router.get("/dashboard", summary="Progress of the project", responses=_SIGNED_IN)
async def dashboard(context: Context, reviewer: Reviewer) -> Dashboard:
    return await context.readers.run(context.dashboard.read)


@router.get("/pay.csv", summary="Hours and pay", responses={200: _CSV, **_SIGNED_IN}, response_class=Response)
async def pay(context: Context, owner: Owner) -> Response:
    progress = await context.readers.run(read_progress, context.project)
    table = format_pay(progress.workers, progress.currency)
    return Response(table, media_type="text/csv", headers={"content-disposition": 'attachment; filename="pay.csv"'})


@router.get("/people", summary="All workers", responses=_SIGNED_IN)
async def people(context: Context, owner: Owner) -> PeopleResponse:
    return PeopleResponse(people=await context.readers.run(list_workers, context.project))


@router.post("/people", summary="Invite a worker", responses=errors(401, 403, 409))
async def invite_worker(body: InviteRequest, context: Context, owner: Owner) -> LinkResponse:
    worker, token = await context.readers.run(invite, context.project, **body.model_dump())
    return LinkResponse(worker=worker, link=context.join_link(token))


async def _find_person(worker: Annotated[WorkerId, Path()], context: Context, owner: Owner) -> Person:
    for person in await context.readers.run(list_workers, context.project):
        if person.worker == worker:
            return person
    raise HTTPException(404, "no such worker in this project")


NamedPerson = Annotated[Person, Depends(_find_person)]
"""The person whom the address names; only owners get that far."""


@router.post("/people/{worker}/invitation", summary="Renew an invitation", responses=_ERRORS)
async def renew(context: Context, person: NamedPerson) -> LinkResponse:
    token = await context.readers.run(renew_invitation, context.project, person.worker)
    context.authentication.clear_cache()
    return LinkResponse(worker=person.worker, link=context.join_link(token))


@router.post("/people/{worker}", summary="Vouch for a worker, change the role, suspend or resume", responses=_ERRORS)
async def change(context: Context, owner: Owner, person: NamedPerson, body: WorkerChangeRequest) -> Person:
    project, worker = context.project, person.worker
    if worker == owner.id and body.role is not None:
        raise DeixisError("owners cannot change their own role; ask another owner")
    if worker == owner.id and body.suspended:
        raise DeixisError("owners cannot suspend themselves; ask another owner")
    await context.readers.run(change_worker, project, worker, role=body.role, vouched=body.vouched)
    if body.suspended is not None:
        await context.readers.run(suspend_worker if body.suspended else resume_worker, project, worker)
    context.authentication.clear_cache()
    return await _find_person(worker, context, owner)


@router.delete("/people/{worker}", summary="Delete the personal data of a worker", responses=_ERRORS)
async def forget(context: Context, owner: Owner, person: NamedPerson) -> EmptyResponse:
    if person.worker == owner.id:
        raise DeixisError("owners cannot delete their own data; ask another owner")
    await context.readers.run(forget_worker, context.project, person.worker)
    context.authentication.clear_cache()
    return EmptyResponse()


@router.get("/photos", summary="The photos to annotate", responses=_SIGNED_IN)
async def list_photos(context: Context, owner: Owner, offset: Offset = 0, limit: PageSize = 50) -> PhotosResponse:
    def read() -> PhotosResponse:
        total, found = list_photo_states(context.project, offset, limit)
        return PhotosResponse(total=total, photos=[_describe_state(context, each) for each in found])

    return await context.readers.run(read)


@router.get("/photos/{photo_id}/phrases", summary="The phrases of a photo", responses=_ERRORS)
async def phrases(context: Context, owner: Owner, photo_id: PhotoPath) -> PhrasesResponse:
    def read() -> PhrasesResponse:
        return _describe_phrases(context, read_phrases(context.project, context.library.find_photo(photo_id)))

    return await context.readers.run(read)


@router.put("/photos/{photo_id}/phrases", summary="Edit the phrases of a photo", responses=_ERRORS)
async def edit(context: Context, owner: Owner, photo_id: PhotoPath, body: PhrasesRequest) -> PhrasesResponse:
    wanted = [(phrase.id, tuple(phrase.types)) for phrase in body.phrases]

    def write() -> PhrasesResponse:
        photo = context.library.find_photo(photo_id)
        return _describe_phrases(context, edit_phrases(context.project, owner.id, photo, wanted))

    return await context.readers.run(write)


@router.get(
    "/export",
    summary="The annotations with their provenance, as deixis annotate export writes them, in a zip file",
    responses={200: _ZIP, **_SIGNED_IN},
    response_class=Response,
)
async def export(
    context: Context,
    owner: Owner,
    to: Annotated[str, Query(max_length=40, description="A format of deixis data convert.")] = "entities",
    unfinished: Annotated[bool, Query(description="Include unfinished photos.")] = False,
) -> Response:
    file = await context.exports.run(_make_zip, context.project, to, unfinished)
    return FileDownload(file, "annotations.zip", "application/zip")


def _make_zip(project: Project, format_name: str, unfinished: bool) -> IO[bytes]:
    content = TemporaryFile()  # noqa: SIM115 (the download closes it)
    with TemporaryDirectory() as folder, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        out = FilePath(folder) / "annotations"
        export_project(project, format_name, out, unfinished=unfinished)
        for path in sorted(out.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(out))
    return content


def _fields_of(found: Any) -> dict[str, Any]:
    return {each.name: getattr(found, each.name) for each in fields(found)}


def _describe_case(context: AppContext, case: ReviewCase) -> ReviewInfo:
    reason = case.reason if case.remark is None else "remark"
    return ReviewInfo(**_fields_of(case) | {"photo": context.describe_photo(case.photo), "reason": reason})


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
        remarks=list_remarks(context.project, photo),
    )


def _read_photo(context: AppContext, photo: str) -> GalleryEntry:
    return _describe_photo(context, read_photo(context.project, photo))


def _describe_photo(context: AppContext, found: GalleryPhoto) -> GalleryEntry:
    captions = [CaptionInfo(**caption) for caption in split_captions(enumerate(found.captions), found.mentions)]
    shown = {"photo": context.describe_photo(found.photo), "name": found.photo, "captions": captions}
    return GalleryEntry(**_fields_of(found) | shown)


def _describe_state(context: AppContext, found: PhotoStatus) -> PhotoEntry:
    return PhotoEntry(**_fields_of(found) | {"photo": context.describe_photo(found.photo), "name": found.photo})


def _describe_phrases(context: AppContext, found: PhotoPhrases) -> PhrasesResponse:
    texts = found.material.captions
    captions = split_captions(enumerate(texts), [phrase.id for phrase in found.phrases])
    return PhrasesResponse(
        photo=context.describe_photo(found.material.photo),
        begun=found.begun,
        captions=[CaptionText(text=texts[caption["number"]], **caption) for caption in captions],
        phrases=[PhraseInfo(id=each.id, text=each.text, types=list(each.types)) for each in found.phrases],
    )
