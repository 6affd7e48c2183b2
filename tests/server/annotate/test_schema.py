"""Every answer to any request is one that the API describes."""

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

from deixis.annotate.people import Role, invite
from deixis.annotate.project import add_photos, make_project
from deixis.annotate.sessions import begin_session
from deixis.server.annotate.app import make_app, project_secret
from deixis.server.annotate.desk import Limits
from deixis.server.annotate.photos import Gallery
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
PHOTO = Gallery(PROJECT, project_secret(PROJECT)).id_of("dog1")
HERE = {"host": "127.0.0.1", "authorization": f"Bearer {begin_session(PROJECT, OWNER)}"}
FAST = Limits(1e6, 1e6, 1e6, 1e6)
schema = schemathesis.openapi.from_asgi("/api/openapi.json", make_app(PROJECT, limits=FAST), headers=HERE)
# They end the session that the others need, or take a tenth of a second each on purpose.
schema = schema.exclude(path=["/api/logout", "/api/login", "/api/join", "/api/password"])


@schema.parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_the_api_describes(case: schemathesis.Case) -> None:
    if "photo_id" in case.path_parameters:  # no guess would ever be the id of a photo
        case.path_parameters["photo_id"] = PHOTO
    response = case.call_and_validate(checks=CHECKS, headers=HERE)
    assert response.status_code not in (401, 421), "the guard has answered"
