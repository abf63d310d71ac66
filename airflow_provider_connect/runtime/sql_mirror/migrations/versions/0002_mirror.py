"""The mirror of the topics: their current content, their history, and the positions up to which they were read."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0002_mirror"
down_revision = "0001_connect"
branch_labels = None
depends_on = None

_NAME = sa.String(250).with_variant(mysql.VARCHAR(250, charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
_WORD = sa.String(100)
_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _current()
    op.create_table(
        "connect_batch",
        _connector(),
        _task(),
        sa.Column("claim", _WORD, primary_key=True),
        sa.Column("run", _NAME, nullable=False),
        sa.Column("type", _WORD, nullable=False),
        _big("records"),
        _big("bytes"),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("cpu_seconds", sa.Double, nullable=False),
        sa.Column("ranges", _TEXT, nullable=False),
        _big("first_ms"),
        _big("last_ms"),
    )
    op.create_index("connect_batch_run", "connect_batch", ["connector", "last_ms"])
    op.create_index("connect_batch_claim", "connect_batch", ["claim"])
    op.create_table(
        "connect_history",
        sa.Column("id", _NUMBER, primary_key=True),
        sa.Column("connector", _NAME, nullable=False),
        sa.Column("kind", _WORD, nullable=False),
        sa.Column("subject", _TEXT, nullable=False),
        _big("at_ms"),
        sa.Column("old", _TEXT),
        sa.Column("new", _TEXT),
        sa.Column("who", _TEXT),
        sa.Column("claim", _WORD),
        sa.Column("note", _TEXT),
        sa.Column("topic", _NAME, nullable=False),
        sa.Column("topic_partition", sa.Integer, nullable=False),
        _big("topic_offset"),
    )
    op.create_index("connect_history_connector", "connect_history", ["connector", "kind", "id"])
    op.create_index("connect_history_at", "connect_history", ["at_ms"])
    op.create_table(
        "connect_position",
        sa.Column("topic", _NAME, primary_key=True),
        sa.Column("topic_partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("topic_id", _WORD, nullable=False),
        _big("position"),
        _big("noted"),
        _big("complete_ms"),
    )


def _current() -> None:
    op.create_table("connect_config", _connector(), _json("config"), _big("changed_ms"))
    op.create_table("connect_target_state", _connector(), sa.Column("state", _WORD, nullable=False), _big("changed_ms"))
    whole = sa.Column("is_whole", sa.Boolean, nullable=False)
    op.create_table("connect_task_set", _connector(), sa.Column("tasks", sa.Integer, nullable=False), whole, _big("changed_ms"))
    op.create_table("connect_task_config", _connector(), _task(), _json("config"), _big("changed_ms"))
    op.create_table("connect_pending_task", _connector(), _task(), _json("config"))
    op.create_table("connect_status", _connector(), *_status())
    op.create_table("connect_task_status", _connector(), _task(), *_status())
    op.create_table(
        "connect_topic",
        _connector(),
        sa.Column("topic", _NAME, primary_key=True),
        _big("task"),
        _big("discovered_ms"),
        sa.Column("claim", _WORD),
        _big("changed_ms"),
    )
    op.create_table(
        "connect_source_offset",
        sa.Column("topic", _NAME, primary_key=True),
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("connector", _NAME, nullable=False),
        _json("source_partition"),
        _json("source_offset"),
        _big("changed_ms"),
    )
    op.create_index("connect_source_offset_connector", "connect_source_offset", ["connector"])
    op.create_table(
        "connect_sink_position",
        _connector(),
        _task(),
        sa.Column("topic", _NAME, primary_key=True),
        sa.Column("kafka_partition", sa.Integer, primary_key=True, autoincrement=False),
        _big("position"),
        sa.Column("claim", _WORD, nullable=False),
        _big("changed_ms"),
    )


def _connector() -> sa.Column[str]:
    return sa.Column("connector", _NAME, primary_key=True)


def _task() -> sa.Column[int]:
    return sa.Column("task", sa.Integer, primary_key=True, autoincrement=False)


def _json(name: str) -> sa.Column[str]:
    return sa.Column(name, _TEXT, nullable=False)


def _big(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _status() -> list[sa.Column[object]]:
    return [
        sa.Column("state", _WORD, nullable=False),
        sa.Column("worker_id", _TEXT, nullable=False),
        sa.Column("trace", _TEXT),
        sa.Column("version", _TEXT),
        sa.Column("generation", sa.BigInteger, nullable=False),
        sa.Column("claim", _WORD),
        sa.Column("changed_ms", sa.BigInteger, nullable=False),
    ]


def downgrade() -> None:
    for table in (
        "connect_position",
        "connect_history",
        "connect_batch",
        "connect_sink_position",
        "connect_source_offset",
        "connect_topic",
        "connect_task_status",
        "connect_status",
        "connect_pending_task",
        "connect_task_config",
        "connect_task_set",
        "connect_target_state",
        "connect_config",
    ):
        op.drop_table(table)
