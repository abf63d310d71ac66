"""Databases that ignore the case of names: a field belongs to the column that is there, and never becomes a second one."""

import pytest

from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConnectException
from tests.integration.jdbc.sinks import UPSERT, Sink, TargetDatabase


@pytest.fixture(params=["sqlite", "mariadb"])
def target(request: pytest.FixtureRequest) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    return found


def test_a_field_goes_into_the_column_of_another_case(target: TargetDatabase) -> None:
    target.run("CREATE TABLE notes (ID bigint PRIMARY KEY, TEXT varchar(20))")
    sink = Sink(target, {**UPSERT, "auto.evolve": "true"})
    sink.put_notes((1, "a"), (2, "b"))
    sink.put_notes((1, "c"))
    sink.commit()
    assert target.rows("SELECT * FROM notes ORDER BY ID") == [(1, "c"), (2, "b")]
    sink.end()


def test_two_fields_of_one_column_are_refused_by_name(target: TargetDatabase) -> None:
    schema = Schema.struct({"id": INT64_SCHEMA, "a": STRING_SCHEMA, "A": STRING_SCHEMA})
    sink = Sink(target, {"auto.create": "true"})
    sink.put([{"id": 1, "a": "x", "A": "y"}], schema, topic="notes")
    with pytest.raises(ConnectException, match="Fields a and A are one column"):
        sink.commit()
    sink.end()
