"""Routes of workers: questions and answers, photos, guidelines and one's own work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from sqlalchemy import Connection
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from deixis.annotate.guidelines import Example, Guideline, read_guidelines, write_guideline
from deixis.annotate.judgements import JudgementResult, record_answer, skip_question, undo_event
from deixis.annotate.progress import summarize_worker
from deixis.annotate.project import tasks_in_use
from deixis.annotate.quality import Qualification
from deixis.annotate.queue import explain_no_question, lease_again, next_question
from deixis.annotate.web import schemas
from deixis.annotate.web.context import (
    AppContext,
    AuthenticatedUser,
    Context,
    LimitedUser,
    Owner,
    User,
    errors,
    in_thread,
    require_user,
)
from deixis.annotate.workflow import Task
from deixis.annotate.workforce import Assignment, count_item, find_assignment
from deixis.web.pages import MAX_SIDE

_ONE_DAY = "private, max-age=86400"
_JPEG: dict[str, Any] = {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
_ERRORS = errors(401, 403, 404, 410, 429)

Record = Callable[[Connection], JudgementResult]

router = APIRouter()

# The first four routes return plain dictionaries: validating the responses would cost too much time.


@router.post("/next", summary="The next question", responses={200: {"model": schemas.NextResponse}, **_ERRORS})
async def next_(body: schemas.NextRequest, context: Context, user: LimitedUser) -> Response:
    outcome, _ = await _run(context, user, None, body)
    question = await context.describe_question(outcome.question, user)
    return JSONResponse({"question": question, "why": outcome.reason})


@router.post("/answer", summary="Answer a question", responses={200: {"model": schemas.AnswerResponse}, **_ERRORS})
async def answer(body: schemas.AnswerRequest, context: Context, user: LimitedUser) -> Response:
    def record(connection: Connection) -> JudgementResult:
        about = (context.project, connection, user.id, body.token, body.answer)
        given = body.model_dump(include={"box", "groups", "seconds", "remark", "guideline"})
        return record_answer(*about, **given, bound=context.work_time.bound(user.id))

    return await _respond(context, user, record, body.next)


@router.post("/skip", summary="Skip a question", responses={200: {"model": schemas.AnswerResponse}, **_ERRORS})
async def skip(body: schemas.SkipRequest, context: Context, user: LimitedUser) -> Response:
    def record(connection: Connection) -> JudgementResult:
        given = body.model_dump(include={"bad_phrase", "seconds", "remark"})
        bound = context.work_time.bound(user.id)
        return skip_question(context.project, connection, user.id, body.token, **given, bound=bound)

    return await _respond(context, user, record, body.next)


@router.post(
    "/undo",
    summary="Undo a judgement and lease its question again",
    responses={200: {"model": schemas.UndoResponse}, **_ERRORS},
)
async def undo(body: schemas.UndoRequest, context: Context, user: LimitedUser) -> Response:
    def work(connection: Connection) -> JudgementResult:
        outcome = undo_event(context.project, connection, user.id, body.event)
        if not outcome.is_new:
            return outcome
        if user.session.assignment:
            count_item(connection, user.session.assignment, -1)
        return replace(outcome, question=lease_again(context.project, connection, user.id, body.event))

    outcome = await context.transactions.run(work)
    question = await context.describe_question(outcome.question, user)
    return JSONResponse({"event": outcome.event, "again": outcome.again, "question": question})


@router.get(
    "/photos/{photo_id}/image",
    summary="A photo",
    responses={200: _JPEG, **errors(401, 404)},
    response_class=Response,
)
async def image(
    request: Request,
    context: Context,
    photo_id: Annotated[schemas.PhotoId, Path()],
    side: Annotated[int, Query(ge=64, le=MAX_SIDE)] = MAX_SIDE,
    key: Annotated[str, Query(max_length=60, description="For pages whose browser sends no cookie.")] = "",
) -> Response:
    if not context.library.is_valid_key(photo_id, key):
        await require_user(request)
    encoded = await context.pictures.run(context.library.read_picture, photo_id, side)
    return Response(encoded, media_type="image/jpeg", headers={"cache-control": _ONE_DAY})


@router.get("/me", summary="One's own work", responses=errors(401))
@in_thread
def own_work(context: Context, user: User) -> schemas.OwnWorkResponse:
    project = context.project
    summary = summarize_worker(project, user.id)
    return schemas.OwnWorkResponse(
        project=schemas.ProjectInfo(name=context.name, photos=summary.photos, finished=summary.finished),
        tasks=[
            schemas.TaskWork(**_describe_qualification(each), judged=summary.judged.get(each.task, 0))
            for each in summary.qualifications
        ],
        judged=sum(summary.judged.values()),
        hours=summary.hours,
        pay=summary.pay,
        currency=project.settings.currency,
        guidelines={task: project.guideline_versions.get(task, 0) for task in Task},
    )


@router.get("/guidelines", summary="The guidelines of each task", responses=errors(401))
@in_thread
def guidelines(context: Context, user: User) -> schemas.GuidelinesResponse:
    found = read_guidelines(context.project)
    with context.project.database.reading() as connection:
        used = tasks_in_use(context.project, connection)
    return schemas.GuidelinesResponse(tasks={task: found[task] for task in used})


@router.put("/guidelines/{task}", summary="Edit the guideline of a task", responses=errors(401, 403))
@in_thread
def edit_guideline(task: Task, body: schemas.GuidelineText, context: Context, owner: Owner) -> Guideline:
    examples = tuple(Example(each.shown, each.answer, each.why) for each in body.examples)
    return write_guideline(context.project, task, Guideline(body.text, examples))


async def _run(
    context: AppContext, user: AuthenticatedUser, record: Record | None, next_: schemas.NextRequest | None
) -> tuple[JudgementResult, Assignment | None]:
    """Record a judgement and lease the next question in one transaction."""
    project = context.project

    def work(connection: Connection) -> tuple[JudgementResult, Assignment | None]:
        outcome = record(connection) if record else JudgementResult()
        assignment = _count_item(connection, user, outcome)
        if next_ is None or (assignment is not None and assignment.is_done):
            return outcome, assignment
        tasks = tuple(next_.tasks or Task)
        question = next_question(project, connection, user.id, exclude=next_.besides, tasks=tasks, stay=next_.stay)
        reason = explain_no_question(project, connection, user.id) if question is None else None
        return replace(outcome, question=question, reason=reason), assignment

    return await context.transactions.run(work)


async def _respond(
    context: AppContext, user: AuthenticatedUser, record: Record, next_: schemas.NextRequest | None
) -> Response:
    outcome, assignment = await _run(context, user, record, next_)
    if outcome.is_new:
        context.work_time.add(user.id, outcome.seconds)
    external = None
    if assignment is not None:
        external = describe_assignment(assignment, no_questions=outcome.reason is not None).model_dump()
    qualification = outcome.qualification
    return JSONResponse(
        {
            "event": outcome.event,
            "again": outcome.again,
            "next": await context.describe_question(outcome.question, user),
            "why": outcome.reason,
            "standing": _describe_qualification(qualification) if qualification else None,
            "lesson": asdict(outcome.lesson) if outcome.lesson else None,
            "external": external,
        }
    )


def _count_item(connection: Connection, user: AuthenticatedUser, outcome: JudgementResult) -> Assignment | None:
    """Count a new judgement of an external worker and return their assignment."""
    if user.session.assignment is None:
        return None
    assignment = find_assignment(connection, user.session.assignment)
    if assignment is None or (assignment.is_done and outcome.is_new):
        raise HTTPException(403, "this assignment is complete")
    return count_item(connection, assignment.id) if outcome.is_new else assignment


def describe_assignment(assignment: Assignment, *, no_questions: bool = False) -> schemas.ExternalProgress:
    """Describe the progress of an assignment, with the form to submit once it is done or no questions are left."""
    fields = {"assignmentId": assignment.id, "answered": str(assignment.done)}
    form = schemas.SubmitForm(url=assignment.submit_to, fields=fields) if assignment.is_done or no_questions else None
    return schemas.ExternalProgress(items=assignment.items, done=assignment.done, submit=form)


def _describe_qualification(qualification: Qualification) -> dict[str, Any]:
    test = asdict(qualification.test) if qualification.test else None
    return {"task": qualification.task.value, "level": qualification.level.value, "test": test}
