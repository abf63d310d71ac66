"""Apache Iceberg's sink in runs that end.

Its tasks commit their group's offsets once their files are written, and the tables do not have these yet: a coordinator within one of the
tasks commits them afterwards, and then, in a group of its own, the offsets of the control topic by which the tasks named their files. A
run that ended before that would leave rows that no reader sees until there are others.
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
"""The thread of the coordinator, which a task's stop does not wait for. It leaves its group last, or its successor waits
for the end of a session, 45 s."""
_MAGIC: Final = b"\xc2\x01"
_SCHEMA_AT: Final = len(_MAGIC) + 2
_ID_BYTES: Final = 16
_DATA_WRITTEN: Final = b"\x02"  # the number 1, as Avro writes it
_SERVERS: Final = f"{ICEBERG_CLIENTS}bootstrap.servers"
_FOR_SHORT_RUNS: Final = {"iceberg.control.commit.interval-ms": "2000"}  # its own is five minutes: a run would wait

Committed = Callable[[str], Mapping[TopicPartition, int]]
"""The offsets of a group."""
Records = Callable[[str, Mapping[TopicPartition, int]], Iterable[tuple[TopicPartition, int, bytes | None]]]
"""The committed records of a topic from these offsets on, where there is none from the beginning: partition, offset and value."""


def task_defaults(config: Mapping[str, str], worker: Mapping[str, str], internal: Collection[str]) -> Mapping[str, str]:
    """What a task is given where ``config`` does not have it: for short runs, and for the clients that it opens itself, which log in as the
    ``worker``'s producers do where the control topic lies on its cluster. Raises ConfigException for an ``internal`` control topic."""
    refuse_internal(_TOPIC, config.get(_TOPIC, _DEFAULT_TOPIC), internal)
    known = worker.get("bootstrap.servers", "")
    own = {f"{ICEBERG_CLIENTS}{key}": text for key, text in login(worker, "producer", config.get(_SERVERS, known)).items()}
    return {**_FOR_SHORT_RUNS, _SERVERS: known, **own}


class TableCommit:
    """Whether tables have what tasks had written when this was first asked. ``config`` is the connector's."""

    def __init__(self, config: Mapping[str, str], records: Records, committed: Committed) -> None:
        self.topic = config.get(_TOPIC, _DEFAULT_TOPIC)
        self.group = (config.get(_GROUP) or f"connect-{config.get('name', '')}") + _OF_COORDINATOR
        self._records, self._committed = records, committed
        self._goals: Mapping[TopicPartition, int] | None = None

    def absent(self, beginnings: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The offsets that the coordinator's group needs before tasks begin, of the control topic's ``beginnings``. Without any it begins
        at the topic's end: what a task has written before another one becomes the coordinator would never come to the table."""
        committed = self._committed(self.group)
        return {partition: offset for partition, offset in beginnings.items() if partition not in committed}

    def is_done(self) -> bool:
        """Asked once all records are delivered, and again until it is True."""
        committed = self._committed(self.group)
        if self._goals is None:
            written = ((partition, at) for partition, at, value in self._records(self.topic, committed) if _names_files(value))
            self._goals = {partition: at + 1 for partition, at in written}
        return all(committed.get(partition, 0) >= goal for partition, goal in self._goals.items())


def _names_files(value: bytes | None) -> bool:
    """Whether an event of the control topic is one by which a task names the files that it has written. An event is Avro behind its own
    schema: an id of 16 bytes, the type, and what does not matter here."""
    if value is None or not value.startswith(_MAGIC) or len(value) < _SCHEMA_AT:
        return False
    at = _SCHEMA_AT + int.from_bytes(value[len(_MAGIC) : _SCHEMA_AT], "big") + _ID_BYTES
    return value[at : at + 1] == _DATA_WRITTEN
