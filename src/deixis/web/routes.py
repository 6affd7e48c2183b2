"""The routes of the API, and the requests that bring or name a photo, as JSON or as a form."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import fastapi
from fastapi import APIRouter, Body, Depends, File, Form, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from PIL.Image import Image
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.datastructures import UploadFile

from deixis import __version__
from deixis.data.decoder import NAME, DecoderPool
from deixis.errors import DeixisError, PhotoError, UnavailableError
from deixis.search.collection import PhotoCollection
from deixis.search.index.photo_files import THUMBNAIL_SIDE, make_thumbnail
from deixis.search.results import HitPhrase, PhotoRecord
from deixis.storage.files import open_regular
from deixis.storage.remote import is_remote
from deixis.web.downloads import FileDownload, ZipDownload
from deixis.web.executor import BoundedExecutor, BusyError
from deixis.web.inference import InferenceService, PhotoInput, ResultCache
from deixis.web.pages import MAX_SIDE, encode_jpeg, open_inside
from deixis.web.responses import (
    AlbumNames,
    Captions,
    Counted,
    Description,
    Error,
    Favourites,
    Grounding,
    MarkedPhotos,
    Overview,
    Paths,
    PhotoDetails,
    PhotoId,
    PhotoPage,
    Phrases,
    SearchResponse,
    Status,
    UploadLimits,
    found_phrases,
    photo_details,
    search_response,
    tile_entry,
)
from deixis.web.security import ServerLimits, error_response

MAX_RESULTS = 500
MAX_PAGE = 1000
MAX_EXPLAINED = 10
"""Results of a search whose phrases are located at once; further ones photo by photo."""

_SHOWN = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".gif": "image/gif",
    ".avif": "image/avif",
    ".bmp": "image/bmp",
}
"""The files that browsers show, by suffix; others are saved."""

MODEL_PATHS = frozenset(f"/api/{name}" for name in ("ground", "caption", "describe", "search/like", "preview"))
"""Requests that may bring a photo."""
_MARKED = re.compile(r"(?<!\S)(?:is|album):", re.IGNORECASE)
"""Filters whose photos change without a change of the index."""

_CACHE_A_DAY = "private, max-age=86400"
_JPEG: dict[str, Any] = {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}

PHOTO_FIELD = "photo"
_JSON, _FORM = "application/json", "multipart/form-data"

T = TypeVar("T")


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


SentenceText = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_not_blank)]
"""A sentence of a request."""


class PhotoRequest(BaseModel):
    """A request about a photo: its id, unless one is uploaded."""

    model_config = ConfigDict(extra="forbid")

    photo: PhotoId | None = Field(None, description="The id of a photo in the index.")


class GroundRequest(PhotoRequest):
    """A sentence to ground in a photo."""

    sentence: SentenceText


class CaptionRequest(PhotoRequest):
    """A photo to caption."""


class DescribeRequest(PhotoRequest):
    """A photo whose regions are to be described."""

    region: tuple[float, float, float, float] | None = Field(None, description="Only this box, x1, y1, x2, y2.")
    top: int = Field(2, ge=1, le=20, description="Maximum number of phrases per region.")

    @model_validator(mode="before")
    @classmethod
    def _parse_form_region(cls, values: Any) -> Any:
        """Forms have the region as text: x1,y1,x2,y2."""
        if isinstance(values, dict) and isinstance(values.get("region"), str):
            return {**values, "region": values["region"].split(",")}
        return values


RequestT = TypeVar("RequestT", bound=PhotoRequest)

Top = Annotated[int, Query(ge=1, le=MAX_RESULTS, description="Maximum number of results.")]
Everything = Annotated[bool, Query(alias="all", description="Include improbable photos.")]
Date = Annotated[str | None, Query(max_length=20, description="2024, 2024-06 or 2024-06-01.")]
Folder = Annotated[str | None, Query(alias="in", max_length=200, description="Part of a folder name.")]
Id = Annotated[PhotoId, fastapi.Path(description="Photo id.")]


class PhotoNotFoundError(DeixisError):
    """No photo has the requested id."""


class RouteContext:
    """Shared state of the routes, with threads for each kind of request."""

    def __init__(
        self, photos: PhotoCollection, inference: InferenceService, limits: ServerLimits, is_local: bool = True
    ) -> None:
        self.photos, self.inference, self.limits = photos, inference, limits
        self.is_local = is_local  # whether only this machine has access
        # Searches take milliseconds. A disk that does not answer must not stop them, nor may uploads or captions.
        self.search_executor = BoundedExecutor(
            "search", limits.search_threads, limits.search_queue, limits.search_wait_s
        )
        self.picture_executor = BoundedExecutor(
            "pictures", limits.picture_threads, limits.search_queue, limits.picture_wait_s
        )
        self.upload_executor = BoundedExecutor(
            "uploads", limits.upload_threads, limits.upload_queue, limits.upload_wait_s
        )
        self.model_executor = BoundedExecutor("models", limits.model_threads, limits.model_queue, limits.model_wait_s)
        self.decoders = DecoderPool(limits.upload_threads)
        self._uploads = asyncio.Semaphore(limits.upload_threads)
        self._waiting_uploads = 0
        self.searches = ResultCache[bytes](limits.cached_searches)  # responses as JSON

    def close(self) -> None:
        """Stop the threads and the processes that decode."""
        for executor in (self.search_executor, self.picture_executor, self.upload_executor, self.model_executor):
            executor.close()
        self.decoders.close()

    def is_busy(self, path: str) -> bool:
        """Return whether a request would be refused, before it is read."""
        if path == "/api/search":
            return self.search_executor.is_busy
        is_full = self._waiting_uploads >= self.limits.upload_queue
        return path in MODEL_PATHS and (self.model_executor.is_busy or is_full)

    def photo(self, photo_id: str) -> PhotoRecord:
        """Return the photo with an id."""
        try:
            return self.photos.photo(photo_id)
        except UnavailableError:
            raise
        except DeixisError:
            raise PhotoNotFoundError(photo_id) from None

    @asynccontextmanager
    async def opened_upload(self, upload: UploadFile) -> AsyncIterator[Image]:
        """Decode an uploaded photo in a process of its own, after checking its size.

        As many are held at once as there are decoders: the pixels of a photo take up to 200 MB.
        """

        def decode() -> Image:
            if not upload.size:
                raise PhotoError(NAME, "an empty file")
            if upload.size > self.limits.upload_bytes:
                raise PhotoError(NAME, f"larger than {self.limits.upload_bytes // 2**20} MB")
            with upload.file as file:
                return self.decoders.decode(file.read(), self.limits.upload_pixels)

        if self._waiting_uploads >= self.limits.upload_queue:
            raise BusyError
        self._waiting_uploads += 1
        try:
            async with asyncio.timeout(self.limits.upload_wait_s):
                await self._uploads.acquire()
        except TimeoutError:
            raise BusyError from None
        finally:
            self._waiting_uploads -= 1
        try:
            yield await self.upload_executor.run(decode)
        finally:
            self._uploads.release()

    def photo_input(self, request: PhotoRequest, uploaded: Image | None) -> PhotoInput:
        """Return the photo of a request."""
        if uploaded is not None:
            return PhotoInput(uploaded)
        return self.indexed_photo(request.photo or "")

    def indexed_photo(self, photo_id: str) -> PhotoInput:
        """Return a photo of the index."""
        record = self.photo(photo_id)
        return PhotoInput(lambda: open_inside(record.path, record.root), record.photo_id)

    def cached(self, key: tuple[object, ...], compute: Callable[[], BaseModel]) -> bytes:
        """Return a response as JSON, computed once for each state of the index."""
        version = self.photos.version
        is_fixed = version is not None and not any(_MARKED.search(part) for part in key if isinstance(part, str))
        return self.searches.get((version, *key) if is_fixed else None, lambda: compute().model_dump_json().encode())

    def explain(self, photo_id: str, query: str) -> Sequence[HitPhrase]:
        """Locate the phrases of a query in a photo of the index; none if its file cannot be read."""
        photo = self.indexed_photo(photo_id)
        return self.photos.explain(photo_id, query, lambda: self.inference.propose(photo))


def body_schema(kind: type[PhotoRequest]) -> dict[str, Any]:
    """Return the OpenAPI schema of a request in both forms."""
    json_schema = kind.model_json_schema()
    json_schema["required"] = [PHOTO_FIELD, *json_schema.get("required", [])]
    json_schema["properties"][PHOTO_FIELD] = {"type": "string", "minLength": 1, "maxLength": 64}
    fields = {name: {"type": "string"} for name in json_schema["properties"]}
    fields[PHOTO_FIELD] = {"type": "string", "format": "binary", "description": "A photo."}
    form_schema = {"type": "object", "properties": fields, "required": json_schema["required"]}
    content = {_JSON: {"schema": json_schema}, _FORM: {"schema": form_schema}}
    return {"requestBody": {"required": True, "content": content}}


def _find_context(request: Request) -> RouteContext:
    context: RouteContext = request.app.state.context
    return context


Context = Annotated[RouteContext, Depends(_find_context)]


async def _open_upload(
    context: Context, photo: Annotated[fastapi.UploadFile, File(description="A photo.")]
) -> AsyncIterator[Image]:
    async with context.opened_upload(photo) as opened:
        yield opened


Uploaded = Annotated[Image, Depends(_open_upload)]
"""A photo uploaded as a form, decoded."""


def _in_threads(
    name: Literal["search_executor", "picture_executor", "upload_executor", "model_executor"],
) -> Callable[[Callable[..., T]], Callable[..., Awaitable[T]]]:
    """Run a route in the threads of an executor of its context."""

    def decorate(route: Callable[..., T]) -> Callable[..., Awaitable[T]]:
        @wraps(route)
        async def run(context: RouteContext, **arguments: Any) -> T:
            executor: BoundedExecutor = getattr(context, name)
            return await executor.run(route, context, **arguments)

        return run

    return decorate


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": Error} for code in codes}


_PICTURE: dict[str, Any] = {"responses": {200: _JPEG}, "response_class": Response}

router = APIRouter(responses=_errors(400, 401, 403, 404, 413, 421, 422, 429, 500, 503))


@router.get("/search", summary="Photos for a sentence, or similar to a photo", response_model=SearchResponse)
async def search(
    context: Context,
    q: Annotated[SentenceText | None, Query(description="In English.")] = None,
    like: Annotated[PhotoId | None, Query(description="The id of a photo, alone or with a sentence.")] = None,
    weight: Annotated[float, Query(ge=0, le=1, description="How much the photo counts beside the sentence.")] = 0.5,
    top: Top = 60,
    everything: Everything = False,
    explain: Annotated[
        bool, Query(description=f"Locate the phrases of the sentence in the first {MAX_EXPLAINED} results.")
    ] = False,
    after: Date = None,
    before: Date = None,
    folder: Folder = None,
) -> Response:
    if q is None and like is None:
        raise DeixisError("give q, a sentence, or like, the id of a photo, or both")
    filters: dict[str, Any] = {"after": after or None, "before": before or None, "folder": folder or None}

    def compute() -> BaseModel:
        photo = None if like is None else context.photo(like)
        if q is None and photo is not None:
            results = context.photos.like(photo, top, everything=everything, **filters)
        else:
            results = context.photos.search(
                q or "", top, everything=everything, like=photo, like_weight=weight, **filters
            )
        response = search_response(q, results)
        if explain and q is not None:
            for hit in response.hits[:MAX_EXPLAINED]:
                hit.phrases = found_phrases(context.explain(hit.id, q))
        return response

    executor = context.model_executor if explain else context.search_executor
    key = q, like, weight, top, everything, explain, *filters.values()
    return Response(await executor.run(context.cached, key, compute), media_type=_JSON)


@router.post("/search/like", summary="Photos similar to an uploaded one")
@_in_threads("model_executor")
def search_like(context: Context, photo: Uploaded, top: Top = 60, everything: Everything = False) -> SearchResponse:
    return search_response(None, context.photos.like(photo, top, everything=everything))


@router.post("/preview", summary="A JPEG of an uploaded photo, for browsers that cannot show its format", **_PICTURE)
@_in_threads("picture_executor")
def preview(context: Context, photo: Uploaded) -> Response:
    width, height = map(str, photo.size)
    headers = {"x-width": width, "x-height": height}
    return Response(make_thumbnail(photo, MAX_SIDE), media_type="image/jpeg", headers=headers)


@router.get("/photos", summary="The photos that pass filters, the last taken first")
@_in_threads("search_executor")
def photos(
    context: Context,
    q: Annotated[str, Query(max_length=500, description="Filters only.")] = "",
    offset: Annotated[int, Query(ge=0, le=2**31, description="In photos, duplicates included.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Number of photos, duplicates included.")] = 100,
) -> PhotoPage:
    found = context.photos.browse(q.strip(), limit, offset)
    tiles = [tile_entry(hit) for hit in found]
    return PhotoPage(total=found.searched, filter_reason=found.filter_reason, photos=tiles)


@router.get(
    "/overview", summary="The folders and months of what a query finds, and the albums", response_model=Overview
)
@_in_threads("search_executor")
def overview(context: Context, q: Annotated[str, Query(max_length=500)] = "") -> Response:
    def count() -> BaseModel:
        found = context.photos.overview(q)
        folders, months = (
            [Counted(name=name.encode("utf-8", "replace").decode(), photos=number) for name, number in counts.items()]
            for counts in (found.folders, found.months)
        )
        albums = context.photos.albums.names()
        return Overview(folders=folders, months=months, undated=found.undated, albums=albums)

    return Response(context.cached(("overview", q, *context.photos.albums.names()), count), media_type=_JSON)


@router.get("/favourites", summary="The photos with five stars in their XMP sidecars")
@_in_threads("search_executor")
def favourites(context: Context) -> Favourites:
    return Favourites(photos=context.photos.favourites())


@router.post("/favourites", summary="Give photos five stars, or none, in XMP sidecars beside them")
@_in_threads("upload_executor")
def mark_favourites(context: Context, marked: MarkedPhotos) -> Favourites:
    context.photos.set_favourites([context.photo(photo_id) for photo_id in marked.photos], not marked.remove)
    return Favourites(photos=context.photos.favourites())


@router.post("/albums/{name}", summary="Add photos to an album or remove them from it")
@_in_threads("upload_executor")
def mark_album(context: Context, name: Annotated[str, fastapi.Path(max_length=80)], marked: MarkedPhotos) -> AlbumNames:
    photos = [context.photo(photo_id).path for photo_id in marked.photos]
    context.photos.albums.change(name, photos, remove=marked.remove)
    return AlbumNames(albums=context.photos.albums.names())


@router.post("/download", summary="Photos as one zip file", response_class=Response)
async def download(context: Context, photos: Annotated[str, Form(description="Ids, separated by commas.")]) -> Response:
    ids = photos.split(",")
    if len(ids) > MAX_PAGE:
        raise DeixisError(f"{len(ids):,} photos: a zip file has at most {MAX_PAGE:,}")
    chosen = await context.search_executor.run(lambda: [context.photo(photo_id) for photo_id in ids])
    return ZipDownload([(photo.path, photo.root) for photo in chosen])


@router.post("/paths", summary="The paths of photos; only for users of this machine", response_model=None)
@_in_threads("search_executor")
def paths(context: Context, photos: Annotated[list[PhotoId], Body(min_length=1, max_length=MAX_PAGE)]) -> Response:
    if not context.is_local:
        return error_response(403, "paths are given only on the machine that has the photos")
    names = [str(context.photo(photo_id).path) for photo_id in photos]
    found = Paths(paths=[name.encode("utf-8", "replace").decode() for name in names])
    return Response(found.model_dump_json(), media_type=_JSON)


@router.get(
    "/photos/{photo_id}/original",
    summary="The file of a photo, unchanged",
    responses={200: {"content": {kind: {} for kind in (*_SHOWN.values(), "application/octet-stream")}}},
    response_class=Response,
)
@_in_threads("picture_executor")
def original(
    context: Context,
    photo_id: Id,
    download: Annotated[bool, Query(description="Save it instead of showing it.")] = False,
) -> Response:
    record = context.photo(photo_id)
    if is_remote(record.path):
        raise PhotoError(record.path, "its file is not on this machine")
    root = record.root or Path(os.path.realpath(record.path.parent))
    try:
        file = open_regular(record.path, root)
    except OSError as error:
        raise PhotoError(record.path, error.strerror or "cannot be read") from None
    kind = _SHOWN.get(Path(record.path.name).suffix.lower())
    inline = kind is not None and not download
    return FileDownload(file, record.path.name, kind or "application/octet-stream", inline=inline)


@router.get("/photos/{photo_id}", summary="A photo of the index with its regions")
@_in_threads("search_executor")
def photo(context: Context, photo_id: Id) -> PhotoDetails:
    return photo_details(context.photo(photo_id), context.photos.regions(photo_id))


@router.get("/photos/{photo_id}/phrases", summary="The phrases of a query, located in a photo", response_model=Phrases)
@_in_threads("model_executor")
def phrases(
    context: Context, photo_id: Id, q: Annotated[SentenceText, Query(description="As for a search.")]
) -> Response:
    def locate() -> BaseModel:
        return Phrases(phrases=found_phrases(context.explain(photo_id, q)))

    return Response(context.cached(("phrases", photo_id, q), locate), media_type=_JSON)


@router.get("/photos/{photo_id}/thumbnail", summary="A small JPEG of a photo", **_PICTURE)
@_in_threads("picture_executor")
def thumbnail(context: Context, photo_id: Id) -> Response:
    record = context.photo(photo_id)
    return _jpeg(context.photos.thumbnail(photo_id) or encode_jpeg(record.path, THUMBNAIL_SIDE, record.root))


@router.get("/photos/{photo_id}/image", summary="A large JPEG of a photo", **_PICTURE)
@_in_threads("picture_executor")
def image(context: Context, photo_id: Id, side: Annotated[int, Query(ge=64, le=MAX_SIDE)] = MAX_SIDE) -> Response:
    record = context.photo(photo_id)
    return _jpeg(encode_jpeg(record.path, side, record.root))


@router.post("/ground", summary="Boxes for the noun phrases of a sentence", openapi_extra=body_schema(GroundRequest))
async def ground(request: Request, context: Context) -> Grounding:
    ask = context.inference.ground
    return await _respond(request, context, GroundRequest, lambda photo, parsed: ask(photo, parsed.sentence))


@router.post("/caption", summary="Captions of a photo", openapi_extra=body_schema(CaptionRequest))
async def caption(request: Request, context: Context) -> Captions:
    return await _respond(request, context, CaptionRequest, lambda photo, _: context.inference.caption(photo))


@router.post("/describe", summary="Phrases for the regions of a photo", openapi_extra=body_schema(DescribeRequest))
async def describe(request: Request, context: Context) -> Description:
    ask = context.inference.describe
    return await _respond(
        request, context, DescribeRequest, lambda photo, parsed: ask(photo, parsed.region, parsed.top)
    )


@router.get("/status", summary="State and limits of the server")
@_in_threads("search_executor")
def status(context: Context) -> Status:
    upload = UploadLimits(bytes=context.limits.upload_bytes, pixels=context.limits.upload_pixels)
    return Status(version=__version__, photos=len(context.photos), upload=upload, is_local=context.is_local)


async def _respond(
    request: Request, context: RouteContext, kind: type[RequestT], compute: Callable[[PhotoInput, RequestT], T]
) -> T:
    parsed, upload = await read_request(request, kind)
    async with nullcontext() if upload is None else context.opened_upload(upload) as uploaded:
        return await context.model_executor.run(lambda: compute(context.photo_input(parsed, uploaded), parsed))


def _jpeg(encoded: bytes) -> Response:
    return Response(encoded, media_type="image/jpeg", headers={"cache-control": _CACHE_A_DAY})


async def read_request(request: Request, kind: type[RequestT]) -> tuple[RequestT, UploadFile | None]:
    """Read a JSON or form request, and the photo uploaded with it."""
    values, upload = await _read_values(request)
    try:
        parsed = kind.model_validate(values)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    if (parsed.photo is None) == (upload is None):
        raise _invalid(PHOTO_FIELD, "give the id of a photo, or upload one")
    return parsed, upload


async def _read_values(request: Request) -> tuple[Any, UploadFile | None]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if content_type == _JSON:
        try:
            return await request.json(), None
        except (ValueError, RecursionError):
            raise _invalid("body", "not JSON") from None
    if content_type == _FORM:
        form = await request.form(max_files=1, max_fields=8, max_part_size=16 * 2**10)
        photo = form.get(PHOTO_FIELD)
        fields = {name: value for name, value in form.items() if isinstance(value, str) and value != ""}
        return fields, photo if isinstance(photo, UploadFile) else None
    raise _invalid("content-type", f"send {_JSON} or {_FORM}")


def _invalid(field: str, message: str) -> RequestValidationError:
    return RequestValidationError([{"loc": (field,), "msg": message, "type": "value_error"}])
