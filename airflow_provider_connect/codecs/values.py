"""Values ↔ text, as Connect's class ``Values`` writes and reads it for headers (docs/contract.md §11.3). The type of a text is inferred.

The grammar is Connect's, with its oddities: text that is not a value is a string, and the value of ``1,2`` is the first number.
"""

from __future__ import annotations

import base64
import datetime
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from airflow_provider_connect.data.java_text import BLANKS, as_single, parse_decimal, text_of, wrapped
from airflow_provider_connect.data.json_text import MAX_DEPTH
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    DATE_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    NULL,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    SchemaAndValue,
    SchemaType,
    Struct,
    decimal_schema,
)
from airflow_provider_connect.errors import DataException

_EPOCH: Final = datetime.date(1970, 1, 1)
_DELIMITERS: Final = frozenset(':,{}[]"')
_INTEGERS: Final = ((8, INT8_SCHEMA), (16, INT16_SCHEMA), (32, INT32_SCHEMA), (64, INT64_SCHEMA))
_RANKS: Final = {
    kind: rank
    for rank, kind in enumerate(
        (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.FLOAT32, SchemaType.FLOAT64)
    )
}


def convert_to_string(schema: Schema | None, value: Any, *, is_inner: bool = False) -> str:  # Any: a value of any schema
    """The text of a value. Strings and bytes (base64) are quoted only inside other values (``is_inner``). Dates and times are ISO 8601.

    Raises DataException for a value of another type."""
    if value is None:
        return "null"
    if isinstance(value, Struct | Mapping | list | tuple):
        return _collection_text(schema, value)
    if isinstance(value, datetime.date | datetime.time):
        return _date_text(value)
    if isinstance(value, str | bytes | bytearray | memoryview):
        text = value if isinstance(value, str) else base64.b64encode(value).decode()
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' if is_inner else text
    if not isinstance(value, int | float | Decimal):
        raise DataException(f"Failed to serialize unexpected value type {type(value).__name__}: {value}")
    return text_of(value, schema)


def _collection_text(schema: Schema | None, value: Any) -> str:
    inner = partial(convert_to_string, is_inner=True)
    keys, values = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
    if isinstance(value, Struct):
        fields = (f"{inner(None, field.name)}:{inner(field.schema, value.get(field.name))}" for field in value.schema.fields)
        return f"{{{','.join(fields)}}}"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{inner(keys, key)}:{inner(values, entry)}' for key, entry in value.items())}}}"
    return f"[{','.join(inner(values, entry) for entry in value)}]"


def _date_text(value: datetime.date | datetime.time) -> str:
    """Only the time for instants until the end of 1 January 1970, only the date at midnight, otherwise both. As in Connect, the instant
    decides, not the type."""
    if isinstance(value, datetime.datetime):
        day, time = value.astimezone(datetime.UTC).date(), value.astimezone(datetime.UTC).time()
    elif isinstance(value, datetime.date):
        day, time = value, datetime.time()
    else:
        day, time = _EPOCH, value
    of_day = f"{time.isoformat('milliseconds')}Z"
    if day <= _EPOCH:
        return of_day
    return day.isoformat() if time == datetime.time() else f"{day.isoformat()}T{of_day}"


def parse_string(text: str) -> SchemaAndValue:
    """The value of ``text``, with an inferred schema. Lists and maps whose entries have no common schema are schemaless.

    Raises ValueError, ArithmeticError or DataException for lists and maps that are nested too deeply (``json_text.MAX_DEPTH``), and for
    numbers that Python cannot represent.
    """
    if not text:
        return SchemaAndValue(STRING_SCHEMA, text)
    return _Parser(text).parse(is_inner=False) or NULL


class _Tokens:
    """The text split at delimiters. A backslash escapes a delimiter."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._index = 0
        self._next: str | None = None

    def mark(self) -> int:
        return self._index - len(self._next or "")

    def rewind(self, position: int) -> None:
        self._index, self._next = position, None

    def has_next(self) -> bool:
        return self._next is not None or self._index < len(self.text)

    def next(self) -> str:
        token = self._take() if self._next is None else self._next
        self._next = None
        return token

    def next_joined(self, count: int) -> str | None:
        """The next ``count`` tokens as one text. If there are fewer tokens, returns None and consumes nothing."""
        start = self.mark()
        for _ in range(count):
            if not self.has_next():
                self.rewind(start)
                return None
            self.next()
        return self.text[start : self._index]

    def consume(self, expected: str) -> bool:
        """Consume the next token if it is ``expected``. White space before it is always consumed."""
        if self._next is None:
            if not self.has_next():
                return False
            self._next = self._take()
        while not self._next.strip(BLANKS) and self._index < len(self.text):
            self._next = self._take()
        if self._next.strip(BLANKS) != expected:
            return False
        self._next = None
        return True

    def _take(self) -> str:
        start, is_escaped = self._index, False
        while self._index < len(self.text):
            character = self.text[self._index]
            if character in _DELIMITERS and not is_escaped:
                self._index = max(self._index, start + 1)
                break
            is_escaped = character == "\\" and not is_escaped
            self._index += 1
        return self.text[start : self._index]


class _Parser:
    """Parses one text. ``is_inner``: the text is inside a list or map."""

    def __init__(self, text: str) -> None:
        self._tokens = _Tokens(text)
        self._depth = 0

    def parse(self, *, is_inner: bool) -> SchemaAndValue | None:
        """The next value, or None for null. Raises DataException for an inner value that cannot be parsed."""
        tokens = self._tokens
        if not tokens.has_next():
            return None
        if is_inner and tokens.consume('"'):
            return self._quoted()
        for word, value in (("null", None), ("true", True), ("false", False)):
            if self._is_word(word, is_inner=is_inner):
                return None if value is None else SchemaAndValue(BOOLEAN_SCHEMA, value)
        collection = self._collection()
        if collection is not None:
            return collection
        token = tokens.next()
        if not token.strip(BLANKS):
            return SchemaAndValue(STRING_SCHEMA, token)
        return self._scalar(token.strip(BLANKS), is_inner=is_inner)

    def _collection(self) -> SchemaAndValue | None:
        """The list or map that starts here. If there is no list or map, or it cannot be parsed, returns None and consumes nothing."""
        start = self._tokens.mark()
        self._depth += 1
        try:
            for delimiter, parse in (("[", self._list), ("{", self._map)):
                if self._tokens.consume(delimiter):
                    if self._depth > MAX_DEPTH:
                        raise ValueError(f"Lists and maps are nested more than {MAX_DEPTH} deep")
                    return parse()
        except DataException:  # the text is a string
            self._tokens.rewind(start)
        finally:
            self._depth -= 1
        return None

    def _is_word(self, word: str, *, is_inner: bool) -> bool:
        start = self._tokens.mark()
        if self._tokens.consume(word) and (is_inner or not self._tokens.has_next()):
            return True
        self._tokens.rewind(start)
        return False

    def _scalar(self, token: str, *, is_inner: bool) -> SchemaAndValue:
        if token[0].isdecimal():
            instant = self._temporal_of_tokens(token)
            if instant is not None:
                return instant
        if (token[0].isdecimal() or token[0] in "+-") and (number := parse_decimal(token)) is not None:
            return _number(number)
        if is_inner:
            raise DataException("Failed to parse embedded value")
        return SchemaAndValue(STRING_SCHEMA, self._tokens.text)

    def _temporal_of_tokens(self, token: str) -> SchemaAndValue | None:
        """The time that starts with ``token``. Colons are delimiters, so a time has five tokens."""
        position = self._tokens.mark()
        rest = self._tokens.next_joined(4)
        instant = _temporal(token + rest) if rest is not None else None
        if instant is None:
            self._tokens.rewind(position)
            instant = _temporal(token)
        return instant

    def _quoted(self) -> SchemaAndValue:
        parts: list[str] = []
        while self._tokens.has_next() and not self._tokens.consume('"'):
            parts.append(self._tokens.next())
        text = "".join(parts)
        return _temporal(text) or SchemaAndValue(STRING_SCHEMA, text)

    def _list(self) -> SchemaAndValue:
        tokens, schemas = self._tokens, _Schemas()
        values: list[Any] = []
        while tokens.has_next():
            if tokens.consume("]"):
                schema = None if schemas.merged is None else Schema.array(schemas.merged)
                return SchemaAndValue(schema, values if schema is None else [_aligned(schemas.merged, value) for value in values])
            if tokens.consume(","):
                raise DataException(f"Unable to parse an empty array element: {tokens.text}")
            entry = self.parse(is_inner=True)
            schemas.merge(entry)
            values.append(None if entry is None else entry.value)
            position = tokens.mark()
            if tokens.consume("]"):
                tokens.rewind(position)
            elif not tokens.consume(","):
                raise DataException("Array elements missing ',' delimiter")
        raise DataException(f"Array is missing terminating ']': {tokens.text}")

    def _map(self) -> SchemaAndValue:
        tokens, keys, entries = self._tokens, _Schemas(), _Schemas()
        values: dict[Any, Any] = {}
        while tokens.has_next():
            if tokens.consume("}"):
                if keys.merged is None or entries.merged is None:
                    return SchemaAndValue(None, values)
                schema = Schema.map(keys.merged, entries.merged)
                return SchemaAndValue(schema, {_aligned(keys.merged, k): _aligned(entries.merged, v) for k, v in values.items()})
            if tokens.consume(","):
                raise DataException(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.parse(is_inner=True)
            if key is None or isinstance(key.value, list | dict):
                raise DataException(f"Map entry may not have a null key: {tokens.text}")
            if not tokens.consume(":"):
                raise DataException(f"Map entry is missing ':' in {tokens.text}")
            value = self.parse(is_inner=True)
            values[key.value] = None if value is None else value.value
            tokens.consume(",")
            keys.merge(key)
            entries.merge(value)
        raise DataException(f"Map is missing terminating '}}': {tokens.text}")


class _Schemas:
    """The common schema of several values. For numbers, it is the wider schema. None if the values have no common schema."""

    def __init__(self) -> None:
        self.merged: Schema | None = None
        self._is_compatible = True

    def merge(self, value: SchemaAndValue | None) -> None:
        if value is None or not self._is_compatible:
            return
        self.merged = value.schema if self.merged is None else _merged(self.merged, value.schema)
        self._is_compatible = self.merged is not None


def _merged(one: Schema, other: Schema | None) -> Schema | None:
    if other is None or one.type is other.type:
        return other
    ranks = _RANKS.get(one.type), _RANKS.get(other.type)
    if ranks[0] is None or ranks[1] is None:
        return None
    return one if ranks[0] > ranks[1] else other


def _aligned(schema: Schema | None, value: Any) -> Any:  # Any: a value of another schema, converted to ``schema``
    if schema is None:
        return value
    if value is None:
        raise DataException("Unable to convert a null value to a schema that requires a value")
    if schema.logical_name is not None or schema.type not in _ALIGN:
        return value
    try:
        return _ALIGN[schema.type](value)
    except (TypeError, ValueError) as error:
        raise DataException(f"Unable to convert {value} to {schema.type.name}") from error


_ALIGN: Final[Mapping[SchemaType, Callable[[Any], Any]]] = {
    SchemaType.INT8: int,
    SchemaType.INT16: int,
    SchemaType.INT32: int,
    SchemaType.INT64: int,
    SchemaType.FLOAT32: float,
    SchemaType.FLOAT64: float,
    SchemaType.STRING: lambda value: convert_to_string(None, value),
}


def _number(number: Decimal) -> SchemaAndValue:
    exponent = int(number.as_tuple().exponent)
    if number.adjusted() < 20 and number == (whole := number.to_integral_value()):
        for bits, schema in _INTEGERS:
            if wrapped(int(whole), bits) == whole:
                return SchemaAndValue(schema, int(whole))
    if exponent:
        single = as_single(float(number))
        if math.isfinite(single):
            return SchemaAndValue(FLOAT32_SCHEMA, single)
        if math.isfinite(float(number)):
            return SchemaAndValue(FLOAT64_SCHEMA, float(number))
    return SchemaAndValue(decimal_schema(-exponent), number)


_DAY: Final = r"(?P<year>\d+)-(?P<month>\d+)-(?P<day>\d+)"
_TIME: Final = r"(?P<hours>\d+):(?P<minutes>\d+):(?P<seconds>\d+)\.(?P<milliseconds>\d+)Z"
_TEMPORALS: Final = {
    10: (re.compile(_DAY), DATE_SCHEMA),
    13: (re.compile(_TIME), TIME_SCHEMA),
    24: (re.compile(f"{_DAY}T{_TIME}"), TIMESTAMP_SCHEMA),
}


def _temporal(text: str) -> SchemaAndValue | None:
    """The date, time or timestamp in ``text``, whose length determines the type. The 45th of a month is a day of the next month, as in
    Java."""
    text = text.replace("\\:", ":")
    pattern, schema = _TEMPORALS.get(len(text), (None, None))
    match = pattern.match(text) if pattern is not None else None
    if match is None:
        return None
    found = {name: int(digits) for name, digits in match.groupdict().items()}
    try:
        instant = _instant(found.pop("year", 1970), found.pop("month", 1), found.pop("day", 1)) + datetime.timedelta(**found)
    except (ValueError, OverflowError):  # beyond the years 1 to 9999
        return None
    if schema is DATE_SCHEMA:
        return SchemaAndValue(schema, instant.date())
    if schema is TIME_SCHEMA:
        return SchemaAndValue(schema, instant.time()) if instant.date() == _EPOCH else None
    return SchemaAndValue(schema, instant)


def _instant(year: int, month: int, day: int) -> datetime.datetime:
    years, month = divmod(month - 1, 12)
    return datetime.datetime(year + years, month + 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=day - 1)
