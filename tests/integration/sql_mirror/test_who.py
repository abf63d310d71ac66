"""Who asked for a change: each verb's user is in the history, beside what changed."""

from __future__ import annotations

import json

from sqlalchemy import Engine, select

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus, TopicStatus
from airflow_provider_connect.runtime.sql_mirror.changes import Kind
from airflow_provider_connect.runtime.sql_mirror.tables import history
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.status_store import StatusWriter
from tests.integration.herder.conftest import RunsByHand
from tests.integration.sql_mirror.conftest import Follow, until
from tests.waiting import HANG_SECONDS

NAME = "orders"
CONFIG = {"connector.class": "FileStreamSource", "file": "/tmp/in", "topic": "lines"}
WANTED = [
    (Kind.TARGET_STATE, NAME, "PAUSED", "pause"),
    (Kind.TARGET_STATE, NAME, "STARTED", "resume"),
    (Kind.RESTART, NAME, '{"include-tasks":true,"only-failed":true}', "restart"),
    (Kind.TASK_STATUS, NAME, "RESTARTING", "restart"),
    (Kind.TASK_STATUS, NAME, "RESTARTING", "restart of a task"),
    (Kind.TOPIC, NAME, None, "topics"),
    (Kind.LOG_LEVEL, "", "DEBUG", "log level"),
    (Kind.TARGET_STATE, NAME, "STOPPED", "stop"),
    (Kind.TARGET_STATE, NAME, "PAUSED", None),
    (Kind.TARGET_STATE, NAME, None, "deletion"),
]
"""What is in the history, each by a user of the verb's name."""


def test_the_user_of_a_verb_is_in_the_history(settings: WorkerSettings, database: Engine, follow: Follow) -> None:
    follower = follow()
    with ConfigStore(settings) as configs:
        configs.create_connector(NAME, CONFIG)
        configs.put_tasks(NAME, [{"file": "a"}], configs.claim(NAME))
    with StatusWriter(settings) as writer, Herder(settings, RunsByHand()) as herder:
        writer.put_connector(ConnectorStatus(NAME, State.RUNNING, "host:1"))
        writer.put_topic(TopicStatus("lines", NAME, 0, 1234))
        herder.pause(NAME, author="pause")
        herder.resume(NAME, author="resume")
        fail(writer)
        herder.restart_connector(NAME, include_tasks=True, only_failed=True, author="restart")
        fail(writer)
        herder.restart_task(NAME, 0, author="restart of a task")
        herder.reset_active_topics(NAME, author="topics")
        herder.put_log_level("connect.worker", "DEBUG", author="log level")
        herder.stop(NAME, author="stop")
        herder.pause(NAME)
        herder.delete_connector(NAME, author="deletion")

    def found() -> list[tuple[str, str, str | None, str | None]]:
        with database.connect() as connection:
            rows = connection.execute(select(history).order_by(history.c.id)).mappings().all()
        return [(row["kind"], row["connector"], _state(row["new"]), row["who"]) for row in rows]

    until(lambda: WANTED[-1] in found(), follower)
    until(lambda: [row for row in WANTED if row not in found()] == [], follower)


def fail(writer: StatusWriter) -> None:
    writer.put_task(TaskStatus(NAME, 0, State.FAILED, "host:1", trace="no file"))
    assert writer.flush(HANG_SECONDS)


def _state(new: str | None) -> str | None:
    """The state in a status as JSON; other texts as they are."""
    return json.loads(new)["state"] if new is not None and '"state"' in new else new
