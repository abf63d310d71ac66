"""What ReplayDeadLettersOperator asks for, tried once and again; and when a wait for a replay ends."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.client.conditions import ReplayEnds, as_json, of_json
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.operators.dead_letters import ReplayDeadLettersOperator
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest

KNOWN = Replay("c-replay", "d/r/t/-1", "dlq", ["0:9"], 0, False, "RUNNING")


@dataclass
class Connect:
    """A cluster that knows one replay, or none."""

    known: Replay | None = None
    requests: list[ReplayRequest] = field(default_factory=list)
    restarts: list[str] = field(default_factory=list)

    def dead_letter_replay(self, name: str) -> Replay:
        if self.known is None:
            raise NotFoundException(name)
        return self.known

    def replay_dead_letters(self, name: str, asked: ReplayRequest) -> Replay:
        self.requests.append(asked)
        self.known = replace(KNOWN, replay=asked.replay or "")
        return self.known

    def restart_connector(self, name: str, *, include_tasks: bool) -> None:
        self.restarts.append(name)

    def __enter__(self) -> "Connect":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


def executed(connect: Connect) -> Any:
    operator = ReplayDeadLettersOperator(task_id="t", connector="c", exceptions=["DataException"], wait=False)
    operator._hook = lambda: connect  # type: ignore[assignment, return-value]  # the cluster of this test
    return operator.execute({"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1)})


def test_a_task_instance_is_one_replay() -> None:
    connect = Connect()
    for _ in range(2):
        assert executed(connect) == {"connector": "c-replay", "replay": "d/r/t/-1", "until": ["0:9"]}
    assert [(asked.replay, asked.exceptions) for asked in connect.requests] == [("d/r/t/-1", ["DataException"])] * 2
    assert connect.restarts == []


def test_what_a_try_before_has_left_failed_is_restarted() -> None:
    connect = Connect(replace(KNOWN, state="FAILED"))
    executed(connect)
    assert connect.restarts == ["c-replay"]
    other = Connect(replace(KNOWN, state="FAILED", replay="another"))
    executed(other)
    assert other.restarts == []


def test_a_wait_ends_with_the_replay() -> None:
    condition = ReplayEnds("c", "d/r/t/-1")
    assert of_json(as_json(condition)) == condition
    assert not condition.evaluate(KNOWN).is_met
    assert condition.evaluate(replace(KNOWN, is_done=True, records=3)).is_met
    failed = condition.evaluate(replace(KNOWN, state="FAILED", failure="DataException: no JSON"))
    assert (failed.is_met, failed.has_failed, "DataException: no JSON" in failed.text) == (False, True, True)
    assert condition.evaluate(replace(KNOWN, replay="another")).has_failed
    assert condition.evaluate(None).has_failed


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (0, "No dead-letter record of c is replayed: none fits, or each one was replayed before"),
        (1, "1 dead-letter record of c is replayed"),
        (2, "2 dead-letter records of c are replayed"),
    ],
)
def test_a_replay_tells_how_many_records_it_had(records: int, text: str) -> None:
    assert ReplayEnds("c", "d/r/t/-1").evaluate(replace(KNOWN, is_done=True, records=records)).text == text
