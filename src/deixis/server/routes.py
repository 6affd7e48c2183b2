"""The routes of the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, File, Path, Query, Request, Response, UploadFile

from deixis import __version__
from deixis.errors import DeixisError, UnavailableError
from deixis.server.answers import (
    Captions,
    Description,
    Error,
    Found,
    Grounding,
    PhotoDetails,
    PhotoPage,
    Status,
    UploadLimits,
)
from deixis.server.asking import (
    About,
    CaptionRequest,
    DescribeRequest,
    GroundRequest,
    PhotoId,
    Words,
    body_of,
    read_request,
)
from deixis.server.eyes import Eyes, Subject
from deixis.server.library import Library, details_of, entry_of, hit_of
from deixis.server.limits import Limits
from deixis.server.pictures import LONGEST_SIDE, picture_of, refuse_link_elsewhere, uploaded_photo
from deixis.server.work import Workers
from deixis.tasks.search.hits import KnownPhoto

MOST_HITS = 500
MOST_ON_A_PAGE = 1000
_A_DAY = "private, max-age=86400"
_JPEG: dict[str, Any] = {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}

Asked = TypeVar("Asked", bound=About)
Made = TypeVar("Made")

Top = Annotated[int, Query(ge=1, le=MOST_HITS, description="How many at most.")]
Everything = Annotated[bool, Query(alias="all", description="Also what is not likely to be meant.")]
Date = Annotated[str | None, Query(max_length=20, description="2024, 2024-06 or 2024-06-01.")]
Folder = Annotated[str | None, Query(alias="in", max_length=200, description="Part of the name of a folder.")]
Id = Annotated[PhotoId, Path(description="Of a photo.")]


class NoSuchPhotoError(DeixisError):
    """An id names no photo."""


@dataclass(frozen=True)
class Desk:
    """All that the routes need.

    Attributes
    ----------
    library, eyes
        The photos, and the models that look at them.
    quick, looking
        Threads for what takes milliseconds, and for what takes seconds: nobody's search waits for a caption.
    """

    library: Library
    eyes: Eyes
    quick: Workers
    looking: Workers
    limits: Limits

    def photo(self, photo_id: str) -> KnownPhoto:
        """The photo of an id."""
        try:
            return self.library.photo(photo_id)
        except UnavailableError:
            raise
        except DeixisError:
            raise NoSuchPhotoError(photo_id) from None

    def subject(self, asked: About, sent: Any) -> Subject:
        """The photo that a request is about."""
        if asked.photo is not None:
            known = self.photo(asked.photo)
            refuse_link_elsewhere(known.path)
            return Subject.of(known)
        return Subject(uploaded_photo(sent.file, self.limits.upload_bytes, self.limits.upload_pixels))


def api_routes(desk: Desk) -> APIRouter:
    """All routes, for one index."""
    routes = APIRouter(responses=_errors(400, 401, 403, 413, 421, 422, 500, 503))
    _add_searches(routes, desk)
    _add_photos(routes, desk)
    _add_models(routes, desk)

    @routes.get("/status", summary="What this server can do")
    async def status() -> Status:
        limits = UploadLimits(bytes=desk.limits.upload_bytes, pixels=desk.limits.upload_pixels)
        return Status(
            version=__version__,
            photos=await desk.quick.run(len, desk.library),
            upload=limits,
        )

    return routes


def _add_searches(routes: APIRouter, desk: Desk) -> None:
    @routes.get("/search", summary="Photos for a sentence, or like a photo", responses=_errors(404))
    async def search(
        q: Annotated[Words | None, Query(description="In English.")] = None,
        like: Annotated[PhotoId | None, Query(description="The id of a photo, instead of a sentence.")] = None,
        top: Top = 60,
        everything: Everything = False,
        explain: Annotated[bool, Query(description="Also where each phrase is.")] = False,
        after: Date = None,
        before: Date = None,
        folder: Folder = None,
    ) -> Found:
        if (q is None) == (like is None):
            raise DeixisError("give q, a sentence, or like, the id of a photo")
        narrowed = {"after": after or None, "before": before or None, "folder": folder or None}

        def found() -> Found:
            if q is None:
                hits = desk.library.like(desk.photo(like or ""), top, everything=everything, **narrowed)
            else:
                hits = desk.library.search(q, top, explain=explain, everything=everything, **narrowed)
            return Found(
                query=q,
                unknown_words=[] if q is None else desk.library.unknown_words(q),
                photos=len(desk.library),
                searched=desk.library.looked_at(q or "", **narrowed),
                hits=[hit_of(hit) for hit in hits],
            )

        return await desk.quick.run(found)

    @routes.post("/search/like", summary="Photos like one that is sent")
    async def search_like(
        photo: Annotated[UploadFile, File(description="A photo.")], top: Top = 60, everything: Everything = False
    ) -> Found:
        def found() -> Found:
            opened = uploaded_photo(photo.file, desk.limits.upload_bytes, desk.limits.upload_pixels)
            hits = desk.library.like(opened, top, everything=everything)
            count = len(desk.library)
            return Found(query=None, unknown_words=[], photos=count, searched=count, hits=[hit_of(hit) for hit in hits])

        return await desk.looking.run(found)


def _add_photos(routes: APIRouter, desk: Desk) -> None:
    @routes.get("/photos", summary="The photos of the index, the newest first")
    async def photos(
        offset: Annotated[int, Query(ge=0, le=2**31)] = 0, limit: Annotated[int, Query(ge=1, le=MOST_ON_A_PAGE)] = 100
    ) -> PhotoPage:
        def page() -> PhotoPage:
            entries = [entry_of(photo) for photo in desk.library.newest(limit, offset)]
            return PhotoPage(total=len(desk.library), photos=entries)

        return await desk.quick.run(page)

    @routes.get("/photos/{photo_id}", summary="What the index knows of a photo", responses=_errors(404))
    async def photo(photo_id: Id) -> PhotoDetails:
        def details() -> PhotoDetails:
            return details_of(desk.photo(photo_id), desk.library.regions(photo_id))

        return await desk.quick.run(details)

    @routes.get(
        "/photos/{photo_id}/thumbnail",
        summary="A photo, small",
        responses=_errors(404) | {200: _JPEG},
        response_class=Response,
    )
    async def thumbnail(photo_id: Id) -> Response:
        def small() -> bytes:
            known = desk.photo(photo_id)
            return desk.library.thumbnail(photo_id) or picture_of(known.path, 320)

        return _jpeg(await desk.quick.run(small))

    @routes.get(
        "/photos/{photo_id}/image",
        summary="A photo, large",
        responses=_errors(404) | {200: _JPEG},
        response_class=Response,
    )
    async def image(photo_id: Id, side: Annotated[int, Query(ge=64, le=LONGEST_SIDE)] = LONGEST_SIDE) -> Response:
        def large() -> bytes:
            return picture_of(desk.photo(photo_id).path, side)

        return _jpeg(await desk.quick.run(large))


def _add_models(routes: APIRouter, desk: Desk) -> None:
    async def answer(request: Request, kind: type[Asked], look: Callable[[Subject, Asked], Made]) -> Made:
        asked, sent = await read_request(request, kind)
        return await desk.looking.run(lambda: look(desk.subject(asked, sent), asked))

    @routes.post(
        "/ground",
        summary="A box for each noun phrase of a sentence",
        openapi_extra=body_of(GroundRequest),
        responses=_errors(404),
    )
    async def ground(request: Request) -> Grounding:
        return await answer(request, GroundRequest, lambda subject, asked: desk.eyes.ground(subject, asked.sentence))

    @routes.post(
        "/caption",
        summary="Sentences for a photo",
        openapi_extra=body_of(CaptionRequest),
        responses=_errors(404),
    )
    async def caption(request: Request) -> Captions:
        return await answer(request, CaptionRequest, lambda subject, _: desk.eyes.caption(subject))

    @routes.post(
        "/describe",
        summary="Words for the regions of a photo",
        openapi_extra=body_of(DescribeRequest),
        responses=_errors(404),
    )
    async def describe(request: Request) -> Description:
        def look(subject: Subject, asked: DescribeRequest) -> Description:
            return desk.eyes.describe(subject, asked.region, asked.top)

        return await answer(request, DescribeRequest, look)


def _jpeg(encoded: bytes) -> Response:
    return Response(encoded, media_type="image/jpeg", headers={"cache-control": _A_DAY})


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Error} for code in codes}
