"""JdbcSink: ISO 8601 texts with a zone in columns of timestamps."""

import pytest

from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from tests.integration.jdbc.sinks import Reported, Sink, TargetDatabase

TIMES = Schema.struct({"id": INT64_SCHEMA, "local": STRING_SCHEMA.as_optional(), "zoned": STRING_SCHEMA.as_optional()})
TYPES = {"postgresql": ("timestamp", "timestamptz"), "mariadb": ("datetime(6)", "timestamp(6)"), "sqlite": ("datetime", "varchar(40)")}
TEXTS = {
    "2024-07-01T12:00:00.123456Z": ("2024-07-01 14:00:00.123456", "2024-07-01 12:00:00.123456"),
    "2024-07-01 12:00:00.5+05:30": ("2024-07-01 08:30:00.500000", "2024-07-01 06:30:00.500000"),
    "2024-01-01T00:00:00-0100": ("2024-01-01 02:00:00.000000", "2024-01-01 01:00:00.000000"),
    "2024-01-01T00:00 +01": ("2024-01-01 00:00:00.000000", "2023-12-31 23:00:00.000000"),
    "2024-07-01 12:00:00.25": ("2024-07-01 12:00:00.250000", "2024-07-01 12:00:00.250000"),
}
SHOWN = {
    "postgresql": "to_char({}, 'YYYY-MM-DD HH24:MI:SS.US')",
    "mariadb": "date_format({}, '%Y-%m-%d %H:%i:%s.%f')",
    "sqlite": "substr(CAST({} AS text) || '0000', 1, 26)",
}


@pytest.mark.parametrize("product", TYPES)
def test_times_with_an_offset_are_written_in_the_columns_zone(request: pytest.FixtureRequest, product: str) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{product}_target")
    local, zoned = TYPES[product]
    target.run(f"CREATE TABLE notes (id bigint PRIMARY KEY, local {local} NULL, zoned {zoned} NULL)")
    sink = Sink(target, {"db.timezone": "Europe/Berlin"}, reported=(reported := Reported()))
    sink.put([{"id": n, "local": text, "zoned": text} for n, text in enumerate([*TEXTS, None, "2024-02-30T00:00:00Z"])], TIMES)
    sink.commit()
    shown = SHOWN[product].format
    query = f"SELECT {shown('local')}, {shown('zoned')} FROM notes ORDER BY id"
    columns = 1 if product == "sqlite" else 2  # SQLite has no columns with a zone
    assert [row[:columns] for row in target.rows(query)] == [row[:columns] for row in (*TEXTS.values(), (None, None))]
    assert reported.errors.keys() == {len(TEXTS) + 1}
    assert "local" in reported.errors[len(TEXTS) + 1]
    sink.end()
