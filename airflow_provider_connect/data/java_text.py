"""Values as Java prints them, numbers as Java parses and casts them, and the key order of a HashMap. Every unit may import this module.

There is one difference: Java prints bytes as an address (``[B@1b6d3586``), which is useless. This module decodes them as UTF-8.
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

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.schema import Schema, SchemaType, Struct

NULL: Final = "null"
BLANKS: Final = "".join(map(chr, range(33)))
"""The characters that ``String.trim`` removes."""

_LONGEST_KEPT: Final = 250  # because a string from a request may be a megabyte long
_LEAST_PLAIN, _LEAST_WITH_EXPONENT = 1e-3, 1e7
_LEAST_NORMAL: Final = 2.2250738585072014e-308
_LARGEST_SINGLE: Final = 3.4028235677973366e38  # from this value on, numbers round to infinity
_INTEGER: Final = re.compile(r"([+-]?)0*(\d{1,19})")  # no type has more digits
_UNSIGNED: Final = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_DECIMAL: Final = re.compile(rf"[+-]?{_UNSIGNED}")
_DOUBLE: Final = re.compile(rf"([+-]?(?:NaN|Infinity))|([+-]?{_UNSIGNED})[fFdD]?", re.ASCII)
_HEXADECIMAL: Final = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?")
_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


# Text


def text_of(value: Any, schema: Schema | None = None) -> str:  # Any: a value of any schema or setting
    """``String.valueOf(value)``. A float without a schema is a double."""
    if value is None or isinstance(value, bool):
        return {None: NULL, True: "true", False: "false"}[value]
    if isinstance(value, float):
        return single_text(value) if schema is not None and schema.type is SchemaType.FLOAT32 else double_text(value)
    if isinstance(value, Struct | Mapping | list | tuple):
        return _composite_text(value, schema)
    if isinstance(value, bytes | bytearray | memoryview):
        return decode_utf8(bytes(value))
    return _date_text(value) if isinstance(value, datetime.date | datetime.time) else str(value)


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
    printed = value.ctime()  # Thu Jan  1 00:00:00 1970, in English in every locale
    return f"{printed[:8]}{value.day:02d}{printed[10:20]}UTC {value.year:04d}"


def double_text(value: float) -> str:
    """``Double.toString`` of JDK 19 and later: the shortest digits that identify the number, but at least two.

    Numbers between 1e-3 and 1e7 are printed without an exponent. Other numbers have one digit before the point, and an exponent. If one
    digit is enough to identify the number, the nearest text of two digits is used: ``4.9E-324``. JDK 17 prints two numbers in a thousand
    differently: with one digit too many, or not as the nearest text (JDK-4511638).
    """
    value = float(value)  # a numpy number is also a float, but its repr has the class name
    size = abs(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if size == 0 or _LEAST_PLAIN <= size < _LEAST_WITH_EXPONENT:
        return repr(value)
    sign, shortest = "-" if value < 0 else "", repr(size)
    if size < _LEAST_NORMAL and float(two := f"{size:.1e}") == size:
        shortest = two
    mantissa, _, exponent = shortest.partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) - len(fraction) + len(digits) - 1  # the power of ten, with one digit before the point
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{power}"


def single_text(value: float) -> str:
    """``Float.toString``: like ``double_text``, for 32-bit numbers."""
    if not abs(value) < _LARGEST_SINGLE:
        return double_text(math.copysign(math.inf, value) if abs(value) > 1 else value)
    packed = struct.pack("f", value)
    shortest = next(text for text in (f"{value:.{digits}g}" for digits in range(2, 10)) if struct.pack("f", float(text)) == packed)
    return double_text(float(shortest))


def double_texts(column: pa.Array) -> pa.Array:
    """``Double.toString`` for a column of doubles, ``Float.toString`` for a column of floats. Null stays null.

    From 0.001 to ten million, Arrow prints the same digits as Java, except for the ``.0`` of whole numbers. Other numbers are converted one
    by one.
    """
    size = pc.abs(column)
    is_plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, _LEAST_PLAIN), pc.less(size, _LEAST_WITH_EXPONENT)))
    text = column.cast(pa.string())
    whole = pc.and_(is_plain, pc.equal(pc.floor(column), column))
    if pc.any(whole).as_py():
        text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    if pc.all(is_plain).as_py() in (True, None):
        return text
    odd = pc.fill_null(pc.invert(is_plain), False)
    write = single_text if pa.types.is_float32(column.type) else double_text
    return pc.replace_with_mask(text, odd, pa.array([write(value) for value in column.filter(odd).to_pylist()], pa.string()))


def decode_utf8(value: bytes) -> str:
    """Decode UTF-8 as Java does. Python differs in one case: Java treats an encoded surrogate as one malformed sequence, Python as
    three."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, value).decode("utf-8", "replace")


def regex_error(text: str, error: re.error) -> str:
    """``PatternSyntaxException.getMessage`` for common errors; Python's message for others.

    The message has a description, ``near index``, the expression, and a mark below that index if the index is inside the expression.
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


# Numbers


def parse_integer(text: str, bits: int) -> int | None:
    """``Long.parseLong`` for an integer of ``bits`` bits. Returns None if ``text`` is not an integer, or is out of range."""
    found = _INTEGER.fullmatch(text)
    number = int(found[1] + found[2]) if found else None
    return number if number is not None and wrapped(number, bits) == number else None


def parse_double(text: str) -> float | None:
    """``Double.parseDouble``: accepts white space around the number, a suffix ``f`` or ``d``, and hexadecimals. Returns None if ``text`` is
    not a number."""
    text = text.strip(BLANKS)
    if found := _DOUBLE.fullmatch(text):
        return float(found[1] or found[2])
    if not (found := _HEXADECIMAL.fullmatch(text)):
        return None
    try:
        return float.fromhex(found[1])
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def parse_decimal(text: str) -> Decimal | None:
    """``new BigDecimal(text)``. Returns None if ``text`` is not a number."""
    return Decimal(text) if _DECIMAL.fullmatch(text) else None


def wrapped(number: int, bits: int) -> int:
    """The lowest ``bits`` bits as a signed number, like Java's cast of a larger integer."""
    limit = 1 << (bits - 1)
    return (number + limit) % (limit << 1) - limit


def as_single(number: float) -> float:
    """The nearest 32-bit float, or infinity beyond the largest one."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


# Hashes


def in_hash_order(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The entries in the order of a Java HashMap (docs/contract.md §2.2). If a key occurs several times, its last value is used."""
    entries = dict(pairs)
    if len(entries) < 2:
        return entries
    capacity = 16
    while len(entries) > capacity * 3 // 4:
        capacity *= 2
    return dict(sorted(entries.items(), key=lambda entry: java_hash(entry[0]) & (capacity - 1)))


def java_hash(text: str) -> int:
    """``String.hashCode`` with HashMap's spreading of bits. Cached for short strings, because all records have the same field names."""
    return _kept_hash(text) if len(text) <= _LONGEST_KEPT else _hash(text)


def _hash(text: str) -> int:
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ (code >> 16)


_kept_hash: Final = lru_cache(maxsize=4096)(_hash)
