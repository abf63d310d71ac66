"""The recorded sessions that need no run, against the app under its own server."""

import pytest

from tests.contract.rest.replay import replay
from tests.contract.rest.scenarios import Scenario, scenarios
from tests.contract.rest.server import Server
from tests.contract.rest.to_come import TO_COME, unexpected

STILL = [one for one in scenarios() if one.profile == "default" and (not one.needs_runs or one.name == "loggers")]


@pytest.mark.parametrize("scenario", STILL, ids=lambda scenario: scenario.name)
def test_every_answer_is_kafka_connects(server: Server, scenario: Scenario) -> None:
    outcomes = list(replay(scenario, server))
    assert unexpected(outcomes, TO_COME) == []
    assert len(outcomes) == scenario.answered
