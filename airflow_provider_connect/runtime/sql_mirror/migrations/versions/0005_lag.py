"""The distance of each connector from the end of what it reads, over time."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005_lag"
down_revision = "0004_whole_since"
branch_labels = None
depends_on = None

_NAME = sa.String(250).with_variant(mysql.VARCHAR(250, charset="utf8mb4", collation="utf8mb4_bin"), "mysql")


def upgrade() -> None:
    op.create_table(
        "connect_lag",
        sa.Column("connector", _NAME, primary_key=True),
        sa.Column("since_ms", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.Column("distance", sa.BigInteger, nullable=False),
        sa.Column("unit", _NAME, nullable=False),
    )
    op.create_index("connect_lag_until", "connect_lag", ["until_ms"])


def downgrade() -> None:
    op.drop_table("connect_lag")
