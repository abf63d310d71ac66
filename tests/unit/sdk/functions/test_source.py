"""Sources from functions: the contract suite, and what becomes of partitions, cursors and errors."""

from __future__ import annotations

import dataclasses
import datetime
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy
import polars
import pytest

from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk import Batch, ExactlyOnceSupport, pa, source
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.functions.source import FunctionSource
from airflow_provider_connect.sdk.testing import (
    MemoryConnectorContext,
    MemorySourceContext,
    Offsets,
    SourceConnectorSuite,
    partition_key,
    run,
)

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
    """The values of each batch with records, and its offset."""
    return [(batch.value.to_pylist(), batch.source_offset) for batch in batches_of(task)]


def batches_of(task: Any) -> list[Any]:
    """All batches with records."""
    return [batch for batches in iter(task.poll, None) for batch in batches if len(batch)]


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


LARGE = {
    "text": lambda: "x" * (1 << 20),
    "bytes": lambda: b"x" * (1 << 20),
    "list of objects": lambda: [{"text": "x" * (1 << 19)}, {"text": "x" * (1 << 19)}],
    "array": lambda: numpy.zeros(1 << 17),
}


@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE)
def test_large_single_dicts_become_batches_of_bounded_bytes(large: Callable[[], Any]) -> None:
    """Also where the author takes no time between them, as from a file."""

    @source(cursor="id")
    def rows() -> Iterator[dict[str, Any]]:
        for number in range(40):
            yield {"id": number, "body": large()}

    sizes = [(len(batch), batch.value.nbytes) for batch in batches_of(task_of(rows))]
    assert sum(count for count, _ in sizes) == 40
    assert max(size for _, size in sizes) < 20 << 20


def test_too_many_rows_of_one_cursor_value_fail_the_source() -> None:
    table = pa.table({"at": [7] * 16, "body": ["x" * (1 << 20)] * 16})

    @source(cursor="at")
    def rows() -> Iterator[pa.Table]:
        while True:
            yield table

    with pytest.raises(ConnectException, match=r"more than 256 MiB of rows have the cursor 'at' 7, .* Use a field with more values"):
        polled(task_of(rows))


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
        ({"at": 6, "n": "x"}, r"Field 'n' of row 1 is 'x' \(str\), but was int64 before"),
        ({"at": 6, "o": object()}, r"Field 'o' of row 1 is <object object at .*> \(object\), which has no Arrow type"),
        ({"n": 1}, "the cursor 'at' is null in row 1"),
    ],
)
def test_a_row_that_cannot_be_read_names_field_and_row(row: dict[str, Any], message: str) -> None:
    @source(cursor="at")
    def rows() -> Iterator[list[dict[str, Any]]]:
        yield [{"at": 5, "n": 1}, row]

    with pytest.raises(ConnectException, match=f"rows, partition all: {message}"):
        polled(task_of(rows))


def test_a_clash_of_types_names_the_remedy_and_the_line_of_the_yield() -> None:
    @source(cursor="at", partitions=["eu"])
    def rows(partition: str, changes: bool) -> Iterator[list[dict[str, Any]]]:
        if changes:
            yield [{"at": 1, "n": 1}]
            yield [{"at": 2, "n": "x"}]
        yield [{"at": 3, "n": 1}, {"at": 4, "n": "x"}]

    first = rows.function.__code__.co_firstlineno
    title = f"{rows.__qualname__}, partition eu"
    clash = f"{title}: Field 'n' of row {{}} is 'x' (str), but was int64 before; set its type with schema="
    forget = ', or, if all further rows have the new type, forget the old one: set the source offset of {"schema": "eu"} to null'
    for changes, message in ((True, f"{clash.format(0)}{forget} ({__file__}, line {first + 4})"), (False, clash.format(1))):
        with pytest.raises(ConnectException) as raised:
            polled(task_of(rows, changes=str(changes)))
        assert raised.value.message == (message if changes else f"{message} ({__file__}, line {first + 5})")


def test_a_given_schema_takes_numbers_and_texts_of_one_field() -> None:
    @source(cursor="at", schema=pa.schema([("at", pa.int64()), ("n", pa.string()), ("m", pa.int8())]))
    def rows(last: str) -> Iterator[list[dict[str, Any]]]:
        yield [{"at": 1, "n": 5, "m": "7"}, {"at": 2, "n": "five"}, {"at": 3, "n": None, "m": last}]
        yield [{"at": 4, "n": "six"}]
        yield [{"at": 5, "n": 6, "m": 8}]

    found = [value for values, _ in polled(task_of(rows, last="9")) for value in values]
    assert [(value["n"], value["m"]) for value in found] == [("5", 7), ("five", None), (None, 9), ("six", None), ("6", 8)]
    with pytest.raises(ConnectException, match=r"Field 'm' of type string does not fit int8"):
        polled(task_of(rows, last="none"))


def test_a_value_that_no_cast_brings_to_the_given_type_names_its_row() -> None:
    @source(cursor="at", schema=pa.schema([("at", pa.int64()), ("n", pa.int64())]))
    def rows() -> Iterator[list[dict[str, Any]]]:
        yield [{"at": 1, "n": "5"}, {"at": 2, "n": 5}, {"at": 3, "n": "five"}]

    with pytest.raises(ConnectException, match=r"Field 'n' of row 2 is 'five' \(str\), which does not fit int64 \("):
        polled(task_of(rows))


@pytest.mark.parametrize("wrapped", [lambda at: at, lambda at: {"at": at}, lambda at: [at]])
def test_times_of_other_utc_offsets_are_of_one_type(wrapped: Callable[[datetime.datetime], Any]) -> None:
    winter, summer = (datetime.datetime.fromisoformat(text) for text in ("2026-03-28T12:00:00+01:00", "2026-03-30T12:00:00+02:00"))

    @source(cursor="at")
    def rows() -> Iterator[list[dict[str, Any]]]:
        yield [{"at": winter, "t": wrapped(winter)}]
        yield [{"at": summer, "t": wrapped(summer)}]

    assert [offset for _, offset in polled(task_of(rows))][-1] == {"cursor": "2026-03-30 10:00:00.000000Z"}


def of_pairs(*groups: Any) -> type[Any]:
    @source
    def rows() -> Iterator[Any]:
        yield from groups

    return rows


def test_rows_whose_fields_are_all_null_wait_for_a_value() -> None:
    whole = of_pairs([{"a": None}], pa.table({"a": pa.nulls(2)}), [{"a": 1, "b": None}], [{"a": None}])
    found = [rows for rows, _ in polled(task_of(whole))]
    assert found == [[{"a": None}], [{"a": None}] * 2, [{"a": 1}], [{"a": None}]]


def test_cursors_of_rows_that_wait_come_with_them() -> None:
    pairs = of_pairs(([{"a": None}], 1), ([{"a": 1}], 2))
    assert polled(task_of(pairs)) == [([{"a": None}], {"cursor": 1}), ([{"a": 1}], {"cursor": 2})]


@pytest.mark.parametrize("after", [[], [Batch.of("t", [1], source_partition={}, source_offset={"cursor": 5})]])
def test_rows_that_wait_are_not_passed_by_an_offset_behind_them(after: list[Batch]) -> None:
    with pytest.raises(ConnectException, match="no field with a value"):
        polled(task_of(of_pairs(([{"a": None}], 1), *after)))


def test_a_cursor_that_is_null_does_not_wait() -> None:
    @source(cursor="a")
    def rows() -> Iterator[Any]:
        yield [{"a": None}]

    with pytest.raises(ConnectException, match="the cursor 'a' is null in row 0"):
        polled(task_of(rows))


def source_of(table: Any, **declared: Any) -> type[FunctionSource]:
    @source(cursor="at", **declared)
    def rows() -> Iterator[Any]:
        yield table

    return rows


NULL_CURSORS = {"at": [None, 1, None, 2, None], "id": [1, 2, 3, 4, 5]}


@pytest.mark.parametrize("form", TABLES.values(), ids=TABLES)
def test_rows_whose_cursor_is_null_fail_the_source_unless_it_declares_another_treatment(form: Any) -> None:
    with pytest.raises(ConnectException, match=r"the cursor 'at' is null in row 0: .* set on_null_cursor to 'skip' or 'deliver'"):
        run(source_of(form(NULL_CURSORS))(), {"topic": "t"})


@pytest.mark.parametrize("form", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("overlap", [None, 5])
def test_rows_whose_cursor_is_null_are_skipped_and_counted(form: Any, overlap: int | None, caplog: pytest.LogCaptureFixture) -> None:
    done = run(source_of(form(NULL_CURSORS), on_null_cursor="skip", overlap=overlap)(), {"topic": "t"})
    assert [record.value["id"] for record in done.records] == [2, 4]
    assert done.offsets[partition_key({"partition": "all"})]["cursor"] == 2
    assert "3 rows were skipped because their cursor 'at' is null" in caplog.text


@pytest.mark.parametrize("form", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("overlap", [None, 5])
def test_rows_whose_cursor_is_null_are_delivered_in_each_run_and_do_not_move_the_cursor(form: Any, overlap: int | None) -> None:
    whole, rest = (source_of(form(table), on_null_cursor="deliver", overlap=overlap) for table in (NULL_CURSORS, {"at": [None], "id": [6]}))
    offsets: Any = None
    for connector, delivered in ((whole, [1, 3, 5, 2, 4]), (whole, [1, 3, 5]), (rest, [6])):
        done = run(connector(), {"topic": "t"}, offsets=offsets)
        offsets = done.offsets
        assert [record.value["id"] for record in done.records] == delivered
        assert offsets[partition_key({"partition": "all"})]["cursor"] == 2
    assert whole().exactly_once_support({"topic": "t"}) is ExactlyOnceSupport.UNSUPPORTED


@pytest.mark.parametrize(("treatment", "delivered"), [("skip", [3]), ("deliver", [None, 1, 2, 3])])
def test_rows_whose_cursor_is_null_may_come_before_fields_have_a_type(treatment: Any, delivered: list[int | None]) -> None:
    groups: list[Any] = [[{"at": None, "id": None}], [], [{"at": None, "id": 1}], [{"at": 7, "id": 3}]]
    groups.insert(3, pa.table({"at": pa.nulls(1), "id": [2]}))

    @source(cursor="at", on_null_cursor=treatment)
    def rows() -> Iterator[Any]:
        yield from groups

    found = polled(task_of(rows))
    assert [value["id"] for values, _ in found for value in values] == delivered
    assert [offset for _, offset in found] == [None] * (len(found) - 1) + [{"cursor": 7}]


def test_a_field_that_no_row_has_is_not_a_cursor_that_is_null() -> None:
    for treatment in ("skip", "deliver"):
        with pytest.raises(ConnectException, match="rows have no field 'at', the cursor; their fields are: id"):
            polled(task_of(source_of([{"id": 1}], on_null_cursor=treatment)))


@pytest.mark.parametrize(
    ("declared", "message"),
    [({"cursor": "at", "on_null_cursor": "drop"}, "one of fail, skip"), ({"on_null_cursor": "skip"}, "needs cursor=")],
)
def test_a_treatment_of_null_cursors_that_has_no_effect_is_refused(declared: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        source(**declared)


def test_too_many_rows_without_a_value_fail_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.sdk.functions.partition_rows.MOST_WAITING_ROWS", 3)
    with pytest.raises(ConnectException, match="more than 3 rows have no field with a value"):
        polled(task_of(of_pairs([{"a": None}] * 2, [{"a": None}] * 2)))


UTC = datetime.UTC


@pytest.mark.parametrize(
    ("values", "saved"),
    [
        ([datetime.datetime(2026, 1, 1, tzinfo=UTC), datetime.datetime(2026, 1, 1, 2, tzinfo=UTC)], "2026-01-01 02:00:00.000000Z"),
        ([datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, 2, 0, 0, 5)], "2026-01-01 02:00:00.000005"),
        ([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], "2026-01-02"),
        ([datetime.time(1, 2, 3), datetime.time(1, 2, 3, 4)], "01:02:03.000004"),
        (pa.array([1, 2], pa.time64("ns")), "00:00:00.000000002"),
        (pa.array([1, 2], pa.time32("s")), "00:00:02"),
        (pa.array([0, 86_400_000], pa.date64()), "1970-01-02"),
        (pa.array([1, 2], pa.timestamp("ms", "Europe/Berlin")), "1970-01-01 01:00:00.002+0100"),
        ([Decimal("1.5"), Decimal("2.5")], "2.5"),
        ([1.5, 2.5], 2.5),
        (["a", "b"], "b"),
    ],
)
def test_a_cursor_of_each_type_resumes(values: list[Any], saved: Any) -> None:
    seen: list[Any] = []

    @source(cursor="at")
    def rows(cursor: Any = None) -> Iterator[Any]:
        seen.append(cursor)
        yield pa.table({"at": values})

    found = polled(task_of(rows))
    assert found[-1][1] == {"cursor": saved} == json.loads(json.dumps({"cursor": saved}))
    assert polled(task_of(rows, offset(saved))) == []
    assert [part for part, _ in polled(task_of(rows, offset(found[0][1]["cursor"])))] == [found[1][0]]
    assert seen[:2] == [None, saved]


def test_a_cursor_of_nanoseconds_and_one_that_widens() -> None:
    @source(cursor="at")
    def times() -> Iterator[Any]:
        yield pa.table({"at": pa.array([1, 2], type=pa.timestamp("ns"))})
        yield pa.table({"at": pa.array([2, 3], type=pa.timestamp("ns"))})

    @source(cursor="at")
    def numbers() -> Iterator[Any]:
        yield [{"at": 1}, {"at": 2}]
        yield [{"at": 2.0}, {"at": 2.5}]

    assert [after for _, after in polled(task_of(times))] == [
        {"cursor": f"1970-01-01 00:00:00.{number:09}"} for number in (1, 2, 3)
    ]  # fmt: skip
    assert len(polled(task_of(times, offset("1970-01-01 00:00:00.000000002")))) == 1
    assert polled(task_of(numbers)) == [
        ([{"at": 1}], {"cursor": 1}),
        ([{"at": 2.0}, {"at": 2.0}], {"cursor": 2.0}),
        ([{"at": 2.5}], {"cursor": 2.5}),
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([float("nan")], "cannot be an offset"),
        ([1.0, float("nan")], "is NaN, which has no order, in row 1"),
        ([1.0, float("inf")], "cannot be an offset"),
        (pa.array([2**63], pa.uint64()), "cannot be an offset"),
        ([{"a": 1}], "cannot be an offset"),
        (pa.array([253_402_300_800], pa.timestamp("s")), "10000-01-01 00:00:00 cannot be an offset, .*the years 0 to 9999"),
        (pa.array([-62_198_755_200_000], pa.timestamp("ms", tz="UTC")), "cannot be an offset, .*the years 0 to 9999"),
        (pa.array([2_932_897], pa.date32()), "10000-01-01 cannot be an offset, .*the years 0 to 9999"),
        ([datetime.timedelta(seconds=5)], "cannot be an offset; its type must be a number of at most 64 bits, text, date, time of day"),
    ],
)
def test_a_cursor_from_which_no_run_could_resume_is_refused(values: Any, message: str) -> None:
    @source(cursor="at")
    def rows() -> Iterator[Any]:
        yield pa.table({"at": values})

    with pytest.raises(ConnectException, match=message):
        polled(task_of(rows))


@pytest.mark.parametrize("cursor", [float("nan"), 2**63, {"page": float("inf")}])
def test_a_yielded_cursor_that_would_come_back_as_another_is_refused(cursor: Any) -> None:
    @source
    def rows() -> Iterator[Any]:
        yield [{"a": 1}], given

    given = cursor
    with pytest.raises(ConnectException, match="cannot be an offset"):
        polled(task_of(rows))


def test_encodings_of_frames_are_no_types_of_their_own() -> None:
    encoded = polars.DataFrame({"at": ["a", "b"], "kind": polars.Series(["x", None], dtype=polars.Categorical)})

    @source(cursor="at")
    def rows() -> Iterator[Any]:
        yield encoded
        yield [{"at": "c", "kind": "y"}]
        yield pa.table({"at": ["d"], "kind": pa.array(["z"]).dictionary_encode()}).slice(0)
        yield pa.table({"at": pa.RunEndEncodedArray.from_arrays([1], ["e"]), "kind": ["z"]})

    found = [(row["at"], row["kind"]) for part, _ in polled(task_of(rows)) for row in part]
    assert found == [("a", "x"), ("b", None), ("c", "y"), ("d", "z"), ("e", "z")]


@pytest.mark.parametrize("key", ["partition", "schema"])
def test_partitions_of_one_source_partition_are_refused(key: str) -> None:
    """They would overwrite each other's offset."""

    @source(partitions=["east", {key: "east"}], cursor="id")
    def rows(partition: Any, cursor: int = 0) -> Iterator[Any]:
        yield []

    with pytest.raises(ConnectException, match=rf"partitions 'east' and \{{'{key}': 'east'\}} are the same source partition"):
        task_of(rows)


def test_partitions_that_are_one_text_are_refused() -> None:
    @source(partitions="shop")
    def rows(partition: str) -> Iterator[Any]:
        yield [{"a": partition}]

    with pytest.raises(ConnectException, match="partitions are one string, 'shop'; give a list"):
        task_of(rows)


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

    @source(cursor="at")
    def hours(cursor: datetime.time | None = None) -> Iterator[Any]:
        seen.append(cursor)
        yield [{"at": datetime.time(1, 2)}]

    for connector in (times, days, hours):
        [(_, reached)] = polled(task_of(connector))
        polled(task_of(connector, offset(reached["cursor"])))
    dates = [datetime.date(2020, 1, 1), datetime.date(2026, 1, 1)]
    assert seen == [None, datetime.datetime(2026, 1, 1, tzinfo=UTC), *dates, None, datetime.time(1, 2)]


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
    found = task.poll()
    with pytest.raises(RetriableException):
        task.poll()
    found += batches_of(task)
    assert [row["id"] for batch in found for row in batch.value.to_pylist()] == [0, 1, 2, 3]
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
    assert [batch.source_offset for batch in task.poll()][1:] == [None]
    with pytest.raises(ConnectException, match="cannot be resumed") as caught:
        task.poll()
    assert not caught.value.retriable


def test_rows_before_an_exception_of_the_function_come_before_it() -> None:
    """Whole cursor values alone: more rows of the last one may have been to come. Without a cursor the next run reads them again."""

    def rows(message: str) -> Iterator[dict[str, int]]:
        yield {"id": 1}
        yield {"id": 2}
        yield {"id": 3}
        raise OSError(message)

    task = task_of(source(cursor="id")(rows), message="row 4 is broken")
    [batch] = task.poll()[1:]
    assert (batch.value.to_pylist(), batch.source_offset) == ([{"id": 1}, {"id": 2}], {"cursor": 2})
    with pytest.raises(OSError, match="row 4 is broken"):
        task.poll()
    with pytest.raises(OSError, match="row 4 is broken"):
        task_of(source(rows), message="row 4 is broken").poll()


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

    [batch] = batches_of(task_of(one))
    assert (batch.key.to_pylist(), batch.key_schema.type, batch.key_schema.optional) == ([1, 2], "int64", False)
    [batch] = batches_of(task_of(two))
    assert batch.key.to_pylist() == [{"region": "east", "id": 1}, {"region": "west", "id": 2}]
    with pytest.raises(ConnectException, match="'n', of the key"):
        task_of(null).poll()


def test_fields_widen_and_wait_for_a_type() -> None:
    @source
    def rows() -> Iterator[Any]:
        yield [{"id": 1, "note": None, "inner": {"a": 1, "b": None}}]
        yield [{"id": 2.5, "note": "x", "inner": {"a": 1, "b": "y"}}]
        yield [{"id": 3}]

    found = batches_of(task_of(rows))
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
    assert whole().check_for_new_data(config, lambda _: None) is None


def test_offsets_of_partitions_that_are_named_as_the_remembered_fields_can_be_altered() -> None:
    @source(partitions=[{"schema": "public"}, {"schema": "private"}], cursor="id", topic="rows")
    def rows(partition: Any, cursor: int = 0) -> Iterator[Any]:
        yield []

    assert rows().alter_offsets({"topic": "rows"}, [({"schema": "public"}, {"cursor": 5})])
    with pytest.raises(ConnectException, match="has the key 'cursor' alone"):
        rows().alter_offsets({"topic": "rows"}, [({"schema": "public"}, {"position": 5})])


def test_offsets_that_are_altered_must_have_the_form() -> None:
    altered = orders().alter_offsets
    assert altered({}, [({"partition": "east"}, {"cursor": 5}), ({"x": 1}, None)])
    with pytest.raises(ConnectException, match="key 'cursor' alone"):
        altered({}, [({"partition": "east"}, {"id": 5})])
    assert altered({}, [({"schema": "east"}, {"fields": "x"})])
    with pytest.raises(ConnectException, match="key 'fields' alone"):
        altered({}, [({"schema": "east"}, {"cursor": 5})])

    @source
    def whole(cursor: str | None) -> Any: ...

    assert whole().alter_offsets({}, [({"partition": "all"}, {"page": 5})])
    with pytest.raises(ConnectException, match=r"partition of this connector is .*all.*, got .*east"):
        whole().alter_offsets({}, [({"partition": "east"}, {"page": 5})])


def test_a_partition_and_a_cursor_may_be_dicts() -> None:
    """Offsets and partitions hold no nested values: REST refuses them."""
    seen: list[Any] = []

    @source(partitions=[{"shop": 1, "region": "eu"}])
    def rows(partition: dict[str, Any], cursor: dict[str, Any] | None) -> Iterator[Any]:
        seen.append((partition, cursor))
        yield [{"id": 1}], {"page": 2, "at": datetime.date(2026, 1, 1)}
        yield [{"id": 2}, {"id": 3}], "end"

    offsets: Offsets = {}
    assert [batch.source_offset for batch in remembered(rows, offsets)] == [{"page": 2, "at": "2026-01-01"}, {"cursor": "end"}]
    assert set(offsets) == {partition_key({"shop": 1, "region": "eu"}), partition_key({"schema": '{"region": "eu", "shop": 1}'})}
    remembered(rows, {partition_key({"shop": 1, "region": "eu"}): {"page": 2, "at": "2026-01-01"}})
    assert seen == [({"shop": 1, "region": "eu"}, None), ({"shop": 1, "region": "eu"}, {"page": 2, "at": "2026-01-01"})]

    @source
    def nested(cursor: Any = None) -> Iterator[Any]:
        yield [{"id": 1}], {"pages": [1, 2]}

    with pytest.raises(ConnectException, match="cannot be an offset"):
        task_of(nested).poll()


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

    with pytest.raises(TypeError, match="has_new_data: unknown parameter 'since'; it may have: url, partition, cursor"):

        @source(has_new_data=newer)
        def rows(url: str) -> Any: ...


def test_partitions_without_a_parameter_for_them_are_refused() -> None:
    with pytest.raises(TypeError, match=r"rows: a source with partitions= needs a parameter 'partition'"):

        @source(partitions=["a", "b"])
        def rows(url: str) -> Any: ...


def test_the_context_and_the_files_that_are_allowed() -> None:
    seen: list[Any] = []

    @source
    def rows(context: Any, allowed_paths: Any, config: str = "x") -> Any:
        seen.extend([context.claim, allowed_paths])

    task = task_of(rows)
    assert task.poll() is None
    assert seen == ["suite:1", task.allowed_paths]


def remembered(connector: type[FunctionSource], offsets: Offsets) -> list[Any]:
    """The records of a run, whose offsets are committed to ``offsets``."""
    found = [batch for batches in iter(task_of(connector, offsets).poll, None) for batch in batches]
    for batch in found:
        if batch.source_offset is not None:
            offsets[partition_key(batch.source_partition)] = json.loads(json.dumps(batch.source_offset))
    return [batch for batch in found if len(batch)]


def test_fields_are_remembered_from_run_to_run() -> None:
    rows: list[dict[str, Any]] = []

    @source(cursor="id")
    def written(cursor: int = -1) -> Any:
        return rows[cursor + 1 :]

    offsets: Offsets = {}
    schemas = []
    for number, note in enumerate(["a", None, 5]):
        rows.append({"id": number, "note": note, "at": None} if number != 1 else {"id": number})
        if note == 5:
            with pytest.raises(ConnectException, match=r"Field 'note' of row 0 is 5 \(int\), but was string before"):
                remembered(written, offsets)
            rows[-1]["note"], rows[-1]["at"] = "c", 7.5
        schemas += [batch.value_schema for batch in remembered(written, offsets)]
    assert schemas[0] == schemas[1]
    assert [[field.name for field in schema.fields] for schema in schemas if schema is not None] == [
        ["id", "note"], ["id", "note"], ["id", "note", "at"],
    ]  # fmt: skip
    assert set(offsets) == {partition_key({"partition": "all"}), partition_key({"schema": "all"})}
    with pytest.raises(ConnectException, match="schema in a source offset cannot be read"):
        remembered(written, {partition_key({"schema": "all"}): {"fields": "x"}})


def test_an_unchanged_schema_is_not_written_again() -> None:
    @source(cursor="id")
    def rows() -> Iterator[Any]:
        yield [{"id": 1, "n": 1}]
        yield [{"id": 2}]
        yield [{"id": 3, "n": None}]
        yield [{"id": 4, "n": 1}]

    found = [batch.source_partition for batches in iter(task_of(rows).poll, None) for batch in batches]
    assert found.count({"schema": "all"}) == 1


@dataclasses.dataclass
class Inner:
    word: str | None


@dataclasses.dataclass
class Order:
    id: int
    at: datetime.datetime
    price: float | None
    words: list[str]
    inner: Inner | None


@pytest.mark.parametrize(
    "schema",
    [
        Order,
        pa.schema(
            [
                pa.field("id", pa.int64(), nullable=False),
                pa.field("at", pa.timestamp("ms", "UTC"), nullable=False),
                pa.field("price", pa.float64()),
                pa.field("words", pa.list_(pa.field("item", pa.string(), nullable=False)), nullable=False),
                pa.field("inner", pa.struct([pa.field("word", pa.string())])),
            ]
        ),
    ],
)
def test_fields_may_be_given(schema: Any) -> None:
    @source(cursor="id", schema=schema)
    def rows(bad: str = "") -> Iterator[Any]:
        yield [{"id": 1, "at": "2026-01-01T00:00:00Z", "price": None, "words": [], "inner": None, "more": 1}]
        yield [{"id": None if bad == "null" else 2, "at": "x" if bad == "text" else "2026-01-02T00:00:00Z", "price": 5, "words": ["a"]}]

    first, second = batches_of(task_of(rows))
    assert first.value_schema == second.value_schema
    assert first.value_schema is not None
    assert [(f.name, str(f.schema.type), f.schema.optional) for f in first.value_schema.fields] == [
        ("id", "int64", False),
        ("at", "int64", False),
        ("price", "float64", True),
        ("words", "array", False),
        ("inner", "struct", True),
    ]
    with pytest.raises(ConnectException, match="Field 'id' is required, but null or missing in row 0"):
        batches_of(task_of(rows, bad="null"))
    with pytest.raises(ConnectException, match="Field 'at' of type string does not fit timestamp"):
        batches_of(task_of(rows, bad="text"))


def test_a_data_exception_of_the_function_fails_the_task() -> None:
    """A generator that raised has ended: what it would have yielded is not skipped."""

    @source
    def by_yields() -> Iterator[Any]:
        yield []
        raise DataException("broken")

    @source
    def by_return() -> Any:
        raise DataException("broken")

    for connector in (by_yields, by_return):
        with pytest.raises(ConnectException, match="partition all: broken") as caught:
            task_of(connector).poll()
        assert not isinstance(caught.value, DataException)


def test_a_decorated_module_loads_nothing_heavy() -> None:
    """It is imported in Airflow's task process, too, for the check for new data."""
    code = (
        "from __future__ import annotations\nimport sys\nfrom airflow_provider_connect.sdk import source, sink\n"
        "@source(cursor='id', has_new_data=lambda cursor: False)\ndef rows(at: str, cursor: int = 0): yield []\n"
        "@sink\ndef table(rows: pa.Table, to: str): pass\n"
        "assert rows().check_for_new_data({'topic': 't', 'at': 'x'}, lambda _: {'cursor': 5}) is False\n"
        "print({'pyarrow', 'numpy', 'polars', 'pandas'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "set()\n", done.stderr


def test_a_dict_that_is_filled_again_for_each_row_is_many_rows() -> None:
    @source(cursor="n")
    def rows(cursor: int = -1) -> Iterator[Any]:
        row: dict[str, int] = {}
        for row["n"] in range(cursor + 1, 3):
            yield row

    assert [record.value["n"] for record in run(rows(), {"topic": "t"}).records] == [0, 1, 2]


def test_single_rows_with_cursors_become_one_batch() -> None:
    @source
    def rows(cursor: int = 0) -> Iterator[Any]:
        for number in range(cursor, 6_000):
            yield {"n": number}, number + 1
        yield [{"n": 6_000}], 6_001

    found = batches_of(task_of(rows, offset(10)))
    assert [(len(batch), batch.source_offset["cursor"]) for batch in found] == [(5_000, 5_010), (990, 6_000), (1, 6_001)]


def test_rows_without_a_cursor_are_refused_where_the_function_resumes() -> None:
    @source
    def rows(cursor: int = 0) -> Iterator[Any]:
        yield [{"n": 1}]

    @source
    def batches(cursor: int = 0) -> Iterator[Any]:
        yield Batch.of("t", value=pa.array([1]))

    for connector in (rows, batches):
        with pytest.raises(ConnectException, match="rows have no cursor"):
            task_of(connector).poll()


def test_a_task_that_was_not_started_can_be_stopped() -> None:
    orders.task_class().stop()


def test_rows_that_have_no_value_at_all_are_refused() -> None:
    """A struct without fields cannot be a record, and a table without columns would have lost the rows."""
    given: list[dict[str, Any]] = []

    @source
    def rows() -> Any:
        return list(given)

    for row in ({}, {"note": None}):
        given[:] = [row]
        with pytest.raises(ConnectException, match="Rows have no field with a value"):
            task_of(rows).poll()


def test_what_was_learned_of_fields_outlives_a_retriable_exception() -> None:
    calls: list[int] = []

    @source(cursor="id")
    def rows(cursor: int = 0) -> Iterator[Any]:
        calls.append(cursor)
        yield [{"id": cursor + 1, "note": "x" if cursor == 0 else None}, {"id": cursor + 2}]
        if len(calls) == 1:
            raise RetriableException("busy")

    task = task_of(rows)
    found = task.poll()
    with pytest.raises(RetriableException):
        task.poll()
    found += [batch for batches in iter(task.poll, None) for batch in batches]
    schemas = [batch.value_schema for batch in found if len(batch)]
    assert len(schemas) > 1
    assert all(schema == schemas[0] for schema in schemas)
    assert [batch.source_partition for batch in found].count({"schema": "all"}) == 1


def test_dicts_whose_keys_are_data_are_given_as_maps() -> None:
    @source(schema=pa.schema([("id", pa.int64()), ("days", pa.map_(pa.string(), pa.int64()))]))
    def rows(bad: bool = False) -> Any:
        return [{"id": 1, "days": {"mon": 1, "tue": 2}}, {"id": 2, "days": "sun" if bad else None}]

    [batch] = batches_of(task_of(rows))
    assert batch.value.to_pylist() == [{"id": 1, "days": [("mon", 1), ("tue", 2)]}, {"id": 2, "days": None}]
    with pytest.raises(ConnectException, match="Field 'days'"):
        task_of(rows, bad="true").poll()


def test_no_rows_may_come_before_the_first_ones() -> None:
    @source(cursor="id")
    def late() -> Iterator[list[dict[str, int]]]:
        yield []
        yield [{"id": 1}]
        yield []

    assert [record.value["id"] for record in run(late(), {"topic": "t"}).records] == [1]


def confirmed_after_polls(function: type[FunctionSource]) -> list[tuple[int, list[str]]]:
    """For each poll: how many rows it has returned, and the calls after the next commit that it has requested."""
    task = task_of(function)
    polls: list[tuple[int, list[str]]] = []
    while (batches := task.poll()) is not None:
        requested = [call() for call in task.context.calls_after_commit]
        task.context.calls_after_commit.clear()
        polls.append((sum(batch.num_records for batch in batches), requested))
    return polls


def test_a_call_after_the_commit_waits_for_the_rows_that_are_yielded_next() -> None:
    @source(topic="t")
    def mixed(context: Any) -> Iterator[Any]:
        context.after_commit(lambda: "a")
        yield [{"id": 1}, {"id": 2}]
        context.after_commit(lambda: "b")
        yield {"id": 3}
        context.after_commit(lambda: "c")
        yield {"id": 4}
        context.after_commit(lambda: "d")
        yield [{"id": 5}]
        context.after_commit(lambda: "end")

    assert confirmed_after_polls(mixed) == [(2, ["a"]), (2, ["b", "c"]), (1, ["d"])]


def test_a_call_waits_for_rows_whose_fields_have_no_type_yet() -> None:
    @source(topic="t")
    def late(context: Any) -> Iterator[Any]:
        context.after_commit(lambda: "a")
        yield [{"id": None}]
        context.after_commit(lambda: "b")
        yield [{"id": 1}]

    assert confirmed_after_polls(late) == [(2, ["a", "b"])]


def test_a_source_whose_last_rows_wait_has_no_call_after_a_commit() -> None:
    @source(topic="t", cursor="id")
    def sorted_rows(context: Any) -> Iterator[Any]:
        context.after_commit(lambda: None)
        yield [{"id": 1}]

    with pytest.raises(ConnectException, match="after_commit needs a source without cursor="):
        task_of(sorted_rows).poll()
