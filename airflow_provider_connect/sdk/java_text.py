"""Values as Java prints them: ``Double.toString``, ``String.valueOf``, the order of a HashMap's keys.

One thing is different: of bytes Java prints an address (``[B@1b6d3586``), which is of no use to anybody; here it is the bytes as UTF-8.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from airflow_provider_connect.sdk.config_type import java_text
from airflow_provider_connect.sdk.java_numbers import double_text
from airflow_provider_connect.sdk.schema import Schema, SchemaType, Struct

NULL: Final = "null"
_LONGEST_KEPT: Final = 250  # a text from a request may have a megabyte
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


def regex_error(text: str, error: re.error) -> str:
    """``PatternSyntaxException.getMessage`` for the mistakes that people make; Python's own words for others.

    Description, ``near index``, the expression, and a mark below the place where that lies within it.
    """
    at = error.pos
    if error.msg == "missing ), unterminated subpattern":
        return _marked("Unclosed group", text, len(text))
    if error.msg == "unterminated character set":
        return _marked("Unclosed character class", text, len(text) - 1)
    if at is not None and error.msg == "unbalanced parenthesis":
        return _marked("Unmatched closing ')'", text, at - 1)
    if at is not None and error.msg in ("nothing to repeat", "multiple repeat") and text[at : at + 1] in ("*", "+", "?"):
        return _marked(f"Dangling meta character '{text[at]}'", text, at)
    return str(error)


def _marked(description: str, text: str, index: int) -> str:
    near = f" near index {index}" if index >= 0 else ""
    mark = f"\n{' ' * index}^" if 0 <= index < len(text) else ""
    return f"{description}{near}\n{text}{mark}"


def single_text(value: float) -> str:
    """``Float.toString``: the same for 32-bit numbers."""
    if not -3.4028235677973366e38 < value < 3.4028235677973366e38:
        return double_text(math.copysign(math.inf, value) if abs(value) > 1 else value)
    packed = struct.pack("f", value)
    shortest = next(text for text in (f"{value:.{digits}g}" for digits in range(2, 10)) if struct.pack("f", float(text)) == packed)
    return double_text(float(shortest))


def text_of(value: Any, schema: Schema | None) -> str:  # Any: a value of any schema
    """``String.valueOf(value)``."""
    if value is None:
        return NULL
    if isinstance(value, Struct | Mapping | list | tuple):
        return _composite_text(value, schema)
    if isinstance(value, bytes | bytearray | memoryview):
        text = decode_utf8(bytes(value))
    elif isinstance(value, float) and schema is not None and schema.type is SchemaType.FLOAT32:
        text = single_text(value)
    elif isinstance(value, datetime.date | datetime.time):
        text = _date_text(value)
    else:
        text = str(value) if isinstance(value, str | Decimal) else java_text(value)
    return text


def _composite_text(value: Any, schema: Schema | None) -> str:
    if isinstance(value, Struct):
        fields = ((field, value.get_without_default(field.name)) for field in value.schema.fields)
        return f"Struct{{{','.join(f'{field.name}={text_of(v, field.schema)}' for field, v in fields if v is not None)}}}"
    keys, values = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{text_of(k, keys)}={text_of(v, values)}' for k, v in value.items())}}}"
    return f"[{', '.join(text_of(entry, values) for entry in value)}]"


def _date_text(value: datetime.date | datetime.time) -> str:
    """``java.util.Date.toString`` in UTC."""
    if isinstance(value, datetime.time):
        value = datetime.datetime.combine(datetime.date(1970, 1, 1), value)
    moment = value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
    return f"{_DAYS[moment.weekday()]} {_MONTHS[moment.month - 1]} {moment.day:02d} {moment:%H:%M:%S} UTC {moment.year:04d}"


def decode_utf8(value: bytes) -> str:
    """UTF-8 text as Java's decoder reads it. Python's differs in one case: an encoded surrogate is one malformed sequence, not three."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, value).decode("utf-8", "replace")


def in_hash_order(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The entries as a Java HashMap lists them (contract §2.2); of equal keys the last wins."""
    entries = dict(pairs)
    if len(entries) < 2:
        return entries
    capacity = 16
    while len(entries) > capacity * 3 // 4:
        capacity *= 2
    return dict(sorted(entries.items(), key=lambda entry: java_hash(entry[0]) & (capacity - 1)))


def java_hash(text: str) -> int:
    """``String.hashCode``, spread as HashMap does. That of short texts is kept: the fields of records come again and again."""
    return _kept_hash(text) if len(text) <= _LONGEST_KEPT else _hash(text)


@lru_cache(maxsize=4096)
def _kept_hash(text: str) -> int:
    return _hash(text)


def _hash(text: str) -> int:
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ (code >> 16)
