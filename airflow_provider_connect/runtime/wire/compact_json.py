"""JSON exactly as Kafka Connect's JsonConverter writes it and reads it, with schemas off (contract §2.2).

Text: no white space, UTF-8, maps in their own order, surrogate pairs escaped, numbers as Java prints them. Reading follows Jackson with
Connect's configuration. It accepts leading zeros and trailing bytes, uses the last of two equal keys, wraps integers to 64 bits, and
refuses NaN.
"""

import base64
import json
import math
from collections.abc import Mapping

from airflow_provider_connect.data.java_text import text_of, wrapped
from airflow_provider_connect.data.json_text import MAX_DEPTH, MAX_NUMBER_LENGTH, quoted, without_leading_zeros
from airflow_provider_connect.errors import DataException

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


def dumps(value: object) -> bytes:
    """The bytes of ``value``: None, bool, int, float, str, bytes (as base64 text), and mappings, lists and tuples of these.

    Raises DataException for any other value, for keys that are not text, for integers of more than 64 bits (a reader would wrap them), and
    for nesting deeper than ``MAX_DEPTH``.
    """
    return _text(value, MAX_DEPTH).encode()


def _text(value: object, depth: int) -> str:
    if depth < 0:
        raise _too_deep()
    match value:
        case Mapping():
            return f"{{{','.join([f'{_key(key)}:{_text(member, depth - 1)}' for key, member in value.items()])}}}"
        case list() | tuple():
            return f"[{','.join([_text(member, depth - 1) for member in value])}]"
        case int() if wrapped(value, 64) != value:
            raise DataException("JSON of a topic holds integers of 64 bits: use a text for larger ones")
        case None | int() | float():
            return text_of(value) if not isinstance(value, float) or math.isfinite(value) else f'"{text_of(value)}"'
        case str() | bytes() | bytearray() | memoryview():
            return quoted(value if isinstance(value, str) else base64.b64encode(value).decode())
    raise DataException(f"JSON has no form for a {type(value).__name__}: {value!r}")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise DataException(f"JSON map keys must be text, got {key!r}")
    return quoted(key)


def _too_deep() -> DataException:
    return DataException(f"JSON is nested deeper than {MAX_DEPTH} levels")


def loads(data: bytes | bytearray | memoryview) -> JsonValue:
    """The value of ``data``. Maps keep the order of the text. Empty data and white space are null.

    Raises no exception except DataException: for bytes that are not UTF-8 or not JSON, and for nesting deeper than ``MAX_DEPTH``.
    """
    try:
        text = without_leading_zeros(bytes(data).decode("utf-8-sig").lstrip(" \t\r\n"))
        if not text:
            return None
        value: JsonValue
        value = _DECODER.raw_decode(text)[0]
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise DataException(f"not JSON: {error}") from None
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    return value


def _check_depth(value: JsonValue) -> None:
    """Checks the depth level by level. ``json_text.depth_of`` would load numpy, but a plugin may need another version of numpy."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        inner = [member.values() if isinstance(member, dict) else member for member in level if isinstance(member, dict | list)]
        if not inner:
            return
        level = [member for members in inner for member in members]
    raise _too_deep()


def _integer(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise ValueError(f"a number of {len(text)} digits")
    return wrapped(int(text), 64)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON value")


_DECODER = json.JSONDecoder(parse_int=_integer, parse_constant=_no_constant)
