"""Removes rows whose records a topic no longer contains, for a mirror that may have missed removals.

The topic is read from its beginning. A tombstone disappears after ``delete.retention.ms``. If a topic is recreated, its records disappear
too. Each removal is a line of history.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Table, select

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.model.offsets import OFFSET, sink_partition
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind
from airflow_provider_connect.runtime.sql_mirror.config_rows import ConfigNames
from airflow_provider_connect.runtime.sql_mirror.offset_rows import batch_tasks, offset_ids
from airflow_provider_connect.runtime.sql_mirror.rows import Database, Row, json_text, remove_rows
from airflow_provider_connect.runtime.sql_mirror.status_rows import StatusNames
from airflow_provider_connect.runtime.sql_mirror.tables import (
    active_topic,
    connector_config,
    connector_status,
    pending_task,
    sink_position,
    source_offset,
    target_state,
    task_config,
    task_set,
    task_status,
)
from airflow_provider_connect.runtime.stores.state_stream import StateRecord

_NOTE = "no longer on the topic, which was read again from its beginning"

_Line = tuple[Kind, str, str]
"""A row as a line of history: kind, subject and old value."""


@dataclass(slots=True)
class Sweep:
    """Removes rows of one ``topic``, and adds them to ``entries`` with the time ``now_ms``. Each method takes all records of the topic."""

    database: Database
    topic: str
    now_ms: int
    entries: list[Entry] = field(default_factory=list)

    def configs(self, records: Sequence[StateRecord]) -> None:
        held = ConfigNames.of(records)
        self._remove(connector_config, held.configs, lambda row: (Kind.CONFIG, "", row["config"]))
        self._remove(target_state, held.target_states, lambda row: (Kind.TARGET_STATE, "", row["state"]))
        self._remove(task_set, held.task_sets)
        self._remove(task_config, held.tasks)
        self._remove(pending_task, ())

    def statuses(self, records: Sequence[StateRecord]) -> None:
        held = StatusNames.of(records)
        self._remove(connector_status, held.connectors, lambda row: (Kind.STATUS, "", _status(row)))
        self._remove(task_status, held.tasks, lambda row: (Kind.TASK_STATUS, str(row["task"]), _status(row)))
        self._remove(active_topic, held.topics, _topic)

    def offsets(self, records: Sequence[StateRecord]) -> None:
        self._remove(source_offset, offset_ids(records), lambda row: (Kind.OFFSET, row["source_partition"], row["source_offset"]))

    def batches(self, records: Sequence[StateRecord]) -> None:
        """Remove sink positions, but no metrics of runs."""
        self._remove(sink_position, batch_tasks(records), _position)

    def _remove(self, table: Table, held: Collection[Any], describe: Callable[[Row], _Line] | None = None) -> None:
        """Delete the rows whose key does not begin with one of ``held``. These are names, or tuples of the first columns. Without
        ``describe``, no line is written, because the line of the connector's config is enough."""
        width = len(next(iter(held))) if held and not isinstance(next(iter(held)), str) else 1
        names = [column.name for column in table.primary_key.columns][:width]
        statement = select(table).where(table.c.topic == self.topic) if table is source_offset else select(table)
        rows = [dict(row) for row in self.database.execute(statement).mappings()]
        gone = [row for row in rows if (row[names[0]] if width == 1 else tuple(row[name] for name in names)) not in held]
        remove_rows(self.database, table, gone)
        cause = (TopicPartition(self.topic, 0), -1)
        for row, (kind, subject, old) in ((row, describe(row)) for row in gone) if describe is not None else ():
            self.entries.append(Entry(kind, row["connector"], self.now_ms, cause, subject, old=old, note=_NOTE))


def _status(row: Row) -> str:
    return json_text({name: row[name] for name in ("state", "worker_id", "version", "trace")})


def _topic(row: Row) -> _Line:
    return Kind.TOPIC, row["topic"], json_text({name: row[name] for name in ("task", "discovered_ms")})


def _position(row: Row) -> _Line:
    return Kind.OFFSET, json_text(sink_partition(row["topic"], row["kafka_partition"])), json_text({OFFSET: row["position"]})
