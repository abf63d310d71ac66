"""The offsets of an exactly-once sink in the destination itself: a table of ours, written in the transaction of the data.

One row a partition of a connector: the next offset, and the claim that may write. Whatever opens a partition puts its claim there; a commit
checks for its own, with the row locked, and raises FencedException where another stands. Claims are compared inside one scope only, the
config topic whose id stands before the colon.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException, StatementException
from airflow_provider_connect.connectors.jdbc.database.dialect import TableName
from airflow_provider_connect.connectors.jdbc.sink.settings import OFFSETS_TABLE
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore
from airflow_provider_connect.connectors.jdbc.sink.target import text_literal
from airflow_provider_connect.errors import ConfigException, ConnectException, FencedException, RetriableException
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sdk.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA
from airflow_provider_connect.sdk.transactional_sink import OffsetRow


@dataclass(frozen=True, slots=True)
class _Row(OffsetRow):
    session: str


class OffsetsTable:
    """The rows of one connector."""

    def __init__(self, store: SinkStore, name: TableName, connector: str) -> None:
        self._store = store
        self._name = name
        self._table = store.dialect.table(name)
        self._connector = connector

    def exists(self) -> bool:
        return self._store.read_table(self._name) is not None

    def take(self, partitions: Collection[TopicPartition], claim: str, order: int) -> dict[TopicPartition, int]:
        """Put the claim to ``partitions``; the offsets found there. Raises FencedException for a newer claim.

        1 create the table 2 end the connections of older claims, which may hold locks 3 lock the rows, refuse, write the claim, commit.
        """
        if not self.exists():  # 1
            self._create()
        store, session = self._store, self._store.session
        for row in self._rows(partitions, locked=False).values():  # 2
            if row.session and row.session != session and not row.is_newer_than(claim, order):
                store.end_session(row.session)
        store.begin()  # 3
        try:
            found = self._rows(partitions, locked=True)
            for partition, row in found.items():
                row.taken(partition, claim, order)
            owner = f"claim = {self._text(claim)}, claim_order = {order}, session = {self._text(session)}"
            if found:
                store.execute(f"UPDATE {self._table} SET {owner} WHERE {self._where(found)}")
            for partition in sorted(set(partitions) - found.keys()):
                self._insert(partition, claim, order)
            store.commit()
        except RefusedException as error:  # another task has put the row there meanwhile
            store.rollback()
            raise RetriableException(f"{self._name}: {error}") from error
        except ConnectException:
            _rollback(store)
            raise
        return {partition: row.next_offset for partition, row in found.items() if row.next_offset is not None}

    def write(self, offsets: Mapping[TopicPartition, int], claim: str) -> None:
        """Set the offsets, in the transaction under way. Raises FencedException unless every row has this very claim."""
        found = self.check(offsets, claim)
        changed = {partition: offset for partition, offset in offsets.items() if found[partition] != offset}
        if changed:
            cases = " ".join(f"WHEN {self._is(partition)} THEN {offset}" for partition, offset in sorted(changed.items()))
            self._store.execute(f"UPDATE {self._table} SET next_offset = CASE {cases} END WHERE {self._where(changed)}")

    def check(self, partitions: Collection[TopicPartition], claim: str) -> dict[TopicPartition, int | None]:
        """Lock the rows for the transaction under way; the offsets there. Raises FencedException unless every row has this very claim."""
        found = self._rows(partitions, locked=True)
        for partition in partitions:
            row = found.get(partition)
            if row is None or row.claim != claim:
                now = "to no claim" if row is None else f"to claim {row.claim}"
                raise FencedException(f"{partition} belongs {now} now, claim {claim} may no longer write")
        return {partition: row.next_offset for partition, row in found.items()}

    def renew(self, partitions: Collection[TopicPartition], claim: str) -> dict[TopicPartition, int]:
        """Go on with a new connection; the offsets. Raises FencedException unless every row still has this very claim."""
        store = self._store
        store.begin()
        found = self.check(partitions, claim)
        store.execute(f"UPDATE {self._table} SET session = {self._text(store.session)} WHERE {self._where(partitions)}")
        store.commit()
        return {partition: offset for partition, offset in found.items() if offset is not None}

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set offsets where there are any; None forgets one. A task that still writes is refused from here on."""
        if not offsets or not self.exists():
            return
        store = self._store
        store.begin()
        try:
            for partition, row in self._rows(offsets, locked=True).items():
                altered = row.altered(offsets[partition])
                value = "NULL" if altered.next_offset is None else str(altered.next_offset)
                changes = f"next_offset = {value}, claim = {self._text(altered.claim)}"
                store.execute(f"UPDATE {self._table} SET {changes} WHERE {self._where([partition])}")
            store.commit()
        except ConnectException:
            _rollback(store)
            raise

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Remove the rows: from here on a sink writes that does not keep them."""
        if partitions and self.exists():
            self._store.begin()
            self._store.execute(f"DELETE FROM {self._table} WHERE {self._where(partitions)}")
            self._store.commit()

    def _create(self) -> None:
        dialect = self._store.dialect
        text, key = dialect.column_type(STRING_SCHEMA, is_key=True), dialect.column_type(INT32_SCHEMA)
        number = dialect.column_type(INT64_SCHEMA)
        columns = (
            f"connector {text} NOT NULL, topic {text} NOT NULL, kafka_partition {key} NOT NULL, next_offset {number} NULL, "
            f"claim {text} NOT NULL, claim_order {number} NOT NULL, session {text} NOT NULL"
        )
        try:
            self._store.begin()
            self._store.execute(f"CREATE TABLE {self._table} ({columns}, PRIMARY KEY (connector, topic, kafka_partition))")
            self._store.commit()
        except (StatementException, RefusedException) as error:
            _rollback(self._store)
            if not self.exists():  # else another task was faster
                raise ConfigException.of(
                    OFFSETS_TABLE,
                    self._name,
                    f"{error}. Let the user create tables or create this one, or set delivery.guarantee to at_least_once.",
                ) from error

    def _insert(self, partition: TopicPartition, claim: str, order: int) -> None:
        texts = (self._connector, partition.topic)
        connector, topic = map(self._text, texts)
        values = f"{connector}, {topic}, {partition.partition}, NULL, {self._text(claim)}, {order}, {self._text(self._store.session)}"
        names = "connector, topic, kafka_partition, next_offset, claim, claim_order, session"
        self._store.execute(f"INSERT INTO {self._table} ({names}) VALUES ({values})")

    def _rows(self, partitions: Collection[TopicPartition], *, locked: bool) -> dict[TopicPartition, _Row]:
        columns = "topic, kafka_partition, next_offset, claim, claim_order, session"
        sql = f"SELECT {columns} FROM {self._table} WHERE {self._where(partitions)} ORDER BY topic, kafka_partition"
        rows = self._store.locked_rows(sql) if locked else self._store.rows(sql)
        return {TopicPartition(row[0], row[1]): _Row(*row[2:]) for row in rows}

    def _where(self, partitions: Iterable[TopicPartition]) -> str:
        by_topic: dict[str, list[str]] = {}
        for partition in sorted(partitions):
            by_topic.setdefault(partition.topic, []).append(str(partition.partition))
        topics = [f"topic = {self._text(topic)} AND kafka_partition IN ({', '.join(numbers)})" for topic, numbers in by_topic.items()]
        return f"connector = {self._text(self._connector)} AND ({' OR '.join(topics) or '1 = 0'})"

    def _is(self, partition: TopicPartition) -> str:
        return f"topic = {self._text(partition.topic)} AND kafka_partition = {partition.partition}"

    def _text(self, text: str) -> str:
        return text_literal(text, self._store.dialect)


def _rollback(store: SinkStore) -> None:
    """As well as it goes: the connection may be gone, and its transaction with it."""
    try:
        store.rollback()
    except ConnectException:
        store.close()
