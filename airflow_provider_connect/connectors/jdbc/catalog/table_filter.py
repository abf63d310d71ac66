"""The tables that a config selects: lists of names and patterns to include and to exclude. Knows nothing of databases."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex

TABLE_INCLUDE: Final = "table.include"
TABLE_EXCLUDE: Final = "table.exclude"
_SPECIAL: Final = re.compile(r"[\\^$*+?{}\[\]|()]")
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"|`((?:[^`]|``)*)`')


@dataclass(frozen=True, slots=True)
class Entry:
    """A name, which may also be a regular expression. ``pattern`` is None if the name has no special character."""

    text: str
    pattern: BoundedRegex | None

    def selected(self, tables: Sequence[TableName]) -> set[TableName]:
        """The tables that the entry selects. If no table has exactly this name, tables whose names differ from it only in case are
        selected, because databases fold unquoted names. They are not selected if two of them differ from each other only in case. Raises
        ConfigException for an expression that takes too long."""
        found = {table for table in tables if table.has_name(self.text)}
        if found or self.pattern is not None:
            return found | {table for table in tables if self._matches(table)}
        folded = [table for table in tables if table.has_name(self.text, ignore_case=True)]
        return set(folded) if len({table.text.lower() for table in folded}) == len(folded) else set()

    def _matches(self, table: TableName) -> bool:
        parts, pattern = table.parts, self.pattern
        return pattern is not None and any(pattern.matches(".".join(parts[start:])) for start in range(len(parts)))


@dataclass(frozen=True, slots=True)
class TableFilter:
    """``include`` and ``exclude`` have names and regular expressions. An empty ``include`` means all tables."""

    include: tuple[Entry, ...] = ()
    exclude: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, include: Iterable[str], exclude: Iterable[str]) -> TableFilter:
        """Raises ConfigException for an invalid regular expression."""
        return cls(_entries(TABLE_INCLUDE, include), _entries(TABLE_EXCLUDE, exclude))

    def chosen(self, tables: Sequence[TableName]) -> list[TableName]:
        """The selected tables, in the given order."""
        included, excluded = (
            set[TableName]().union(*(entry.selected(tables) for entry in given)) for given in (self.include, self.exclude)
        )
        return [table for table in tables if (not self.include or table in included) and table not in excluded]

    def named(self, tables: Sequence[TableName]) -> set[TableName]:
        """The tables that are included by name, without those that only a pattern includes."""
        return set[TableName]().union(*(entry.selected(tables) for entry in self.include if entry.pattern is None))

    def missing(self, tables: Sequence[TableName]) -> list[str]:
        """The names to include that no table has, without patterns."""
        plain = (entry for entry in self.include if entry.pattern is None)
        return [entry.text for entry in plain if not entry.selected(tables)]


def plain_names(entries: Iterable[str]) -> list[str]:
    """The entries of a list that are names only, without quotes."""
    return [text for text in _unquoted(entries) if _SPECIAL.search(text) is None]


def _unquoted(entries: Iterable[str]) -> list[str]:
    return [_QUOTED.sub(lambda match: match[1] or match[2] or "", entry) for entry in entries if entry]


def _entries(name: str, given: Iterable[str]) -> tuple[Entry, ...]:
    return tuple(Entry(text, _pattern(name, text) if _SPECIAL.search(text) else None) for text in _unquoted(given))


def _pattern(name: str, text: str) -> BoundedRegex:
    try:
        return BoundedRegex(text, name)
    except re.error as error:
        reason = f"{text[:200]!r} is neither the name of a table nor a regular expression ({error}). For any text write .*"
        raise ConfigException.of(name, text, reason) from error
