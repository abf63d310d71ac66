"""Tables that are made and changed for records, and what a table cannot become."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaType,
    decimal_schema,
)
from airflow_provider_connect.errors import ConnectException
from tests.integration.jdbc.sinks import UPSERT, Sink, TargetDatabase

EVOLVE = {**UPSERT, "auto.evolve": "true"}


def note(**more: Schema) -> Schema:
    return Schema.struct({"id": INT64_SCHEMA, "text": STRING_SCHEMA.as_optional(), **more})


def test_a_table_is_made_with_key_nullability_and_defaults(target: TargetDatabase) -> None:
    sink = Sink(target, UPSERT)
    schema = note(must=STRING_SCHEMA, mood=STRING_SCHEMA.with_default("it's \\ fine"), yes=BOOLEAN_SCHEMA.with_default(True))
    sink.put([{"id": 1, "text": None, "must": "m", "mood": "sad", "yes": False}], schema, keys=[{"id": 1}])
    sink.commit()
    target.run("INSERT INTO notes (id, must) VALUES (2, 'm')")
    rows = target.rows("SELECT id, text, must, mood, CASE WHEN yes THEN 1 ELSE 0 END FROM notes ORDER BY id")
    assert rows == [(1, None, "m", "sad", 0), (2, None, "m", "it's \\ fine", 1)]
    for wrong in ("INSERT INTO notes (id, must) VALUES (1, 'm')", "INSERT INTO notes (id) VALUES (3)"):
        with pytest.raises(ConnectException, match=r"(?i)unique|not.null"):
            target.run(wrong)
    sink.end()


def test_new_fields_become_columns_while_rows_wait_for_their_commit(target: TargetDatabase) -> None:
    sink = Sink(target, {**EVOLVE, "batch.size": "2"})
    sink.put_notes((1, "a"), (2, "a"), (3, "a"))
    schema = note(more=INT32_SCHEMA.as_optional(), size=INT32_SCHEMA.with_default(7))
    sink.put([{"id": 3, "text": "b", "more": 5, "size": 6}], schema, keys=[{"id": 3}])
    sink.put_notes((1, "c"))  # one that was made before
    sink.commit()
    assert target.rows("SELECT id, text, more, size FROM notes ORDER BY id") == [(1, "c", None, 7), (2, "a", None, 7), (3, "b", 5, 6)]
    sink.end()


def test_numbers_become_wider(postgresql_target: TargetDatabase) -> None:
    sink = Sink(postgresql_target, EVOLVE)
    for schema, number in ((INT16_SCHEMA, 2**15 - 1), (INT32_SCHEMA, 2**31 - 1), (INT64_SCHEMA, 2**62)):
        sink.put([{"id": number, "text": "a", "n": number}], note(n=schema), keys=[{"id": number}])
        sink.commit()
    assert postgresql_target.rows("SELECT n FROM notes ORDER BY id") == [(2**15 - 1,), (2**31 - 1,), (2**62,)]
    sink.end()


def test_several_tasks_make_and_change_one_table_at_a_time(postgresql_target: TargetDatabase) -> None:
    sinks = [Sink(postgresql_target, {**EVOLVE, "table.name.format": "notes"}, (f"t{number}",)) for number in range(4)]

    def run(number: int) -> None:
        for step in range(3):
            fields = dict.fromkeys((f"more{each}" for each in range(step)), INT32_SCHEMA.as_optional())
            id = 10 * number + step
            sinks[number].put([{"id": id, "text": "a"}], note(**fields), keys=[{"id": id}], topic=f"t{number}")
            sinks[number].commit()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(run, range(4)))
    assert len(postgresql_target.rows("SELECT id, more0, more1 FROM notes")) == 12
    for sink in sinks:
        sink.end()


TABLE = "CREATE TABLE notes (id bigint PRIMARY KEY, text {})"
IMPOSSIBLE = {
    "text into a number": (
        TABLE.format("integer"),
        note(),
        {},
        "Column text of table .*notes is int.*, which accepts no values of type STRING",
    ),
    "another decimal": (
        TABLE.format("boolean"),
        note(text=decimal_schema(2, optional=True)),
        {},
        "Column text of table .*notes is bool.* org.apache.kafka",
    ),
    "a timestamp of Debezium": (
        TABLE.format("timestamp"),
        note(text=Schema(SchemaType.INT64, name="io.debezium.time.MicroTimestamp", version=1, optional=True)),
        {},
        "which accepts no values of type io.debezium.time.MicroTimestamp.* time.precision.mode=connect",
    ),
    "a timestamp into a number": (
        TABLE.format("integer"),
        note(text=TIMESTAMP_SCHEMA.as_optional()),
        {},
        "org.apache.kafka.*TimestampConverter",
    ),
    "a column that must be": (
        "CREATE TABLE notes (id bigint PRIMARY KEY, text varchar(9), must integer NOT NULL)",
        note(),
        EVOLVE,
        "Column must of table .*notes is NOT NULL without a default, and the records have no field must",
    ),
    "a new column that must be": (TABLE.format("text"), note(new=INT32_SCHEMA), EVOLVE, "Column new cannot be added to table .*notes"),
    "a new column, not allowed": (TABLE.format("text"), note(new=INT32_SCHEMA), {}, "auto.evolve: Table .*notes has no column new"),
    "a new key": ("CREATE TABLE notes (text text)", note(), EVOLVE, "has no column id, and a column of the key cannot be added"),
    "no unique key": (
        "CREATE TABLE notes (id bigint, text text)",
        note(),
        {},
        "pk.fields: Table .*notes has no primary key or unique index",
    ),
    "an array of arrays": (None, note(list=Schema.array(Schema.array(INT32_SCHEMA))), {}, "Column list: ARRAY has no column type"),
    "no table": (None, note(), {"auto.create": "false"}, "auto.create: There is no table notes. Create it, or set auto.create to true"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_table_is_refused_with_the_column_named(target: TargetDatabase, case: str) -> None:
    create, schema, settings, text = IMPOSSIBLE[case]
    if create is not None:
        target.run(create)
    sink = Sink(target, {**UPSERT, **settings})
    values = {"text": None, "new": 1, "list": [[1]]}

    def write() -> None:
        sink.put([{field.name: values.get(field.name, 1) for field in schema.fields}], schema, keys=[{"id": 1}])
        sink.commit()

    with pytest.raises(ConnectException) as raised:
        write()
    assert re.search(text, str(raised.value)), str(raised.value)
    sink.end()
