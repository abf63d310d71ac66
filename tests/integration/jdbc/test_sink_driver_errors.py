"""What a driver itself refuses about a value is the record's own fault; anything else of a driver is final, and never tried for ever."""

from __future__ import annotations

import pytest

from airflow_provider_connect.data.schema import FLOAT64_SCHEMA, INT64_SCHEMA, Schema
from tests.integration.jdbc.sinks import UPSERT, Reported, Sink, TargetDatabase

FLOATS = Schema.struct({"id": INT64_SCHEMA, "f": FLOAT64_SCHEMA})


@pytest.fixture(params=["mariadb", "sqlite"])
def target(request: pytest.FixtureRequest) -> TargetDatabase:
    found: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    return found


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf"])
def test_a_number_that_the_database_has_not_is_one_records_own(target: TargetDatabase, odd: str) -> None:
    target.run("CREATE TABLE notes (id bigint PRIMARY KEY, f double NOT NULL)")
    reported = Reported()
    sink = Sink(target, UPSERT, reported=reported)
    sink.put([{"id": n, "f": each} for n, each in enumerate((0.5, float(odd), 1.5))], FLOATS, keys=[{"id": n} for n in range(3)])
    sink.commit()
    sink.end()
    if target.dialect == "sqlite" and odd != "nan":  # which has infinities
        assert (target.rows("SELECT id FROM notes"), reported.errors) == ([(0,), (1,), (2,)], {})
        return
    assert target.rows("SELECT id, f FROM notes ORDER BY id") == [(0, 0.5), (2, 1.5)]
    assert list(reported.errors) == [1]
    assert "Table notes refuses the record at offset 1 of notes-0: " in reported.errors[1]
