"""What an input may become: fields of a schema, columns of a file, bytes of the values that are in memory at once.

The bytes of an input do not bound what it becomes: a name may stand for a tree of types, a dictionary for a million rows. So each reader
counts what it is about to make, in the units of its format, and asks here before it makes it. Knows no format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Final

from airflow_provider_connect.errors import DataException, SchemaException

MOST_FIELDS: Final = 20_000
"""Of a schema, with those of the types in it, each counted as often as it is used."""
_PARAMETERS: Final = 25  # that weigh as much as a field, symbols of an enum among them
MOST_LEVELS: Final = 200
"""Of references and types of a schema within one another."""
MOST_COLUMNS: Final = 4096
"""Of a text file: each is a field of a struct."""
MOST_BYTES: Final = 256 << 20
"""Of the values that are made in one step, and of one row of a file: no step works on less than a row."""
MOST_FAULTS: Final = 10_000
"""Lines of one piece of a file that are reported each by itself; those behind them are one exception."""


def check_fields(count: int, what: str) -> int:
    """``count``, if a schema may have so many fields. Raises SchemaException with the limit for more."""
    if count > MOST_FIELDS:
        raise SchemaException(
            f"{what} has more than {MOST_FIELDS} fields, each type counted as often as it is used (here {count} at least); "
            "no schema of more is read. Leave out fields, or nest less"
        )
    return count


def weight_of(parameters: Sized | None) -> int:
    """How many fields the parameters of a schema, or the symbols of an enum, count as."""
    return 0 if parameters is None else len(parameters) // _PARAMETERS


def rows_at_once(row_bytes: float, wanted_bytes: int, what: str) -> int:
    """How many rows of ``row_bytes`` each, when they are values in memory, have about ``wanted_bytes``; at least one.

    Raises DataException for a row that is too large to be made."""
    if row_bytes > MOST_BYTES:
        raise DataException(f"{what} expands to {row_bytes:.0f} bytes a row; at most {MOST_BYTES} are read")
    return max(1, int(wanted_bytes / max(row_bytes, 1)))


def check_bytes(size: int, what: str) -> int:
    """``size``, if so many bytes of values may be made in one step. Raises DataException with the limit for more."""
    if size > MOST_BYTES:
        raise DataException(f"{what} would have {size} bytes in memory; at most {MOST_BYTES} are made at once. Set batch.max.records lower")
    return size


def bounded_faults(faults: Iterable[DataException], count: int) -> Iterator[DataException]:
    """The first of ``count`` faults, and one exception for those behind them."""
    for number, fault in enumerate(faults):
        if number == MOST_FAULTS:
            break
        yield fault
    if count > MOST_FAULTS:
        yield DataException(f"{count - MOST_FAULTS} further records behind these cannot be read either")
