"""What an input may become: fields of a schema, columns of a file, bytes of the values that are in memory at once.

The bytes of an input do not bound what it becomes: a name may stand for a tree of types, a dictionary for a million rows. So each reader
counts what it is about to make, in the units of its format, and asks here before it makes it. Knows no format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
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
"""Of the values that are made in one step."""
MOST_MADE: Final = 1 << 30
"""Of all values of a small file together, or of a part of it that is read by itself."""
MOST_FAULTS: Final = 1000
"""Of one piece of a file that are reported each by itself; those behind them are one exception."""
_HOPELESS_FAULTS: Final = 20_000
_FAULTS_A_ROW: Final = 10
_MOST_UNPACKED: Final = 64 << 20
_MOST_TIMES: Final = 1100
"""Compressed data may become so many bytes, or so many times its size if that is more: what deflate can become at most."""


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


def bounded_faults(faults: Sequence[DataException], count: int) -> Iterator[DataException]:
    """The first ``MOST_FAULTS`` of ``count`` faults, which ``faults`` begins with, and one exception for those behind them."""
    yield from faults[:MOST_FAULTS]
    if count > MOST_FAULTS:
        yield DataException(f"{count - MOST_FAULTS} further records behind these cannot be read either")


def is_hopeless(bad: int, good: int) -> bool:
    """Whether a file of so many rows that can be read, and so many that cannot, is not of its format at all: no more of it is read."""
    return bad > _HOPELESS_FAULTS and bad > good * _FAULTS_A_ROW


def hopeless(bad: int, good: int) -> DataException:
    """The fault of the rest of such a file."""
    return DataException(f"{bad} rows of it could not be read, and {good} could: it is not of this format, or has other settings")


def check_unpacked(packed: int, unpacked: int, free: int = _MOST_UNPACKED) -> None:
    """Raise DataException where ``packed`` bytes have become more than anybody's data does. ``free`` bytes are always right."""
    if unpacked > max(free, packed * _MOST_TIMES):
        raise DataException(
            f"{packed} bytes become more than {_MOST_TIMES} times as many ({unpacked} so far), and no more of them is read. "
            "If this data is right, write it anew with less compression"
        )


def check_bytes(size: int, what: str) -> None:
    """Raise DataException where so many bytes of values would be made in one step: fewer records may be right."""
    if size > MOST_BYTES:
        raise DataException(f"{what} would have {size} bytes in memory, and {MOST_BYTES} are made at most")
