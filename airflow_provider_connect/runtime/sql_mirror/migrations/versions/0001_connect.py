"""The agreement of paused flags and target states, and leases."""

import sqlalchemy as sa
from alembic import op

revision = "0001_connect"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "connect_agreement",
        sa.Column("connector", sa.String(250), primary_key=True),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("target_state", sa.String(20), nullable=False),
    )
    op.create_table(
        "connect_lease",
        sa.Column("name", sa.String(50), primary_key=True),
        sa.Column("holder", sa.String(100), nullable=False),
        sa.Column("until", sa.Double, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("connect_lease")
    op.drop_table("connect_agreement")
