"""The tables that this package keeps beside Airflow's own. Knows nothing of Airflow: names, columns and keys only.

Times ending in ``_ms`` are milliseconds since 1970, those of history the record's own on its topic. JSON is text in ASCII, so that every
database keeps it, and the order of its entries, as it is. Names compare by case, on MySQL too. Claims are ``«config topic id»:«offset»``.
"""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.dialects import mysql

LONGEST_NAME = 250
"""Characters of a connector's, topic's or run's name. A record with a longer one is not mirrored."""

LONGEST_WORD = 100
"""Characters of a claim."""

metadata = MetaData()

_NAME = String(LONGEST_NAME).with_variant(mysql.VARCHAR(LONGEST_NAME, charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
_WORD = String(LONGEST_WORD)
_TEXT = Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite counts up columns of this type only; they hold 64 bits

agreement = Table(
    "connect_agreement",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("target_state", String(20), nullable=False),
)
"""The last paused flag and target state on which the reconciler agreed."""

lease = Table(
    "connect_lease",
    metadata,
    Column("name", String(50), primary_key=True),
    Column("holder", String(100), nullable=False),
    Column("until", Double, nullable=False),
)
"""Who does a job that one process at a time should do, until when (seconds since 1970). It saves work; nothing relies on it."""

# --- the mirror: the current state of the topics --------------------------------------------------------------------------------------

connector_config = Table(
    "connect_config",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("config", _TEXT, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The connectors that exist, with their raw configs as JSON, secrets hidden."""

target_state = Table(
    "connect_target_state",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("state", _WORD, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""What users want of the connectors: STARTED, PAUSED or STOPPED."""

task_set = Table(
    "connect_task_set",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("tasks", Integer, nullable=False),
    Column("is_whole", Boolean, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""How many tasks each connector's last commit record counts; not ``is_whole``: it counts some that have no config."""

task_config = Table(
    "connect_task_config",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("config", _TEXT, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The committed raw config of each task as JSON, secrets hidden."""

pending_task = Table(
    "connect_pending_task",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("config", _TEXT, nullable=False),
)
"""Task configs that no commit record has counted in yet; the table is empty most of the time."""

connector_status = Table(
    "connect_status",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("state", _WORD, nullable=False),
    Column("worker_id", _TEXT, nullable=False),
    Column("trace", _TEXT),
    Column("version", _TEXT),
    Column("generation", BigInteger, nullable=False),
    Column("claim", _WORD),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The state of each connector, and who wrote it. No ``claim``: a real Kafka Connect worker did."""

task_status = Table(
    "connect_task_status",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    *(Column(column.name, column.type, nullable=column.nullable) for column in list(connector_status.columns)[1:]),
)
"""The state of each task, otherwise as ``connect_status``."""

active_topic = Table(
    "connect_topic",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("topic", _NAME, primary_key=True),
    Column("task", BigInteger, nullable=False),
    Column("discovered_ms", BigInteger, nullable=False),
    Column("claim", _WORD),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The topics that each connector has used since they were last reset, and which task saw each first."""

source_offset = Table(
    "connect_source_offset",
    metadata,
    Column("topic", _NAME, primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("connector", _NAME, nullable=False),
    Column("source_partition", _TEXT, nullable=False),
    Column("source_offset", _TEXT, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
    Index("connect_source_offset_connector", "connector"),
)
"""Each source partition's offset, both as JSON; ``topic`` is the offsets topic, ``id`` the SHA-256 of the record's key there."""

sink_position = Table(
    "connect_sink_position",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("topic", _NAME, primary_key=True),
    Column("kafka_partition", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("claim", _WORD, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The next offset that each sink task's group will read, by the batch log. Of two tasks' rows for one partition the one of
the newest claim holds."""

batch = Table(
    "connect_batch",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("claim", _WORD, primary_key=True),
    Column("run", _NAME, nullable=False),
    Column("type", _WORD, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("seconds", Double, nullable=False),
    Column("cpu_seconds", Double, nullable=False),
    Column("ranges", _TEXT, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Index("connect_batch_run", "connector", "last_ms"),
    Index("connect_batch_claim", "claim"),
)
"""What each task delivered under each claim (a try of an Airflow run), by its last entry in the batch log; ``ranges`` as JSON maps topic
and partition to first and next offset. The entries were written between ``first_ms`` and ``last_ms``. Kept after a deletion."""

# --- the mirror: how it came to be so -------------------------------------------------------------------------------------------------

history = Table(
    "connect_history",
    metadata,
    Column("id", _NUMBER, primary_key=True),
    Column("connector", _NAME, nullable=False),
    Column("kind", _WORD, nullable=False),
    Column("subject", _TEXT, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("old", _TEXT),
    Column("new", _TEXT),
    Column("who", _TEXT),
    Column("claim", _WORD),
    Column("note", _TEXT),
    Column("topic", _NAME, nullable=False),
    Column("topic_partition", Integer, nullable=False),
    Column("topic_offset", BigInteger, nullable=False),
    Index("connect_history_connector", "connector", "kind", "id"),
    Index("connect_history_at", "at_ms"),
)
"""Every change that the mirror saw, in the order in which it did. ``old`` or ``new`` empty: there was or is none. ``topic``,
``topic_partition`` and ``topic_offset`` are those of the record that made the change; offset -1: none did (see ``note``)."""

lag = Table(
    "connect_lag",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("since_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("distance", BigInteger, nullable=False),
    Column("unit", _NAME, nullable=False),
    Index("connect_lag_until", "until_ms"),
)
"""How far each connector was from the end of what it reads: ``distance`` of ``unit`` in every minute from ``since_ms`` to ``until_ms``,
both included. Measured by an API server, so it is on no topic. A deleted connector has no rows."""

position = Table(
    "connect_position",
    metadata,
    Column("topic", _NAME, primary_key=True),
    Column("topic_partition", Integer, primary_key=True, autoincrement=False),
    Column("topic_id", _WORD, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("noted", BigInteger, nullable=False),
    Column("complete_ms", BigInteger, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
)
"""How far the mirror has read each partition. Records below ``noted`` are in the history already. At ``complete_ms`` nothing was left.
From ``since_ms`` on the history is whole: before, compaction may have removed what the mirror had not read, or old lines were deleted."""

CURRENT = (
    connector_config,
    target_state,
    task_set,
    task_config,
    pending_task,
    connector_status,
    task_status,
    active_topic,
    source_offset,
    sink_position,
)
"""The tables of the current state."""
