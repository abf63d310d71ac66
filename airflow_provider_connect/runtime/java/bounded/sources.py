"""Java sources about which this package knows more than Kafka Connect's interfaces provide: where a run ends, and whether it would find new
data.

For a source that reads in its own threads, the end of a run must be known in advance. The check for new data saves a JVM start at each
scheduled time. For all other sources, an empty poll ends a run.
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
    """Built-in knowledge of one connector class. Configs have resolved variables and are not trusted. ``within`` limits each external
    call."""

    def task_defaults(self, config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
        """Defaults for a task's config: for short runs, and for clients that the task opens itself. ``worker`` has the settings of Kafka
        Connect's worker, and ``internal`` has the internal topics. Raises ConfigException for a config that is refused."""

    def goal(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> Goal | None:
        """The goal of a run that begins now from ``offsets``. The caller closes it. None: an empty poll ends the run. ``config`` is the
        task's config.

        Called after older runs are fenced and before the task's JVM starts. Raises ConfigException for a config that is refused,
        RetriableException if the source system does not answer.
        """

    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader, within: Within) -> bool | None:
        """Like ``SourceConnector.has_new_data``. May move a position in the source system past changes that the connector does not read."""

    def retained_wal(self, config: Mapping[str, str], within: Within) -> RetainedWal | None:
        """The WAL that the source system retains until a run has read it. None: the source system retains no WAL. Raises ConfigException
        for a config that is refused, ConnectException if the source system refuses or does not answer."""


_KNOWN: Final[Mapping[str, BoundedSource]] = {
    file_stream.CLASS: file_stream.FileStream(),
    debezium_postgres.CLASS: debezium_postgres.DebeziumPostgres(),
    debezium_binary_log.MARIADB_CLASS: debezium_binary_log.DebeziumBinaryLog("mariadb"),
    debezium_binary_log.MYSQL_CLASS: debezium_binary_log.DebeziumBinaryLog("mysql"),
    **{name: mirror.Mirror(name) for name in (mirror.SOURCE_CLASS, mirror.CHECKPOINT_CLASS, mirror.HEARTBEAT_CLASS)},
}


def bounded_source(class_name: str) -> BoundedSource | None:
    """None: there is no built-in knowledge of this class."""
    return _KNOWN.get(class_name)
