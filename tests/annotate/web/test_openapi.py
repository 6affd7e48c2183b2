"""Every response is one that the OpenAPI description allows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import CheckFunction
from schemathesis.checks import not_a_server_error as no_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from deixis.annotate import mturk
from deixis.annotate.people import Role, invite, start_session
from deixis.annotate.project import add_photos, make_project, read_secret
from deixis.annotate.web.app import make_app
from deixis.annotate.web.context import Limits
from deixis.annotate.web.photos import PhotoLibrary
from tests.annotate.fakes import dogs

CHECKS: list[CheckFunction] = [
    no_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

PROJECT = make_project(Path(tempfile.mkdtemp()) / "project")
add_photos(PROJECT, dogs(3))
OWNER, _ = invite(PROJECT, "Eve", role=Role.OWNER, vouched=True)
PHOTO = PhotoLibrary(PROJECT, read_secret(PROJECT)).public_id("dog1")
HERE = {"host": "127.0.0.1", "authorization": f"Bearer {start_session(PROJECT, OWNER)}"}
FAST = Limits(1e6, 1e6, 1e6, 1e6)
schema = schemathesis.openapi.from_asgi(
    "/api/openapi.json", make_app(PROJECT, limits=FAST, workforces=[mturk]), headers=HERE
)
# These end the session that the other requests need, or hash passwords, which is slow by design.
schema = schema.exclude(path=["/api/logout", "/api/login", "/api/join", "/api/password"])


@schema.parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_response_conforms_to_the_openapi_description(case: schemathesis.Case) -> None:
    if "photo_id" in case.path_parameters:  # ids cannot be guessed
        case.path_parameters["photo_id"] = PHOTO
    response = case.call_and_validate(checks=CHECKS, headers=HERE)
    assert response.status_code not in (401, 421), "refused by the guard"
