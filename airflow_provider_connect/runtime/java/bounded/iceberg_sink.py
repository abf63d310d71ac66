"""Apache Iceberg's sink in runs that end.

Its tasks commit their group's offsets once their files are written. At that time the tables do not yet contain the files. A coordinator in
one task commits the files later. The coordinator then commits, in a second group, the offsets of the control topic on which the tasks
announced the files. If a run ended before that, readers would not see the run's rows until the next commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.java.config.own_clients import login, refuse_internal
from airflow_provider_connect.runtime.java.config.rules import ICEBERG_CLIENTS

CLASS: Final = "org.apache.iceberg.connect.IcebergSinkConnector"
_TOPIC: Final = "iceberg.control.topic"
_DEFAULT_TOPIC: Final = "control-iceberg"
_GROUP: Final = "iceberg.connect.group-id"
_OF_COORDINATOR: Final = "-coord"
COORDINATOR: Final = "iceberg-coord"
"""The coordinator's thread. Stopping a task does not wait for this thread. If the coordinator does not leave its group, its successor waits
for the session timeout of 45 s."""
_MAGIC: Final = b"\xc2\x01"
_SCHEMA_AT: Final = len(_MAGIC) + 2
_ID_BYTES: Final = 16
_DATA_WRITTEN: Final = b"\x02"  # the number 1, as Avro writes it
_SERVERS: Final = f"{ICEBERG_CLIENTS}bootstrap.servers"
_FOR_SHORT_RUNS: Final = {"iceberg.control.commit.interval-ms": "2000"}  # the default of five minutes would make a run wait

Committed = Callable[[str], Mapping[TopicPartition, int]]
"""Returns the committed offsets of a group."""
Records = Callable[[str, Mapping[TopicPartition, int]], Iterable[tuple[TopicPartition, int, bytes | None]]]
"""Returns the committed records of a topic, from the given offsets on, as partition, offset and value. A partition without an offset is
read from its beginning."""


def task_defaults(config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
    """Defaults for a task's ``config``: for short runs, and for the clients that the task opens itself. The clients log in like the
    ``worker``'s producers if the control topic is on the worker's cluster. Raises ConfigException for an ``internal`` control topic."""
    refuse_internal(_TOPIC, config.get(_TOPIC, _DEFAULT_TOPIC), internal)
    known = worker.get("bootstrap.servers", "")
    own = {f"{ICEBERG_CLIENTS}{key}": text for key, text in login(worker, "producer", config.get(_SERVERS, known)).items()}
    return {**_FOR_SHORT_RUNS, _SERVERS: known, **own}


class TableCommit:
    """Checks whether the tables contain everything that tasks had written at the first check. ``config`` is the connector's config."""

    def __init__(self, config: Mapping[str, str], records: Records, committed: Committed) -> None:
        self.topic = config.get(_TOPIC, _DEFAULT_TOPIC)
        self.group = (config.get(_GROUP) or f"connect-{config.get('name', '')}") + _OF_COORDINATOR
        self._records, self._committed = records, committed
        self._goals: Mapping[TopicPartition, int] | None = None

    def absent(self, beginnings: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets in the control topic's ``beginnings`` for the partitions in which the coordinator's group has no offset before tasks
        start. Without an offset, the group starts at the topic's end. Files that were written before another task becomes the coordinator
        would then never be committed to the table."""
        committed = self._committed(self.group)
        return {partition: offset for partition, offset in beginnings.items() if partition not in committed}

    def is_done(self) -> bool:
        """Whether the tables contain everything. Called after all records are delivered, and repeated until the result is True."""
        committed = self._committed(self.group)
        if self._goals is None:
            written = ((partition, at) for partition, at, value in self._records(self.topic, committed) if _announces_files(value))
            self._goals = {partition: at + 1 for partition, at in written}
        return all(committed.get(partition, 0) >= goal for partition, goal in self._goals.items())


def _announces_files(value: bytes | None) -> bool:
    """Whether an event of the control topic announces the files that a task has written. An event consists of its Avro schema and its data:
    an id of 16 bytes, the type, and the rest, which is not read."""
    if value is None or not value.startswith(_MAGIC) or len(value) < _SCHEMA_AT:
        return False
    at = _SCHEMA_AT + int.from_bytes(value[len(_MAGIC) : _SCHEMA_AT], "big") + _ID_BYTES
    return value[at : at + 1] == _DATA_WRITTEN
