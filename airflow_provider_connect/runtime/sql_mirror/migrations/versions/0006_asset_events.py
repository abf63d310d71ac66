"""Deliveries of runs that stay, and the ranges of them that asset events have."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0006_asset_events"
down_revision = "0005_lag"
branch_labels = None
depends_on = None

_NAME = sa.String(250).with_variant(mysql.VARCHAR(250, charset="utf8mb4", collation="utf8mb4_bin"), "mysql")
_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql")


def upgrade() -> None:
    """The runs of an existing mirror are not pending."""
    op.create_table(
        "connect_asset_event",
        sa.Column("connector", _NAME, primary_key=True),
        sa.Column("claim", sa.String(100), primary_key=True),
        sa.Column("ranges", _TEXT, nullable=False),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
    )
    op.create_index("connect_asset_event_at", "connect_asset_event", ["at_ms"])
    with op.batch_alter_table("connect_batch") as table:
        table.add_column(sa.Column("stay", sa.String(100)))
        table.add_column(sa.Column("datasets", _TEXT))
        table.add_column(sa.Column("is_pending", sa.Boolean, nullable=False, server_default=sa.false()))
    with op.batch_alter_table("connect_batch") as table:
        table.alter_column("is_pending", server_default=None, existing_type=sa.Boolean, existing_nullable=False)
    op.create_index("connect_batch_pending", "connect_batch", ["is_pending"])


def downgrade() -> None:
    op.drop_index("connect_batch_pending", "connect_batch")
    with op.batch_alter_table("connect_batch") as table:
        for name in ("stay", "datasets", "is_pending"):
            table.drop_column(name)
    op.drop_table("connect_asset_event")
