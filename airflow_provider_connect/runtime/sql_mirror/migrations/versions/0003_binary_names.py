"""Names of connectors compare by their bytes on MySQL in ``connect_agreement`` too, because ``Orders`` and ``orders`` are two
connectors."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003_binary_names"
down_revision = "0002_mirror"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_context().dialect.name == "mysql":
        name = mysql.VARCHAR(250, charset="utf8mb4", collation="utf8mb4_bin")
        op.alter_column("connect_agreement", "connector", type_=name, existing_type=sa.String(250), existing_nullable=False)


def downgrade() -> None:
    """Does nothing. Rows with names that differ only in case would not fit the previous rule."""
