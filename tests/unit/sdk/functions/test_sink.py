"""Sinks from functions: the contract suite, and the forms in which a function takes records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas  # type: ignore[import-untyped]
import polars
import pytest

from airflow_provider_connect.data.columns import column_of, json_column
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk import Batch, ExactlyOnceSupport, pa, sink
from airflow_provider_connect.sdk.batch import KafkaBatch
from airflow_provider_connect.sdk.functions.forms import form_of
from airflow_provider_connect.sdk.functions.sink import FunctionSink
from airflow_provider_connect.sdk.task import SinkTask
from airflow_provider_connect.sdk.testing import MemorySinkContext, SinkConnectorSuite
from tests.columns import from_kafka

SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def seen() -> Iterator[None]:
    SEEN.clear()
    yield
    SEEN.clear()


@sink
def collected(rows: list[Any], folder: str) -> None:
    assert folder == "/out"
    SEEN.extend(rows)


class TestRows(SinkConnectorSuite):
    connector_class = collected

    def config(self) -> dict[str, str]:
        return {"folder": "/out"}

    def delivered(self) -> list[Any]:
        return list(SEEN)


def put(connector_class: type[FunctionSink], batch: Batch, **config: str) -> Any:
    task = connector_class.task_class()
    task.initialize(MemorySinkContext(config, []))
    task.start(connector_class.task_config(config))
    task.put(batch)
    task.stop()
    return task


ROWS: list[Any] = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, None]


def structs() -> Batch:
    value = pa.array(ROWS, type=pa.struct([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())]))
    return from_kafka(Batch.of("t", value, pa.array(["x", "y", "z"])), first_offset=5, next_offset=8)


def objects() -> Batch:
    return KafkaBatch("t", json_column(['{"id":1,"name":"a"}', '{"id":2,"name":"b"}', None]), first_offset=5, next_offset=8)


@sink
def as_values(values: list[dict[str, Any]]) -> None:
    SEEN.append(values)


@sink()
def as_anything(values) -> None:  # type: ignore[no-untyped-def]
    SEEN.append(values)


@sink
def as_table(table: pa.Table) -> None:
    SEEN.append(table.to_pylist())


@sink
def as_polars(frame: polars.DataFrame) -> None:
    SEEN.append(frame.to_dicts())


@sink
def as_pandas(frame: pandas.DataFrame) -> None:
    SEEN.append(frame.astype(object).where(frame.notna(), None).to_dict("records"))


NULLS = {"id": None, "name": None}


@pytest.mark.parametrize("batch", [structs, objects])
@pytest.mark.parametrize(
    ("connector", "last"), [(as_values, None), (as_anything, None), (as_table, NULLS), (as_polars, NULLS), (as_pandas, NULLS)]
)
def test_the_form_is_that_of_the_annotation(connector: type[FunctionSink], last: Any, batch: Callable[[], Batch]) -> None:
    task = put(connector, batch())
    assert [[*ROWS[:2], last]] == SEEN
    assert task.required_columns == frozenset()


def test_a_frame_of_pandas_rounds_no_integer_beside_a_null() -> None:
    put(as_pandas, Batch.of("t", pa.table({"id": pa.array([2**53 + 1, None], pa.int64())})))
    assert SEEN == [[{"id": 2**53 + 1}, {"id": None}]]


def test_whole_batches_have_keys_and_offsets() -> None:
    @sink
    def as_batch(batch: Batch, context: Any) -> None:
        SEEN.append((batch, context.guarantee))

    given = structs()
    task = put(as_batch, given)
    assert [(given, "at_least_once")] == SEEN
    assert "key" in task.required_columns


ANNOTATIONS = """
import typing
import polars, polars as pl
from typing import Annotated, Any, Optional
from airflow_provider_connect.sdk import Batch, Batch as ConnectBatch, pa
from airflow_provider_connect import sdk
Alias = Batch
Rows = list[dict]
def function({}): ...
"""


@pytest.mark.parametrize("future", ["", "from __future__ import annotations"])
@pytest.mark.parametrize(
    "annotation",
    ["Batch", "ConnectBatch", "Batch | None", "None | sdk.Batch", "Optional[Batch]", "Alias", 'Annotated[Batch, "records"]', '"Batch"'],
)
def test_whole_batches_are_recognised_in_each_spelling(annotation: str, future: str) -> None:
    names: dict[str, Any] = {"__name__": "plugin"}
    exec(compile(future + ANNOTATIONS.format(f"batch: {annotation}"), "plugin", "exec", dont_inherit=True), names)
    assert form_of(names["function"])[1](given := structs()) is given
    assert sink(names["function"]).task_class.required_columns == SinkTask.required_columns


@pytest.mark.parametrize("future", ["", "from __future__ import annotations"])
@pytest.mark.parametrize(
    "parameter",
    [
        "x",
        "x: Any",
        "x: list",
        "x: list[dict[str, Any]]",
        "x: list[dict[str, Any] | None] | None",
        "x: typing.List[dict]",
        "x: pa.Table",
        "x: pl.DataFrame | None",
    ],
)
def test_values_alone_need_no_keys_in_each_spelling(parameter: str, future: str) -> None:
    names: dict[str, Any] = {"__name__": "plugin"}
    exec(compile(future + ANNOTATIONS.format(parameter), "plugin", "exec", dont_inherit=True), names)
    assert sink(names["function"]).task_class.required_columns == frozenset()


@pytest.mark.parametrize(
    ("batch", "rows"),
    [
        (
            KafkaBatch("t", column_of(["a", "b"], STRING_SCHEMA), value_schema=STRING_SCHEMA, first_offset=0),
            [{"value": "a"}, {"value": "b"}],
        ),
        (KafkaBatch("t", json_column(["1", "2"]), first_offset=0), [{"value": 1}, {"value": 2}]),
        (KafkaBatch("t", None, pa.array(["k"]), key_schema=STRING_SCHEMA, first_offset=0), [{"value": None}]),
    ],
)
def test_values_that_are_not_structs_are_one_column(batch: Batch, rows: list[Any]) -> None:
    put(as_table, batch)
    put(as_values, batch)
    assert [rows, [row["value"] for row in rows]] == SEEN


def test_a_sink_is_at_least_once_and_has_as_many_tasks_as_it_may() -> None:
    assert collected().exactly_once_support({}) is ExactlyOnceSupport.UNSUPPORTED
    connector = collected()
    connector.start(collected.config_def.parse({"folder": "x"}))
    assert connector.task_configs(3) == [{"folder": "x"}] * 3


def test_a_sink_needs_a_parameter() -> None:
    with pytest.raises(TypeError, match="first parameter, for the records"):

        @sink
        def nothing() -> None: ...


def test_a_sink_whose_body_would_not_run_is_refused() -> None:
    """Its records would be lost: a call of such a function returns at once, and offsets are committed."""

    def yields(rows: list[Any]) -> Iterator[Any]:
        yield from rows

    async def waits(rows: list[Any]) -> None: ...

    for function in (yields, waits):
        with pytest.raises(TypeError, match="a sink must not yield or be async"):
            sink(function)


@pytest.mark.parametrize(("type", "number"), [(pa.timestamp("ms", "UTC"), 2**63 - 1), (pa.date32(), -(2**31))])
def test_a_value_that_python_has_not_is_a_bad_record(type: pa.DataType, number: int) -> None:
    value = pa.array([0, number], type=pa.int64()).cast(pa.int64() if pa.types.is_timestamp(type) else pa.int32()).view(type)
    with pytest.raises(DataException, match="cannot be converted for the parameter 'rows'"):
        put(collected, from_kafka(Batch.of("t", value), first_offset=0, next_offset=2), folder="/out")


def test_a_field_that_is_null_throughout_is_a_column() -> None:
    put(as_table, KafkaBatch("t", json_column(['{"id":1,"name":null}', '{"id":2}']), first_offset=0))
    assert SEEN == [[{"id": 1, "name": None}, {"id": 2, "name": None}]]
