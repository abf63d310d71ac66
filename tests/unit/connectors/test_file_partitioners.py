"""Into which folders and files records go: partitioners, times, rotation, changes of the schema. Against Python, one record at a time."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.filesystem.partitioners.partitioner import NO_VALUE, FieldPartitioner, TimePartitioner
from airflow_provider_connect.connectors.filesystem.partitioners.partitioner import split_by_folder as shares_of
from airflow_provider_connect.connectors.filesystem.partitioners.rotation import Rotation
from airflow_provider_connect.connectors.filesystem.partitioners.time_path import TimePath
from airflow_provider_connect.connectors.filesystem.partitioners.timestamps import Extractor, Timestamps
from airflow_provider_connect.connectors.filesystem.schema_change import Compatibility, project
from airflow_provider_connect.data.columns import column_of, json_column, values_of
from airflow_provider_connect.data.schema import INT32_SCHEMA, INT64_SCHEMA, STRING_SCHEMA, Schema, Struct
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch

DATES = (
    "1970-01-02",
    "1970-01-02Z",
    "1969-12-31",
    "1970-01-01T00:00:02",
    "1970-01-01T01:00:02.123456789+01:00",
    "1969-12-31T23:59:59.9999",
)
ISO_8601 = ("1970-01-01T00:00:02", "1970-01-01T01:00:03+01:00", "1970-01-01 00:00:04.005Z")
OTHER_FORMS = ("1970-01-01 01:00:03+01", "1969-12-31T23:00:03,0059 -0100", "1970-01-01T00:00:04z", "1970-01-01T02+02")
BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000


def batch(value: pa.Array, times: Sequence[int] | None = None, first: int = 0) -> Batch:
    timestamp = None if times is None else pa.array(times, pa.int64())
    return KafkaBatch("t", value, timestamp=timestamp, kafka_partition=0, first_offset=first, next_offset=first + len(value))


def structs(*values: dict[str, Any]) -> pa.Array:
    return pa.array(values)


def ms(text: str) -> int:
    return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)


def folders(partitioner: FieldPartitioner | TimePartitioner, records: Batch) -> dict[str, list[int]]:
    return {share.folder: share.batch.kafka_offsets.to_pylist() for share in shares_of(records, partitioner.folders(records))}


def test_fields_of_structs_become_folders() -> None:
    values = structs(
        {"a": "x", "n": 1, "in": {"b": True}},
        {"a": "é/..", "n": 2, "in": {"b": False}},
        {"a": "x", "n": 1, "in": {"b": True}},
        {"a": None, "n": 1, "in": None},
        {"a": "..", "n": 1, "in": None},
    )
    assert folders(FieldPartitioner(("a", "n", "in.b")), batch(values, first=10)) == {
        "a=x/n=1/in.b=true": [10, 12],
        "a=é%2F../n=2/in.b=false": [11],
        f"a={NO_VALUE}/n=1/in.b={NO_VALUE}": [13],
        f"a=%2E%2E/n=1/in.b={NO_VALUE}": [14],
    }


def test_fields_of_json_become_folders() -> None:
    values = json_column([json.dumps(value) for value in ({"a": "x", "b": {"c": 5}}, {"a": "y"}, {"b": {"c": 5}, "a": "x"})])
    assert folders(FieldPartitioner(("a", "b.c")), batch(values)) == {"a=x/b.c=5": [0, 2], f"a=y/b.c={NO_VALUE}": [1]}


@pytest.mark.parametrize(
    ("values", "field", "text"),
    [
        (structs({"a": 1}), "b", "no field b"),
        (structs({"a": 1.5}), "a", "cannot name folders"),
        (structs({"a": "x" * 300}), "a", "too many"),
        (pa.array(["text"]), "a", "no field a"),
    ],
)
def test_a_field_that_names_no_folder_is_refused(values: pa.Array, field: str, text: str) -> None:
    with pytest.raises(DataException, match=text):
        FieldPartitioner((field,)).folders(batch(values))


TIMES = ("2026-03-29T00:30:00Z", "2026-03-29T01:10:00Z", "2026-10-25T00:59:00Z", "2026-10-25T01:30:00Z", "1969-12-31T22:59:59Z")


def test_hours_are_those_of_the_time_zones_clock() -> None:
    times = [ms(text) for text in TIMES]
    path = TimePath("path.format", "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH")
    partitioner = TimePartitioner(Timestamps(Extractor.RECORD), path, HOUR, BERLIN, lambda: 0)
    found = folders(partitioner, batch(pa.nulls(len(times)), times))
    expected: dict[str, list[int]] = {}
    for number, text in enumerate(TIMES):
        local = datetime.datetime.fromisoformat(text).astimezone(BERLIN)
        expected.setdefault(f"{local:year=%Y/month=%m/day=%d/hour=%H}", []).append(number)
    assert found == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("'dt'=yyyy-MM-dd", "dt=2026-03-05"),
        ("yy/D/E/EEEE/MMM/MMMM", "26/64/Thu/Thursday/Mar/March"),
        ("'it''s'/HH-mm-ss.SSS/h a", "it%27s/17-06-07.089/5 PM"),
        ("'../'YYYY", "%2E%2E/2026"),
        ("YYYY//MM/", "2026/03"),
    ],
)
def test_patterns_of_paths(pattern: str, expected: str) -> None:
    assert TimePath("path.format", pattern).of(ms("2026-03-05T17:06:07.089Z")) == expected


@pytest.mark.parametrize("pattern", ["'open", "YYYY/Q", "ZZ"])
def test_a_wrong_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigException, match=r"path\.format"):
        TimePath("path.format", pattern)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([{"t": 5}, {"t": 7}]), [5, 7]),
        (pa.array([{"t": datetime.datetime(1970, 1, 1, 0, 0, 1)}]), [1000]),
        (pa.array([{"t": text} for text in ISO_8601]), [2000, 3000, 4005]),
        (pa.array([{"t": text} for text in OTHER_FORMS]), [3000, 3005, 4000, 0]),
        (pa.array([{"t": "-5"}, {"t": "5"}, {"t": "1767323045678"}]), [-5, 5, 1_767_323_045_678]),
        (json_column(['{"t": 9}', '{"t": "10"}']), [9, 10]),
        (pa.array([{"t": text} for text in DATES]), [86_400_000, 86_400_000, -86_400_000, 2000, 2123, -1]),
        (json_column(['{"t": "1970-01-02"}']), [86_400_000]),
        (json_column(['{"t": 1767323045678.9}', '{"t": -1.5}', '{"t": 1e3}']), [1_767_323_045_678, -1, 1000]),
        (pa.array([{"t": datetime.date(1969, 12, 31)}]), [-86_400_000]),
        (pa.array([{"t": -1}], pa.struct([("t", pa.timestamp("us"))])), [-1]),
    ],
)
def test_times_in_fields(values: pa.Array, expected: list[int]) -> None:
    found = Timestamps(Extractor.RECORD_FIELD, "t").of(batch(values))
    assert found is not None
    assert found.to_pylist() == expected


@pytest.mark.parametrize("values", [structs({"t": 1}, {"t": None}), structs({"t": "x"}), structs({"t": [1]}), structs({"u": 1})])
def test_records_without_a_time_are_refused(values: pa.Array) -> None:
    with pytest.raises(DataException, match="t"):
        Timestamps(Extractor.RECORD_FIELD, "t").of(batch(values))


@pytest.mark.parametrize("time", [1666862000000000, 253_402_300_800_000, 2**62, -(2**62), -62_135_596_800_000])
def test_a_time_that_no_calendar_has_refuses_its_record(time: int) -> None:
    """Microseconds taken for milliseconds are in the year 54790."""
    with pytest.raises(
        DataException, match=rf"has the time in the field t {time}, which is outside the years 1 to 9999: times are milliseconds"
    ):
        Timestamps(Extractor.RECORD_FIELD, "t").of(batch(structs({"t": 0}, {"t": time})))


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "UTC"])
def test_the_first_and_the_last_time_that_are_taken_have_folders_in_each_zone(zone: str) -> None:
    values = structs({"t": -62_135_596_800_000 + 86_400_000}, {"t": 253_402_300_799_999 - 86_400_000})
    partitioner = TimePartitioner(Timestamps(Extractor.RECORD_FIELD, "t"), TimePath("path.format", "YYYY"), 1, ZoneInfo(zone), lambda: 0)
    assert list(folders(partitioner, batch(values))) == ["0001", "9999"]


def test_a_period_that_begins_before_the_calendar_refuses_its_record() -> None:
    """It ended the task, whatever ``errors.tolerance`` was."""
    partitioner = TimePartitioner(
        Timestamps(Extractor.RECORD_FIELD, "t"), TimePath("path.format", "YYYY"), 2**63 - 1, ZoneInfo("UTC"), lambda: 0
    )
    assert list(folders(partitioner, batch(structs({"t": 2**41})))) == ["1970"]
    with pytest.raises(DataException, match=r"begins before the year 1: shorten partition\.duration\.ms"):
        partitioner.folders(batch(structs({"t": -1})))


def split_times(rotation: Rotation, times: list[int]) -> list[list[int]]:
    """The times in each file, as the loop of ``PartitionFiles`` takes them."""
    files: list[list[int]] = [[]]
    rest = batch(pa.nulls(len(times)), times)
    while len(rest):
        count = rotation.room(rest)
        if count == 0:
            rotation.reset()
            files.append([])
            count = rotation.room(rest)
        piece, rest = rest.slice(0, count), rest.slice(count)
        rotation.add(piece)
        assert piece.timestamp is not None
        files[-1] += piece.timestamp.to_pylist()
        if rotation.is_full(0):
            rotation.reset()
            files.append([])
    return [each for each in files if each]


def test_files_end_by_count_and_by_the_time_of_records() -> None:
    times = [0, 5, 9, 10, 11, 12, 13, 30, 1, 40]
    record = Timestamps(Extractor.RECORD)
    assert split_times(Rotation(record, lambda: 0, BERLIN, max_records=4), times) == [times[:4], times[4:8], times[8:]]
    assert split_times(Rotation(record, lambda: 0, BERLIN, interval_ms=10), times) == [[0, 5, 9], [10, 11, 12, 13], [30, 1], [40]]
    both = Rotation(record, lambda: 0, BERLIN, max_records=2, interval_ms=10)
    assert split_times(both, times) == [[0, 5], [9, 10], [11, 12], [13], [30, 1], [40]]


def test_a_schedule_counts_from_midnight_of_its_zone() -> None:
    now = [ms("2026-07-01T21:59:59Z")]  # a second before midnight in Berlin
    rotation = Rotation(Timestamps(), lambda: now[0], BERLIN, schedule_ms=24 * HOUR)
    rotation.add(batch(pa.nulls(1)))
    assert not rotation.is_due()
    now[0] += 1000
    assert rotation.is_due()
    assert rotation.room(batch(pa.nulls(1))) == 0


@pytest.mark.parametrize(
    ("period", "first", "end"),
    [
        (7 * HOUR, "2026-07-02T19:30:00Z", "2026-07-02T22:00:00Z"),  # 21:30 in Berlin; the next multiple, 28:00, is on the next day
        (48 * HOUR, "2026-07-02T10:00:00Z", "2026-07-02T22:00:00Z"),
        ((1 << 63) - 1, "2026-07-02T10:00:00Z", "2026-07-02T22:00:00Z"),
        (24 * HOUR, "2026-03-28T23:30:00Z", "2026-03-29T22:00:00Z"),  # a day of 23 hours
        (24 * HOUR, "2026-10-24T22:30:00Z", "2026-10-25T23:00:00Z"),  # a day of 25 hours
        (6 * HOUR, "2026-10-24T22:30:00Z", "2026-10-25T05:00:00Z"),
        (HOUR // 6, "2026-10-25T01:05:00Z", "2026-10-25T01:10:00Z"),  # 02:05, for the second time
        (HOUR // 6, "2026-03-29T00:55:00Z", "2026-03-29T01:00:00Z"),  # 01:55; there is no 02:00
    ],
)
def test_a_schedule_counts_from_each_midnight_by_the_clock(period: int, first: str, end: str) -> None:
    """confluentinc/kafka-connect-storage-cloud 375: on a day of 25 hours, each record became a file of its own."""
    now = [ms(first)]
    rotation = Rotation(Timestamps(), lambda: now[0], BERLIN, schedule_ms=period)
    rotation.add(batch(pa.nulls(1)))
    now[0] = ms(end) - 1
    assert not rotation.is_due()
    now[0] += 1
    assert rotation.is_due()


def test_files_of_a_run_that_stays_end_although_it_does_not() -> None:
    now = [0]
    rotation = Rotation(Timestamps(), lambda: now[0], BERLIN, open_ms=5000)
    for _ in range(2):
        rotation.add(batch(pa.nulls(1)))
        now[0] += 4999
        assert not rotation.is_due()
        rotation.add(batch(pa.nulls(1)))  # later records do not keep the files open
        now[0] += 1
        assert rotation.is_due()
        rotation.reset()
        assert not rotation.is_due()


def test_a_schedule_is_in_place_of_the_time_for_which_files_are_open() -> None:
    now = [0]
    rotation = Rotation(Timestamps(), lambda: now[0], BERLIN, schedule_ms=HOUR, open_ms=5000)
    rotation.add(batch(pa.nulls(1)))
    now[0] = HOUR - 1
    assert not rotation.is_due()
    now[0] = HOUR
    assert rotation.is_due()


V1 = Schema.struct({"id": INT32_SCHEMA, "old": STRING_SCHEMA.as_optional()}, name="v", version=1)
V2_FIELDS = {"id": INT64_SCHEMA, "new": STRING_SCHEMA.with_default("none")}
V2 = Schema.struct(V2_FIELDS, name="v", version=2)


def test_older_values_are_projected() -> None:
    column = column_of([{"id": 1, "old": "x"}, None], V1.as_optional())
    found = values_of(project(column, V1, V2), V2)
    assert [None if each is None else each.as_dict() for each in found] == [{"id": 1, "new": "none"}, None]
    with pytest.raises(DataException, match="id of type INT64"):
        project(column_of([{"id": 1, "new": "y"}], V2), V2, V1)


def deep(inner: Schema) -> Schema:
    return Schema.struct(
        {"list": Schema.array(inner).as_optional(), "map": Schema.map(STRING_SCHEMA, inner), "deep": Schema.array(Schema.array(inner))}
    )


@pytest.mark.parametrize("first", [0, 1])
def test_fields_within_lists_and_maps_get_their_defaults(first: int) -> None:
    """As Kafka Connect's SchemaProjector gives them, in slices of a batch too."""

    def value(schema: Schema, **more: Any) -> dict[str, Any]:
        one = Struct(schema, {"id": 1, **more})
        return {"list": [one, one], "map": {"k": one}, "deep": [[one], []]}

    old, new = Schema.struct({"id": INT32_SCHEMA, "old": STRING_SCHEMA.as_optional()}), Schema.struct(V2_FIELDS)
    given = [value(old), value(old) | {"list": None, "map": {}}, value(old)]
    found = values_of(project(column_of(given, deep(old))[first:], deep(old), deep(new)), deep(new))
    expected = [value(new, new="none"), value(new, new="none") | {"list": None, "map": {}}, value(new, new="none")]
    assert [each.as_dict() for each in found] == expected[first:]


def test_an_element_that_does_not_fit_refuses_its_own_rows_alone() -> None:
    old, new = Schema.array(STRING_SCHEMA.as_optional()), Schema.array(STRING_SCHEMA)
    column = column_of([["a"], [None], ["b"]], old)
    with pytest.raises(DataException, match=r"An element of v\.item is null"):
        project(column, old, new, "v")
    assert values_of(project(column[:1], old, new), new) == [["a"]]
    assert values_of(project(column[2:], old, new), new) == [["b"]]


def test_which_schemas_stay_in_a_file() -> None:
    unversioned = Schema.struct({"id": INT64_SCHEMA})
    kept = {
        rule: [rule.keeps(*each) for each in ((V1, V1), (V1, V1.as_optional()), (V1, V2), (V2, V1), (V1, unversioned), (V1, None))]
        for rule in Compatibility
    }
    assert kept == {
        Compatibility.NONE: [True, True, False, False, False, False],
        Compatibility.BACKWARD: [True, True, False, True, False, False],
        Compatibility.FULL: [True, True, False, True, False, False],
        Compatibility.FORWARD: [True, True, True, False, False, False],
    }
