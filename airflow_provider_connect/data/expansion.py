"""Limits on the size to which an input may expand: fields of a schema, columns of a file, bytes of values in memory.

A small input can expand to something large: a name may refer to a tree of types, and an entry of a dictionary may be the value of a million
rows. So each reader first estimates the size of what it will create, and checks it here. Knows nothing about formats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Final

from airflow_provider_connect.errors import DataException, SchemaException

MOST_FIELDS: Final = 20_000
"""Maximum number of fields in a schema. Fields of an inner type are counted each time that the type is used."""
_PARAMETERS: Final = 25  # number of parameters, or symbols of an enum, that is equivalent to one field
MOST_LEVELS: Final = 200
"""Maximum nesting of references and types in a schema."""
MOST_COLUMNS: Final = 4096
"""Maximum number of columns in a text file. Each column is a field of a struct."""
MOST_BYTES: Final = 256 << 20
"""Maximum size, in bytes, of the values created in one step."""
MOST_MADE: Final = 1 << 30
"""Maximum size, in bytes, of all values of a small file, or of a part that is read separately."""
MOST_FAULTS: Final = 1000
"""Maximum number of faults in a piece of a file that are reported individually. One exception covers the rest."""
_HOPELESS_FAULTS: Final = 20_000
_FAULTS_A_ROW: Final = 10
_MOST_UNPACKED: Final = 64 << 20
_MOST_TIMES: Final = 1100
"""Maximum size of decompressed data: this many bytes, or this many times the compressed size (deflate's maximum ratio)."""


def check_fields(count: int, what: str) -> int:
    """Return ``count``. Raises SchemaException if a schema may not have that many fields."""
    if count > MOST_FIELDS:
        raise SchemaException(
            f"{what} has more than {MOST_FIELDS} fields, each type counted as often as it is used (at least {count}). "
            "Remove fields, or nest less"
        )
    return count


def weight_of(parameters: Sized | None) -> int:
    """The number of fields that is equivalent to a schema's parameters, or to an enum's symbols."""
    return 0 if parameters is None else len(parameters) // _PARAMETERS


def limit_faults(faults: Sequence[DataException], count: int) -> Iterator[DataException]:
    """The first ``MOST_FAULTS`` of ``count`` faults, and one exception for the rest. ``faults`` has at least the first ``MOST_FAULTS``."""
    yield from faults[:MOST_FAULTS]
    if count > MOST_FAULTS:
        yield DataException(f"{count - MOST_FAULTS} further records cannot be read either")


def is_wrong_format(bad: int, good: int) -> bool:
    """Whether a file with ``bad`` unreadable and ``good`` readable rows probably has another format. Such a file is not read further."""
    return bad > _HOPELESS_FAULTS and bad > good * _FAULTS_A_ROW


def wrong_format(bad: int, good: int) -> DataException:
    """The fault that covers the rest of such a file."""
    return DataException(f"{bad} of its rows could not be read, and {good} could: it has another format, or needs other settings")


def check_unpacked(packed: int, unpacked: int, free: int = _MOST_UNPACKED) -> None:
    """Raise DataException if ``packed`` bytes have expanded more than valid data can. Up to ``free`` bytes are always allowed."""
    if unpacked > max(free, packed * _MOST_TIMES):
        raise DataException(
            f"{packed} bytes expand to more than {_MOST_TIMES} times as many ({unpacked} so far), so reading has stopped. "
            "If this data is valid, write it again with less compression"
        )


def check_bytes(size: int, what: str) -> None:
    """Raise DataException if one step would create more than ``MOST_BYTES`` of values (``size`` bytes). A smaller batch may succeed."""
    if size > MOST_BYTES:
        raise DataException(f"{what} would need {size} bytes of memory; the limit is {MOST_BYTES}")
