"""The offset rows of an exactly-once sink in the destination, in a table of our own. They are written in the transaction of the data.

Each partition of a connector has an ``OffsetRow`` and a ``session``, the name of the connection that wrote the row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException, StatementException
from airflow_provider_connect.connectors.jdbc.sink.settings import OFFSETS_TABLE
from airflow_provider_connect.connectors.jdbc.sink.store import SinkStore
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import INT32_SCHEMA, INT64_SCHEMA
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.offset_row import OffsetRow, scope_of


class OffsetsTable:
    """The rows of one connector. All methods except ``create`` and ``end_older_sessions`` run in the current transaction."""

    def __init__(self, store: SinkStore, name: TableName, connector: str) -> None:
        self._store = store
        self._name = name
        self._table = store.dialect.table(name)
        self._connector = connector
        self._is_there = False
        self._found: frozenset[TopicPartition] = frozenset()  # in the last ``read``

    def create(self) -> None:
        """Create the table unless it exists."""
        if self._exists():
            return
        dialect = self._store.dialect
        text = dialect.exact_text
        partition, number = dialect.column_type(INT32_SCHEMA), dialect.column_type(INT64_SCHEMA)
        filled = "NULL" if dialect.reads_empty_as_null else "NOT NULL"
        columns = (
            f"connector {text} NOT NULL, topic {text} NOT NULL, kafka_partition {partition} NOT NULL, next_offset {number} NULL, "
            f"claim {text} NOT NULL, claim_order {number} NOT NULL, topic_id {text} {filled}, session {text} {filled}"
        )
        try:
            self._store.begin()
            key = "PRIMARY KEY (connector, topic, kafka_partition)"
            self._store.execute(f"CREATE TABLE {self._table} ({columns}, {key}){dialect.table_options}")
            self._store.commit()
        except (StatementException, RefusedException) as error:
            self._store.rollback()
            if not self._exists():  # otherwise, another task has created it
                raise ConfigException.of(
                    OFFSETS_TABLE,
                    self._name,
                    f"{error}. Let the user create tables or create this one, or set delivery.guarantee to at_least_once.",
                ) from error

    def end_older_sessions(self, partitions: Collection[TopicPartition], claim: OffsetRow) -> None:
        """End other connections that may hold locks: the connections of claims that have the same scope and are not newer."""
        sql = f"SELECT next_offset, claim, claim_order, session FROM {self._table} WHERE {self._where(partitions)}"
        for *values, session in self._store.rows(sql):
            row = OffsetRow(*values)
            is_older = scope_of(row.claim) == scope_of(claim.claim) and not row.is_newer_than(claim.claim, claim.claim_epoch)
            if is_older and session and session != self._store.session:
                self._store.end_session(session)

    def read(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetRow]:
        """The existing rows, locked until the transaction ends."""
        rows: dict[TopicPartition, OffsetRow] = {}
        if partitions and self._exists():
            columns = "connector, topic, kafka_partition, next_offset, claim, claim_order, topic_id"
            sql = f"SELECT {columns} FROM {self._table} WHERE {self._where(partitions)} ORDER BY topic, kafka_partition"
            for connector, topic, number, next_offset, claim, order, topic_id in self._store.locked_rows(sql):
                partition = TopicPartition(topic, number)
                if connector != self._connector or partition not in partitions:
                    raise self._equal_names(connector, topic)
                rows[partition] = OffsetRow(next_offset, claim, order, topic_id or "")
        self._found = frozenset(rows)
        return rows

    def write(self, rows: Mapping[TopicPartition, OffsetRow | None]) -> None:
        """Write rows that ``read`` has returned. None deletes a row."""
        by_claim: dict[OffsetRow | None, dict[TopicPartition, int | None]] = {}
        for partition, row in sorted(rows.items()):
            if row is not None and partition not in self._found:
                self._insert(partition, row)
            else:
                claim = None if row is None else replace(row, next_offset=None)
                by_claim.setdefault(claim, {})[partition] = None if row is None else row.next_offset
        for claim, offsets in by_claim.items():
            if claim is None:
                self._store.execute(f"DELETE FROM {self._table} WHERE {self._where(offsets)}")
            else:
                self._update(claim, offsets)

    def _insert(self, partition: TopicPartition, row: OffsetRow) -> None:
        texts = (self._connector, partition.topic, row.claim, row.topic_id, self._store.session)
        connector, topic, claim, topic_id, session = map(self._text, texts)
        values = f"{connector}, {topic}, {partition.partition}, {_sql(row.next_offset)}, {claim}, {row.claim_epoch}, {topic_id}, {session}"
        names = "connector, topic, kafka_partition, next_offset, claim, claim_order, topic_id, session"
        self._store.execute(f"INSERT INTO {self._table} ({names}) VALUES ({values})")

    def _update(self, claim: OffsetRow, offsets: Mapping[TopicPartition, int | None]) -> None:
        """An altered row keeps the session of the task that may still write."""
        known = {partition: offset for partition, offset in offsets.items() if offset is not None}
        cases = " ".join(f"WHEN {self._is(partition)} THEN {offset}" for partition, offset in known.items())
        changes = (
            f"claim = {self._text(claim.claim)}, claim_order = {claim.claim_epoch}, topic_id = {self._text(claim.topic_id)}, next_offset = "
        )
        changes += f"CASE {cases} END" if cases else "NULL"
        if not claim.is_altered:
            changes += f", session = {self._text(self._store.session)}"
        self._store.execute(f"UPDATE {self._table} SET {changes} WHERE {self._where(offsets)}")

    def _equal_names(self, connector: str, topic: str) -> ConfigException:
        """The error for a row of another connector or topic whose name is equal in the table's collation. For example, the names differ
        only in case."""
        return ConfigException.of(
            OFFSETS_TABLE,
            self._name,
            f"By the table's collation, the names of connector {connector} and topic {topic} equal those of connector {self._connector}. "
            "Give both columns a binary collation; or set another table for the newer connector.",
        )

    def _exists(self) -> bool:
        self._is_there = self._is_there or self._store.read_table(self._name) is not None
        return self._is_there

    def _where(self, partitions: Iterable[TopicPartition]) -> str:
        by_topic: dict[str, list[str]] = {}
        for partition in sorted(partitions):
            by_topic.setdefault(partition.topic, []).append(str(partition.partition))
        topics = [f"topic = {self._text(topic)} AND kafka_partition IN ({', '.join(numbers)})" for topic, numbers in by_topic.items()]
        return f"connector = {self._text(self._connector)} AND ({' OR '.join(topics) or '1 = 0'})"

    def _is(self, partition: TopicPartition) -> str:
        return f"topic = {self._text(partition.topic)} AND kafka_partition = {partition.partition}"

    def _text(self, text: str) -> str:
        return self._store.dialect.text_literal(text)


def _sql(offset: int | None) -> str:
    return "NULL" if offset is None else str(offset)
