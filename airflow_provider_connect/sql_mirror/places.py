"""How far the mirror has read each partition of each topic: kept in the database, moved by compare-and-set in the same transaction as what
was read. So a crash, or a second follower, loses and doubles nothing."""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import CursorResult, Update, insert, select, update

from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sql_mirror.rows import Database, remove_rows
from airflow_provider_connect.sql_mirror.tables import position


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition is read on. What lies below ``noted`` is in the history already. At ``complete_ms`` nothing was left to read."""

    topic_id: str
    position: int
    noted: int
    complete_ms: int


class PlaceMovedException(Exception):
    """Somebody else has moved the place: what was read from it is not to be written."""


def read_places(database: Database) -> dict[TopicPartition, Place]:
    """All places that the database knows."""
    return {
        TopicPartition(row.topic, row.topic_partition): Place(row.topic_id, row.position, row.noted, row.complete_ms)
        for row in database.execute(select(position))
    }


def add_place(database: Database, at: TopicPartition, place: Place) -> None:
    """A place for a partition that has none. Raises IntegrityError when somebody was first."""
    values = {"topic_id": place.topic_id, "position": place.position, "noted": place.noted, "complete_ms": place.complete_ms}
    database.execute(insert(position).values(topic=at.topic, topic_partition=at.partition, **values))


def move_place(database: Database, at: TopicPartition, old: Place, new: Place) -> None:
    """Replace ``old`` by ``new``. Raises PlaceMovedException."""
    statement = (
        update(position)
        .where(position.c.topic == at.topic, position.c.topic_partition == at.partition)
        .where(position.c.topic_id == old.topic_id, position.c.position == old.position)
        .values(topic_id=new.topic_id, position=new.position, noted=new.noted, complete_ms=new.complete_ms)
    )
    if _count(database, statement) != 1:
        raise PlaceMovedException(f"the mirror's position in {at} is no longer {old.position}")


def forget_places(database: Database, partitions: Iterable[TopicPartition]) -> None:
    """The partitions are no longer followed."""
    remove_rows(database, position, [{"topic": at.topic, "topic_partition": at.partition} for at in partitions])


def _count(database: Database, statement: Update) -> int:
    result = database.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount
