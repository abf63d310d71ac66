"""One consumer that follows the config topic for many connectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores import config_stream
from airflow_provider_connect.runtime.stores.config_follower import ChangeKind
from airflow_provider_connect.runtime.stores.config_stream import ConfigStream
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.waiting import wait_until

OWNER = "run-1"


@pytest.fixture
def stream(worker_settings: Callable[[], dict[str, str]]) -> Iterator[ConfigStream]:
    settings = WorkerSettings.of(worker_settings())
    TopicAdmin(settings).ensure_internal_topics()
    with ConfigStream(settings) as opened:
        yield opened


def polled(stream: ConfigStream, *names: str) -> None:
    """Poll until verbs have changed these connectors."""
    found = set[str]()

    def has_found() -> bool:
        found.update(stream.poll(0.2))
        return found >= set(names)

    wait_until(has_found)
    assert found == set(names)


def test_each_follower_learns_of_its_connector_alone_and_of_no_claim_of_its_owner(stream: ConfigStream) -> None:
    one, two = stream.configs("one"), stream.configs("two")
    for name, store in (("one", one), ("two", two)):
        store.put_connector(name, {"connector.class": "X", "name": name})
    claims = [one.claim("one", owner=OWNER), two.claim("two", owner=OWNER)]
    polled(stream, "one", "two")
    snapshot = one.snapshot()
    assert snapshot is not None
    assert set(snapshot.slices) == {"one"}
    with one.follow("one", claims[0]) as first, two.follow("two", claims[1]) as second:
        assert not first.has_changed(OWNER)
        two.put_target_state("two", TargetState.PAUSED)
        polled(stream, "two")
        assert not first.has_changed(OWNER)
        assert second.has_changed(OWNER)
        assert not second.has_changed(OWNER)
        one.claim("one", owner=OWNER)
        one.claim("one")  # as a verb does
        polled(stream, "one")
        assert first.has_changed(OWNER)
        with one.follow("one", claims[0]) as later:  # what was written since the claim is not lost
            change = later.poll()
            assert change is not None
            assert change.kind is ChangeKind.CLAIMED
        two.delete_connector("two")
        polled(stream, "two")
        assert second.has_changed(OWNER)
    assert set(stream.state().connector_configs) == {"one"}


def test_a_stream_that_is_slower_than_a_claim_does_not_report_it(stream: ConfigStream) -> None:
    store = stream.configs("one")
    store.put_connector("one", {"connector.class": "X", "name": "one"})
    store.claim("one")
    claim = store.claim("one")
    with store.follow("one", claim) as follower:
        polled(stream, "one")
        assert follower.poll() is None
        store.put_target_state("one", TargetState.PAUSED)
        polled(stream, "one")
        change = follower.poll()
    assert change is not None
    assert change.kind is ChangeKind.PAUSED


def test_a_follower_of_a_claim_that_is_no_longer_kept_checks_its_connector(stream: ConfigStream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_stream, "_KEPT", 2)
    store = stream.configs("one")
    store.put_connector("one", {"connector.class": "X", "name": "one"})
    claim = store.claim("one", owner=OWNER)
    for number in range(3):
        store.put_connector("one", {"connector.class": "X", "name": "one", "number": str(number)})
    wait_until(lambda: stream.poll(0.2) is None or stream._kept_from > claim.offset + 1)
    with store.follow("one", claim) as follower:
        assert follower.has_changed(OWNER)
