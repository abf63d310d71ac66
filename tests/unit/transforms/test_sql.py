"""SqlTransform: what a SELECT makes of a batch, and what it can reach of the host, which is nothing."""

import datetime
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema, Struct, decimal_schema
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.transforms.sql import SqlTransform
from airflow_provider_connect.transforms.sql_query import FUNCTIONS
from airflow_provider_connect.transforms.sql_sandbox import Sandbox
from tests.columns import there

NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
PLACE = Schema.struct({"city": STRING_SCHEMA, "zip": INT32_SCHEMA})
ORDER = Schema.struct(
    {
        "id": Schema(INT64_SCHEMA.type, doc="the order's number"),
        "name": STRING_SCHEMA.as_optional().with_default("none"),
        "price": decimal_schema(2),
        "bought": TIMESTAMP_SCHEMA,
        "place": PLACE,
        "tags": Schema.array(STRING_SCHEMA),
    },
    name="shop.Order",
    version=3,
    optional=True,
)


def order(number: int) -> Struct:
    place = Struct(PLACE, {"city": "Bonn", "zip": number})
    row = {"id": number, "name": f"n{number}", "price": Decimal(number) / 4, "bought": NOON, "place": place, "tags": ["a", f"t{number}"]}
    return Struct(ORDER, row)


def orders(*numbers: int | None) -> Batch:
    """Records with these numbers, as a sink has them; None: a tombstone. Their offsets begin at 100."""
    values = column_of([None if number is None else order(number) for number in numbers], ORDER)
    return KafkaBatch(
        "shop",
        values,
        key=pa.array([f"k{number}" for number in numbers]),
        value_schema=ORDER,
        key_schema=STRING_SCHEMA,
        timestamp=pa.array(range(len(numbers)), pa.int64()),
        kafka_partition=2,
        first_offset=100,
        next_offset=100 + len(numbers),
    )


def made(sql: str, **settings: str) -> SqlTransform:
    transformation = SqlTransform()
    transformation.configure(SqlTransform.config_def.parse({"sql": sql, **settings}))
    return transformation


def after(sql: str, batch: Batch) -> Batch:
    changed = made(sql).apply_batch(batch)
    assert isinstance(changed, Batch)
    return changed


def rows(batch: Batch) -> list[dict[str, Any]]:
    return [value.as_dict() for value in values_of(there(batch.value), batch.value_schema)]


EXPRESSIONS: Sequence[tuple[str, Any]] = [
    ("upper(name)", "N5"),
    ("id * 2 + 1", 11),
    ("price * 2", Decimal("2.50")),
    ("CASE WHEN id > 3 THEN 'many' ELSE 'few' END", "many"),
    ("place.city || '-' || place.zip", "Bonn-5"),
    ("batch.place.zip", 5),
    ("tags[2]", "t5"),
    ("list_contains(tags, 'a')", True),
    ("year(bought)", 2024),
    ("strftime(bought, '%Y-%m-%dT%H')", "2024-02-29T12"),
    ("date_trunc('month', bought)", datetime.datetime(2024, 2, 1, tzinfo=datetime.UTC)),
    ("bought + INTERVAL 1 DAY", NOON + datetime.timedelta(days=1)),
    ("CAST(bought AS DATE)", datetime.date(2024, 2, 29)),
    ("TRY_CAST(name AS INTEGER)", None),
    ("regexp_replace(name, '[0-9]', '*', 'g')", "n*"),
    ("coalesce(nullif(name, 'n5'), 'other')", "other"),
    ("lpad(CAST(id AS VARCHAR), 4, '0')", "0005"),
    ("replace(replace(name, 'n', 'm'), '5', 'five')", "mfive"),
    ("sha256(name)", "4a8456f10e37689778cef532ab6a73742a152d4481190ab31de5d6f3f32f329c"),
    ("json_extract_string(to_json(place), '$.city')", "Bonn"),
    ("CAST('{\"a\":[1,2]}' AS STRUCT(a INTEGER[])).a[2]", 2),
    ("name BETWEEN 'n' AND 'o' AND id IN (4, 5) AND price IS NOT NULL", True),
    ("_key", "k5"),
    ("_topic || _partition || '@' || _offset", "shop2@100"),
    ("epoch_ms(_timestamp)", 0),
]


@pytest.mark.parametrize(("expression", "value"), EXPRESSIONS, ids=[expression for expression, _ in EXPRESSIONS])
def test_an_expression_becomes_a_field(expression: str, value: object) -> None:
    assert rows(after(f"SELECT {expression} AS found FROM batch", orders(5))) == [{"found": value}]


def test_fields_that_are_only_named_keep_their_schemas() -> None:
    changed = after(
        "SELECT * EXCLUDE (bought, place, tags) REPLACE (upper(name) AS name) RENAME (price AS cost), batch.id AS number FROM batch",
        orders(1),
    )
    assert changed.value_schema is not None
    assert (changed.value_schema.name, changed.value_schema.version) == ("shop.Order", 3)
    by_name = {field.name: field.schema for field in changed.value_schema.fields}
    assert list(by_name) == ["id", "name", "cost", "number"]
    assert by_name["id"] == by_name["number"] == ORDER.fields[0].schema
    assert by_name["cost"] == decimal_schema(2)
    assert by_name["name"] == STRING_SCHEMA.as_optional()
    assert rows(changed) == [{"id": 1, "name": "N1", "cost": Decimal("0.25"), "number": 1}]


def test_types_that_duckdb_does_not_have_pass_where_they_are_only_named() -> None:
    schema = Schema.struct({"id": INT64_SCHEMA, "wide": decimal_schema(0, parameters={"scale": "0", "connect.decimal.precision": "60"})})
    wide = Decimal(10) ** 55 + 1
    batch = Batch("t", column_of([Struct(schema, {"id": 1, "wide": wide})], schema), value_schema=schema)
    assert rows(after("SELECT wide, id + 1 AS next FROM batch", batch)) == [{"wide": wide, "next": 2}]
    with pytest.raises(DataException, match="SqlTransform: "):
        after("SELECT wide + 1 AS more FROM batch", batch)


def test_records_that_stay_keep_offset_key_timestamp_and_order() -> None:
    batch = orders(*range(2000))
    changed = after("SELECT id AS number FROM batch WHERE id % 3 = 1 AND _key <> 'k4'", batch)
    kept = [number for number in range(2000) if number % 3 == 1 and number != 4]
    assert there(changed.value).field(0).to_pylist() == kept
    assert changed.kafka_offsets.to_pylist() == [100 + number for number in kept]
    assert there(changed.key).to_pylist() == [f"k{number}" for number in kept]
    assert there(changed.timestamp).to_pylist() == kept
    assert (changed.first_offset, changed.next_offset) == (100, 2100)


def test_a_batch_whose_records_are_all_dropped_still_carries_the_position_of_its_source() -> None:
    batch = Batch.of("t", [{"id": 1}], source_partition={"file": "a"}, source_offset={"position": 9})
    changed = after("FROM batch WHERE id > 1", batch)
    assert (changed.num_records, changed.source_offset) == (0, {"position": 9})


def test_tombstones_stay_as_they_are() -> None:
    pieces = made("SELECT id FROM batch WHERE id <> 1").apply_batch(orders(1, None, 2, None, None))
    assert isinstance(pieces, list)
    seen = [(there(piece.value).to_pylist(), piece.kafka_offsets.to_pylist(), piece.value_schema == ORDER) for piece in pieces]
    assert seen == [([], [], False), ([None], [101], True), ([{"id": 2}], [102], False), ([None, None], [103, 104], True)]
    assert [(piece.first_offset, piece.next_offset) for piece in pieces] == [(100, 101), (101, 102), (102, 103), (103, 105)]


def test_values_between_tombstones_are_selected_by_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[str] = []
    rows_of = Sandbox.rows

    def counted(sandbox: Sandbox, statement: str, table: str, content: pa.Table, timeout_ms: int) -> pa.Table:
        statements.append(statement)
        return rows_of(sandbox, statement, table, content, timeout_ms)

    monkeypatch.setattr(Sandbox, "rows", counted)
    numbers = [None if number % 3 == 0 else number for number in range(300)]
    pieces = made("SELECT id + 1 AS next, name FROM batch WHERE id % 2 = 0").apply_batch(orders(*numbers))
    assert isinstance(pieces, list)
    offsets = [offset for piece in pieces for offset in piece.kafka_offsets.to_pylist()]
    found = list(zip(offsets, [value for piece in pieces for value in there(piece.value).to_pylist()], strict=True))
    wanted = [(100 + at, None if number is None else {"next": number + 1, "name": f"n{number}"}) for at, number in enumerate(numbers)]
    assert found == [(offset, value) for offset, value in wanted if value is None or offset % 2 == 0]
    assert len(statements) == 1


def test_a_batch_of_a_source_that_is_cut_at_its_tombstones_keeps_its_offsets() -> None:
    values = column_of([order(1), None, order(2), order(3)], ORDER)
    offsets = [{"line": line} for line in range(4)]
    batch = Batch("t", values, value_schema=ORDER, source_partition={"file": "a"}, source_offsets=offsets)
    pieces = made("SELECT id FROM batch WHERE id <> 2").apply_batch(batch)
    assert isinstance(pieces, list)
    assert [piece.source_offsets for piece in pieces] == [[{"line": 0}], [{"line": 1}], [{"line": 3}]]


def test_schemaless_json_becomes_values_with_a_schema() -> None:
    batch = Batch.of("t", [{"id": 1, "who": {"name": "Ada"}}, {"id": "x"}, {"id": 3}], schemaless=True)
    changed = after(
        "SELECT TRY_CAST(_value->>'id' AS BIGINT) AS id, _value->>'$.who.name' AS name FROM batch WHERE json_exists(_value, '$.id')", batch
    )
    assert rows(changed) == [{"id": 1, "name": "Ada"}, {"id": None, "name": None}, {"id": 3, "name": None}]


def test_a_value_that_is_no_struct_is_the_column_value() -> None:
    batch = Batch.of("t", pa.array(["a,1", "b,2"]))
    assert rows(after("SELECT split_part(_value, ',', 2)::INT AS n FROM batch", batch)) == [{"n": 1}, {"n": 2}]


def test_keys_without_a_schema_may_change_their_type() -> None:
    transformation, value = made("SELECT _key AS k FROM batch"), pa.array(["v"])
    for key, expected in ((None, None), (pa.array([5]), 5), (pa.array(["five"]), "five")):
        changed = transformation.apply_batch(Batch("t", value, key, STRING_SCHEMA))
        assert isinstance(changed, Batch)
        assert rows(changed) == [{"k": expected}]


def test_another_schema_is_bound_anew() -> None:
    transformation = made("SELECT * REPLACE (CAST(a AS VARCHAR) AS a) FROM batch")
    for given, expected in (({"a": 1}, {"a": "1"}), ({"a": 1.5, "b": True}, {"a": "1.5", "b": True})):
        changed = transformation.apply_batch(Batch.of("t", [given]))
        assert isinstance(changed, Batch)
        assert rows(changed) == [expected]


BAD_RECORDS = [
    ("SELECT nothing FROM batch", "no column nothing; the columns are id, name, price"),
    ("SELECT name::INT + 1 AS n FROM batch", "Could not convert string 'n5' to INT"),
    ("SELECT place + 1 AS n FROM batch", "No function matches"),
    ("SELECT id, id FROM batch", "two fields of the result are called id"),
    ("SELECT INTERVAL 1 DAY AS i FROM batch", "which records do not support: CAST it"),
    ("SELECT id AS a, a + 1 AS b FROM batch", "no column a;"),
    ("SELECT current_user FROM batch", "no column current_user"),
    ("SELECT NULL AS x FROM batch", "which records do not support: CAST it"),
]


@pytest.mark.parametrize(("sql", "reason"), BAD_RECORDS)
def test_what_cannot_be_computed_is_a_bad_record(sql: str, reason: str) -> None:
    with pytest.raises(DataException) as refused:
        after(sql, orders(5))
    assert reason in str(refused.value)


def test_a_message_that_duckdb_cuts_within_a_character_is_still_a_message() -> None:
    with pytest.raises(DataException, match="SqlTransform: Invalid Input Error: Malformed JSON"):
        after("SELECT json_extract_string(_value, '$.a') AS a FROM batch", Batch.of("t", pa.array(["aé€" * 50])))


def test_names_that_differ_by_case_alone_are_refused_where_they_are_used() -> None:
    batch = Batch.of("t", [{"id": 1, "ID": 2, "x": 3}])
    assert rows(after("SELECT *, x + 1 AS y FROM batch", batch)) == [{"id": 1, "ID": 2, "x": 3, "y": 4}]
    with pytest.raises(DataException, match="the fields id, ID differ only by case"):
        after("SELECT id + 1 AS y FROM batch", batch)


# What a statement cannot be

NOT_A_SELECT = "give one SELECT … FROM batch"
OFFSETS = "each record keeps its own offset"
OTHER_TABLES = "other tables, functions and files cannot be read"
EXPRESSIONS_ONLY = "expressions are made of columns, constants, operators and functions"
HOSTILE: Sequence[tuple[str, str]] = [
    ("selec id from batch", "syntax error"),
    ("", NOT_A_SELECT),
    ("COPY batch TO '/tmp/stolen'", NOT_A_SELECT),
    ("COPY (SELECT 1) TO '/tmp/stolen'", NOT_A_SELECT),
    ("ATTACH '/etc/passwd' AS x", NOT_A_SELECT),
    ("INSTALL httpfs", NOT_A_SELECT),
    ("LOAD httpfs", NOT_A_SELECT),
    ("SET enable_external_access = true", NOT_A_SELECT),
    ("PRAGMA database_list", NOT_A_SELECT),
    ("CREATE TABLE batch2 AS SELECT 1", NOT_A_SELECT),
    ("CREATE MACRO upper(x) AS getenv('HOME')", NOT_A_SELECT),
    ("DROP VIEW batch", NOT_A_SELECT),
    ("INSERT INTO batch VALUES (1)", NOT_A_SELECT),
    ("SELECT id FROM batch; SELECT 1", NOT_A_SELECT),
    ("SELECT id FROM batch; COPY batch TO '/tmp/stolen'", NOT_A_SELECT),
    ("SELECT id FROM batch UNION ALL SELECT 1", NOT_A_SELECT),
    ("WITH other AS (SELECT 1) SELECT id FROM batch", NOT_A_SELECT),
    ("SELECT DISTINCT name FROM batch", OFFSETS),
    ("SELECT id FROM batch ORDER BY id DESC", OFFSETS),
    ("SELECT id FROM batch LIMIT 1", OFFSETS),
    ("SELECT name, id AS n FROM batch GROUP BY ALL", OFFSETS),
    ("SELECT id FROM batch QUALIFY id > 1", OFFSETS),
    ("SELECT id FROM batch USING SAMPLE 10%", OFFSETS),
    ("SELECT count(*) AS n FROM batch", "the function count_star"),
    ("SELECT sum(id) AS n FROM batch", "the function sum at character 8"),
    ("SELECT sum(id) OVER () AS n FROM batch", EXPRESSIONS_ONLY),
    ("SELECT unnest(tags) AS tag FROM batch", "the function unnest"),
    ("SELECT 1 AS one", OTHER_TABLES),
    ("SELECT * FROM '/etc/passwd'", OTHER_TABLES),
    ("SELECT * FROM read_csv('/etc/passwd')", OTHER_TABLES),
    ("SELECT * FROM read_text('https://example.org/x')", OTHER_TABLES),
    ("SELECT * FROM glob('/etc/*')", OTHER_TABLES),
    ("SELECT * FROM duckdb_secrets()", OTHER_TABLES),
    ("SELECT * FROM information_schema.tables", OTHER_TABLES),
    ("SELECT * FROM main.batch", OTHER_TABLES),
    ("SELECT * FROM memory.main.batch", OTHER_TABLES),
    ("SELECT b.id FROM batch AS b", OTHER_TABLES),
    ("SELECT id FROM batch, batch AS other", OTHER_TABLES),
    ("SELECT id FROM batch TABLESAMPLE 5%", OTHER_TABLES),
    ("SELECT id FROM batch JOIN range(10) ON true", OTHER_TABLES),
    ("SELECT (SELECT content FROM read_text('/etc/passwd')) AS x FROM batch", EXPRESSIONS_ONLY),
    ("SELECT id FROM batch WHERE EXISTS (FROM '/etc/passwd')", EXPRESSIONS_ONLY),
    ("SELECT id FROM batch WHERE id = ANY (SELECT 1)", EXPRESSIONS_ONLY),
    ("SELECT list_transform(tags, lambda x: x) AS x FROM batch", "the function list_transform"),
    ("SELECT * REPLACE ((SELECT 1) AS id) FROM batch", EXPRESSIONS_ONLY),
    ("SELECT $secret AS x FROM batch", EXPRESSIONS_ONLY),
    ("SELECT #1 AS x FROM batch", EXPRESSIONS_ONLY),
    ("SELECT COLUMNS('.*') FROM batch", "only * with EXCLUDE, REPLACE and RENAME"),
    ("SELECT getenv('HOME') AS x FROM batch", "the function getenv"),
    ("SELECT getvariable('x') AS x FROM batch", "the function getvariable"),
    ("SELECT current_setting('secret_directory') AS x FROM batch", "the function current_setting"),
    ("SELECT main.getenv('HOME') AS x FROM batch", "the function getenv"),
    ("SELECT system.main.upper(name) AS x FROM batch", "the function upper"),
    ("SELECT name.read_text() AS x FROM batch", "the function read_text"),
    ("SELECT pg_get_viewdef(1) AS x FROM batch", "the function pg_get_viewdef"),
    ("SELECT nextval('s') AS x FROM batch", "the function nextval"),
    ("SELECT write_log('x') AS x FROM batch", "the function write_log"),
    ("SELECT json_merge_patch(name, name) AS x FROM batch", "the function json_merge_patch"),
    ("SELECT sleep_ms(100000) AS x FROM batch", "the function sleep_ms"),
    ("SELECT json_execute_serialized_sql('x') AS x FROM batch", "the function json_execute_serialized_sql"),
    ("SELECT query('SELECT 1') AS x FROM batch", "the function query"),
    ("SELECT repeat(name, 1000000000) AS x FROM batch", "the function repeat"),
    ("SELECT range(1000000000) AS x FROM batch", "the function range"),
    ("SELECT list_resize(tags, 1000000000) AS x FROM batch", "the function list_resize"),
    ("SELECT printf('%1000000000d', 1) AS x FROM batch", "the function printf"),
    ("SELECT lpad(name, 1000000000, ' ') AS x FROM batch", "must be a number up to 1000"),
    ("SELECT rpad(name, CAST(id AS INT), ' ') AS x FROM batch", "argument 2 of rpad at character 8 must be a constant"),
    ("SELECT replace(name, 'n', name) AS x FROM batch", "argument 3 of replace at character 8 must be a constant"),
    ("SELECT replace(replace(name, 'n', '123456789'), '1', '123456789') AS x FROM batch", "more than 64 times as long"),
    ("SELECT regexp_replace(name, '.*', '\\0" + "\\0" * 50 + "') AS x FROM batch", "more than 64 times as long"),
    ("SELECT CAST(NULL AS INTEGER[100000]) AS x FROM batch", "the type array"),
    ("SELECT CAST(name AS main.secret) AS x FROM batch", "the type secret"),
    ("SELECT CAST(name AS GEOMETRY) AS x FROM batch", "the type GEOMETRY"),
    ("SELECT upper(name) FROM batch", "at character 8 has no name: write … AS name"),
    ("SELECT " + "(" * 300 + "id" + ")" * 300 + " AS x FROM batch", "expression depth"),
    ("SELECT " + "id + " * 300 + "1 AS x FROM batch", "expression depth"),
    ("SELECT '" + "x" * 10_000 + "' AS x FROM batch", "characters; the limit is 10000"),
]


@pytest.mark.parametrize(("sql", "reason"), HOSTILE, ids=[f"{sql[:60]}" for sql, _ in HOSTILE])
def test_a_statement_is_refused_when_its_config_is_validated(sql: str, reason: str) -> None:
    [value, _] = SqlTransform.config_def.validate({"sql": sql})
    assert [reason in error for error in value.errors] == [True], value.errors
    assert "configuration sql:" in value.errors[0]


SECOND_WALL = [
    "SELECT * FROM '{file}'",
    "SELECT * FROM read_text('{file}')",
    "SELECT * FROM glob('{folder}/*')",
    "COPY (SELECT 1) TO '{folder}/stolen'",
    "ATTACH '{folder}/stolen' AS x",
    "EXPORT DATABASE '{folder}/stolen'",
    "INSTALL httpfs",
    "LOAD '{file}'",
    "SET enable_external_access = true",
    "SET memory_limit = '10GB'",
    "RESET lock_configuration",
    "SELECT * FROM content",
    "SELECT * FROM here",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a')",
]


@pytest.mark.parametrize("sql", SECOND_WALL)
def test_the_database_itself_reaches_nothing_of_the_host(sql: str, tmp_path: Path) -> None:
    """Even for a statement that was not checked: no files, no network, no extensions, no variables of Python, no other settings."""
    (tmp_path / "secret.csv").write_text("a\nb\n")
    sandbox, here = Sandbox(), pa.table({"a": [1]})
    with pytest.raises(DataException):
        sandbox.rows(sql.format(file=tmp_path / "secret.csv", folder=tmp_path), "batch", here, 5000)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]
    assert sandbox.rows("SELECT a FROM batch", "batch", here, 5000).num_rows == 1
    sandbox.close()


def test_a_statement_that_takes_too_long_is_ended_and_the_next_one_runs() -> None:
    transformation = made("SELECT sha256(sha256(sha256(name))) AS x FROM batch", **{"timeout.ms": "100"})
    large = Batch.of("t", pa.table({"name": [f"{number}" * 20 for number in range(400_000)]}))
    with pytest.raises(DataException, match=r"the statement took more than timeout\.ms = 100 ms"):
        transformation.apply_batch(large)
    small = Sandbox()
    assert small.rows("SELECT 1 AS one FROM batch", "batch", pa.table({"a": [1]}), 60_000).num_rows == 1


def test_a_statement_that_needs_too_much_memory_is_a_bad_record() -> None:
    batch = Batch.of("t", [{"text": "x" * 1_000_000}])
    with pytest.raises(DataException, match="Out of Memory"):
        after(f"SELECT concat({', '.join(['text'] * 200)}) AS x FROM batch", batch)


def test_every_function_that_is_allowed_exists_and_has_one_value_a_row() -> None:
    with duckdb.connect() as connection:
        known = set(connection.execute("SELECT function_name, function_type FROM duckdb_functions()").fetchall())
    allowed = {name for names in FUNCTIONS.values() for name in names.split()}
    assert allowed - {name for name, _ in known} == set()
    assert {(name, kind) for name, kind in known if name in allowed and kind not in ("scalar", "macro")} == set()


def test_the_page_lists_the_functions() -> None:
    page = (Path(__file__).parents[3] / "docs" / "sql-transform.md").read_text(encoding="utf-8")
    table = page.split("<!-- functions -->\n")[1].split("<!-- end of functions -->")[0]
    rows = [f"| {subject} | {' '.join(f'`{name}`' for name in names.split())} |\n" for subject, names in FUNCTIONS.items()]
    assert table.replace("\\|", "|") == "".join(["| subject | functions and operators |\n| --- | --- |\n", *rows])
