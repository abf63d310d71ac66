"""A catalog and a warehouse in a folder, and what a reader other than the sink finds there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table


def catalog_of(folder: Path) -> dict[str, str]:
    """The settings of a catalog in a SQLite file."""
    return {
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "iceberg.catalog.warehouse": str(folder / "warehouse"),
    }


def catalog_in(folder: Path) -> SqlCatalog:
    """The catalog of ``catalog_of``."""
    return SqlCatalog("iceberg", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))


def table_of(folder: Path, name: str) -> Table:
    """A table, read anew."""
    catalog = catalog_in(folder)
    try:
        return catalog.load_table(name)
    finally:
        catalog.close()


def rows_of(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of the files that the table's current snapshot lists, read by pyarrow alone."""
    try:
        table = table_of(folder, name)
    except NoSuchTableError:
        return []
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    return [row for file in files for row in pyarrow.parquet.ParquetFile(file).read().to_pylist()]
