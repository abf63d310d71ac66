"""Lags of a real broker's topics over time, on each kind of database, from the batch log to the points of a plot."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine

from airflow_provider_connect.data.records import Distance, TopicPartition
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.sql_mirror.follower import rebuild
from airflow_provider_connect.runtime.sql_mirror.lag_rows import lag_history, write_distances
from airflow_provider_connect.runtime.sql_mirror.tables import connector_config, lag
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.integration.sql_mirror.conftest import Follow, until
from tests.integration.sql_mirror.test_follower import count, rows, write_batch
from tests.integration.worker.environment import commit_by_hand, make_topic, send
from tests.no_runs import NoRuns

MINUTE = 60_000
NOW = 500_000 * 3_600_000


def test_what_a_sink_was_behind_is_a_point_of_each_minute_until_it_is_deleted(
    settings: WorkerSettings, database: Engine, follow: Follow, unique: str
) -> None:
    follower = follow()
    make_topic(settings.bootstrap_servers, unique)
    send(settings.bootstrap_servers, unique, ["a", "b", "c"])
    sink = {"connector.class": "FileStreamSink", "topics": unique, "file": "out"}
    source = {"connector.class": "FileStreamSource", "topic": unique, "file": "in"}

    def sample(herder: Herder, minute: int) -> None:
        with database.begin() as connection:
            write_distances(connection, herder.current_distances(), now_ms=NOW + minute * MINUTE)

    def measured(minute: int) -> list[Any]:
        with database.connect() as connection:
            history = lag_history(connection, "sink", hours=1, now_ms=NOW + minute * MINUTE)
        return list(history.distances[-(minute + 1) :])

    with ConfigStore(settings) as configs, Herder(settings, NoRuns()) as herder:
        configs.create_connector("sink", sink)
        configs.create_connector("source", source)
        sample(herder, 0)
        assert count(database, lag) == 0  # neither has run, and the mirror does not know them yet
        commit_by_hand(settings.bootstrap_servers, "connect-sink", {TopicPartition(unique, 0): 1})
        write_batch(settings, "source", 0, "one", Claim(5, "id"), is_source=True, distance=Distance(700, "bytes"))
        until(lambda: count(database, connector_config) == 2, follower)
        for minute in (1, 2):
            sample(herder, minute)
        send(settings.bootstrap_servers, unique, ["d"] * 10)
        sample(herder, 3)
        commit_by_hand(settings.bootstrap_servers, "connect-sink", {TopicPartition(unique, 0): 13})
        sample(herder, 4)
        assert measured(4) == [None, 2, 2, 12, 0]
        assert [(row["connector"], row["distance"], row["unit"]) for row in rows(database, lag)] == [
            ("sink", 2, "records"),
            ("sink", 12, "records"),
            ("sink", 0, "records"),
            ("source", 700, "bytes"),
        ]

        with database.begin() as connection:
            rebuild(connection)
        sample(herder, 5)  # it is not known yet that they exist
        until(lambda: count(database, connector_config) == 2, follower)
        assert measured(5) == [None, 2, 2, 12, 0, None]
        configs.delete_connector("source")
        configs.delete_connector("sink")
        configs.create_connector("sink", sink)
        until(lambda: count(database, connector_config) == 1, follower)
        until(lambda: not count(database, lag), follower)
