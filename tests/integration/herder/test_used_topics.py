"""Active topics over the herder (KIP-558)."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import ForbiddenException
from airflow_provider_connect.herder.herder import Herder
from tests.integration.herder.conftest import AskedHere, RunsByHand
from tests.integration.worker.scene import Scene, make_topic, send


def test_topics_are_told_reset_and_seen_again(scene: Scene, herder: Herder, unique: str) -> None:
    one, two = f"{unique}-1", f"{unique}-2"
    for topic in (one, two):
        make_topic(scene.bootstrap, topic)
    send(scene.bootstrap, one, ["a"])
    scene.run(scene.file_sink(f"{one},{two}"))
    assert herder.active_topics(scene.connector) == [one]
    send(scene.bootstrap, two, ["b"])
    scene.run()
    assert herder.active_topics(scene.connector) == [one, two]
    written = len([record for record in scene.status_log() if (record.key or b"").startswith(b"status-topic-")])
    assert written == 2, "a record a topic, not a record a run"

    herder.reset_active_topics(scene.connector)
    assert herder.active_topics(scene.connector) == []
    keys = [record.key or b"" for record in scene.status_log() if record.value is None]
    tombstones = [key for key in keys if key.startswith(b"status-topic-")]
    assert sorted(tombstones) == sorted(f"status-topic-{topic}:connector-{scene.connector}".encode() for topic in (one, two))
    send(scene.bootstrap, two, ["c"])
    scene.run()
    assert herder.active_topics(scene.connector) == [two]
    herder.stop(scene.connector)
    assert herder.active_topics(scene.connector) == [two]
    assert herder.active_topics("nobody") == []
    herder.reset_active_topics("nobody")


@pytest.mark.parametrize(
    ("setting", "told", "reset"),
    [
        ("topic.tracking.enable", "Topic tracking is disabled", "Topic tracking is disabled"),
        ("topic.tracking.allow.reset", None, "Topic tracking reset is disabled"),
    ],
)
def test_what_the_worker_forbids(scene: Scene, unique: str, setting: str, told: str | None, reset: str) -> None:
    scene.properties[setting] = "false"
    make_topic(scene.bootstrap, unique)
    send(scene.bootstrap, unique, ["a"])
    scene.run(scene.file_sink(unique))
    with Herder(scene.settings, RunsByHand(), probe=AskedHere(scene.settings)) as herder:
        for name in (scene.connector, "nobody"):
            with pytest.raises(ForbiddenException, match=f"^{reset}$"):
                herder.reset_active_topics(name)
        if told is None:
            assert herder.active_topics(scene.connector) == [unique]
        else:
            with pytest.raises(ForbiddenException, match=f"^{told}$"):
                herder.active_topics(scene.connector)
            assert not [record for record in scene.status_log() if (record.key or b"").startswith(b"status-topic-")]
