"""The partition spec of a new table, in the form of Apache Iceberg's sink for Kafka Connect: ``day(at),bucket(id,16),name``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.errors import ConfigException

_PIECE: Final = re.compile(r"[^,(]++(?:\([^)]*+\)?)?+")
_PARTITION: Final = re.compile(r"(\w++)\(\s*+([^(),\s]++)\s*+(?:,\s*+(\d{1,9})\s*+)?\)|([^(),\s]++)")
_HAS_NUMBER: Final = {"year": False, "month": False, "day": False, "hour": False, "bucket": True, "truncate": True}


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec: a column and a transform. ``transform`` is ``identity`` for a plain column. ``number`` is the
    argument of ``bucket`` and ``truncate``, None for the others."""

    column: str
    transform: str = "identity"
    number: int | None = None


def partition_fields(key: str, text: str) -> tuple[PartitionField, ...]:
    """The fields of ``day(at),bucket(id,16),name``. Raises ConfigException, which names the setting ``key``."""
    found = []
    for piece in _PIECE.findall(text):
        match = _PARTITION.fullmatch(piece.strip())
        transform, column, number, plain = match.groups() if match else ("", "", None, None)
        name = (transform or "").lower().removesuffix("s")
        if plain is None and (match is None or _HAS_NUMBER.get(name) is not (number is not None)):
            reason = "Use columns, year(c), month(c), day(c), hour(c), bucket(c,n) and truncate(c,n), separated by commas."
            raise ConfigException.of(key, text, reason)
        found.append(PartitionField(plain) if plain else PartitionField(column, name, int(number) if number else None))
    columns = [each.column for each in found]
    if twice := sorted({column for column in columns if columns.count(column) > 1}):
        reason = f"Only one partition of the column {twice[0]} can be written. Remove the others."  # pyiceberg 0.12 can write only one
        raise ConfigException.of(key, text, reason)
    return tuple(found)
