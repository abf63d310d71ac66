"""What UpgradeConnectorOperator asks for, tried once and again."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from airflow_provider_connect.client.conditions import UpgradeSucceeds
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.operators.upgrade import UpgradeConnectorOperator
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState

KNOWN = Upgrade(UpgradeState.REQUESTED, to="[2,3)", old="1.0", new="2.1", class_name="C")


@dataclass
class Connect:
    """A cluster that knows one upgrade, or none."""

    known: Upgrade | None = None
    requests: int = 0

    def upgrade(self, name: str) -> Upgrade:
        if self.known is None:
            raise NotFoundException(name)
        return self.known

    def request_upgrade(self, name: str, to: str, *, canary: int, accept_schema_change: bool) -> Upgrade:
        self.requests += 1
        self.known = replace(KNOWN, to=to, canary=canary, accepts_schema_change=accept_schema_change)
        return self.known


@pytest.mark.parametrize(
    ("known", "requests"),
    [
        (None, 1),
        (KNOWN, 0),
        (replace(KNOWN, state=UpgradeState.DONE), 0),
        (replace(KNOWN, state=UpgradeState.HELD), 1),
        (replace(KNOWN, to="2.0"), 1),
    ],
)
def test_what_is_asked_for_already_is_not_asked_for_again(known: Upgrade | None, requests: int) -> None:
    connect: Any = Connect(known)
    operator = UpgradeConnectorOperator(task_id="upgrade", connector="c", to="[2,3)", canary=7)
    assert operator.act(connect) == {"old": "1.0", "new": "2.1"}
    assert connect.requests == requests
    assert operator.after(None) == UpgradeSucceeds("c")
