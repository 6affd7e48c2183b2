"""The API conforms to its OpenAPI description for generated requests."""

from __future__ import annotations

import os

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckFunction
from schemathesis.checks import not_a_server_error as no_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from deixis.data.samples import SAMPLES
from deixis.web.app import make_app
from tests.web.fakes import FakeCollection, FakeInference

CHECKS: list[CheckFunction] = [
    no_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
HERE = {"host": "127.0.0.1"}
COLLECTION = FakeCollection([SAMPLES / "images" / "dogs.jpg"])
schema = schemathesis.openapi.from_asgi(
    "/api/openapi.json", make_app(COLLECTION, inference=FakeInference()), headers=HERE
)


@schema.parametrize()
@settings(
    max_examples=int(os.environ.get("DEIXIS_SCHEMA_EXAMPLES", "25")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_every_answer_is_one_that_the_api_describes(case: schemathesis.Case) -> None:
    photo_id = case.path_parameters.get("photo_id")
    if isinstance(photo_id, str) and len(photo_id) % 2:  # no guess would ever be the id of a photo
        case.path_parameters["photo_id"] = next(iter(COLLECTION.known))
    response = case.call_and_validate(checks=CHECKS, headers=HERE)
    assert response.status_code not in (401, 403, 421), "the guard has answered"
