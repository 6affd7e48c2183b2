"""Requests about a photo: JSON that names one of the index, or a form that brings one along."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from starlette.datastructures import UploadFile

PHOTO_FIELD = "photo"
_JSON, _FORM = "application/json", "multipart/form-data"


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("say something")
    return text


Words = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_not_blank)]
"""A sentence as people type it."""

PhotoId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


class About(BaseModel):
    """Which photo is meant: an id, unless one is sent."""

    model_config = ConfigDict(extra="forbid")

    photo: PhotoId | None = Field(None, description="The id of a photo in the index.")


class GroundRequest(About):
    """A sentence to find in a photo."""

    sentence: Words


class CaptionRequest(About):
    """A photo to write a sentence for."""


class DescribeRequest(About):
    """A photo whose regions are wanted in words."""

    region: tuple[float, float, float, float] | None = Field(None, description="Only this box, x1, y1, x2, y2.")
    top: int = Field(3, ge=1, le=20, description="Phrases for each region.")

    @model_validator(mode="before")
    @classmethod
    def _region_of_a_form(cls, given: Any) -> Any:
        """A form says x1,y1,x2,y2."""
        if isinstance(given, dict) and isinstance(given.get("region"), str):
            return {**given, "region": given["region"].split(",")}
        return given


Asked = TypeVar("Asked", bound=About)


async def read_request(request: Request, kind: type[Asked]) -> tuple[Asked, UploadFile | None]:
    """What is asked, and the photo that came with it."""
    given, sent = await _fields(request)
    try:
        asked = kind.model_validate(given)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    if (asked.photo is None) == (sent is None):
        raise _mistake(PHOTO_FIELD, "name a photo by its id, or send one")
    return asked, sent


def body_of(kind: type[About]) -> dict[str, Any]:
    """How OpenAPI describes a request that comes in either form."""
    json_schema = kind.model_json_schema()
    json_schema["required"] = [PHOTO_FIELD, *json_schema.get("required", [])]
    json_schema["properties"][PHOTO_FIELD] = {"type": "string", "minLength": 1, "maxLength": 64}
    fields = {name: {"type": "string"} for name in json_schema["properties"]}
    fields[PHOTO_FIELD] = {"type": "string", "format": "binary", "description": "A photo."}
    form_schema = {"type": "object", "properties": fields, "required": json_schema["required"]}
    content = {_JSON: {"schema": json_schema}, _FORM: {"schema": form_schema}}
    return {"requestBody": {"required": True, "content": content}}


async def _fields(request: Request) -> tuple[Any, UploadFile | None]:
    sent_as = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if sent_as == _JSON:
        try:
            return await request.json(), None
        except (ValueError, RecursionError):
            raise _mistake("body", "not JSON") from None
    if sent_as == _FORM:
        form = await request.form(max_files=1, max_fields=8, max_part_size=16 * 2**10)
        photo = form.get(PHOTO_FIELD)
        fields = {name: value for name, value in form.items() if isinstance(value, str) and value != ""}
        return fields, photo if isinstance(photo, UploadFile) else None
    raise _mistake("content-type", f"send {_JSON} or {_FORM}")


def _mistake(place: str, line: str) -> RequestValidationError:
    return RequestValidationError([{"loc": (place,), "msg": line, "type": "value_error"}])
