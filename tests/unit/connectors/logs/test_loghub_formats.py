"""Lines in the formats of loghub's sixteen systems: the settings for each, the time that it means, entries of several lines."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.logs.formats import LineTime
from airflow_provider_connect.connectors.logs.lines import Entries, Lines
from airflow_provider_connect.data.arrow import pl
from airflow_provider_connect.errors import ConfigException
from tests.unit.connectors.logs.test_formats import parsed, settings, times

NOW = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)

SYSTEMS: list[tuple[str, str, str, str, str]] = [
    ("Android", "03-17 16:13:38.811  1702  2395 D Window: shown", r"^(\S+ \S+)", "%m-%d %H:%M:%S.%f", "2025-03-17 16:13:38.811"),
    ("Apache", "[Sun Dec 04 04:47:44 2005] [notice] ok", r"^\[([^\]]+)\]", "%a %b %d %H:%M:%S %Y", "2005-12-04 04:47:44"),
    ("BGL", "- 1117838570 2005.06.03 R02 2005-06-03-15.42.50.675872 R02 RAS", r"^- (\d+)", "epoch", "2005-06-03 22:42:50"),
    ("BGL", "- 1 2005.06.03 R02 2005-06-03-15.42.50.675872 R", r" (\d{4}-\S+)", "%Y-%m-%d-%H.%M.%S.%f", "2005-06-03 15:42:50.675"),
    ("HDFS", "081109 203615 148 INFO dfs.Node: done", r"^(\d{6} \d{6})", "%y%m%d %H%M%S", "2008-11-09 20:36:15"),
    ("HPC", "134681 node-246 unix.hw state_change 1077804742 1 down", r" (\d{10}) ", "epoch", "2004-02-26 14:12:22"),
    ("Hadoop", "2015-10-18 18:01:47,978 INFO [main] app: made", r"^(\S+ \S+)", "iso", "2015-10-18 18:01:47.978"),
    ("Hadoop", "2015-10-18 18:01:47,978 INFO [main] app: made", r"^(\S+ \S+)", "%Y-%m-%d %H:%M:%S,%f", "2015-10-18 18:01:47.978"),
    ("HealthApp", "20171223-22:15:29:606|Step|3|on", r"^([^|]+)", "%Y%m%d-%H:%M:%S:%f", "2017-12-23 22:15:29.606"),
    ("Linux", "Jun 14 15:16:01 combo sshd[1]: bad user", r"^(\w+ +\d+ \S+)", "%b %d %H:%M:%S", "2025-06-14 15:16:01"),
    ("Mac", "Jul  1 09:00:55 host kernel[0]: up", r"^(\w+ +\d+ \S+)", "%b %d %H:%M:%S", "2025-07-01 09:00:55"),
    ("Mac", "Jul  1 09:00:55 host kernel[0]: up", r"^(\w+ +\d+ \S+)", "%b %e %H:%M:%S", "2025-07-01 09:00:55"),
    ("OpenSSH", "Feb 10 06:55:46 LabSZ sshd[2]: bye", r"^(\w+ +\d+ \S+)", "%b %d %H:%M:%S", "2026-02-10 06:55:46"),
    ("OpenStack", "api.log 2017-05-16 00:00:00.008 25746 INFO x", r" (\S+ \d\S+) ", "%Y-%m-%d %H:%M:%S.%f", "2017-05-16 00:00:00.008"),
    ("Proxifier", "[10.30 16:49:06] a.exe - b:80 open", r"^\[([^\]]+)\]", "%m.%d %H:%M:%S", "2025-10-30 16:49:06"),
    ("Spark", "17/06/09 20:10:40 INFO a.B: on", r"^(\S+ \S+)", "%y/%m/%d %H:%M:%S", "2017-06-09 20:10:40"),
    (
        "Thunderbird",
        "- 1131566461 2005.11.09 dn228 Nov 9 12:01:01 dn228 x",
        r" (\w+ \d+ \S+:\d\d)",
        "%b %d %H:%M:%S",
        "2025-11-09 12:01:01",
    ),
    ("Windows", "2016-09-28 04:30:30, Info   CBS  Loaded", r"^(\S+ [^,]+)", "iso", "2016-09-28 04:30:30"),
    ("Zookeeper", "2015-07-29 17:41:44,747 - INFO  [Q:1] - on", r"^(\S+ \S+)", "iso", "2015-07-29 17:41:44.747"),
]


def at(text: str) -> int:
    return round(datetime.datetime.fromisoformat(f"{text}+00:00").timestamp() * 1000)


@pytest.mark.parametrize(("system", "line", "pattern", "form", "wanted"), SYSTEMS)
def test_a_line_has_the_time_that_its_system_means(system: str, line: str, pattern: str, form: str, wanted: str) -> None:
    del system
    time = LineTime(None, pattern, form, "UTC", clock=NOW.timestamp)
    text = pl.Series([line]).str.extract(pattern)
    assert time.parse(text).to_list() == [at(wanted)]
    assert settings(timestamp_pattern=pattern, timestamp_format=form).time is not None  # a format that validates


@pytest.mark.parametrize(
    ("now", "text", "wanted"),
    [
        ("2026-01-01 00:10:00", "Dec 31 23:59:58", "2025-12-31 23:59:58"),
        ("2025-12-31 23:59:59", "Jan  1 00:00:03", "2026-01-01 00:00:03"),  # a clock that is ahead of ours
        ("2026-06-15 00:00:00", "Jun 17 00:00:00", "2025-06-17 00:00:00"),
        ("2025-02-28 12:00:00", "Feb 29 12:00:00", "2024-02-29 12:00:00"),
        ("2027-02-28 12:00:00", "Feb 29 12:00:00", None),
        ("2026-06-15 00:00:00", "Jun 31 00:00:00", None),
    ],
)
def test_a_time_without_a_year_is_of_the_last_twelve_months(now: str, text: str, wanted: str | None) -> None:
    time = LineTime(None, None, "%b %d %H:%M:%S", "UTC", clock=lambda: at(now) / 1000)
    assert time.parse(pl.Series([text])).to_list() == [None if wanted is None else at(wanted)]
    assert time.parse(pl.Series([], dtype=pl.String)).to_list() == []


def test_digits_of_a_fraction_count_from_its_point() -> None:
    given = ["2020-01-01 00:00:00.5", "2020-01-01 00:00:00.005", "2020-01-01 00:00:00.123456", "2020-01-01 00:00:00"]
    begin = at("2020-01-01 00:00:00")
    assert times([*given], timestamp_pattern="^(.*)$", timestamp_format="%Y-%m-%d %H:%M:%S.%f") == [
        begin + 500,
        begin + 5,
        begin + 123,
        begin,
    ]
    given = ["2020-01-01 00:00:00,005", "2020-01-01 00:00:00,123456", "2020-01-01 00:00:00,123456789"]
    assert times([*given], timestamp_pattern="^(.*)$", timestamp_format="%Y-%m-%d %H:%M:%S,%f") == [begin + 5, begin + 123, begin + 123]


def test_milliseconds_without_leading_zeros_are_no_fraction() -> None:
    assert times(["20171223-22:15:35:11|Step"], timestamp_pattern="^([^|]+)", timestamp_format="%Y%m%d-%H:%M:%S:%f") == [None]


def test_the_zone_of_seconds_since_1970_is_their_own() -> None:
    given = {"timestamp_pattern": r"^(\S+)", "timestamp_timezone": "Asia/Tokyo"}
    assert times(["1117838570 x"], timestamp_format="%s", **given) == [1_117_838_570_000]
    assert times(["2005-06-03T22:42:50 x"], timestamp_format="%Y-%m-%dT%H:%M:%S", **given) == [at("2005-06-03 13:42:50")]


@pytest.mark.parametrize("form", ["%H:%M:%S", "%Y %H:%M:%S", "%b %H:%M", "%d %H:%M:%S", "%Y", "%b %d %I:%M:%S"])
def test_a_format_without_a_date_is_refused(form: str) -> None:
    with pytest.raises(ConfigException, match=r"timestamp\.format"):
        settings(timestamp_pattern="^(.*)$", timestamp_format=form)


@pytest.mark.parametrize(
    ("pattern", "line", "wanted"),
    [
        (
            r"^(?P<host>\S+) (?P<unit>[\w.()-]+)(?:\[(?P<pid>\d+)\])?: (?P<text>.*)$",
            "combo sshd(pam_unix)[19939]: check pass",
            {"host": "combo", "unit": "sshd(pam_unix)", "pid": "19939", "text": "check pass"},
        ),
        (
            r"^(?P<pid>\d+)\s+(?P<tid>\d+) (?P<level>[VDIWEF]) (?P<tag>\S+): (?P<text>.*)$",
            "1702  2395 D Window: shown",
            {"pid": "1702", "tid": "2395", "level": "D", "tag": "Window", "text": "shown"},
        ),
        (r"^(?P<flag>\S+) (?P<epoch>\d+) (?P<text>.*)$", "- 1117838570 up", {"flag": "-", "epoch": "1117838570", "text": "up"}),
    ],
)
def test_a_line_has_the_fields_of_its_system(pattern: str, line: str, wanted: dict[str, Any]) -> None:
    assert parsed([line], line_format="pattern", line_pattern=pattern) == ([wanted], [])


def test_a_stack_trace_belongs_to_its_line() -> None:
    given = ["2015-10-18 18:01:47,978 ERROR x", "java.io.IOException: no", "\tat a.B.c(B.java:1)", "2015-10-18 18:01:48,001 INFO y"]
    lines = Lines(pa.array(given), np.cumsum([len(each) + 1 for each in given]))
    entries = Entries(r"^\d{4}-\d\d-\d\d ", 500, 1 << 20).join(lines, is_final=True)
    assert entries.text.to_pylist() == ["\n".join(given[:3]), given[3]]
