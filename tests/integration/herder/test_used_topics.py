"""Active topics over the herder (KIP-558)."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import ForbiddenException
from airflow_provider_connect.runtime.herder.herder import Herder
from tests.integration.herder.conftest import AskedHere, RunsByHand
from tests.integration.worker.environment import RunEnvironment, make_topic, send


def test_topics_are_listed_reset_and_seen_again(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    one, two = f"{unique}-1", f"{unique}-2"
    for topic in (one, two):
        make_topic(environment.bootstrap, topic)
    send(environment.bootstrap, one, ["a"])
    environment.run(environment.file_sink(f"{one},{two}"))
    assert herder.active_topics(environment.connector) == [one]
    send(environment.bootstrap, two, ["b"])
    environment.run()
    assert herder.active_topics(environment.connector) == [one, two]
    written = len([record for record in environment.status_log() if (record.key or b"").startswith(b"status-topic-")])
    assert written == 2, "a record a topic, not a record a run"

    herder.reset_active_topics(environment.connector)
    assert herder.active_topics(environment.connector) == []
    keys = [record.key or b"" for record in environment.status_log() if record.value is None]
    tombstones = [key for key in keys if key.startswith(b"status-topic-")]
    assert sorted(tombstones) == sorted(f"status-topic-{topic}:connector-{environment.connector}".encode() for topic in (one, two))
    send(environment.bootstrap, two, ["c"])
    environment.run()
    assert herder.active_topics(environment.connector) == [two]
    herder.stop(environment.connector)
    assert herder.active_topics(environment.connector) == [two]
    assert herder.active_topics("nobody") == []
    herder.reset_active_topics("nobody")


@pytest.mark.parametrize(
    ("setting", "message", "reset"),
    [
        ("topic.tracking.enable", "Topic tracking is disabled", "Topic tracking is disabled"),
        ("topic.tracking.allow.reset", None, "Topic tracking reset is disabled"),
    ],
)
def test_what_the_worker_forbids(environment: RunEnvironment, unique: str, setting: str, message: str | None, reset: str) -> None:
    environment.properties[setting] = "false"
    make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, unique, ["a"])
    environment.run(environment.file_sink(unique))
    with Herder(environment.settings, RunsByHand(), probe=AskedHere(environment.settings)) as herder:
        for name in (environment.connector, "nobody"):
            with pytest.raises(ForbiddenException, match=f"^{reset}$"):
                herder.reset_active_topics(name)
        if message is None:
            assert herder.active_topics(environment.connector) == [unique]
        else:
            with pytest.raises(ForbiddenException, match=f"^{message}$"):
                herder.active_topics(environment.connector)
            assert not [record for record in environment.status_log() if (record.key or b"").startswith(b"status-topic-")]
