"""The API conforms to its OpenAPI description for generated requests."""

from __future__ import annotations

import os
import time

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import CheckFunction
from schemathesis.checks import not_a_server_error as no_server_error
from schemathesis.core.transport import Response
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
ATTEMPTS = 5
COLLECTION = FakeCollection([SAMPLES / "images" / "dogs.jpg"])
schema = schemathesis.openapi.from_asgi(
    "/api/openapi.json", make_app(COLLECTION, inference=FakeInference()), headers=HERE
)


def send(case: schemathesis.Case) -> Response:
    """Send a request, again after the time that the server names while it is busy (503), as a client should."""
    response = case.call(headers=HERE)
    for _ in range(ATTEMPTS - 1):
        if response.status_code != 503 or "retry-after" not in response.headers:
            break
        time.sleep(float(response.headers["retry-after"][0]))
        response = case.call(headers=HERE)
    return response


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
    response = send(case)
    case.validate_response(response, checks=CHECKS, headers=HERE)
    assert response.status_code not in (401, 403, 421), "the guard has answered"


def test_every_operation_describes_that_the_server_may_be_busy() -> None:
    for operation in schema.get_all_operations():
        assert "503" in operation.ok().definition.raw["responses"], operation.ok().label
