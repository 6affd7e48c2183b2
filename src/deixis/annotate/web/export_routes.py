"""The route with which programs fetch the annotations."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from deixis.annotate.export import export_project
from deixis.annotate.project import Project
from deixis.annotate.web.context import AppContext, errors
from deixis.web.executor import BoundedExecutor

_ZIP: dict[str, Any] = {"content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}}}


def add_export_routes(routes: APIRouter, context: AppContext) -> None:
    exports = BoundedExecutor("exports", 1, 4)  # one at a time, beside the questions

    @routes.get(
        "/export",
        summary="The annotations with their provenance, as deixis annotate export writes them, in a zip file",
        responses={200: _ZIP, **errors(401, 403)},
        response_class=Response,
    )
    async def export(
        request: Request,
        to: Annotated[str, Query(max_length=40, description="A format of deixis data convert.")] = "entities",
        unfinished: Annotated[bool, Query(description="Include unfinished photos.")] = False,
    ) -> Response:
        await context.authentication.require_owner(request)
        content = await exports.run(_make_zip, context.project, to, unfinished)
        headers = {"content-disposition": 'attachment; filename="annotations.zip"'}
        return Response(content, media_type="application/zip", headers=headers)


def _make_zip(project: Project, format_name: str, unfinished: bool) -> bytes:
    content = io.BytesIO()
    with TemporaryDirectory() as folder, zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        out = Path(folder) / "annotations"
        export_project(project, format_name, out, unfinished=unfinished)
        for path in sorted(out.rglob("*")):
            if path.is_file():
                archive.write(path, path.relative_to(out))
    return content.getvalue()
