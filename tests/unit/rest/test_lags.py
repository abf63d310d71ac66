"""The page's route of lags over time: its spans, and a server that keeps no history."""

from typing import Any, cast

import httpx
import pytest

from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.page_facts import NoRuns
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.page import LagHistory

pytestmark = pytest.mark.anyio


class OneConnector:
    """In place of a herder: knows a connector, ``orders``."""

    def connector_info(self, name: str) -> None:
        if name != "orders":
            raise NotFoundException(f"Connector {name} not found")


class Measured(NoRuns):
    """A mirror with a point for each hour of the span."""

    def lags(self, connector: str, *, hours: int) -> LagHistory:
        return LagHistory(1000, 3_600_000, "records", [None, *range(1, hours)])


async def asked(path: str, runs: NoRuns) -> httpx.Response:
    app = create_app(herder=lambda: cast(Herder, OneConnector()), access=OpenToAll(), info=cast(Any, None), runs=runs)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://connect") as client:
        return await client.get(f"/ui/connectors/{path}")


async def test_each_span_has_its_points() -> None:
    found = (await asked("orders/lags?hours=1", Measured())).json()
    assert found == {"from_ms": 1000, "step_ms": 3_600_000, "unit": "records", "distances": [None]}
    assert [len((await asked(f"orders/lags{query}", Measured())).json()["distances"]) for query in ("", "?hours=168")] == [24, 168]


@pytest.mark.parametrize("hours", ["0", "2", "-1", "1e9", "9" * 5000, "24 ", "%00"])
async def test_no_other_span_is_answered(hours: str) -> None:
    answer = await asked(f"orders/lags?hours={hours}", Measured())
    assert answer.status_code == 400
    assert answer.json()["message"].startswith("hours is one of 1, 24, 168, not ")
    assert len(answer.content) < 2000


async def test_a_server_without_a_mirror_has_no_points_and_a_connector_that_does_not_exist_has_none_either() -> None:
    found = (await asked("orders/lags", NoRuns())).json()
    assert (found["distances"], found["unit"]) == ([], None)
    assert (await asked("shop/lags", NoRuns())).status_code == 404
