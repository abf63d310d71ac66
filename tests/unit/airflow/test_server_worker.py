"""Which parts of an API server act with the lease, without it, and while reconciling fails."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from airflow_provider_connect.api_server import worker
from airflow_provider_connect.api_server.worker import ServerWorker
from airflow_provider_connect.errors import RetriableException


class Noted:
    """In place of every part: notes what is called. ``error`` is raised by the reconciler's tick."""

    def __init__(self, name: str, calls: list[str]) -> None:
        self._name, self._calls = name, calls
        self.error: Exception | None = None

    def __getattr__(self, method: str) -> object:
        def call(*_: object) -> None:
            self._calls.append(f"{self._name}.{method}")
            if self.error is not None:
                raise self.error

        return call


@contextmanager
def no_session() -> Iterator[None]:
    yield


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def has_lease(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    held = [True]
    monkeypatch.setattr(worker, "create_session", no_session)
    monkeypatch.setattr(worker, "hold_lease", lambda *_, **__: held[0])
    return held


@pytest.fixture
def server(calls: list[str], has_lease: list[bool]) -> ServerWorker:
    made = ServerWorker.__new__(ServerWorker)
    parts = {f"_{name}": Noted(name, calls) for name in ("reconciler", "follower", "comparison", "removal", "deadlines")}
    made.__dict__ |= {"_holder": "api:0", "_lease_end": 0.0, "herder": SimpleNamespace(config_state=lambda: None), **parts}
    return made


def act(server: ServerWorker) -> None:
    for part in (server.reconcile, server.follow_dags, server.compare_statuses, server.remove_dags, server.watch_deadlines):
        try:
            part()
        except RetriableException:
            continue


def test_with_the_lease_all_act_and_statuses_are_compared_anew_when_it_is_taken(server: ServerWorker, calls: list[str]) -> None:
    act(server)
    act(server)
    ticks = ["reconciler.tick", "follower.tick", "comparison.tick", "removal.tick", "deadlines.tick"]
    assert calls == ["comparison.reset", *ticks, *ticks]


def test_without_the_lease_warnings_alone_are_kept_right(server: ServerWorker, calls: list[str], has_lease: list[bool]) -> None:
    has_lease[0] = False
    act(server)
    assert calls == ["reconciler.watch"]


def test_while_reconciling_fails_the_others_wait_for_another_process_may_take_the_lease(server: ServerWorker, calls: list[str]) -> None:
    server.__dict__["_reconciler"].error = RetriableException("the broker is away")
    act(server)
    assert calls == ["comparison.reset", "reconciler.tick"]
    server.__dict__["_reconciler"].error = None
    act(server)
    assert calls[2:] == ["comparison.reset", "reconciler.tick", "follower.tick", "comparison.tick", "removal.tick", "deadlines.tick"]


def test_a_part_that_fails_stops_no_other(server: ServerWorker, calls: list[str]) -> None:
    server.__dict__["_follower"].error = RetriableException("the database is away")
    act(server)
    assert calls[-3:] == ["comparison.tick", "removal.tick", "deadlines.tick"]


def test_a_part_that_comes_after_the_end_of_the_lease_waits(server: ServerWorker, calls: list[str], has_lease: list[bool]) -> None:
    has_lease[0] = True
    act(server)
    calls.clear()
    server._lease_end -= 60
    server.follow_dags()
    server.compare_statuses()
    server.remove_dags()
    assert calls == []


def test_distances_are_written_once_a_minute_by_the_process_with_the_lease(
    server: ServerWorker, has_lease: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = [60_000.0], list[int]()
    server.herder.current_distances = lambda: {}  # type: ignore[method-assign]
    server._sampled_minute = 0
    monkeypatch.setattr(worker, "time", SimpleNamespace(time=lambda: clock[0], monotonic=time.monotonic))
    monkeypatch.setattr(worker, "write_distances", lambda *_, now_ms: written.append(now_ms))
    monkeypatch.setattr(worker, "forget_distances", lambda *_, now_ms: None)
    for held in (False, True):
        has_lease[0] = held
        server.reconcile()
        for clock[0] in (60_000, 60_015, 60_059, 60_061):
            server.sample_distances()
    assert written == [60_000_000, 60_061_000]
