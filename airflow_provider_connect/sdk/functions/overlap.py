"""Late rows: rows whose cursor equals the committed cursor, or is at most ``width`` below it.

A source offset has three parts: the cursor, the value after which rows are read again (``since``), and a hash of each row above ``since``
that is in Kafka. So each row is delivered once, late or not. The number of hashes is limited. If more rows are within the width, the width
shrinks.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import logging
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.functions.cursor import CURSOR, cursor_scalar, json_value

log = logging.getLogger(__name__)
SINCE, DELIVERED = "since", "delivered"
"""The keys of source offsets besides the cursor."""
MOST_ROWS: Final = 5_000
_HASH_BYTES: Final = 8
Width = int | float | Decimal | datetime.timedelta


class Overlap:
    """The late rows of one source partition.

    ``offset`` is the last committed offset; None if no row was delivered. ``key`` and the cursor are the fields that identify a row. If
    ``key`` is None, all fields identify it.
    """

    def __init__(self, column: str, width: Width, key: str | Sequence[str] | None, offset: Mapping[str, Any] | None, title: str) -> None:
        given = offset or {}
        self._column = column
        self._width = width
        self._key = [key] if isinstance(key, str) else key
        self._title = title
        self.since: Any = given.get(SINCE, given.get(CURSOR))  # JSON; rows up to it are skipped
        self._greatest: Any = given.get(CURSOR)
        data = base64.b64decode(given.get(DELIVERED, ""))
        self._unseen = {data[at : at + _HASH_BYTES] for at in range(0, len(data), _HASH_BYTES)}
        self._near: list[tuple[pa.Scalar, bytes]] = []  # in order
        self._is_warned = False
        self.late = 0

    def new_rows(self, table: pa.Table) -> pa.Table:
        """The rows that are not in Kafka yet. ``table`` must not contain rows up to ``since``."""
        values = table.column(self._column)
        if self._greatest is None or not len(values):
            return table
        greatest = cursor_scalar(self._greatest, values.type)
        count = pc.sum(pc.less_equal(values, greatest)).as_py() or 0
        hashes = self._hashes(table.slice(0, count))
        is_new = [each not in self._unseen for each in hashes]
        self._near += [(values[row], each) for row, each in enumerate(hashes) if not is_new[row]]
        self._unseen.difference_update(hashes)
        self.late += sum(is_new)
        if any(is_new):
            log.warning("%s: %d late rows, with a cursor up to the committed %s", self._title, sum(is_new), self._greatest)
        if count < len(values):
            self._unseen.clear()  # these rows no longer exist, since they would precede the new rows
        return table if all(is_new) else table.filter(pa.array([*is_new, *([True] * (len(values) - count))], pa.bool_()))

    def offset_after(self, table: pa.Table) -> dict[str, Any]:
        """The source offset after these rows, which the caller sends now."""
        values = table.column(self._column)
        last = values[-1]
        if self._greatest is not None and pc.less(last, cursor_scalar(self._greatest, values.type)).as_py():
            last = cursor_scalar(self._greatest, values.type)
        low = self._below(last)
        near = table.slice(pc.sum(pc.less_equal(values, low)).as_py() or 0)
        numbers = near.column(self._column)
        self._near += [(numbers[row], each) for row, each in enumerate(self._hashes(near))]
        self._near = [(value, each) for value, each in self._near if pc.greater(value.cast(low.type), low).as_py()]
        most = MOST_ROWS - len(self._unseen)
        if len(self._near) > most:
            low = self._near[-most - 1][0] if most > 0 else last
            self._near = [(value, each) for value, each in self._near if pc.greater(value.cast(low.type), low).as_py()]
            self._warn(low)
        since = (
            low
            if self.since is None or pc.greater(low, cursor_scalar(self.since, low.type)).as_py()
            else cursor_scalar(self.since, low.type)
        )
        self.since, self._greatest = json_value(since), json_value(last)
        data = b"".join([*sorted(self._unseen), *(each for _, each in self._near)])
        return {CURSOR: self._greatest, SINCE: self.since, DELIVERED: base64.b64encode(data).decode()}

    def _warn(self, low: pa.Scalar) -> None:
        if not self._is_warned:
            text = "%s: more than %d rows are within the overlap of %s: only rows above %s are read again. Choose a smaller overlap"
            log.warning(text, self._title, MOST_ROWS, self._width, low)
        self._is_warned = True

    def _below(self, value: pa.Scalar) -> pa.Scalar:
        """``value`` minus the width."""
        try:
            plain = value.cast(pa.timestamp("us", value.type.tz), safe=False) if pa.types.is_timestamp(value.type) else value
            return pa.scalar(plain.as_py() - self._width).cast(value.type)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise ConnectException(
                f"{self._title}: the overlap {self._width!r} cannot be subtracted from the cursor {self._column!r} {value} of type "
                f"{value.type}: use a number for numbers, a timedelta for dates and timestamps"
            ) from error

    def _hashes(self, rows: pa.Table) -> list[bytes]:
        names = rows.column_names if self._key is None else [*self._key, self._column]
        known = sorted(set(names) & set(rows.column_names))
        columns = [[_text(value) for value in _plain(rows.column(name)).to_pylist()] for name in known]
        return [hashlib.blake2b("\0".join(row).encode(), digest_size=_HASH_BYTES).digest() for row in zip(*columns, strict=True)]


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds, so that a value has the same text even if a later run widens its field."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
    return column.cast(pa.string()) if pa.types.is_time(column.type) else column


def _text(value: object) -> str:
    return repr(int(value) if isinstance(value, float) and value.is_integer() else value)


def reached_of(offset: Any) -> Any:
    """The greatest cursor in ``offset``, a result of ``cursor.cursor_of``. ``offset`` may be an offset with an overlap."""
    return offset[CURSOR] if is_overlap(offset) else offset


def since_of(offset: Any) -> Any:
    """The cursor in ``offset``, a result of ``cursor.cursor_of``, from which rows are read again."""
    return offset[SINCE] if is_overlap(offset) else offset


def is_overlap(offset: Any) -> bool:
    return isinstance(offset, Mapping) and set(offset) == {CURSOR, SINCE, DELIVERED}
