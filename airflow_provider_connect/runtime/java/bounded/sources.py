"""The Java sources of which more is known than Kafka Connect's interfaces show: until where a run goes, and whether it would find anything.

A source that reads in threads of its own needs the first, and the second spares a JVM for each schedule. All others end by an empty poll.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Protocol

from airflow_provider_connect.runtime.java.bounded import debezium_binary_log, debezium_postgres, file_stream, mirror
from airflow_provider_connect.runtime.java.bounded.database_server import Within
from airflow_provider_connect.runtime.java.bounded.replication_slot import RetainedWal
from airflow_provider_connect.runtime.java.bounded.runs import Goal
from airflow_provider_connect.sdk.connector import OffsetReader


class BoundedSource(Protocol):
    """One connector's class. Configs have their variables resolved, and come from a stranger; ``within`` bounds each call outside."""

    def task_defaults(self, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
        """What a task is given where the config does not have it: for short runs, and for clients that it opens itself. ``worker`` are the
        settings of Kafka Connect's worker, ``internal`` the topics of workers. Raises ConfigException for a config that is refused."""

    def goal(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> Goal | None:
        """That of a run which begins now from ``offsets``; the caller closes it. None: it ends by an empty poll. ``config`` is the task's.

        Called after older runs were fenced, and before the task's JVM starts. Raises ConfigException for a config that is refused,
        RetriableException where the source system does not answer.
        """

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> bool | None:
        """As ``SourceConnector.has_new_data``. Moves at the source system only what holds no data of the connector's."""

    def retained_wal(self, config: Mapping[str, str], within: Within) -> RetainedWal | None:
        """What the source system keeps for the connector until a run has read it; None: nothing. Raises ConfigException for a config that
        is refused, ConnectException where the source system refuses or does not answer."""


_KNOWN: Final[Mapping[str, BoundedSource]] = {
    file_stream.CLASS: file_stream.FileStream(),
    debezium_postgres.CLASS: debezium_postgres.DebeziumPostgres(),
    debezium_binary_log.MARIADB_CLASS: debezium_binary_log.DebeziumBinlog("mariadb"),
    debezium_binary_log.MYSQL_CLASS: debezium_binary_log.DebeziumBinlog("mysql"),
    **{name: mirror.Mirror(name) for name in (mirror.SOURCE_CLASS, mirror.CHECKPOINT_CLASS, mirror.HEARTBEAT_CLASS)},
}


def bounded_source(class_name: str) -> BoundedSource | None:
    """None: nothing is known of the connector of this class."""
    return _KNOWN.get(class_name)
