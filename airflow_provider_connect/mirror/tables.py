"""The tables that this package keeps beside Airflow's own. Knows nothing of Airflow: names, columns and keys only."""

from sqlalchemy import Boolean, Column, Double, MetaData, String, Table

metadata = MetaData()

agreement = Table(
    "connect_agreement",
    metadata,
    Column("connector", String(250), primary_key=True),
    Column("paused", Boolean, nullable=False),
    Column("target_state", String(20), nullable=False),
)
"""The last pair of paused flag and target state that the reconciler made agree."""

lease = Table(
    "connect_lease",
    metadata,
    Column("name", String(50), primary_key=True),
    Column("holder", String(100), nullable=False),
    Column("until", Double, nullable=False),
)
"""Who does a job that one process at a time should do, until when (seconds since 1970). It saves work; nothing relies on it."""
