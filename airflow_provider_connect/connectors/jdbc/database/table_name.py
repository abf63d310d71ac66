"""The name of a table: catalog, schema, table, any of the first two absent. Knows no dialect, no database and no quotes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """``catalog`` is the database. Which parts a name has is the database's affair: PostgreSQL has all, MySQL no schema, SQLite only the
    table."""

    table: str
    schema: str | None = None
    catalog: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """What there is, the widest first."""
        return tuple(part for part in (self.catalog, self.schema, self.table) if part is not None)

    @property
    def text(self) -> str:
        """``catalog.schema.table`` without quotes: what people, lists of tables and source partitions call it."""
        return ".".join(self.parts)

    def __str__(self) -> str:
        return self.text

    def answers_to(self, text: str, *, ignore_case: bool = False) -> bool:
        """Whether ``text`` is this name, whole or without its widest parts."""
        names = [".".join(self.parts[start:]) for start in range(len(self.parts))]
        if ignore_case:
            return text.lower() in {name.lower() for name in names}
        return text in names
