"""Arrays of records as PostgreSQL's arrays; in other databases each such record is refused by name."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pytest

from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT64_SCHEMA,
    INT16_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase

ELEMENTS = {
    "a": (INT16_SCHEMA, [1, None, -3], "smallint[]"),
    "b": (INT64_SCHEMA, [2**62], "bigint[]"),
    "c": (FLOAT64_SCHEMA, [0.5, float("inf")], "double precision[]"),
    "d": (BOOLEAN_SCHEMA, [True, False], "boolean[]"),
    "e": (STRING_SCHEMA, ['a"b\\c{}', "NULL", "", " x ", None, "é"], "text[]"),
    "f": (BYTES_SCHEMA, [b"\x00\xff", b""], "bytea[]"),
    "g": (decimal_schema(2), [Decimal("-1.50")], "numeric[]"),
    "h": (DATE_SCHEMA, [datetime.date(1969, 12, 31)], "date[]"),
    "i": (TIME_SCHEMA, [datetime.time(23, 59, 59, 999000)], "time without time zone[]"),
    "j": (TIMESTAMP_SCHEMA, [datetime.datetime(2020, 2, 29, 12, tzinfo=datetime.UTC)], "timestamp without time zone[]"),
    "k": (STRING_SCHEMA, [], "text[]"),
}
ROWS = Schema.struct({"id": INT64_SCHEMA, **{n: Schema.array(s.as_optional(), optional=True) for n, (s, _, _) in ELEMENTS.items()}})
TAGS = Schema.struct({"id": INT64_SCHEMA, "tags": Schema.array(STRING_SCHEMA)})


@pytest.mark.parametrize("mode", ["insert", "upsert"])
def test_arrays_of_single_values_are_arrays_of_postgresql(postgresql_target: TargetDatabase, mode: str) -> None:
    sink = Sink(postgresql_target, {**UPSERT, "insert.mode": mode})
    row = {"id": 1, **{name: values for name, (_, values, _) in ELEMENTS.items()}}
    nulls = {"id": 2, **dict.fromkeys(ELEMENTS)}
    sink.put([row, nulls], ROWS, keys=[{"id": 1}, {"id": 2}])
    sink.commit()
    sink.end()
    types = postgresql_target.rows(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'notes'::regclass AND attnum > 1"
    )
    assert dict(types) == {name: type for name, (_, _, type) in ELEMENTS.items()}
    texts = ", ".join(f"{name}::text" for name in ELEMENTS if name != "e")
    assert postgresql_target.rows(f"SELECT {texts} FROM notes ORDER BY id") == [
        (
            *("{1,NULL,-3}", "{4611686018427387904}", "{0.5,Infinity}", "{t,f}", '{"\\\\x00ff","\\\\x"}', "{-1.50}", "{1969-12-31}"),
            *("{23:59:59.999}", '{"2020-02-29 12:00:00"}', "{}"),
        ),
        (None,) * 10,
    ]
    assert postgresql_target.rows("SELECT to_json(e)::text FROM notes WHERE id = 1") == [('["a\\"b\\\\c{}","NULL",""," x ",null,"é"]',)]


def test_an_element_that_does_not_fit_is_one_records_own(postgresql_target: TargetDatabase) -> None:
    postgresql_target.run("CREATE TABLE notes (id bigint PRIMARY KEY, tags varchar(5)[])")
    reported = Reported()
    sink = Sink(postgresql_target, {**UPSERT}, reported=reported)
    tags = [["a", "fives"], ["longer"], ["b"]]
    sink.put([{"id": n, "tags": each} for n, each in enumerate(tags)], TAGS, keys=[{"id": n} for n in range(3)])
    sink.commit()
    sink.end()
    assert postgresql_target.rows("SELECT id, tags::text FROM notes ORDER BY id") == [(0, "{a,fives}"), (2, "{b}")]
    assert list(reported.errors) == [1]
    assert "value too long for type character varying(5)" in reported.errors[1]


def test_arrays_are_refused_record_by_record_elsewhere(sqlite_target: TargetDatabase) -> None:
    reported = Reported()
    sink = Sink(sqlite_target, {**UPSERT}, reported=reported)
    sink.put([{"id": 1, "text": "a"}], keys=[{"id": 1}])
    sink.put([{"id": 2, "tags": ["a"]}], TAGS, keys=[{"id": 2}])
    sink.commit()
    sink.end()
    assert sqlite_target.rows("SELECT id FROM notes") == [(1,)]
    assert list(reported.errors) == [1]
    assert "Records of topic notes cannot be rows: Column tags: ARRAY has no column type in sqlite" in reported.errors[1]
