"""Whatever is sent, no answer is a 5xx, and every answer is as the OpenAPI document describes.

``CONNECT_EXAMPLES`` sets how many requests are made up for each operation, each time others; a few and the same without.
"""

import os
from typing import Any, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance, status_code_conformance

from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from tests.contract.rest.server import Server
from tests.waiting import HANG_SECONDS

EXAMPLES = os.environ.get("CONNECT_EXAMPLES")
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
LEFT_OUT = ("PUT /admin/loggers/{logger}",)  # would change what the tests themselves log


def operations() -> list[Any]:
    """One of each kind in the document; the app that makes it is never called."""
    document = create_app(herder=cast(Any, None), access=OpenToAll(), info=cast(Any, None)).openapi()
    found: list[Any] = []
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        assert isinstance(result, Ok)
        found.append(result.ok())
    return [operation for operation in found if operation.label not in LEFT_OUT]


def asked() -> list[Any]:
    """Each operation as the document has it, and those that take a body or a number also otherwise."""
    found = operations()
    wrong = [operation for operation in found if operation.body or "{task}" in operation.path]
    modes = (*((operation, GenerationMode.POSITIVE) for operation in found), *((operation, GenerationMode.NEGATIVE) for operation in wrong))
    return [pytest.param(operation, mode, id=f"{operation.label} {mode.value}") for operation, mode in modes]


@pytest.mark.parametrize(("operation", "mode"), asked())
def test_no_request_is_answered_by_an_error_of_the_server(server: Server, operation: Any, mode: GenerationMode) -> None:
    @settings(
        max_examples=int(EXAMPLES or 8),
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=not EXAMPLES,
        database=None,
    )
    @given(operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=server.url, checks=CHECKS, timeout=HANG_SECONDS)

    ask()
