"""What a task of a JDBC source is given to read, as text in its config: whole tables, ranges of large ones, tables to be folded first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.connectors.jdbc.catalog.column import Table
from airflow_provider_connect.connectors.jdbc.database.table_name import TableName
from airflow_provider_connect.connectors.jdbc.source.key_ranges import KeyRange

_FOLD: Final = "fold"


@dataclass(frozen=True, slots=True)
class TablePart:
    """One range of a table, to be read up to ``until``, the table's greatest number or the end of the range. ``since`` is the table's own
    offset, from which its ranges were begun."""

    table: TableName
    range: KeyRange
    until: int
    since: int | None

    @property
    def partition(self) -> Mapping[str, object]:
        return self.range.partition(self.table)


@dataclass(frozen=True, slots=True)
class Share:
    """One table for one task. ``is_only``: no other table has the same last name. ``part``: only that range of it. ``folds``: its ranges
    are all read; first the table's own offset takes their place."""

    table: Table
    is_only: bool
    part: TablePart | None = None
    folds: bool = False


def shares_text(shares: Sequence[Share]) -> str:
    """The shares of a task as its config holds them."""
    return json.dumps([_row(share) for share in shares], ensure_ascii=False, separators=(",", ":"))


def shares_of(text: str) -> list[Share]:
    """The inverse of ``shares_text``."""
    found = []
    for catalog, schema, name, kind, is_only, *rest in json.loads(text):
        table = Table(TableName(name, schema, catalog), kind)
        folds = rest == [_FOLD]
        part = None
        if rest and not folds:
            low, high, until, since = rest
            part = TablePart(table.name, KeyRange(low, high), until, since)
        found.append(Share(table, is_only, part, folds))
    return found


def _row(share: Share) -> list[object]:
    name, part = share.table.name, share.part
    row: list[object] = [name.catalog, name.schema, name.table, share.table.type, share.is_only]
    if part is not None:
        return [*row, part.range.low, part.range.high, part.until, part.since]
    return [*row, _FOLD] if share.folds else row
