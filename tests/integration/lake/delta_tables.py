"""What polars finds in a Delta table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
from deltalake import DeltaTable


def delta_rows(table: Path | str, options: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The table's rows by their ``id``; one that is not there, or holds no records yet, has none. ``options`` are those of its store."""
    given = dict(options or {})
    if not DeltaTable.is_deltatable(str(table), given):
        return []
    frame = pl.read_delta(str(table), storage_options=given)
    return frame.sort("id").to_dicts() if "id" in frame.columns else []
