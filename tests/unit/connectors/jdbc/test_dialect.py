"""Names and types as SQL of each product."""

import re
from pathlib import Path

import pytest

from airflow_provider_connect.connectors import jdbc
from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.dialects.registry import DIALECTS, dialect_of
from airflow_provider_connect.data.schema import INT32_SCHEMA, PRECISION, SCALE, STRING_SCHEMA, TIMESTAMP_SCHEMA, Schema, decimal_schema
from airflow_provider_connect.errors import ConfigException, ConnectException


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("postgresql", '"a""b; DROP TABLE x"'),
        ("sqlite", '`a"b; DROP TABLE x`'),
        ("mysql", '`a"b; DROP TABLE x`'),
        ("mssql", '[a"b; DROP TABLE x]'),
        ("oracle", '"a""b; DROP TABLE x"'),
    ],
)
def test_any_name_is_quoted_so_that_it_stays_a_name(product: str, expected: str) -> None:
    assert dialect_of(product).quoted('a"b; DROP TABLE x') == expected


def test_without_quoting_only_plain_names_pass() -> None:
    dialect = dialect_of("postgresql", is_quoting=False)
    assert dialect.quoted("Orders_1") == "Orders_1"
    for name in ("a b", "a;b", 'a"', "1a", "a--", "é"):
        with pytest.raises(ConfigException, match=r"quote\.sql\.identifiers"):
            dialect.quoted(name)
    with pytest.raises(ConnectException):
        dialect_of("mysql").quoted("a\0b")


def test_tables_have_the_parts_that_the_product_takes() -> None:
    assert dialect_of("postgresql").table(TableName("t", "s", "db")) == '"s"."t"'
    assert dialect_of("mysql").table(TableName("t", None, "db")) == "`db`.`t`"
    assert dialect_of("sqlite").table(TableName("t")) == "`t`"


def wide_decimal(digits: int, scale: int) -> Schema:
    return decimal_schema(scale, parameters={SCALE: str(scale), PRECISION: str(digits)})


@pytest.mark.parametrize(
    ("schema", "postgresql", "sqlite", "mysql"),
    [
        (INT32_SCHEMA, "INTEGER", "INTEGER", "INT"),
        (STRING_SCHEMA, "TEXT", "TEXT", "LONGTEXT"),
        (TIMESTAMP_SCHEMA, "TIMESTAMP", "TIMESTAMP", "DATETIME(3)"),
        (decimal_schema(4), "DECIMAL", "DECIMAL(38,4)", "DECIMAL(65,4)"),
        (decimal_schema(18), "DECIMAL", "DECIMAL(38,18)", "DECIMAL(65,18)"),
        (decimal_schema(19), "DECIMAL(76,19)", "DECIMAL(38,19)", "DECIMAL(65,19)"),
        (decimal_schema(50), "DECIMAL(76,50)", "DECIMAL(76,50)", "DECIMAL(65,50)"),
        (decimal_schema(-5), "DECIMAL", "DECIMAL(38,-5)", "DECIMAL(65,0)"),
        (wide_decimal(60, 2), "DECIMAL", "DECIMAL(60,2)", "DECIMAL(65,2)"),
        (wide_decimal(61, 2), "DECIMAL(76,2)", "DECIMAL(61,2)", "DECIMAL(65,2)"),
        (Schema.array(decimal_schema(19)), "DECIMAL(76,19)[]", None, None),
    ],
)
def test_column_types(schema: Schema, postgresql: str, sqlite: str | None, mysql: str | None) -> None:
    for name, type in (("postgresql", postgresql), ("sqlite", sqlite), ("mysql", mysql)):
        assert type is None or dialect_of(name).column_type(schema) == type


def test_keys_of_mysql_have_a_length_and_structs_no_type() -> None:
    assert dialect_of("mariadb").column_type(STRING_SCHEMA, is_key=True) == "VARCHAR(255)"
    with pytest.raises(ConnectException, match="STRUCT"):
        dialect_of("sqlite").column_type(Schema.struct({"x": INT32_SCHEMA}))


def test_only_dialects_decide_by_the_product() -> None:
    """A new product is a module of ``dialects`` and a line of its table, so no other module compares a dialect's name or class."""
    classes = "|".join(type(dialect).__name__ for dialect in DIALECTS)
    decision = re.compile(rf"(?<!for )\bdialect(\.name)? (==|!=|in|not in) |isinstance\([^)]*dialect|\b({classes})\(")
    root = Path(jdbc.__path__[0])
    others = [path for path in root.rglob("*.py") if path.parent.name != "dialects"]
    assert len(others) > 30
    assert [str(path) for path in others if decision.search(path.read_text())] == []


def test_each_product_is_found_by_each_of_its_names() -> None:
    names = [name for dialect in DIALECTS for name in (dialect.name, *dialect.aliases)]
    assert len(set(names)) == len(names)
    assert [dialect_of(dialect.name) for dialect in DIALECTS] == list(DIALECTS)
    assert not dialect_of("db2").is_known
