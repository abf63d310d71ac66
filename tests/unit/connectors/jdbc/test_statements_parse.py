"""Each statement that the dialects of Oracle and SQL Server make is one of that product, by another project's parser; there are no servers
of them here. The drivers and the parser are packages of the tests."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

sqlglot = pytest.importorskip("sqlglot")
pytest.importorskip("oracledb")
pytest.importorskip("pymssql")
sqlalchemy = pytest.importorskip("sqlalchemy")

from airflow_provider_connect.connectors.jdbc.catalog.column import (  # noqa: E402
    Column,
    ColumnKind,
    TableName,
)
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url  # noqa: E402
from airflow_provider_connect.connectors.jdbc.dialects.inspection import inspected_column  # noqa: E402
from airflow_provider_connect.connectors.jdbc.dialects.registry import dialect_of  # noqa: E402
from airflow_provider_connect.connectors.jdbc.sink.layout import Layout, Origin, RecordColumn  # noqa: E402
from airflow_provider_connect.connectors.jdbc.sink.offsets import OffsetsTable  # noqa: E402
from airflow_provider_connect.connectors.jdbc.sink.settings import CONFIG_DEF as SINK  # noqa: E402
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings  # noqa: E402
from airflow_provider_connect.connectors.jdbc.sink.sqlalchemy_store import RowStore  # noqa: E402
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable, changes  # noqa: E402
from airflow_provider_connect.connectors.jdbc.source.config import CONFIG_DEF as SOURCE  # noqa: E402
from airflow_provider_connect.connectors.jdbc.source.offset import SourceOffset  # noqa: E402
from airflow_provider_connect.connectors.jdbc.source.row_query import RowQuery  # noqa: E402
from airflow_provider_connect.connectors.jdbc.source.row_source import RowSource  # noqa: E402
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings  # noqa: E402
from airflow_provider_connect.data.arrow import pa  # noqa: E402
from airflow_provider_connect.data.records import TopicPartition  # noqa: E402
from airflow_provider_connect.data.schema import (  # noqa: E402
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.errors import ConnectException  # noqa: E402
from airflow_provider_connect.sdk.offset_row import OffsetRow  # noqa: E402

PRODUCTS = {"oracle": "oracle", "mssql": "tsql"}
URLS = {"oracle": "jdbc:oracle:thin:u/p@//h:1521/s", "mssql": "jdbc:sqlserver://h:1433;databaseName=d;user=u;password=p"}
ODD_NAMES = ("select", "order", "a b", "50%", 'a"b', "a]b", "a'b", "número", "Mixed", ":1")
VALUES: tuple[tuple[Schema, Any], ...] = (
    *((schema, 1) for schema in (INT8_SCHEMA, INT16_SCHEMA, INT32_SCHEMA, INT64_SCHEMA)),
    (FLOAT32_SCHEMA, 1.5),
    (FLOAT64_SCHEMA, -1e300),
    (BOOLEAN_SCHEMA, True),
    (STRING_SCHEMA, "it's 5 %, ö"),
    (BYTES_SCHEMA, b"\x00\xff"),
    (decimal_schema(2), Decimal("-1.50")),
    (DATE_SCHEMA, datetime.date(2026, 1, 31)),
    (TIMESTAMP_SCHEMA, datetime.datetime(2026, 1, 31, 12, 0, 0, 123_000, tzinfo=datetime.UTC)),
)
product = pytest.mark.parametrize("product", PRODUCTS)


def parsed(sql: str, product: str) -> Any:
    """Raises for a text that is not one statement of the product. What the parser does not know it keeps as a command, which is none."""
    [found] = sqlglot.parse(sql, dialect=PRODUCTS[product])
    unknown = [str(each) for each in found.walk() if isinstance(each, sqlglot.exp.Command)]
    assert unknown == []
    return found


class Recorded(RowStore):
    """A store that keeps the statements that it would send, as the driver would send them."""

    def __init__(self, product: str) -> None:
        self.url = parse_url(URLS[product])
        self.dialect = dialect_of(product)
        self.engine = sqlalchemy.create_engine(self.url.sqlalchemy_url)
        self.sent: list[str] = []
        self.table: TargetTable | None = None

    def execute(self, sql: str) -> None:
        self.sent.append(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        self.sent.append(sql)
        return []

    def commit(self) -> None: ...

    def read_table(self, name: TableName, keys: Sequence[str] = ()) -> TargetTable | None:
        return self.table

    def _execute_rows(self, sql: str, table: TargetTable, rows: pa.Table) -> None:
        is_written_in = self.engine.dialect.paramstyle in ("format", "pyformat")
        self.sent.append(sql % (("'x'",) * len(rows.column_names)) if is_written_in else re.sub(r'(?<!"):[0-9]+', "'x'", sql))


def layout(*columns: tuple[str, Schema]) -> Layout:
    found = tuple(RecordColumn(name, schema, Origin.VALUE, n, is_key=n == 0) for n, (name, schema) in enumerate(columns))
    return Layout(found, None, Schema.struct(dict(columns)), False)


def settings() -> SinkSettings:
    given = {"connection.url": URLS["mssql"], "topics": "t", "auto.create": "true", "auto.evolve": "true"}
    return SinkSettings.of(SINK.parse({**given, "insert.mode": "upsert", "pk.mode": "record_key"}))


@product
def test_tables_are_made(product: str) -> None:
    columns = [(name, STRING_SCHEMA) for name in ODD_NAMES]
    columns += [(f"c{n}", schema.with_default(value)) for n, (schema, value) in enumerate(VALUES)]
    columns += [(f"o{n}", schema.as_optional()) for n, (schema, _) in enumerate(VALUES)]
    [sql] = changes(layout(*columns), None, TableName("order", "s"), settings(), dialect_of(product))
    found = parsed(sql, product)
    assert isinstance(found, sqlglot.exp.Create)
    assert [each.name for each in found.find_all(sqlglot.exp.ColumnDef)] == [name for name, _ in columns]


@product
def test_tables_are_changed(product: str) -> None:
    stored = {
        "id": Column("id", ColumnKind.INT64, "bigint", False, key_position=1),
        "n": Column("n", ColumnKind.INT16, "smallint", True),
        "m": Column("m", ColumnKind.FLOAT32, "real", False),
    }
    table = TargetTable(TableName("order", "s"), stored, (frozenset({"id"}),))
    wanted = layout(("id", INT64_SCHEMA), ("n", INT64_SCHEMA), ("m", FLOAT64_SCHEMA), ("a b", STRING_SCHEMA.as_optional()))
    sent = changes(wanted, table, table.name, settings(), dialect_of(product))
    assert len(sent) == 3
    assert isinstance(parsed(sent[0], product), sqlglot.exp.Alter)
    if product == "oracle":  # whose MODIFY the parser does not know
        assert sent[1:] == [
            f'ALTER TABLE "s"."order" MODIFY "{name}" {type}' for name, type in (("n", "NUMBER(19,0)"), ("m", "BINARY_DOUBLE"))
        ]
        return
    for sql in sent[1:]:
        assert isinstance(parsed(sql, product), sqlglot.exp.Alter), sql


@product
def test_rows_are_written(product: str) -> None:
    store = Recorded(product)
    names = ("id", *ODD_NAMES)
    table = TargetTable(TableName("50% order", "s"), {name: Column(name, ColumnKind.STRING, "text") for name in names})
    rows = pa.table({name: ["x"] for name in names})
    kinds = [sqlglot.exp.Insert, sqlglot.exp.Merge, sqlglot.exp.Merge, sqlglot.exp.Update, sqlglot.exp.Delete]
    store.insert(table, rows)
    store.upsert(table, rows, ["id", "order"])
    store.upsert(table, rows.select(["id", "order"]), ["id", "order"])
    store.update(table, rows, ["id", "order"])
    store.delete(table, rows.select(["id", "order"]))
    for sql, kind in zip(store.sent, kinds, strict=True):
        assert isinstance(parsed(sql, product), kind), sql
    assert all(sql.endswith(";") is (product == "mssql") for sql in store.sent[1:3])
    insert = parsed(store.sent[0], product)
    assert [each.name for each in insert.this.expressions] == list(names)
    assert insert.this.this.name == "50% order"


@product
def test_offsets_are_kept(product: str) -> None:
    store = Recorded(product)
    offsets = OffsetsTable(store, TableName("connect_sink_offsets"), "it's")
    offsets.create()
    store.table = TargetTable(TableName("connect_sink_offsets"), {})
    partitions = [TopicPartition("a", 0), TopicPartition("b", 1)]
    offsets.read(partitions)
    offsets.write({partitions[0]: OffsetRow(5, "scope:1", 1)})
    offsets._found = frozenset(partitions)
    offsets.write({partitions[0]: OffsetRow(5, "scope:1", 1), partitions[1]: None})
    kinds = [sqlglot.exp.Create, sqlglot.exp.Select, sqlglot.exp.Insert, sqlglot.exp.Delete, sqlglot.exp.Update]
    assert sorted(type(parsed(sql, product)).__name__ for sql in store.sent) == sorted(kind.__name__ for kind in kinds)
    [locked] = [sql for sql in store.sent if sql.startswith("SELECT")]
    assert ("WITH (UPDLOCK, HOLDLOCK) WHERE" in locked, locked.endswith("FOR UPDATE")) == (product == "mssql", product == "oracle")
    assert ("topic_id VARCHAR2(255 CHAR) NULL" in store.sent[0]) is (product == "oracle")


def reads(product: str, mode: str, kind: ColumnKind, *, is_query: bool) -> Iterator[str]:
    config = {"connection.url": URLS[product], "topic.prefix": "p", "mode": mode, "incrementing.column.name": "id"}
    config |= {"timestamp.column.name": "at,Changed At"} if "timestamp" in mode else {}
    found = SourceSettings.of(SOURCE.parse(config))
    dialect = dialect_of(product)
    id, other = Column("id", ColumnKind.DECIMAL, "number", False, 19, 0, key_position=1), Column("o", ColumnKind.OTHER, "float")
    times = tuple(Column(name, kind, "x", False) for name in ("at", "Changed At"))
    columns = (id, *times, other, *(Column(name, ColumnKind.STRING, "text") for name in ODD_NAMES))
    relation = "(SELECT 1 AS id FROM x -- all\n) connect_rows" if is_query else dialect.table(TableName("order", "s"))
    number, used = id if "incrementing" in mode else None, times if "timestamp" in mode else ()
    query = RowQuery.of(RowSource(relation, columns, "t", {}, dialect, number, used, None, not is_query), found)
    since, until = SourceOffset(5, 1_700_000_000_123_456_000), SourceOffset(9, 1_700_000_001_000_000_000)
    since = since.of_columns(numbers=number is not None, times=bool(used))
    yield from (query.rows(SourceOffset(), until), query.rows(since, until), query.any_row(since, until))
    if mode != "bulk":
        yield query.overlapping(SourceOffset(since.incrementing, since.timestamp_ns, 1, "AAAAAAAAAAA="))
    if mode == "incrementing":
        yield from (query.extent(), query.duplicate_number(since, until))


@product
@pytest.mark.parametrize("is_query", [False, True], ids=["table", "query"])
@pytest.mark.parametrize("kind", [ColumnKind.TIMESTAMP, ColumnKind.TIMESTAMP_TZ], ids=["local", "zone"])
@pytest.mark.parametrize("mode", ["bulk", "incrementing", "timestamp", "timestamp+incrementing"])
def test_rows_are_read(product: str, mode: str, kind: ColumnKind, is_query: bool) -> None:
    for sql in reads(product, mode, kind, is_query=is_query):
        assert isinstance(parsed(sql, product), sqlglot.exp.Select), sql
        assert "LIMIT" not in sql
        assert re.search(r"\) AS connect_(rows|doubled)", sql) is None  # Oracle takes no AS before the name of a relation
        assert product != "mssql" or " TIMESTAMP '" not in sql


@product
def test_the_clock_is_read(product: str) -> None:
    found = parsed(dialect_of(product).clock_query, product)
    assert isinstance(found, sqlglot.exp.Select)
    assert (found.find(sqlglot.exp.Table) is not None) is (product == "oracle")


def test_what_has_no_type_in_oracle_is_refused_by_name() -> None:
    with pytest.raises(ConnectException, match=r"Column c: .*Time has no column type in oracle"):
        changes(layout(("id", INT64_SCHEMA), ("c", TIME_SCHEMA)), None, TableName("t"), settings(), dialect_of("oracle"))


@pytest.mark.parametrize(("product", "most"), [("oracle", 128), ("mssql", 128), ("postgresql", 63), ("mysql", 64)])
def test_names_have_a_limit(product: str, most: int) -> None:
    """PostgreSQL would cut the name off, so that the table is never found; two columns could become one."""
    dialect = dialect_of(product)
    assert "a" * most in dialect.quoted("a" * most)
    with pytest.raises(ConnectException, match=f"'aa.*; {product} has {most}"):
        dialect.quoted("a" * (most + 1))
    if dialect.in_bytes:
        with pytest.raises(ConnectException, match="bytes"):
            dialect.quoted("ä" * (most // 2 + 1))


def test_unquoted_names_of_oracle_are_capitals() -> None:
    assert dialect_of("oracle", is_quoting=False).stored_name("Orders") == "ORDERS"
    assert dialect_of("oracle").stored_name("Orders") == "Orders"


def test_numbers_of_oracle_keep_their_digits() -> None:
    from sqlalchemy.dialects import oracle

    def read(type_: Any) -> Column:
        return inspected_column({"name": "n", "type": type_}, [], is_oracle=True)

    number: Any = oracle.NUMBER
    found = [read(type_) for type_ in (number(8, 2), number(19, 0), number(), sqlalchemy.types.INTEGER())]
    assert [(each.kind, each.precision, each.scale) for each in found] == [
        (ColumnKind.DECIMAL, 8, 2),
        (ColumnKind.DECIMAL, 19, 0),
        (ColumnKind.DECIMAL, None, None),
        (ColumnKind.DECIMAL, 38, 0),
    ]
    assert read(oracle.BINARY_DOUBLE()).kind is ColumnKind.FLOAT64
