"""A handover that fails and is repeated: what the connector does here, and what the server at the other side may answer in between."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.cli import imports
from airflow_provider_connect.client.conversation import RetryLimits, ServerException
from airflow_provider_connect.errors import ConnectException, NotFoundException
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import OffsetView

CONFIG = {"name": "orders", "connector.class": "FileStreamSink", "topics": "orders"}
OFFSETS = [OffsetView({"kafka_topic": "orders", "kafka_partition": 0}, {"kafka_offset": 8})]
WORDS = {TargetState.STARTED: "RUNNING", TargetState.PAUSED: "PAUSED", TargetState.STOPPED: "STOPPED"}


class Cluster:
    """One connector of a cluster, in memory. The first ``failures`` of its changes and reads of offsets raise ``error``."""

    def __init__(self, state: TargetState | None = None, offsets: Sequence[OffsetView] = ()) -> None:
        self.state, self.held = state, list(offsets)
        self.failures = 0
        self.error: ConnectException = ServerException("This is not the correct coordinator.", 500)
        self.server = SimpleNamespace(url="http://old-connect:8083")

    def connectors(self) -> list[str]:
        return [] if self.state is None else ["orders"]

    def connector_info(self, name: str) -> Any:
        return SimpleNamespace(config=CONFIG)

    def connector_status(self, name: str) -> Any:
        if self.state is None:
            raise NotFoundException(name)
        return SimpleNamespace(connector=SimpleNamespace(state=WORDS[self.state]), tasks=[])

    def validate(self, plugin: str, config: object) -> Any:
        return SimpleNamespace(configs=[], warnings=[])

    def create_connector(self, name: str, config: object, state: TargetState) -> None:
        self.state = state

    def stop(self, name: str) -> None:
        self.state = TargetState.STOPPED

    def pause(self, name: str) -> None:
        self.state = TargetState.PAUSED

    def resume(self, name: str) -> None:
        self.state = TargetState.STARTED

    def offsets(self, name: str) -> list[OffsetView]:
        return self.held

    def alter_offsets(self, name: str, offsets: Sequence[OffsetView]) -> None:
        if self.failures:
            self.failures -= 1
            raise self.error
        self.held = list(offsets)


def hand_over(there: Cluster, here: Cluster, *, create: bool = False) -> int:
    """One run of the command, with ``--handover`` or ``--create``. Returns its exit code."""
    arguments = SimpleNamespace(handover=not create, handback=False, dags=None, create=create, takeover=False, source=there.server.url)
    assert there.state is not None
    found = imports.Found("orders", dict(CONFIG), there.state)
    return imports._from([found], arguments, here, there, None)  # type: ignore[arg-type]  # twins


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(imports, "run_directory", lambda: tmp_path)
    return tmp_path


@pytest.mark.parametrize("state", list(WORDS))
def test_a_handover_that_failed_and_is_repeated_restores_the_former_state(
    state: TargetState, notes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(imports, "_RETRY", RetryLimits(seconds=0))
    there, here = Cluster(state, OFFSETS), Cluster()
    here.failures = 1
    assert hand_over(there, here) == 1
    assert "To continue, repeat the command" in capsys.readouterr().err
    assert (there.state, here.state, here.held) == (TargetState.STOPPED, TargetState.STOPPED, [])
    assert hand_over(there, here) == 0
    assert "continues here with 1 offsets" in capsys.readouterr().out
    assert (there.state, here.state, here.held) == (TargetState.STOPPED, state, OFFSETS)
    assert list(notes.iterdir()) == []


def test_a_coordinator_that_moves_is_waited_for() -> None:
    there, here = Cluster(TargetState.STARTED, OFFSETS), Cluster()
    here.failures = 2
    assert hand_over(there, here) == 0
    assert (there.state, here.state, here.held) == (TargetState.STOPPED, TargetState.STARTED, OFFSETS)


def test_a_refusal_is_not_repeated() -> None:
    there, here = Cluster(TargetState.STARTED, OFFSETS), Cluster()
    here.failures, here.error = 2, ConnectException("no")
    assert hand_over(there, here) == 1
    assert here.failures == 1


def test_a_handover_that_was_given_up_is_forgotten(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(imports, "_RETRY", RetryLimits(seconds=0))
    there, here = Cluster(TargetState.STARTED, OFFSETS), Cluster()
    here.failures = 1
    assert hand_over(there, here) == 1
    here.state = None  # deleted; the connector stays stopped at the other side
    assert hand_over(there, here, create=True) == 0
    assert hand_over(there, here) == 0
    assert here.state is TargetState.STOPPED
    assert "airflow connect resume orders starts it" in capsys.readouterr().out


def test_without_a_note_of_this_host_the_former_state_is_unknown(notes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, here = Cluster(TargetState.STOPPED, OFFSETS), Cluster(TargetState.STOPPED)
    assert hand_over(there, here) == 0
    assert "airflow connect resume orders starts it" in capsys.readouterr().out
