"""The requests of the API that bring or name a photo, as JSON or as a form."""

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
        raise ValueError("must not be blank")
    return text


SentenceText = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_not_blank)]
"""A sentence of a request."""

PhotoId = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


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
    top: int = Field(3, ge=1, le=20, description="Number of phrases per region.")

    @model_validator(mode="before")
    @classmethod
    def _parse_form_region(cls, values: Any) -> Any:
        """Forms have the region as text: x1,y1,x2,y2."""
        if isinstance(values, dict) and isinstance(values.get("region"), str):
            return {**values, "region": values["region"].split(",")}
        return values


RequestT = TypeVar("RequestT", bound=PhotoRequest)


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
