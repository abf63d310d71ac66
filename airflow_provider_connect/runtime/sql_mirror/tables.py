"""The tables of this package, next to Airflow's own. Knows nothing of Airflow: names, columns and keys only.

Times ending in ``_ms`` are milliseconds since 1970. In the history they are the record's timestamp on its topic. JSON is ASCII text, so
that every database stores it unchanged, including the order of its entries. Names are case-sensitive, also in MySQL. Claims are ``«config
topic id»:«offset»``.
"""

from sqlalchemy import BigInteger, Boolean, Column, Double, Index, Integer, MetaData, String, Table, Text
from sqlalchemy.dialects import mysql

LONGEST_NAME = 250
"""The maximum length of a connector's, topic's or run's name, in characters. A record with a longer name is not mirrored."""

LONGEST_WORD = 100
"""The maximum length of a claim, in characters."""

metadata = MetaData()

_NAME = String(LONGEST_NAME).with_variant(mysql.VARCHAR(LONGEST_NAME, charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
_WORD = String(LONGEST_WORD)
_TEXT = Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # SQLite increments only columns of this type automatically; they hold 64 bits

agreement = Table(
    "connect_agreement",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("target_state", String(20), nullable=False),
)
"""The last paused flag and target state that agreed, according to the reconciler."""

lease = Table(
    "connect_lease",
    metadata,
    Column("name", String(50), primary_key=True),
    Column("holder", String(100), nullable=False),
    Column("until", Double, nullable=False),
)
"""The holder of a job that only one process at a time should do. The lease expires at ``until``, in seconds since 1970. A lease only saves
work; correctness does not depend on it."""

# --- the mirror: the current state of the topics --------------------------------------------------------------------------------------

connector_config = Table(
    "connect_config",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("config", _TEXT, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The existing connectors and their raw configs as JSON, with secrets hidden."""

target_state = Table(
    "connect_target_state",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("state", _WORD, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The target states that users have set: STARTED, PAUSED or STOPPED."""

task_set = Table(
    "connect_task_set",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("tasks", Integer, nullable=False),
    Column("is_whole", Boolean, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The number of tasks in each connector's last commit record. ``is_whole`` false: some of these tasks have no config."""

task_config = Table(
    "connect_task_config",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("config", _TEXT, nullable=False),
    Column("changed_ms", BigInteger, nullable=False),
)
"""The committed raw config of each task as JSON, with secrets hidden."""

pending_task = Table(
    "connect_pending_task",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    Column("config", _TEXT, nullable=False),
)
"""Task configs that have no commit record yet. The table is usually empty."""

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
"""The state of each connector, and the writer of the state. Without ``claim``, a real Kafka Connect worker wrote it."""

task_status = Table(
    "connect_task_status",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("task", Integer, primary_key=True, autoincrement=False),
    *(Column(column.name, column.type, nullable=column.nullable) for column in list(connector_status.columns)[1:]),
)
"""The state of each task, with the columns of ``connect_status``."""

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
"""The topics that each connector has used since the last reset, and the task that first used each topic."""

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
"""Each source partition and its offset, both as JSON. ``topic`` is the offsets topic. ``id`` is the SHA-256 of the record's key on that
topic."""

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
"""The next offset that each sink task's group will read, from the batch log. If two tasks have a row for a partition, the row with the
newest claim is used."""

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
    Column("failed", BigInteger, nullable=False, default=0),
    Column("ranges", _TEXT, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Column("stay", _WORD),
    Column("datasets", _TEXT),
    Column("is_pending", Boolean, nullable=False, default=False),
    Index("connect_batch_run", "connector", "last_ms"),
    Index("connect_batch_claim", "claim"),
    Index("connect_batch_pending", "is_pending"),
)
"""The deliveries of each task under each claim (a try of an Airflow run), from its last entry in the batch log. ``ranges`` is JSON that
maps topic and partition to first and next offset. ``failed`` counts the records that were left out. The entries were written between
``first_ms`` and ``last_ms``. ``stay`` is ``open`` or ``over`` (``model.batches.Stay``) for a run that stays, otherwise null. Its
``datasets`` are JSON, its row ``is_pending`` until asset events have its ranges. Rows remain after the connector's deletion."""

asset_event = Table(
    "connect_asset_event",
    metadata,
    Column("connector", _NAME, primary_key=True),
    Column("claim", _WORD, primary_key=True),
    Column("ranges", _TEXT, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Index("connect_asset_event_at", "at_ms"),
)
"""The ranges of each claim of a run that stays that are in Airflow's asset events, and the time of the last event. An API server writes the
row in the transaction of the events."""

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
"""Every change that the mirror has read, in order. ``old`` null: there was no value. ``new`` null: there is no value. ``topic``,
``topic_partition`` and ``topic_offset`` identify the record that caused the change. Offset -1: no record caused it (see ``note``)."""

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
"""The lag of each connector: ``distance`` in ``unit``, in every minute from ``since_ms`` to ``until_ms``, both included. An API server
measures the lag, so no topic has it. A deleted connector has no rows."""

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
"""The mirror's position in each partition. Records below ``noted`` are already in the history. At the time ``complete_ms``, no record was
left to read. The history is complete from ``since_ms`` on. Before that time, compaction may have removed unread records, or old lines were
deleted."""

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
