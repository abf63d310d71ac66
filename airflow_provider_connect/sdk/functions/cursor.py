"""Rows in cursor order. Decides which rows are new, and after which rows a run may end.

The cursor is a column whose values never decrease. Rows with the same value stay together: the rows with a table's last value are kept
until a greater value follows or the rows end. So an offset is exact: all rows up to its value are in Kafka.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, Literal, Protocol, get_args

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.functions.text_order import order_keys, refuse_surrogates

log = logging.getLogger(__name__)
NullCursor = Literal["fail", "skip", "deliver"]
"""The treatment of rows whose cursor is null; see ``source``."""
CURSOR: Final = "cursor"
"""The key of source offsets."""
MOST_HELD_BYTES: Final = 256 << 20
"""The size limit, in bytes, of the rows with one cursor value. These rows are one batch."""


class LateRows(Protocol):
    """The part of ``overlap.Overlap`` that ``CursorOrder`` needs."""

    def new_rows(self, table: pa.Table) -> pa.Table: ...

    def offset_after(self, table: pa.Table) -> dict[str, Any]: ...


class CursorOrder:
    """The rows of one source partition, table by table.

    ``start`` is the cursor of the last committed offset; None for all rows. ``late`` removes rows after ``start`` that are already in
    Kafka. ``is_text``: numbers and times in texts are compared as texts.
    """

    def __init__(  # Any: JSON
        self,
        column: str,
        start: Any,
        title: str,
        late: LateRows | None = None,
        *,
        is_text: bool = False,
        on_null: NullCursor = "fail",
    ) -> None:
        self._column = column
        self._start = start
        self._title = title
        self._late = late
        self._is_text = is_text
        self._on_null = on_null
        self._skipped = 0
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._last: pa.Scalar | None = None

    def ready(self, table: pa.Table, fields: Container[str] = ()) -> Iterator[tuple[pa.Table, Any]]:
        """The rows that can be sent now, with the cursor after them; None for rows whose cursor is null. Leaves out rows up to ``start``,
        because a query may repeat these rows. ``fields`` has fields of the rows that ``table`` lacks because they have had no value yet.

        Raises ConnectException for rows that are not in order, or for too many rows with the same value. Raises DataException for a null
        value with ``on_null="fail"``.
        """
        if not len(table):
            return  # a table without rows may have no fields
        table, without_cursor = self._divided(table, fields)
        if len(without_cursor):
            yield without_cursor, None
        if not len(table):
            return
        keys, start, before = self._keys(self._values(table))
        if start is not None:
            skipped = pc.sum(pc.less_equal(keys, start)).as_py() or 0
            table, keys = table.slice(skipped), keys.slice(skipped)
            if not len(keys):
                return
            self._start = None
        if self._late is not None:
            table = self._late.new_rows(table)
            keys = table.column(self._column)
            if not len(keys):
                return
        last = keys[-1]
        tail = 1 if len(keys) > 1 and keys[-2] != last else pc.sum(pc.equal(keys, last)).as_py()
        body = len(keys) - tail
        if body:
            whole = _joined([*self._held, table.slice(0, body)])
            self._held, self._held_bytes = [], 0
            yield whole, self._behind(whole)
        elif before is not None and before != last:
            yield from self.rest()
        self._last = table.column(self._column)[-1]
        self._hold(table.slice(body))

    def _hold(self, rows: pa.Table) -> None:
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes > MOST_HELD_BYTES:
            raise ConnectException(
                f"{self._title}: more than {MOST_HELD_BYTES >> 20} MiB of rows have the cursor {self._column!r} {self._last}, and would be "
                "one batch. Use a field with more values as the cursor, or yield pairs of rows and a cursor"
            )

    def rest(self) -> Iterator[tuple[pa.Table, Any]]:
        """The rows that ``ready`` has kept, with the cursor after them."""
        if self._held:
            held = _joined(self._held)
            self._held, self._held_bytes = [], 0
            yield held, self._behind(held)

    def _behind(self, rows: pa.Table) -> Any:
        return json_value(rows.column(self._column)[-1]) if self._late is None else self._late.offset_after(rows)

    def _divided(self, table: pa.Table, fields: Container[str]) -> tuple[pa.Table, pa.Table]:
        """The rows with a cursor, and those to be sent without one."""
        index = table.schema.get_field_index(self._column)
        if index < 0 and self._column not in fields:
            there = ", ".join(table.column_names)
            raise DataException(f"rows have no field {self._column!r}, the cursor; their fields are: {there}")
        values = pa.nulls(len(table)) if index < 0 else table.column(index)
        if not values.null_count:
            return table, table.slice(0, 0)
        is_null = pc.is_null(values)
        if self._on_null == "fail":
            row = pc.index(is_null, True).as_py()
            raise DataException(
                f"the cursor {self._column!r} is null in row {row}: leave such rows out of the query, or set on_null_cursor to 'skip' or "
                "'deliver'"
            )
        if self._on_null == "skip":
            self._skipped += values.null_count
            text = "%s: %d rows were skipped because their cursor %r is null, %d since the function was called"
            log.warning(text, self._title, values.null_count, self._column, self._skipped)
            return table.filter(pc.invert(is_null)), table.slice(0, 0)
        return table.filter(pc.invert(is_null)), table.filter(is_null)

    def _values(self, table: pa.Table) -> pa.ChunkedArray:
        """The cursor column, checked."""
        values = table.column(self._column)
        json_value(values[0])  # raises for a type without an order
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            row = pc.index(pc.is_nan(values), True).as_py()
            raise DataException(f"the cursor {self._column!r} is NaN, which has no order, in row {row}")
        return values

    def _keys(self, values: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.Scalar | None, pa.Scalar | None]:
        """The values, ``start`` and the last value before them, each as what it is compared as. Checks the order."""
        start = None if self._start is None else self._started(values.type)
        last = None if self._last is None else self._widened(self._last, values.type)
        known = [each for each in (start, last) if each is not None]
        together = pa.chunked_array([pa.array(known, type=values.type), *values.chunks])
        keys = together
        if not self._is_text and (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            try:
                keys = order_keys(together)
            except DataException as error:
                raise DataException(f"the cursor {self._column!r}: {error}") from None
        ordered = len(known) - (last is not None)  # the last value is before the first of these
        self._refuse_decrease(keys.slice(ordered), together.slice(ordered))
        return keys.slice(len(known)), None if start is None else keys[0], None if last is None else keys[len(known) - 1]

    def _widened(self, last: pa.Scalar, type: pa.DataType) -> pa.Scalar:
        try:
            return last.cast(type)
        except pa.ArrowException as error:
            raise DataException(f"the cursor {self._column!r} has changed its type from {last.type} (value {last}) to {type}") from error

    def _refuse_decrease(self, keys: pa.ChunkedArray, values: pa.ChunkedArray) -> None:
        follows = pc.less_equal(keys.slice(0, max(len(keys) - 1, 0)), keys.slice(1))
        if not pc.all(follows, min_count=0).as_py():
            row = pc.index(follows, False).as_py()
            raise ConnectException(
                f"{self._title}: rows are not in the order of the cursor {self._column!r}: {values[row + 1]} follows {values[row]}. "
                "Sort the query by it, oldest first"
            )

    def _started(self, type: pa.DataType) -> pa.Scalar:
        try:
            return cursor_scalar(self._start, type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise ConnectException(
                f"{self._title}: the offset {self._start!r} cannot be compared with the cursor {self._column!r} of type {type}"
            ) from error


def refuse_unknown_null_cursor(title: str, value: str) -> None:
    """Raise TypeError unless ``value`` is a ``NullCursor``."""
    if value not in get_args(NullCursor):
        raise TypeError(f"{title}: on_null_cursor is {value!r}; it must be one of {', '.join(get_args(NullCursor))}")


def _joined(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")


def cursor_scalar(value: Any, type: pa.DataType) -> pa.Scalar:
    """The inverse of ``json_value``: converts a cursor's value in an offset to an Arrow scalar of ``type``."""
    scalar = pa.scalar(value)
    if pa.types.is_timestamp(type) and type.tz is None and isinstance(value, str):
        value = value.removesuffix("Z")
        scalar = pa.scalar(value)
    if pa.types.is_time(type):  # Arrow parses a time of day only after a date
        scalar = pa.scalar(f"1970-01-01 {value}").cast(pa.timestamp("ns"))
    return scalar if scalar.type.equals(type) else scalar.cast(type)


def json_value(value: Any) -> Any:  # Any: an Arrow or Python scalar; returns JSON
    """A cursor's value for an offset: numbers and strings unchanged, times and decimals as strings. Raises ConnectException for other
    types."""
    if isinstance(value, bool) or (isinstance(value, int) and -(2**63) <= value < 2**63):
        return value
    if isinstance(value, str):
        refuse_surrogates(value)
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    try:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value)
    except (pa.ArrowException, OverflowError):
        scalar = pa.scalar(None)
    types = pa.types
    if types.is_integer(scalar.type) or types.is_floating(scalar.type):
        plain = scalar.as_py()
        if math.isfinite(plain) and (types.is_floating(scalar.type) or plain < 2**63):
            return plain
    elif types.is_string(scalar.type) or types.is_large_string(scalar.type):
        return scalar.as_py()
    elif any(is_kind(scalar.type) for is_kind in (types.is_date, types.is_time, types.is_timestamp, types.is_decimal)):
        text = scalar.cast(pa.string()).as_py()
        with contextlib.suppress(pa.ArrowException, OverflowError):
            if cursor_scalar(text, scalar.type).equals(scalar):
                return text
        raise ConnectException(
            f"A cursor {text} cannot be an offset, because a later run could not read it: use dates and timestamps of the years 0 to 9999"
        )
    raise ConnectException(
        f"A cursor {value!r:.200} cannot be an offset; its type must be a number of at most 64 bits, text, date, time of day, timestamp or "
        "decimal, or a dict of these"
    )


def offset_of(cursor: Any) -> dict[str, Any]:
    """The source offset of a cursor. A dict is the offset itself, because offsets have no nested values."""
    if isinstance(cursor, Mapping):
        return {name: json_value(value) for name, value in cursor.items()}
    return {CURSOR: json_value(cursor)}


def cursor_of(offset: Mapping[str, Any] | None) -> Any:
    """The inverse of ``offset_of``. None for no offset."""
    if not offset:
        return None
    return offset[CURSOR] if set(offset) == {CURSOR} else dict(offset)
