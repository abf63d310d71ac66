"""The fields of records that a table has no column for, and whose values are therefore not written. Knows nothing of table formats."""

from __future__ import annotations

import logging
from typing import Final

from airflow_provider_connect.connectors.lake.rows import column_at, lost_fields
from airflow_provider_connect.data.arrow import pa

log = logging.getLogger(__name__)

_MOST_WARNED: Final = 100
_RENAMES, _EXCLUDES, _IN_A_STRUCT = "ReplaceField$Value, renames", "ReplaceField$Value, exclude", "SqlTransform, struct_pack"
"""How a field is renamed or left out. ReplaceField does not reach the fields of a struct in the value."""


class UnwrittenFields:
    """Logs each field once in a task, with a remedy, and counts the values that are not written. ``evolve`` is the setting that adds
    columns. ``alias`` is another remedy for a renamed column, or empty."""

    def __init__(self, connector: str, evolve: str, alias: str = "") -> None:
        self.values = 0
        """The values that were not written, including those of repeated writes."""
        self._connector, self._evolve, self._alias = connector, evolve, alias
        self._warned: set[tuple[str, str]] = set()

    def add(self, table: str, rows: pa.Table, schema: pa.Schema) -> None:
        """Note the fields of ``rows``, which have the table's names, that are not in ``schema``. Called for each batch."""
        for path in lost_fields(rows.schema, schema) if rows.num_rows else ():
            column = column_at(rows, path)
            count = rows.num_rows if column is None else len(column) - column.null_count
            self.values += count
            if count and (table, path) not in self._warned and len(self._warned) < _MOST_WARNED:
                self._warned.add((table, path))
                empty = [name for name in schema.names if name not in rows.column_names]
                self._warn(table, path, empty, is_inner=path not in rows.column_names)

    def _warn(self, table: str, path: str, empty: list[str], *, is_inner: bool) -> None:
        renames, excludes = (_IN_A_STRUCT, _IN_A_STRUCT) if is_inner else (_RENAMES, _EXCLUDES)
        log.warning(
            "Connector %s: values of field %s are not written, because table %s has no such column%s. If the column was renamed, rename "
            "the field (transformation %s)%s. If the field is new, set %s=true, or add the column. If it is not wanted, leave it out "
            "(transformation %s)",
            self._connector,
            path,
            table,
            f"; its columns without a field, which become null: {', '.join(empty[:10])}" if empty else "",
            renames,
            self._alias,
            self._evolve,
            excludes,
        )
