"""Why and when a body ends."""

import os
import resource
import socket
import threading
import time

import pytest

from airflow_provider_connect.runtime.worker.task import stop_signal
from airflow_provider_connect.runtime.worker.task.stop_signal import StopConnection, StopReason, StopServer, StopSignal
from tests.waiting import HANG_SECONDS, wait_until


class Reasons:
    def __init__(self, *reasons: StopReason | None) -> None:
        self._reasons = list(reasons)
        self.listened: list[float] = []

    def poll(self, timeout_seconds: float = 0.0) -> StopReason | None:
        self.listened.append(timeout_seconds)
        return self._reasons.pop(0) if self._reasons else None


def test_goes_on_until_the_topic_holds_a_reason_and_then_stays() -> None:
    signal = StopSignal(Reasons(None, StopReason.PAUSED, None), None, now=lambda: 0.0, deadline=1.0)
    assert [signal.reason(), signal.reason(), signal.reason()] == [None, StopReason.PAUSED, StopReason.PAUSED]


def test_time_ends_a_run() -> None:
    clock = iter([0.0, 0.5, 1.0])
    signal = StopSignal(Reasons(), None, now=lambda: next(clock), deadline=1.0)
    assert [signal.reason(), signal.reason(), signal.reason()] == [None, None, StopReason.TIME]


def test_after_a_long_silence_it_listens_before_it_answers() -> None:
    clock, follower = iter([0.0, 0.5, 2.5, 62.5, 63.0]), Reasons()
    signal = StopSignal(follower, None, now=lambda: next(clock), deadline=100.0)
    assert [signal.reason() for _ in range(5)] == [None] * 5
    assert follower.listened == [0.0, 0.0, 0.1, 0.25, 0.0]


def test_the_switch_leaves_no_thread_and_no_open_file() -> None:
    switch = StopServer("127.0.0.1")
    (thread,) = [thread for thread in threading.enumerate() if thread.name == f"stop-server {switch.address[1]}"]
    connection = StopConnection(switch.address, switch.token)
    wait_until(lambda: len(switch._connections) == 1)
    switch.close()
    wait_until(connection.is_closed)
    connection.close()
    wait_until(lambda: not thread.is_alive())
    assert [body.fileno() for body in (*switch._connections, switch._listener)] == [-1, -1]


def test_a_wire_works_in_a_process_of_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    held = [os.dup(2) for _ in range(1100)]
    try:
        switch = StopServer("127.0.0.1")
        connection = StopConnection(switch.address, switch.token)
        assert not connection.is_closed()
        wait_until(lambda: len(switch._connections) == 1)
        switch.request_stop()
        wait_until(connection.is_closed)
        connection.close()
        switch.close()
    finally:
        for file in held:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_switch_ends_every_body_and_those_that_come_later() -> None:
    switch = StopServer("127.0.0.1")
    first = StopConnection(switch.address, switch.token)
    assert not first.is_closed()
    wait_until(lambda: len(switch._connections) == 1)
    switch.request_stop()
    wait_until(first.is_closed)
    late = StopConnection(switch.address, switch.token)
    wait_until(late.is_closed)
    first.close()
    late.close()


def test_strangers_get_no_answer_and_are_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signal, "TOKEN_SECONDS", 0.2)
    monkeypatch.setattr(stop_signal, "MAX_UNAUTHENTICATED", 3)
    switch = StopServer("127.0.0.1")
    connection = StopConnection(switch.address, switch.token)
    wait_until(lambda: len(switch._connections) == 1)
    silent = [socket.create_connection(switch.address, timeout=HANG_SECONDS) for _ in range(10)]
    wrong = StopConnection(switch.address, "0" * len(switch.token))
    short = StopConnection(switch.address, switch.token[:-1])
    wait_until(wrong.is_closed)
    assert {stranger.recv(1) for stranger in silent} == {b""}
    wait_until(short.is_closed)
    assert (len(switch._connections), len(switch._unknown), connection.is_closed()) == (1, 0, False)
    switch.request_stop()
    wait_until(connection.is_closed)
    switch.close()
    ends: list[socket.socket | StopConnection] = [*silent, wrong, short, connection]
    for each in ends:
        each.close()


def test_a_stranger_that_speaks_as_it_is_sent_away_does_not_end_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_signal, "MAX_UNAUTHENTICATED", 3)
    switch, is_busy, go_on = StopServer("127.0.0.1"), threading.Event(), threading.Event()
    strangers = [socket.create_connection(switch.address, timeout=HANG_SECONDS) for _ in range(2)]
    wait_until(lambda: len(switch._unknown) == 2)
    clock = time.monotonic

    def hold_up_once() -> float:
        if threading.current_thread().name.startswith("stop-server") and not is_busy.is_set():
            is_busy.set()
            assert go_on.wait(HANG_SECONDS)
        return clock()

    monkeypatch.setattr(time, "monotonic", hold_up_once)
    strangers.append(socket.create_connection(switch.address, timeout=HANG_SECONDS))
    assert is_busy.wait(HANG_SECONDS)
    strangers.append(socket.create_connection(switch.address, timeout=HANG_SECONDS))  # the first one has to go for it
    strangers[0].sendall(b"x")
    go_on.set()
    wait_until(lambda: len(switch._unknown) == 3)
    connection = StopConnection(switch.address, switch.token)
    wait_until(lambda: len(switch._connections) == 1)
    switch.request_stop()
    wait_until(connection.is_closed)
    switch.close()
    ends: list[socket.socket | StopConnection] = [*strangers, connection]
    for each in ends:
        each.close()
