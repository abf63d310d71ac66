"""The mirror, dropped and read again from the topics."""

from sqlalchemy import delete, update

from airflow_provider_connect.sql_mirror.follower import LEASE
from airflow_provider_connect.sql_mirror.rows import Database
from airflow_provider_connect.sql_mirror.tables import CURRENT, batch, history, lease, position


def rebuild(database: Database, *, keep_history: bool = True) -> None:
    """Empty the tables that say how things are now, and have the follower read every topic from its beginning, within some seconds.

    What the history says stays, and is not said again, unless ``keep_history`` is false: then history and figures of runs too are what the
    topics still hold. For the caller to commit, while a follower runs or not.
    """
    database.execute(update(lease).where(lease.c.name == LEASE).values(until=lease.c.until))  # a follower's transactions wait for this row
    if keep_history:
        reached = position.c.position
        database.execute(update(position).where(position.c.noted < reached).values(noted=reached))
        database.execute(update(position).values(position=0))
    else:
        database.execute(delete(position))
        database.execute(delete(batch))
        database.execute(delete(history))
    for table in CURRENT:
        database.execute(delete(table))
