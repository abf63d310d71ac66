"""Settings that are times: what no database and no library's calendar has is refused where it is given, and not by a run."""

from __future__ import annotations

import pytest

from airflow_provider_connect.connectors.jdbc.source.config import CONFIG_DEF
from airflow_provider_connect.errors import ConfigException

BASE = {"connection.url": "jdbc:mysql://h/d", "mode": "timestamp", "timestamp.column.name": "at", "topic.prefix": "t"}
LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timestamp.initial", LARGEST),
        ("timestamp.initial", -LARGEST),
        ("timestamp.initial", 253_370_764_800_000),
        ("timestamp.delay.interval.ms", LARGEST),
        ("timestamp.delay.interval.ms", -1),
        ("timestamp.overlap.ms", LARGEST),
    ],
)
def test_a_time_beyond_calendars_is_refused_by_its_name(name: str, value: int) -> None:
    with pytest.raises(ConfigException, match=f"Invalid value {value} for configuration {name}"):
        CONFIG_DEF.parse({**BASE, name: str(value)})


@pytest.mark.parametrize("value", [-1, -2, 0, 1_800_000_000_000, -62_104_060_800_000, 253_370_764_799_999])
def test_times_of_each_year_are_taken(value: int) -> None:
    assert CONFIG_DEF.parse({**BASE, "timestamp.initial": str(value)})["timestamp.initial"] == value
