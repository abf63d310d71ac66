"""Sources from functions: the contract suite, and what becomes of partitions, cursors and errors."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import polars
import pytest

from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.sdk import Batch, ExactlyOnceSupport, pa, source
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.functions.source import FunctionSource
from airflow_provider_connect.sdk.testing import MemoryConnectorContext, MemorySourceContext, Offsets, SourceConnectorSuite, partition_key

SHOP: dict[str, list[dict[str, Any]]] = {}


def shop_has_more(region: str, partition: str, cursor: int = -1) -> bool:
    assert region
    return any(row["id"] > cursor for row in SHOP.get(partition, []))


@source(partitions=["east", "west"], cursor="id", key="id", has_new_data=shop_has_more)
def orders(region: str, partition: str, page_size: int = 4, cursor: int | None = None) -> Iterator[list[dict[str, Any]]]:
    """The orders of a shop."""
    assert region == "eu"
    rows = [row for row in SHOP.get(partition, []) if cursor is None or row["id"] >= cursor]
    for first in range(0, len(rows), page_size):
        yield rows[first : first + page_size]


class TestPagesOfDicts(SourceConnectorSuite):
    connector_class = orders

    @pytest.fixture(autouse=True)
    def shop(self) -> Iterator[None]:
        SHOP.clear()
        yield
        SHOP.clear()

    def config(self) -> dict[str, str]:
        return {"topic": "t", "region": "eu"}

    def write_to_source(self, count: int) -> None:
        for _ in range(count):
            number = sum(map(len, SHOP.values()))
            SHOP.setdefault("east" if number % 3 else "west", []).append({"id": number, "name": f"order {number}"})


class TestSingleDicts(TestPagesOfDicts):
    @source(cursor="id")
    @staticmethod
    def single(region: str) -> Iterator[dict[str, Any]]:
        yield from sorted((row for rows in SHOP.values() for row in rows), key=lambda row: row["id"])

    connector_class = single


TABLES = {
    "table": lambda rows: pa.table({**rows}),
    "record batch": lambda rows: pa.table(rows).to_batches()[0],
    "record batches": lambda rows: pa.table(rows).to_batches(max_chunksize=2),
    "polars": polars.DataFrame,
    "dicts": lambda rows: pa.table(rows).to_pylist(),
    "pandas": lambda rows: pa.table(rows).to_pandas(),
}


def task_of(connector_class: type[FunctionSource], offsets: Offsets | None = None, **config: str) -> Any:
    """Its only task, started."""
    connector = connector_class()
    connector.initialize(MemoryConnectorContext())
    connector.start(connector_class.config_def.parse({"topic": "t", **config}))
    [planned] = connector.task_configs(1)
    task = connector_class.task_class()
    task.initialize(MemorySourceContext(planned, offsets))
    task.start(connector_class.task_config(planned))
    return task


def polled(task: Any) -> list[tuple[list[Any], Any]]:
    """The values of each batch, and its offset."""
    found = []
    while (batches := task.poll()) is not None:
        found += [(batch.value.to_pylist(), batch.source_offset) for batch in batches]
    return found


def offset(value: Any, partition: Any = "all") -> Offsets:
    return {partition_key({"partition": partition}): {"cursor": value}}


@pytest.mark.parametrize("form", TABLES.values(), ids=TABLES)
def test_rows_in_each_form(form: Any) -> None:
    @source(cursor="id")
    def rows() -> Iterator[Any]:
        yield form({"id": [1, 2, 3], "name": ["a", "b", None]})

    values = [value for part, _ in polled(task_of(rows)) for value in part]
    assert [(value["id"], value["name"]) for value in values] == [(1, "a"), (2, "b"), (3, None)]


def test_a_function_may_return_its_rows() -> None:
    @source(cursor="id")
    def rows() -> list[dict[str, int]]:
        return [{"id": 1}, {"id": 2}]

    @source(cursor="id")
    def no_rows() -> None:
        return None

    assert [part for part, _ in polled(task_of(rows))] == [[{"id": 1}], [{"id": 2}]]
    assert polled(task_of(no_rows)) == []


def test_rows_of_one_cursor_value_stay_together() -> None:
    @source(cursor="at")
    def rows() -> Iterator[list[dict[str, Any]]]:
        yield [{"at": 1, "n": 1}, {"at": 2, "n": 2}]
        yield [{"at": 2, "n": 3}]
        yield []
        yield [{"at": 2, "n": 4}, {"at": 3, "n": 5}, {"at": 3, "n": 6}]
        yield [{"at": 4, "n": 7}]

    assert [([row["n"] for row in part], at) for part, at in polled(task_of(rows))] == [
        ([1], {"cursor": 1}),
        ([2, 3, 4], {"cursor": 2}),
        ([5, 6], {"cursor": 3}),
        ([7], {"cursor": 4}),
    ]


def test_rows_up_to_the_offset_are_left_out() -> None:
    @source(cursor="at")
    def rows() -> Iterator[list[dict[str, int]]]:
        yield [{"at": 1}]
        yield [{"at": 2}, {"at": 2}, {"at": 3}]
        yield [{"at": 4}]

    assert polled(task_of(rows, offset(2))) == [([{"at": 3}], {"cursor": 3}), ([{"at": 4}], {"cursor": 4})]


def test_rows_that_are_not_in_order_are_refused() -> None:
    @source(cursor="at")
    def rows(first: int) -> Iterator[list[dict[str, int]]]:
        yield [{"at": 5}, {"at": first}]
        yield [{"at": 3}]

    with pytest.raises(ConnectException, match="partition all: rows are not in the order of the cursor 'at': 4 follows 5"):
        polled(task_of(rows, first="4"))
    with pytest.raises(ConnectException, match="3 follows 6"):
        polled(task_of(rows, first="6"))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"at": None}, "the cursor 'at' is null in row 1"),
        ({"at": 6, "n": "x"}, "Field 'n' of row 1 is 'x'"),
        ({"n": 1}, "the cursor 'at' is null in row 1"),
    ],
)
def test_a_row_that_cannot_be_read_names_field_and_row(row: dict[str, Any], message: str) -> None:
    @source(cursor="at")
    def rows() -> Iterator[list[dict[str, Any]]]:
        yield [{"at": 5, "n": 1}, row]

    with pytest.raises(ConnectException, match=f"rows, partition all: {message}"):
        polled(task_of(rows))


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("values", "saved"),
    [
        ([datetime.datetime(2026, 1, 1, tzinfo=UTC), datetime.datetime(2026, 1, 1, 2, tzinfo=UTC)], "2026-01-01 02:00:00.000000Z"),
        ([datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, 2, 0, 0, 5)], "2026-01-01 02:00:00.000005"),
        ([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], "2026-01-02"),
        ([Decimal("1.5"), Decimal("2.5")], "2.5"),
        ([1.5, 2.5], 2.5),
        (["a", "b"], "b"),
    ],
)
def test_a_cursor_of_each_type_resumes(values: list[Any], saved: Any) -> None:
    seen: list[Any] = []

    @source(cursor="at")
    def rows(cursor: Any = None) -> Iterator[list[dict[str, Any]]]:
        seen.append(cursor)
        yield [{"at": value} for value in values]

    found = polled(task_of(rows))
    assert found[-1][1] == {"cursor": saved} == json.loads(json.dumps({"cursor": saved}))
    assert polled(task_of(rows, offset(saved))) == []
    assert [part for part, _ in polled(task_of(rows, offset(found[0][1]["cursor"])))] == [found[1][0]]
    assert seen[:2] == [None, saved]


def test_the_cursor_comes_as_its_annotation_has_it() -> None:
    seen: list[Any] = []

    @source(cursor="at")
    def times(cursor: datetime.datetime | None) -> Iterator[Any]:
        seen.append(cursor)
        yield [{"at": datetime.datetime(2026, 1, 1, tzinfo=UTC)}]

    @source(cursor="at")
    def days(cursor: datetime.date = datetime.date(2020, 1, 1)) -> Iterator[Any]:
        seen.append(cursor)
        yield [{"at": datetime.date(2026, 1, 1)}]

    for connector in (times, days):
        [(_, reached)] = polled(task_of(connector))
        polled(task_of(connector, offset(reached["cursor"])))
    assert seen == [None, datetime.datetime(2026, 1, 1, tzinfo=UTC), datetime.date(2020, 1, 1), datetime.date(2026, 1, 1)]


def test_a_cursor_may_come_with_its_rows() -> None:
    @source
    def pages(cursor: str | None) -> Iterator[Any]:
        number = int(cursor or 0)
        while number < 3:
            number += 1
            yield [{"page": number}], str(number)

    assert polled(task_of(pages)) == [([{"page": n}], {"cursor": str(n)}) for n in (1, 2, 3)]
    assert polled(task_of(pages, offset("2"))) == [([{"page": 3}], {"cursor": "3"})]


def test_batches_of_the_authors_own() -> None:
    @source
    def batches(topic: str, cursor: int = 0) -> Iterator[Any]:
        yield Batch.of(topic, value=pa.array(["a", None]), key=pa.array([1, 2])), cursor + 2

    [[batch]] = [task_of(batches, offset(5)).poll()]
    assert (batch.topic, batch.source_partition, batch.source_offset) == ("t", {"partition": "all"}, {"cursor": 7})


def test_after_a_retriable_exception_the_function_is_called_from_the_last_cursor() -> None:
    calls: list[Any] = []

    @source(cursor="id")
    def rows(cursor: int = 0) -> Iterator[list[dict[str, int]]]:
        calls.append(cursor)
        yield [{"id": number} for number in range(cursor, cursor + 3)]
        if len(calls) == 1:
            raise RetriableException("busy")

    task = task_of(rows)
    found = [task.poll()]
    with pytest.raises(RetriableException):
        task.poll()
    while (batches := task.poll()) is not None:
        found.append(batches)
    assert [row["id"] for batches in found for batch in batches for row in batch.value.to_pylist()] == [0, 1, 2, 3]
    assert calls == [0, 1]


def test_without_a_cursor_a_run_that_has_begun_cannot_begin_again() -> None:
    @source
    def rows(fails_at_once: bool) -> Iterator[list[dict[str, int]]]:
        if fails_at_once:
            raise RetriableException("busy")
        yield [{"id": 1}]
        raise RetriableException("busy")

    with pytest.raises(RetriableException):
        task_of(rows, None, **{"fails.at.once": "true"}).poll()
    task = task_of(rows, None, **{"fails.at.once": "false"})
    assert [batch.source_offset for batch in task.poll()] == [None]
    with pytest.raises(ConnectException, match="cannot be resumed") as caught:
        task.poll()
    assert not caught.value.retriable


def test_stop_ends_the_function() -> None:
    ended: list[str] = []

    @source(cursor="id")
    def rows() -> Iterator[list[dict[str, int]]]:
        try:
            yield [{"id": 1}, {"id": 2}]
            yield [{"id": 3}]
        finally:
            ended.append("ended")

    task = task_of(rows)
    task.poll()
    task.stop()
    assert ended == ["ended"]
    assert task.poll() is None


def test_partitions_are_spread_over_tasks() -> None:
    def regions(names: list[str]) -> Iterator[str]:
        yield from names

    @source(partitions=regions)
    def rows(names: list[str], partition: str) -> Iterator[Any]:
        yield [{"region": partition}], 1

    connector = rows()
    connector.start(rows.config_def.parse({"topic": "t", "names": "a,b,c,a,d"}))
    shares = [json.loads(config["task.partitions"]) for config in connector.task_configs(3)]
    assert shares == [["a", "d"], ["b"], ["c"]]
    assert len(connector.task_configs(10)) == 4
    connector.start(rows.config_def.parse({"topic": "t", "names": ""}))
    assert connector.task_configs(3) == []
    assert [part for part, _ in polled(task_of(rows, names="a,b"))] == [[{"region": "a"}], [{"region": "b"}]]


def test_keys() -> None:
    rows = [{"id": 1, "region": "east", "n": None}, {"id": 2, "region": "west", "n": None}]

    @source(key="id")
    def one() -> Any:
        return rows

    @source(key=["region", "id"])
    def two() -> Any:
        return rows

    @source(key="n")
    def null() -> Any:
        return rows

    [batch] = task_of(one).poll()
    assert (batch.key.to_pylist(), batch.key_schema.type, batch.key_schema.optional) == ([1, 2], "int64", False)
    [batch] = task_of(two).poll()
    assert batch.key.to_pylist() == [{"region": "east", "id": 1}, {"region": "west", "id": 2}]
    with pytest.raises(ConnectException, match="'n', of the key"):
        task_of(null).poll()


def test_fields_widen_and_wait_for_a_type() -> None:
    @source
    def rows() -> Iterator[Any]:
        yield [{"id": 1, "note": None, "inner": {"a": 1, "b": None}}]
        yield [{"id": 2.5, "note": "x", "inner": {"a": 1, "b": "y"}}]
        yield [{"id": 3}]

    found = []
    task = task_of(rows)
    while (batches := task.poll()) is not None:
        found += batches
    assert [part.value.to_pylist() for part in found] == [
        [{"id": 1, "inner": {"a": 1}}],
        [{"id": 2.5, "note": "x", "inner": {"a": 1, "b": "y"}}],
        [{"id": 3.0, "note": None, "inner": None}],
    ]
    assert found[1].value_schema == found[2].value_schema
    assert all(field.schema.optional for part in found for field in part.value_schema.fields)
    assert not found[0].value_schema.optional


def test_what_a_source_can_promise() -> None:
    @source
    def whole() -> Any: ...

    @source
    def by_pages(cursor: str | None) -> Any: ...

    config = {"topic": "t"}
    assert orders().exactly_once_support({**config, "region": "eu"}) is ExactlyOnceSupport.SUPPORTED
    assert by_pages().exactly_once_support(config) is ExactlyOnceSupport.SUPPORTED
    assert whole().exactly_once_support(config) is ExactlyOnceSupport.UNSUPPORTED
    assert whole().output_topics(config) == ["t"]
    assert whole().has_new_data(config, lambda _: None) is None


def test_offsets_that_are_altered_must_have_the_form() -> None:
    altered = orders().alter_offsets
    assert altered({}, [({"partition": "east"}, {"cursor": 5}), ({"x": 1}, None)])
    with pytest.raises(ConnectException, match="key 'cursor' alone"):
        altered({}, [({"partition": "east"}, {"id": 5})])
    with pytest.raises(ConnectException, match="key 'partition' alone"):
        altered({}, [({"region": "east"}, {"cursor": 5})])


def test_a_class_by_the_functions_name() -> None:
    assert class_name_of(orders) == f"{__name__}.orders"
    assert class_name_of(orders.task_class) == f"{__name__}.ordersTask"
    assert orders.__doc__ == "The orders of a shop."
    assert list(orders.function("eu", "east")) == []

    @source(topic="fixed")
    def fixed() -> Any: ...

    assert fixed.config_def.parse({})["topic"] == "fixed"


def test_parameters_that_nothing_fills_are_refused() -> None:
    def newer(since: str) -> bool:
        return bool(since)

    with pytest.raises(TypeError, match="has_new_data: there is no parameter 'since' to give; there are: url, partition, cursor"):

        @source(has_new_data=newer)
        def rows(url: str) -> Any: ...


def test_the_context_and_the_files_that_are_allowed() -> None:
    seen: list[Any] = []

    @source
    def rows(context: Any, allowed_paths: Any, config: str = "x") -> Any:
        seen.extend([context.claim, allowed_paths])

    task = task_of(rows)
    assert task.poll() is None
    assert seen == ["suite:1", task.allowed_paths]
