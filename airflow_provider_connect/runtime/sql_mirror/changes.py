"""Lines of the history, and the function that writes them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import insert

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.sql_mirror.rows import Database
from airflow_provider_connect.runtime.sql_mirror.tables import history


class Kind(StrEnum):
    """The kind of a change. It determines the content of ``subject``, ``old`` and ``new``."""

    CONFIG = "config"  # the connector's config as JSON
    TARGET_STATE = "target-state"  # STARTED, PAUSED or STOPPED
    TASKS = "tasks"  # the committed task configs as a JSON list
    RESTART = "restart"  # a request as JSON; ``old`` is None
    UPGRADE = "upgrade"  # an upgrade of the connector's plugin as JSON, None after it has ended; ``old`` is None, ``note`` is the reason
    STATUS = "status"  # state, worker_id, version and trace of the connector as JSON
    TASK_STATUS = "task-status"  # the same for the task with the number ``subject``
    TOPIC = "topic"  # the connector uses the topic ``subject``: the time and task of the first use, as JSON
    OFFSET = "offset"  # the offset, as JSON, of the source or sink partition ``subject``, as JSON
    LOG_LEVEL = "log-level"  # the level of the logger ``subject`` in all processes, not tied to a connector; ``old`` is None
    MIRROR = "mirror"  # the mirror itself; ``subject`` is a topic


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of history. ``cause`` is the partition and offset of the record that caused the change. Offset -1: no record did."""

    kind: Kind
    connector: str
    at_ms: int
    cause: tuple[TopicPartition, int]
    subject: str = ""
    old: str | None = None
    new: str | None = None
    who: str | None = None
    claim: str | None = None
    note: str | None = None


def write_history(database: Database, entries: Iterable[Entry]) -> None:
    """Append the entries in order."""
    rows = [
        {
            **{name: getattr(entry, name) for name in ("connector", "subject", "at_ms", "old", "new", "who", "claim", "note")},
            "kind": str(entry.kind),
            "topic": entry.cause[0].topic,
            "topic_partition": entry.cause[0].partition,
            "topic_offset": entry.cause[1],
        }
        for entry in entries
    ]
    if rows:
        database.execute(insert(history), rows)
