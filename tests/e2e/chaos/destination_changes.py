"""What others do to a destination between two runs of its sink, and what it holds then. Rows of others have negative ids."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from tests.integration.lake.tables import catalog_in, table_of
from tests.integration.worker.destinations import KINDS, Kind
from tests.integration.worker.test_filesystem_sink import published

KEPT = 4  # states that a destination can go back to
_TABLE: Final = "shop.notes"


@dataclass(frozen=True, slots=True)
class Held:
    """The ids of the rows at a destination, and how many records it has taken, by the topic's number and the partition."""

    ids: frozenset[int] = frozenset()
    taken: Mapping[tuple[int, int], int] = field(default_factory=dict)


class Destination:
    """A file that ``FileStreamSink`` writes. A change leaves in ``held`` what the destination holds after it."""

    name = "file"

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder, self.held = folder / "data", Held()
        self.folder.mkdir(parents=True)
        self._backups, self._chance = folder / "backups", chance
        self._saved: list[tuple[Path, Held]] = []
        self._count = 0

    @property
    def kind(self) -> Kind:
        return KINDS[self.name]

    def save(self, held: Held) -> None:
        """A state that a change may go back to, after a run that has reached its end."""
        self.held = held
        self._count += 1
        backup = self._backups / str(self._count)
        shutil.copytree(self.folder, backup)
        self._saved = [*self._saved, (backup, held)][-KEPT:]

    def changes(self) -> list[Callable[[], None]]:
        """Those that are possible now."""
        return [self.was_emptied, *([self.was_restored] if self._saved else [])]

    def was_emptied(self) -> None:
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        self._is_another(Held())

    def was_restored(self) -> None:
        backup, held = self._chance.choice(self._saved)
        shutil.rmtree(self.folder)
        shutil.copytree(backup, self.folder)
        self._is_another(held)

    def _is_another(self, held: Held) -> None:
        """It has another history now."""
        self.held = held

    def _others_id(self) -> int:
        self._count += 1
        self.held = replace(self.held, ids=self.held.ids | {-self._count})
        return -self._count

    def _one_id(self) -> int:
        """Of a row that is not there any more."""
        found = self._chance.choice(sorted(self.held.ids))
        self.held = replace(self.held, ids=self.held.ids - {found})
        return found


class Files(Destination):
    """The folder of a ``FileSystemSink``."""

    name = "files"

    def changes(self) -> list[Callable[[], None]]:
        return [*Destination.changes(self), self.got_a_file_of_others, self.lost_a_file]

    def move_away(self, beginning: str, owner: str) -> None:
        """The files whose names begin so, and what names their owner."""
        for path in (self.folder / owner.partition("/")[0]).rglob(f"{beginning}*"):
            if path.is_file() and "_connect" not in path.parts:
                self._count += 1
                moved = self.folder / f"moved-{self._count}" / path.name
                moved.parent.mkdir()
                path.rename(moved)
        (self.folder / owner).unlink()

    def got_a_file_of_others(self) -> None:
        path = self.folder / "topics" / f"others+{self._count}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"id": self._others_id(), "text": None}) + "\n")

    def lost_a_file(self) -> None:
        """One whose records have all been committed."""
        for name in published(self.folder):
            path = self.folder / name
            ids = {json.loads(line)["id"] for line in path.read_text().splitlines()}
            if ids <= self.held.ids:
                path.unlink()
                self.held = replace(self.held, ids=self.held.ids - ids)
                return


class Lake(Destination):
    """A table with versions."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        super().__init__(folder, chance)
        self.versions: list[tuple[int, Held]] = []

    def save(self, held: Held) -> None:
        super().save(held)
        self.versions = [*self.versions, (self.version(), held)][-KEPT:]

    def _is_another(self, held: Held) -> None:
        super()._is_another(held)
        self.versions = []

    def version(self) -> int:
        raise NotImplementedError

    def back_to(self, version: int) -> None:
        raise NotImplementedError

    def went_back(self) -> None:
        """To a state of before, unless nothing has come since."""
        version, self.held = self._chance.choice([saved for saved in self.versions if saved[0] != self.version()] or self.versions)
        self.back_to(version)


class Delta(Lake):
    """The table of a ``DeltaSink``."""

    name = "delta"

    def changes(self) -> list[Callable[[], None]]:
        always = Destination.changes(self)
        if not self.held.taken:
            return always
        went_back = [self.went_back] if any(version < self.version() for version, _ in self.versions) else []
        return [
            *always,
            *went_back,
            self.was_vacuumed,
            self.was_compacted,
            self.got_a_row_of_others,
            *([self.lost_a_row] if self.held.ids else []),
        ]

    def _table(self) -> DeltaTable:
        return DeltaTable(self.folder / "notes")

    def version(self) -> int:
        return self._table().version()

    def back_to(self, version: int) -> None:
        self._table().restore(version)

    def was_vacuumed(self) -> None:
        self._table().vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
        self.versions = []

    def was_compacted(self) -> None:
        self._table().optimize.compact()

    def got_a_row_of_others(self) -> None:
        row = pl.DataFrame({"id": [self._others_id()], "text": [None]}, schema={"id": pl.Int64, "text": pl.String})
        write_deltalake(
            self._table(), row.cast({"id": pl.Int64}).to_arrow().cast(pa.schema(self._table().schema().to_arrow())), mode="append"
        )

    def lost_a_row(self) -> None:
        self._table().delete(f"id = {self._one_id()}")


class Iceberg(Lake):
    """The table of an ``IcebergSinkConnector``."""

    name = "iceberg"

    def changes(self) -> list[Callable[[], None]]:
        always = Destination.changes(self)
        if not self.held.taken:
            return always
        with_versions = [self.went_back, self.went_back_and_expired] if self.versions else []
        rows = [self.got_a_row_of_others, *([self.lost_a_row] if self.held.ids else [])]
        return [*always, *with_versions, *rows, self.was_expired, self.was_dropped]

    def version(self) -> int:
        current = table_of(self.folder, _TABLE).current_snapshot()
        assert current is not None
        return current.snapshot_id

    def back_to(self, version: int) -> None:
        table_of(self.folder, _TABLE).manage_snapshots().rollback_to_snapshot(version).commit()
        place = next(place for place, (saved, _) in enumerate(self.versions) if saved == version)
        self.versions = self.versions[: place + 1]  # later ones are no ancestors any more

    def went_back_and_expired(self) -> None:
        """With the snapshots that it went back from."""
        self.went_back()
        self._expire(keep=set(self._ancestors()))

    def was_expired(self) -> None:
        """But for the current snapshot."""
        self._expire(keep={self.version()})
        self.versions = self.versions[-1:] if self.versions and self.versions[-1][0] == self.version() else []

    def was_dropped(self) -> None:
        catalog = catalog_in(self.folder)
        catalog.drop_table(_TABLE)
        catalog.close()
        self._is_another(Held())

    def _ancestors(self) -> list[int]:
        table = table_of(self.folder, _TABLE)
        return [entry.snapshot_id for entry in table.history() if entry.snapshot_id] if table.metadata.snapshots else []

    def _expire(self, keep: set[int]) -> None:
        table = table_of(self.folder, _TABLE)
        ids = [each.snapshot_id for each in table.snapshots() if each.snapshot_id not in keep]
        if ids:
            table.maintenance.expire_snapshots().by_ids(ids).commit()

    def got_a_row_of_others(self) -> None:
        table = table_of(self.folder, _TABLE)
        table.append(pa.Table.from_pylist([{"id": self._others_id(), "text": None}], schema=table.schema().as_arrow()))

    def lost_a_row(self) -> None:
        table_of(self.folder, _TABLE).delete(f"id = {self._one_id()}")


class Table(Destination):
    """The SQLite table of a ``JdbcSink``."""

    name = "table"

    def changes(self) -> list[Callable[[], None]]:
        always = Destination.changes(self)
        if not self.held.taken:
            return always
        return [*always, self.was_truncated, self.got_a_row_of_others, *([self.lost_a_row] if self.held.ids else [])]

    def was_truncated(self) -> None:
        """With its offsets."""
        self._execute("DELETE FROM notes", "DELETE FROM connect_sink_offsets")
        self._is_another(Held())

    def got_a_row_of_others(self) -> None:
        self._execute(f"INSERT INTO notes (id) VALUES ({self._others_id()})")

    def lost_a_row(self) -> None:
        self._execute(f"DELETE FROM notes WHERE id = {self._one_id()}")

    def _execute(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.folder / "notes.db")) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()


DESTINATIONS: Final = (Destination, Files, Delta, Iceberg, Table)
