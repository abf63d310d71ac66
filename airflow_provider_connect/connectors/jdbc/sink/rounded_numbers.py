"""Numbers that a column cannot hold exactly: those that a database rounds, and those that SQLite would replace."""

from __future__ import annotations

import logging
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.database.database_errors import RefusedException
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable
from airflow_provider_connect.data.arrow import pa, pc

log = logging.getLogger(__name__)

_DIGITS: Final = {ColumnKind.FLOAT32: 6, ColumnKind.FLOAT64: 15}
"""The decimal digits that a float of this kind always keeps."""


class RoundedNumbers:
    """Counts the numbers that columns of a database round, and logs each such column once in a task. These records are delivered, because
    any decimal or double in a shorter column may be rounded, and some tables are made like that."""

    def __init__(self, connector: str) -> None:
        self.values = 0
        """The rounded numbers, including those of repeated writes."""
        self._connector = connector
        self._warned: set[tuple[str, str]] = set()

    def add(self, table: TargetTable, rows: pa.Table, *, rounds_decimals: bool) -> None:
        """Note the rounded numbers of ``rows``. ``rounds_decimals``: decimal columns round to their scale. Called for each statement."""
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            target = table.columns.get(name)
            rounded = None if target is None else _rounded(column, target, rounds_decimals=rounds_decimals)
            count = 0 if rounded is None else pc.sum(rounded).as_py() or 0
            self.values += count
            if count and (str(table.name), name) not in self._warned:
                self._warned.add((str(table.name), name))
                log.warning(
                    "Connector %s: column %s of table %s (%s) rounds numbers of records (%s), such as %s. For exact numbers, %s. "
                    "To round on purpose, %s",
                    self._connector,
                    name,
                    table.name,
                    table.declared.get(name) or (target.type_name if target is not None else ""),
                    column.type,
                    column[pc.index(rounded, True).as_py()].as_py(),
                    *remedies(column.type, target.kind if target is not None else ColumnKind.DECIMAL),
                )


def remedies(given: pa.DataType, kind: ColumnKind) -> tuple[str, str]:
    """What keeps the numbers of this type exact that a column of ``kind`` rounds, and what rounds them before. Cast makes no decimals."""
    if kind is ColumnKind.DECIMAL:
        evolved = ", or set auto.evolve=true" if pa.types.is_decimal(given) else ""
        return f"give the column more digits{evolved}", "round the field (transformation SqlTransform, CAST(… AS DECIMAL(…, …)))"
    if pa.types.is_float64(given):
        exact = "make the column a double, or set auto.evolve=true"
    else:
        exact = f"make the column {'a decimal' if pa.types.is_decimal(given) else 'an integer of 64 bits'}"
    return exact, f"cast the field to {kind} (transformation Cast)"


def _rounded(column: pa.ChunkedArray, target: Column, *, rounds_decimals: bool) -> pa.ChunkedArray | None:
    """True where the column rounds a number. None: it rounds no number of this type."""
    types, given, kind = pa.types, column.type, target.kind
    is_decimal, is_double = types.is_decimal(given), types.is_float64(given)
    if is_decimal and kind in _DIGITS:
        return _has_more_digits(column, _DIGITS[kind])
    if (is_decimal or types.is_floating(given)) and kind is ColumnKind.DECIMAL and rounds_decimals and target.scale is not None:
        if is_decimal and given.scale <= target.scale:
            return None
        return pc.and_(pc.not_equal(pc.round(column, target.scale), column), pc.is_finite(column))
    if is_double and kind is ColumnKind.FLOAT32:
        return pc.and_(pc.not_equal(column.cast(pa.float32(), safe=False).cast(pa.float64()), column), pc.is_finite(column))
    if types.is_int64(given) and kind in _DIGITS:
        wanted = pa.float32() if kind is ColumnKind.FLOAT32 else pa.float64()
        return pc.not_equal(column.cast(wanted, safe=False).cast(pa.float64()).cast(pa.int64(), safe=False), column)
    return None


def refuse_unheld_numbers(column: pa.ChunkedArray, target: Column) -> None:
    """Raise RefusedException for the first number that SQLite replaces: NaN becomes null, and a decimal with more than 15 digits another
    number, unless it is a whole number of 64 bits."""
    if pa.types.is_floating(column.type):
        is_lost, reason = pc.is_nan(column), "would become null"
    elif pa.types.is_decimal(column.type) and target.kind is ColumnKind.DECIMAL:
        digits = _has_more_digits(column, _DIGITS[ColumnKind.FLOAT64])
        if digits is None:
            return
        is_lost = digits if column.type.scale else pc.and_(digits, pc.invert(_is_long(column)))
        reason = "would be rounded to 15 digits: cast the field to string (transformation Cast), for a column of TEXT"
    else:
        return
    row = pc.index(is_lost.combine_chunks().fill_null(False), True).as_py()
    if row >= 0:
        raise RefusedException(f"{column[row].as_py()} does not fit column {target.name}, where it {reason}", row)


def _has_more_digits(column: pa.ChunkedArray, most: int) -> pa.ChunkedArray | None:
    """True where a decimal has more significant digits than ``most``. None: no decimal has."""
    bounds = pc.min_max(column)
    least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
    if least is None or max(-least, greatest).scaleb(column.type.scale) < 10**most:
        return None
    text = pc.replace_substring_regex(column.cast(pa.string()), r"[-.]|E.*$", "")
    return pc.greater(pc.utf8_length(pc.utf8_rtrim(pc.utf8_ltrim(text, "0"), "0")), most)


def _is_long(column: pa.ChunkedArray) -> pa.ChunkedArray:
    least, greatest = (pa.scalar(number, pa.decimal128(19, 0)).cast(column.type) for number in (-(1 << 63), (1 << 63) - 1))
    return pc.and_(pc.greater_equal(column, least), pc.less_equal(column, greatest))
