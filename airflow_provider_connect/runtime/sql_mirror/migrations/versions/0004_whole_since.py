"""The time from which the history of each topic is complete. No undo may return to an earlier instant, for which lines may be missing."""

import time

import sqlalchemy as sa
from alembic import op

revision = "0004_whole_since"
down_revision = "0003_binary_names"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """For an existing mirror, this time is unknown, so it is set to the current time."""
    now = str(int(time.time() * 1000))
    with op.batch_alter_table("connect_position") as table:
        table.add_column(sa.Column("since_ms", sa.BigInteger, nullable=False, server_default=now))
    with op.batch_alter_table("connect_position") as table:
        table.alter_column("since_ms", server_default=None, existing_type=sa.BigInteger, existing_nullable=False)


def downgrade() -> None:
    with op.batch_alter_table("connect_position") as table:
        table.drop_column("since_ms")
