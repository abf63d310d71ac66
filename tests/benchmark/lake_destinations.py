"""Where rows arrive that are written to lakes: a folder of Parquet files, an Iceberg table."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pyarrow.parquet

_PAUSE_SECONDS = 0.2


class FolderDestination:
    """Parquet files below a folder. Names of files and folders that begin with ``_`` or ``.`` are those of work in progress."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder, self._rows = folder, rows
        self._known: dict[Path, int] = {}
        self._next_check = 0.0

    def is_complete(self) -> bool:
        if time.monotonic() < self._next_check:
            return False
        self._next_check = time.monotonic() + _PAUSE_SECONDS
        for path in self._files():
            if path not in self._known:
                self._known[path] = pyarrow.parquet.read_metadata(path).num_rows
        return sum(self._known.values()) >= self._rows

    def count(self) -> int:
        """Different values of ``id``: a lost or doubled row shows."""
        ids = pyarrow.dataset.dataset(list(map(str, self._files()))).to_table(["id"])["id"]
        return len(ids.unique()) if len(ids) == self._rows else len(ids)

    def _files(self) -> list[Path]:
        below = ((path, path.relative_to(self._folder).parts) for path in self._folder.rglob("*.parquet"))
        return [path for path, parts in below if not any(part.startswith(("_", ".")) for part in parts)]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class IcebergDestination:
    """The table ``bench.rows`` in a warehouse, as its newest metadata file has it."""

    def __init__(self, folder: Path, rows: int) -> None:
        self._folder, self._rows = folder, rows
        self._next_check = 0.0

    def is_complete(self) -> bool:
        if time.monotonic() < self._next_check:
            return False
        self._next_check = time.monotonic() + _PAUSE_SECONDS
        return int(self._snapshot().get("summary", {}).get("total-records", 0)) >= self._rows

    def count(self) -> int:
        from pyiceberg.table import StaticTable

        ids = StaticTable.from_metadata(str(self._newest()[-1])).scan(selected_fields=("id",)).to_arrow()["id"]
        return len(ids.unique()) if len(ids) == self._rows else len(ids)

    def _newest(self) -> list[Path]:
        return sorted((self._folder / "warehouse" / "bench" / "rows" / "metadata").glob("*.metadata.json"))

    def _snapshot(self) -> dict[str, Any]:
        for path in self._newest()[-1:]:
            try:
                metadata = json.loads(path.read_text())
            except ValueError:  # is being written
                continue
            found = (each for each in metadata.get("snapshots", []) if each["snapshot-id"] == metadata.get("current-snapshot-id"))
            return next(found, {})
        return {}

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
