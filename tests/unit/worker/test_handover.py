"""What the next run does to get a connector from the run before it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from importlib import metadata

import pytest

from airflow_provider_connect import __version__
from airflow_provider_connect.runtime.stores import admin_connection
from airflow_provider_connect.runtime.stores.memory import MemoryConfigStore
from airflow_provider_connect.runtime.worker.application import handover
from airflow_provider_connect.runtime.worker.application.handover import InstalledPackage, request_handover
from tests.waiting import wait_until


@pytest.fixture
def store() -> MemoryConfigStore:
    store = MemoryConfigStore()
    store.create_connector("c", {"name": "c", "connector.class": "X"})
    return store


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], object]], None]]:
    """Calls a function in another thread."""
    threads: list[threading.Thread] = []

    def start(act: Callable[[], object]) -> None:
        threads.append(threading.Thread(target=act))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()


def until_asked(store: MemoryConfigStore) -> None:
    wait_until(lambda: store.read().successors.get("c"))


def test_a_run_that_offers_nothing_is_not_waited_for(store: MemoryConfigStore) -> None:
    store.claim("c", owner="older")
    count = len(store.records)
    assert request_handover(store, "c", "newer", graceful_seconds=60) is None
    assert len(store.records) == count


def test_the_older_run_claims_the_connector_for_the_newer_one(
    store: MemoryConfigStore, meanwhile: Callable[[Callable[[], object]], None]
) -> None:
    claim = store.claim("c", owner="older")
    store.put_successor("c", "", claim)

    def answer() -> None:
        until_asked(store)
        store.hand_over("c", claim)

    meanwhile(answer)
    found = request_handover(store, "c", "newer", graceful_seconds=60)
    state = store.read()
    assert found is not None
    assert found == state.claims["c"]
    assert found > claim
    assert (state.owners, state.successors) == ({"c": "newer"}, {})


def test_it_is_asked_again_after_a_change(store: MemoryConfigStore, meanwhile: Callable[[Callable[[], object]], None]) -> None:
    store.put_successor("c", "", store.claim("c", owner="older"))

    def change_and_answer() -> None:
        until_asked(store)
        store.claim("c")
        again = store.claim("c", owner="older", again=True)
        time.sleep(0.1)
        store.put_successor("c", "", again)
        until_asked(store)
        store.hand_over("c", again)

    meanwhile(change_and_answer)
    assert request_handover(store, "c", "newer", graceful_seconds=60) == store.read().claims["c"]
    assert store.read().owners == {"c": "newer"}


def test_a_run_that_does_not_answer_is_waited_for_as_long_as_its_tasks_have_to_end(
    store: MemoryConfigStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "_ANSWER_SECONDS", 0.1)
    store.put_successor("c", "", store.claim("c", owner="dead"))
    began = time.monotonic()
    assert request_handover(store, "c", "newer", graceful_seconds=0.2) is None
    assert time.monotonic() - began >= 0.3


def test_another_version_of_the_package_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    versions, now = {admin_connection.DISTRIBUTION: __version__}, [0.0]

    def version(name: str) -> str:
        if name not in versions:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(admin_connection, "version", version)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    package = InstalledPackage()
    versions.clear()
    now[0] += 61
    assert not package.is_replaced(), "an installation has just removed it"
    versions[admin_connection.DISTRIBUTION] = "1.1"
    now[0] += 30
    assert not package.is_replaced(), "not looked at yet"
    now[0] += 31
    assert package.is_replaced()
