"""A time zone that a setting names."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_connect.errors import ConfigException


def time_zone(key: str, name: str) -> ZoneInfo:
    """The time zone ``name`` of the setting ``key``. Raises ConfigException for an unknown time zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigException.of(key, name[:100], "There is no such time zone. Use a name like UTC or Europe/Berlin.") from error


def check_time_zone(name: str, value: Any) -> None:
    """The validator of a setting that must have a time zone."""
    time_zone(name, value or "")
