"""The shape that a decoded JSON value must have, and the error that says which one it has instead."""

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.wire.compact_json import JsonValue

_KINDS: dict[type, str] = {
    dict: "a map",
    list: "a list",
    str: "text",
    bool: "a boolean",
    int: "an integer",
    float: "a fraction",
    type(None): "null",
}


def map_of(value: JsonValue, name: str) -> dict[str, JsonValue]:
    """``value``, if it is a map; else DataException, which calls it ``name``."""
    if not isinstance(value, dict):
        raise _mismatch(name, "a map", value)
    return value


def text_of(value: JsonValue, name: str) -> str:
    """``value``, if it is text; else DataException, which calls it ``name``."""
    if not isinstance(value, str):
        raise _mismatch(name, "text", value)
    return value


def optional_text_of(value: JsonValue, name: str) -> str | None:
    """``value``, if it is text or null; else DataException, which calls it ``name``."""
    return None if value is None else text_of(value, name)


def integer_of(value: JsonValue, name: str) -> int:
    """``value``, if it is an integer; else DataException, which calls it ``name``."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(name, "an integer", value)
    return value


def number_of(value: JsonValue, name: str) -> float:
    """``value``, if it is a number; else DataException, which calls it ``name``."""
    return value if isinstance(value, float) else float(integer_of(value, name))


def count_of(value: JsonValue, name: str) -> int:
    """``value``, if it is an integer that Java's int holds and not negative; else DataException, which calls it ``name``."""
    count = integer_of(value, name)
    if not 0 <= count <= 0x7FFFFFFF:
        raise DataException(f"{name} must be between 0 and {0x7FFFFFFF}, is {count}")
    return count


def _mismatch(name: str, wanted: str, value: JsonValue) -> DataException:
    return DataException(f"{name} must be {wanted}, is {_KINDS[type(value)]}")
