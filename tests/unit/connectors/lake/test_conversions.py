"""Values under types of a table as Apache Iceberg's own sink for Kafka Connect converts them."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.lake.rows import cast
from airflow_provider_connect.errors import DataException

UTC: Final = datetime.UTC
TZ, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
AT: Final = datetime.datetime(2023, 5, 18, 11, 22, 33)
UUID: Final = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
NOON: Final = datetime.time(7, 51, 30, 888_000)
INNER: Final = pa.struct([("a", pa.string()), ("n", pa.int64())])

CASES: Final[dict[str, tuple[pa.DataType, list[Any], pa.DataType, list[Any]]]] = {
    "numbers of a timestamp": (pa.int64(), [1684408953000, None, -1], TZ, [AT.replace(tzinfo=UTC), None, "1969-12-31T23:59:59.999"]),
    "numbers of a local timestamp": (pa.int64(), [1684408953000], LOCAL, [AT]),
    "small numbers of a timestamp": (pa.int32(), [1000], LOCAL, [datetime.datetime(1970, 1, 1, 0, 0, 1)]),
    "numbers of a time": (
        pa.int64(),
        [28290888, 0, 86_399_999],
        pa.time64("us"),
        [NOON, datetime.time(0), datetime.time(23, 59, 59, 999_000)],
    ),
    "small numbers of a time": (pa.int32(), [28290888, None], pa.time64("us"), [NOON, None]),
    "numbers of a date": (pa.int64(), [19676, -1], pa.date32(), [datetime.date(2023, 11, 15), datetime.date(1969, 12, 31)]),
    "texts of a date": (pa.string(), ["2023-11-15"], pa.date32(), [datetime.date(2023, 11, 15)]),
    "texts of a time": (pa.string(), ["07:51:30.888", "07:51", None], pa.time64("us"), [NOON, datetime.time(7, 51), None]),
    "texts of a UUID": (pa.string(), [str(UUID), None], pa.uuid(), [UUID, None]),
    "base64": (pa.string(), ["YWI=", "", None], pa.large_binary(), [b"ab", b"", None]),
    "base64 of a fixed length": (pa.string(), ["YWI=", None], pa.binary(2), [b"ab", None]),
    "dates in numbers": (pa.date32(), [datetime.date(2023, 11, 15), None], pa.int64(), [19676, None]),
    "times in numbers": (pa.time32("ms"), [NOON], pa.int64(), [28290888]),
    "timestamps in numbers": (pa.timestamp("ms", "UTC"), [AT.replace(tzinfo=UTC)], pa.int64(), [1684408953000]),
    "texts of numbers": (pa.string(), ["123", "-1"], pa.int32(), [123, -1]),
    "texts of decimals": (pa.string(), ["123.45"], pa.decimal128(10, 2), [Decimal("123.45")]),
    "floats of decimals": (pa.float64(), [123.45, 123.0], pa.decimal128(10, 2), [Decimal("123.45"), Decimal("123.00")]),
    "whole floats": (pa.float64(), [123.0], pa.int64(), [123]),
    "texts of booleans": (pa.string(), ["true", "false"], pa.bool_(), [True, False]),
    "numbers in texts": (pa.int32(), [5], pa.large_string(), ["5"]),
    "booleans in texts": (pa.bool_(), [True], pa.large_string(), ["true"]),
    "structs in texts": (
        INNER,
        [{"a": "x", "n": 1}, None, {"a": None, "n": 2}],
        pa.large_string(),
        ['{"a":"x","n":1}', None, '{"a":null,"n":2}'],
    ),
    "lists in texts": (pa.list_(INNER), [[{"a": '"', "n": 1}], [], None], pa.large_string(), ['[{"a":"\\"","n":1}]', "[]", None]),
    "maps in texts": (pa.map_(pa.string(), pa.int64()), [[("k", 1)], [], None], pa.large_string(), ['{"k":1}', "{}", None]),
}


def fitted(array: pa.Array, type: pa.DataType, name: str = "") -> pa.ChunkedArray:
    given = pa.field("v", array.type, metadata={"connect.name": name} if name else None)
    return cast(pa.chunked_array([array]), given, pa.field("v", type), decodes_base64=True)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("depth", ["column", "slice", "struct", "list", "map"])
def test_values_are_converted_at_any_depth(name: str, depth: str) -> None:
    given, values, wanted, expected = CASES[name]
    array = pa.array(values, given)
    answer = pa.array(
        [datetime.datetime.fromisoformat(each) if wanted in (TZ, LOCAL) and isinstance(each, str) else each for each in expected], wanted
    )
    if depth == "slice":
        array = pa.concat_arrays([array, array])[len(array) :]
    elif depth == "struct":
        array, answer = (pa.StructArray.from_arrays([each, each], names=["v", "w"])[-1:] for each in (array, answer))
    elif depth == "list":
        array, answer = (pa.ListArray.from_arrays([0, None, len(each)], each, type=pa.list_(each.type)) for each in (array, answer))
    elif depth == "map":
        keys = pa.array([str(number) for number in range(len(array))])
        array, answer = (pa.MapArray.from_arrays([0, 1, len(each)], keys, each)[1:] for each in (array, answer))
    found = fitted(array, answer.type)
    assert found.type.equals(answer.type)
    assert found.to_pylist() == answer.to_pylist()


ZONED: Final = [
    *("2023-05-18T11:22:33Z", "2023-05-18 11:22:33Z", "2023-05-18T11:22:33+00", "2023-05-18 11:22:33+00:00", "2023-05-18T11:22:33+0000"),
    *("2023-05-18T11:22:33", "2023-05-18 11:22:33", "2023-05-18T03:22:33-08", "2023-05-18 03:22:33-08:00", "2023-05-18 03:22:33-0800"),
    "2023-05-18T11:22:33.000000000Z",
]
UNZONED: Final = [
    *("2023-05-18T11:22:33Z", "2023-05-18 11:22:33Z", "2023-05-18T11:22:33+00", "2023-05-18 11:22:33+00:00", "2023-05-18T11:22:33+0000"),
    *("2023-05-18T11:22:33", "2023-05-18 11:22:33", "2023-05-18T11:22:33-08", "2023-05-18 11:22:33-08:00", "2023-05-18 11:22:33-0800"),
    "2023-05-18T11:22:33.000000000",
]
FINE: Final = [
    *("2026-03-31T03:17:37.260514+00:00", "2026-03-31 03:17:37.260514+0000", "2026-03-31T03:17:37.260514Z"),
    *("2026-03-31T03:17:37.260514", "2026-03-31T03:17:37.260514999Z"),
]


def times(texts: list[str], type: pa.DataType) -> set[datetime.datetime]:
    return {fitted(pa.array([text]), type)[0].as_py() for text in texts}


def test_texts_of_timestamps_keep_their_instant_or_their_own_time() -> None:
    assert times(ZONED, TZ) == {AT.replace(tzinfo=UTC)}
    assert times(UNZONED, LOCAL) == {AT}
    at = datetime.datetime(2026, 3, 31, 3, 17, 37, 260_514)
    assert (times(FINE, TZ), times(FINE, LOCAL)) == ({at.replace(tzinfo=UTC)}, {at})
    assert times(["2026-03-31"], LOCAL) == {datetime.datetime(2026, 3, 31)}


REFUSED: Final = {
    "a fraction": (pa.float64(), 123.5, pa.int32()),
    "too fine a decimal": (pa.decimal128(38, 3), Decimal("1.235"), pa.decimal128(10, 2)),
    "a number beyond a double": (pa.int64(), 2**53 + 1, pa.float64()),
    "a time beyond its day": (pa.int64(), 86_400_000, pa.time64("us")),
    "a time before its day": (pa.int32(), -1, pa.time64("us")),
    "a date beyond 32 bits": (pa.int64(), 2**31, pa.date32()),
    "no UUID": (pa.string(), "f79c3e09", pa.uuid()),
    "no base64": (pa.string(), "@", pa.large_binary()),
    "another length": (pa.string(), "YWI=", pa.binary(3)),
    "no timestamp": (pa.string(), "noon", TZ),
    "no time": (pa.string(), "25:00", pa.time64("us")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_do_not_fit_are_refused_with_their_column(name: str) -> None:
    given, value, wanted = REFUSED[name]
    with pytest.raises(DataException, match=r"Column v \("):
        fitted(pa.array([value], given), wanted)


def test_delta_keeps_texts_in_columns_of_bytes() -> None:
    assert cast(pa.chunked_array([["YWI="]]), pa.field("v", pa.string()), pa.field("v", pa.binary())).to_pylist() == [b"YWI="]


DEBEZIUM: Final = {
    "Timestamp": (pa.int64(), 1684408953000, TZ, AT.replace(tzinfo=UTC)),
    "MicroTimestamp": (pa.int64(), 1684408953000000, TZ, AT.replace(tzinfo=UTC)),
    "NanoTimestamp": (pa.int64(), 1684408953000000000, LOCAL, AT),
    "MicroTimestamp of a date": (pa.int64(), 1684408953000000, pa.date32(), AT.date()),
    "Date": (pa.int32(), 19676, pa.date32(), datetime.date(2023, 11, 15)),
    "Time": (pa.int32(), 28290888, pa.time64("us"), NOON),
    "MicroTime": (pa.int64(), 28290888000, pa.time64("us"), NOON),
    "NanoTime": (pa.int64(), 28290888000000, pa.time64("us"), NOON),
    "ZonedTimestamp": (pa.string(), "2023-05-18T03:22:33-08:00", TZ, AT.replace(tzinfo=UTC)),
}


@pytest.mark.parametrize("name", DEBEZIUM)
@pytest.mark.parametrize("is_deep", [False, True])
def test_numbers_of_debezium_have_the_unit_of_their_schema(name: str, is_deep: bool) -> None:
    given, value, wanted, expected = DEBEZIUM[name]
    schema = f"io.debezium.time.{name.partition(' ')[0]}"
    if not is_deep:
        assert fitted(pa.array([value], given), wanted, schema).to_pylist() == [expected]
        return
    inner = pa.struct([pa.field("at", given, metadata={"connect.name": schema})])
    assert fitted(pa.array([{"at": value}], inner), pa.struct([("at", wanted)])).to_pylist() == [{"at": expected}]
