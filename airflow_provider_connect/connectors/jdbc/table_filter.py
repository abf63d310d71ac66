"""Which tables a config means: lists of names and patterns to include and to exclude. Knows no database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.table_name import TableName
from airflow_provider_connect.errors import ConfigException

TABLE_INCLUDE: Final = "table.include"
TABLE_EXCLUDE: Final = "table.exclude"
_SPECIAL: Final = re.compile(r"[\\^$*+?{}\[\]|()]")
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"|`((?:[^`]|``)*)`')


@dataclass(frozen=True, slots=True)
class TableFilter:
    """``include`` and ``exclude`` hold names and regular expressions; nothing included means everything."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str]) -> TableFilter:
        """Raises ConfigException for what is no regular expression."""
        return cls(_entries(TABLE_INCLUDE, include), _entries(TABLE_EXCLUDE, exclude))

    def chosen(self, tables: Sequence[TableName]) -> list[TableName]:
        """The tables that are meant, in the order given."""
        return [table for table in tables if self._is_included(table) and not any(_matches(entry, table) for entry in self.exclude)]

    def missing(self, tables: Sequence[TableName]) -> list[str]:
        """The names, not the patterns, among those to include that no table has."""
        plain = (entry for entry in self.include if not _SPECIAL.search(entry))
        return [entry for entry in plain if not any(_matches(entry, table) for table in tables)]

    def _is_included(self, table: TableName) -> bool:
        return not self.include or any(_matches(entry, table) for entry in self.include)


def _entries(name: str, given: Iterable[str]) -> tuple[str, ...]:
    entries = tuple(_QUOTED.sub(lambda match: match[1] or match[2] or "", entry) for entry in given if entry)
    for entry in entries:
        if _SPECIAL.search(entry):
            try:
                re.compile(entry)
            except re.error as error:
                reason = f"{entry!r} is neither the name of a table nor a regular expression ({error}). For any text write .*"
                raise ConfigException.of(name, entry, reason) from error
    return entries


def _matches(entry: str, table: TableName) -> bool:
    if table.answers_to(entry):
        return True
    if not _SPECIAL.search(entry):
        return False
    parts = table.parts
    return any(re.fullmatch(entry, ".".join(parts[start:])) for start in range(len(parts)))
