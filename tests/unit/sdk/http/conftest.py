"""The API that a test's connector reads."""

from collections.abc import Iterator

import pytest

from tests.unit.sdk.http.api import Api, running


@pytest.fixture
def api() -> Iterator[Api]:
    with running() as api:
        yield api
