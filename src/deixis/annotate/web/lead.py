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
from deixis.annotate.judgements import JudgementResult, PhotoSnapshot
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
from deixis.annotate.project import Project, list_photo_states
from deixis.annotate.quality import reinstate
from deixis.annotate.review import (
    Reassigned,
    ReviewCase,
    decide,
    edit_phrases,
    explain_photo,
    list_remarks,
    mark_remarks_seen,
    reassign,
    review_queue,
)
from deixis.annotate.web import schemas
from deixis.annotate.web.context import AppContext, AuthenticatedUser, Context, Owner, Reviewer, errors, in_thread
from deixis.annotate.web.photos import split_captions
from deixis.errors import DeixisError
from deixis.web.downloads import FileDownload

_SIGNED_IN, _ERRORS = errors(401, 403), errors(401, 403, 404)
_CSV: dict[str, Any] = {"content": {"text/csv": {"schema": {"type": "string"}}}}
_ZIP: dict[str, Any] = {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}

Offset = Annotated[int, Query(ge=0, le=2**31)]
PageSize = Annotated[int, Query(ge=1, le=200)]
PhotoPath = Annotated[schemas.PhotoId, Path()]

router = APIRouter()


@router.get("/review", summary="The review queue", responses=_SIGNED_IN)
@in_thread
def review(context: Context, reviewer: Reviewer, offset: Offset = 0, limit: PageSize = 50) -> schemas.ReviewResponse:
    queue = review_queue(context.project)
    page = [_describe_case(context, case) for case in queue[offset : offset + limit]]
    return schemas.ReviewResponse(total=len(queue), items=page)


@router.get("/review/photos/{photo_id}", summary="The history of a photo", responses=_ERRORS)
@in_thread
def history(
    context: Context,
    reviewer: Reviewer,
    photo_id: PhotoPath,
    until: Annotated[int | None, Query(ge=1, le=schemas.MAX_NUMBER, description="As it was after this event.")] = None,
) -> schemas.HistoryResponse:
    photo = context.library.find_photo(photo_id)
    chains, not_counted = explain_photo(context.project, photo, until=until)
    mentions = [mention.id for mention in context.project.read_photo(photo).mentions]
    captions = split_captions(enumerate(context.library.read_view(photo).captions), mentions)
    return schemas.HistoryResponse(
        photo=context.describe_photo(photo),
        captions=[schemas.CaptionInfo(**caption) for caption in captions],
        chains=chains,
        not_counted=not_counted,
        remarks=list_remarks(context.project, photo),
    )


@router.post("/review/decide", summary="Decide on a chain or a phrase", responses=_ERRORS)
@in_thread
def decide_(body: schemas.DecisionRequest, context: Context, reviewer: Reviewer) -> schemas.EventResponse:
    about = (context.project, reviewer.id, context.library.find_photo(body.photo), body.mention, body.decision)
    return schemas.EventResponse(event=decide(*about, types=tuple(body.types), remark=body.remark))


@router.post("/review/seen", summary="Mark the remarks about a photo as read", responses=_ERRORS)
@in_thread
def seen(body: schemas.SeenRequest, context: Context, reviewer: Reviewer) -> schemas.EmptyResponse:
    mark_remarks_seen(context.project, reviewer.id, context.library.find_photo(body.photo))
    return schemas.EmptyResponse()


@router.post("/review/reinstate", summary="Let a suspended worker try again", responses=_ERRORS)
@in_thread
def reinstate_worker(body: schemas.ReinstateRequest, context: Context, reviewer: Reviewer) -> schemas.LevelResponse:
    with context.project.database.writing() as connection:
        worker = find_worker(connection, body.worker)
        return schemas.LevelResponse(level=reinstate(context.project, connection, worker.id, body.task))


@router.post("/review/reassign", summary="Give what waits for a worker to others", responses=_ERRORS)
@in_thread
def reassign_questions(body: schemas.ReassignRequest, context: Context, reviewer: Reviewer) -> Reassigned:
    return reassign(context.project, reviewer.id, body.worker)


@router.get("/gallery", summary="Photos with their chains and boxes", responses=_SIGNED_IN)
@in_thread
def gallery(
    context: Context,
    reviewer: Reviewer,
    stage: PhotoStage | None = None,
    person: Annotated[schemas.WorkerId | None, Query(description="Somebody who worked on the photo.")] = None,
    disagreement: Annotated[bool, Query(description="Only photos on which people disagreed.")] = False,
    changed: Annotated[bool, Query(description="Only photos that were corrected.")] = False,
    assigned: Annotated[
        str | None, Query(pattern=r"^(w[0-9a-f]{12})?$", description="To whom it is assigned; empty: to nobody.")
    ] = None,
    words: Annotated[
        schemas.StoredText,
        Query(max_length=200, description="Parts of the file name, or beginnings of words of captions."),
    ] = "",
    type_: Annotated[schemas.TypeName, Query(alias="type", description="Entity type of a phrase.")] = "",
    offset: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 24,
) -> schemas.GalleryResponse:
    wanted = GalleryFilter(stage, person, disagreement, changed, assigned, words, type_)
    total, found = find_photos(context.project, wanted, offset=offset, limit=limit)
    people = [schemas.PersonName(worker=worker, name=name) for worker, name in list_people(context.project)]
    return schemas.GalleryResponse(
        total=total, people=people, photos=[_describe_photo(context, each) for each in found]
    )


@router.post("/gallery/assign", summary="Ask only some people about all photos that match", responses=_SIGNED_IN)
@in_thread
def assign(context: Context, lead: Reviewer, body: schemas.AssignRequest) -> Assigned:
    wanted = GalleryFilter(**body.model_dump(exclude={"people"}))
    return assign_photos(context.project, lead.id, wanted, body.people)


@router.get("/gallery/{photo_id}", summary="A photo with its chains and boxes", responses=_ERRORS)
@in_thread
def one_photo(context: Context, reviewer: Reviewer, photo_id: PhotoPath) -> schemas.GalleryEntry:
    return _read_photo(context, context.library.find_photo(photo_id))


async def _change_photo(
    context: AppContext, lead: AuthenticatedUser, photo_id: str, record: Callable[..., JudgementResult]
) -> schemas.GalleryEntry:
    """Record a correction in one transaction and return the photo as it is then."""
    photo = await context.readers.run(context.library.find_photo, photo_id)
    await context.transactions.run(lambda connection: record(context.project, connection, lead.id, photo))
    return await context.readers.run(_read_photo, context, photo)


@router.post("/gallery/{photo_id}/correct", summary="Correct a photo", responses=_ERRORS)
async def correct_(
    context: Context, lead: Reviewer, photo_id: PhotoPath, body: schemas.CorrectionRequest
) -> schemas.GalleryEntry:
    given = body.model_dump(exclude={"seen"}) | {"other": body.other or ""}
    wanted = Correction(**given | {"mentions": tuple(body.mentions), "types": tuple(body.types)})
    return await _change_photo(context, lead, photo_id, partial(correct, wanted=wanted, seen=body.seen))


@router.post("/gallery/{photo_id}/undo", summary="Undo the last correction of a photo", responses=_ERRORS)
async def undo(
    context: Context, lead: Reviewer, photo_id: PhotoPath, body: schemas.EmptyRequest
) -> schemas.GalleryEntry:
    return await _change_photo(context, lead, photo_id, undo_correction)


@router.post("/gallery/{photo_id}/redo", summary="Redo the correction that was undone last", responses=_ERRORS)
async def redo(
    context: Context, lead: Reviewer, photo_id: PhotoPath, body: schemas.EmptyRequest
) -> schemas.GalleryEntry:
    return await _change_photo(context, lead, photo_id, redo_correction)


@router.get("/dashboard", summary="Progress of the project", responses=_SIGNED_IN)
@in_thread
def dashboard(context: Context, reviewer: Reviewer) -> schemas.Dashboard:
    return context.dashboard.read()


@router.get("/pay.csv", summary="Hours and pay", responses={200: _CSV, **_SIGNED_IN}, response_class=Response)
@in_thread
def pay(context: Context, owner: Owner) -> Response:
    progress = read_progress(context.project)
    table = format_pay(progress.workers, progress.currency)
    return Response(table, media_type="text/csv", headers={"content-disposition": 'attachment; filename="pay.csv"'})


@router.get("/people", summary="All workers", responses=_SIGNED_IN)
@in_thread
def people(context: Context, owner: Owner) -> schemas.PeopleResponse:
    return schemas.PeopleResponse(people=list_workers(context.project))


@router.post("/people", summary="Invite a worker", responses=errors(401, 403, 409))
@in_thread
def invite_worker(body: schemas.InviteRequest, context: Context, owner: Owner) -> schemas.LinkResponse:
    worker, token = invite(context.project, **body.model_dump())
    return schemas.LinkResponse(worker=worker, link=context.join_link(token))


async def _find_person(worker: Annotated[schemas.WorkerId, Path()], context: Context, owner: Owner) -> Person:
    for person in await context.readers.run(list_workers, context.project):
        if person.worker == worker:
            return person
    raise HTTPException(404, "no such worker in this project")


NamedPerson = Annotated[Person, Depends(_find_person)]
"""The person whom the address names; only owners get that far."""


@router.post("/people/{worker}/invitation", summary="Renew an invitation", responses=_ERRORS)
async def renew(context: Context, person: NamedPerson) -> schemas.LinkResponse:
    token = await context.readers.run(renew_invitation, context.project, person.worker)
    context.authentication.clear_cache()
    return schemas.LinkResponse(worker=person.worker, link=context.join_link(token))


@router.post("/people/{worker}", summary="Vouch for a worker, change the role, suspend or resume", responses=_ERRORS)
async def change(context: Context, owner: Owner, person: NamedPerson, body: schemas.WorkerChangeRequest) -> Person:
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
async def forget(context: Context, owner: Owner, person: NamedPerson) -> schemas.EmptyResponse:
    if person.worker == owner.id:
        raise DeixisError("owners cannot delete their own data; ask another owner")
    await context.readers.run(forget_worker, context.project, person.worker)
    context.authentication.clear_cache()
    return schemas.EmptyResponse()


@router.get("/photos", summary="The photos to annotate", responses=_SIGNED_IN)
@in_thread
def list_photos(context: Context, owner: Owner, offset: Offset = 0, limit: PageSize = 50) -> schemas.PhotosResponse:
    total, rows = list_photo_states(context.project, offset, limit)
    listed = [
        schemas.PhotoEntry(
            photo=context.describe_photo(row.id),
            name=row.id,
            begun=row.last_event > 0,
            finished=row.finished,
            waiting=row.waiting,
        )
        for row in rows
    ]
    return schemas.PhotosResponse(total=total, photos=listed)


@router.get("/photos/{photo_id}/phrases", summary="The phrases of a photo", responses=_ERRORS)
@in_thread
def phrases(context: Context, owner: Owner, photo_id: PhotoPath) -> schemas.PhrasesResponse:
    return _describe_phrases(context, context.project.read_photo(context.library.find_photo(photo_id)))


@router.put("/photos/{photo_id}/phrases", summary="Edit the phrases of a photo", responses=_ERRORS)
@in_thread
def edit(context: Context, owner: Owner, photo_id: PhotoPath, body: schemas.PhrasesRequest) -> schemas.PhrasesResponse:
    wanted = [(phrase.id, tuple(phrase.types)) for phrase in body.phrases]
    photo = context.library.find_photo(photo_id)
    return _describe_phrases(context, edit_phrases(context.project, owner.id, photo, wanted))


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


def _describe_case(context: AppContext, case: ReviewCase) -> schemas.ReviewInfo:
    reason = case.reason if case.remark is None else "remark"
    return schemas.ReviewInfo(**_fields_of(case) | {"photo": context.describe_photo(case.photo), "reason": reason})


def _read_photo(context: AppContext, photo: str) -> schemas.GalleryEntry:
    return _describe_photo(context, read_photo(context.project, photo))


def _describe_photo(context: AppContext, found: GalleryPhoto) -> schemas.GalleryEntry:
    captions = [schemas.CaptionInfo(**each) for each in split_captions(enumerate(found.captions), found.mentions)]
    shown = {"photo": context.describe_photo(found.photo), "name": found.photo, "captions": captions}
    return schemas.GalleryEntry(**_fields_of(found) | shown)


def _describe_phrases(context: AppContext, found: PhotoSnapshot) -> schemas.PhrasesResponse:
    texts = found.material.captions
    captions = split_captions(enumerate(texts), [mention.id for mention in found.mentions])
    return schemas.PhrasesResponse(
        photo=context.describe_photo(found.material.photo),
        begun=bool(found.events),
        captions=[schemas.CaptionText(text=texts[caption["number"]], **caption) for caption in captions],
        phrases=[schemas.PhraseInfo(id=each.id, text=each.text, types=list(each.types)) for each in found.mentions],
    )
