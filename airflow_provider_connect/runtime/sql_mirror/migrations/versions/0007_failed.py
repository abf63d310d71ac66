"""Records that runs have left out because they failed."""

import sqlalchemy as sa
from alembic import op

revision = "0007_failed"
down_revision = "0006_asset_events"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Of the runs of an existing mirror, none are known."""
    with op.batch_alter_table("connect_batch") as table:
        table.add_column(sa.Column("failed", sa.BigInteger, nullable=False, server_default="0"))
    with op.batch_alter_table("connect_batch") as table:
        table.alter_column("failed", server_default=None, existing_type=sa.BigInteger, existing_nullable=False)


def downgrade() -> None:
    with op.batch_alter_table("connect_batch") as table:
        table.drop_column("failed")
