"""A topic into files of a store or tables of a lake, and files or logs into a topic, exactly once, in many small commits.

What arrived is read by other libraries than the product's connectors: pyarrow, deltalake, pyiceberg, the servers' own clients.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import subprocess
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.azure_server import AzuriteServer
from tests.conftest import CHECKOUT
from tests.e2e.faults.environments import PLAIN, RECORDS, lines, make_topic, send
from tests.e2e.faults.oracle import Verdict, judge, topic_records
from tests.e2e.faults.runs import Runs
from tests.hdfs_server import HdfsServer
from tests.integration.lake.tables import catalog_of, table_of
from tests.s3_servers import S3Server
from tests.sftp_server import SftpServer
from tests.waiting import wait_until

GUARANTEE = "exactly_once"
QUICK = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}
HOIST = {
    "transforms": "text",
    "transforms.text.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.text.field": "line",
}
LINE_TIMEOUT_MS = 500
BATCH_BYTES = 8192  # of a log in one poll
FIRST_BYTES = 3 * BATCH_BYTES  # are in a log before its first run, which a fault strikes at its second commit
_STATE = "topics/_connect/"
Server = S3Server | AzuriteServer | HdfsServer | SftpServer


@dataclass(slots=True)
class PairEnvironment(ABC):
    """One connector between a topic and what lies outside of Kafka. ``sent`` is what must arrive, each record once."""

    bootstrap: str
    topic: str
    runs: Runs
    folder: Path
    sent: list[bytes] = field(default_factory=list)

    prefix: ClassVar[str]
    partitions: ClassVar[int] = 3

    @classmethod
    def _made(cls, folder: Path, settings: Mapping[str, str], own: Callable[[Path, str], Mapping[str, str]]) -> Self:
        """``own`` gives the connector's own settings for a folder and a topic."""
        name = f"{cls.prefix}-{uuid.uuid4().hex[:8]}"
        bootstrap, topic, data = settings["bootstrap.servers"], f"topic-{name}", folder / name
        data.mkdir()
        make_topic(bootstrap, topic, cls.partitions)
        config = {"name": name, "delivery.guarantee": GUARANTEE, **own(data, topic)}
        return cls(bootstrap, topic, Runs(folder, name, {**settings, **PLAIN, **QUICK}, config), data)

    @abstractmethod
    def add(self, count: int = RECORDS) -> None:
        """More records on the side that is read."""

    def settle(self, runs: Runs) -> None:  # noqa: B027  (most have nothing to do)
        """No more records come by themselves, before the last of ``runs``."""

    @abstractmethod
    def seen(self) -> object:
        """All that readers of the destination see, and its state there: equal unless something was written."""

    @abstractmethod
    def verdict(self) -> Verdict:
        """By what a reader finds. Raises AssertionError where anything is left that should not be."""


class SinkEnvironment(PairEnvironment):
    """Records of a topic."""

    def add(self, count: int = RECORDS) -> None:
        new = lines(count)
        send(self.bootstrap, self.topic, new)
        self.sent += new

    def verdict(self) -> Verdict:
        return judge(self.sent, self.records())

    @abstractmethod
    def records(self) -> list[bytes]:
        """What is at the destination."""


@dataclass(frozen=True, slots=True)
class Location:
    """Where a sink writes files: its settings, and the content of each file there by its path, as another client reads it."""

    settings: Mapping[str, str]
    files: Callable[[], dict[str, bytes]]

    @classmethod
    def local(cls, folder: Path) -> Location:
        def files() -> dict[str, bytes]:
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

        return cls({"url": str(folder)}, files)

    @classmethod
    def on(cls, server: Server, folder: Path) -> Location:
        """In the folder of this name."""
        return cls(server.settings(folder.name), lambda: server.files(folder.name))


@dataclass(slots=True)
class FileSystemSinkEnvironment(SinkEnvironment):
    """``FileSystemSink`` with Parquet files of 300 records; ``commit`` after every put."""

    location: Location = field(default_factory=lambda: Location({}, dict))

    prefix: ClassVar[str] = "files"

    @classmethod
    def make(
        cls, folder: Path, settings: Mapping[str, str], location_of: Callable[[Path], Location] = Location.local
    ) -> FileSystemSinkEnvironment:
        """``location_of`` gives the location for a folder that no other environment has."""
        found: list[Location] = []

        def own(data: Path, topic: str) -> Mapping[str, str]:
            found.append(location_of(data))
            kind = {"connector.class": "FileSystemSink", "topics": topic, "format": "parquet", "flush.size": "300", "tasks.max": "2"}
            return {**kind, **HOIST, **found[0].settings}

        environment = cls._made(folder, settings, own)
        environment.location = found[0]
        environment.add()
        return environment

    @classmethod
    def on(cls, folder: Path, settings: Mapping[str, str], server: Server) -> FileSystemSinkEnvironment:
        """On a server, in a folder that no other environment has."""
        return cls.make(folder, settings, partial(Location.on, server))

    def records(self) -> list[bytes]:
        """Raises AssertionError where a temporary file is left."""
        files = self.location.files()
        assert [path for path in files if path.startswith(_STATE) and "/links/" not in path and "/owners/" not in path] == []
        mine = [data for path, data in files.items() if path.startswith(f"topics/{self.topic}/")]
        return [line.encode() for data in mine for line in pq.read_table(io.BytesIO(data))["line"].to_pylist()]

    def seen(self) -> object:
        """All but temporary files, the commits too."""
        files = self.location.files()
        return {path: hashlib.sha256(data).hexdigest() for path, data in files.items() if not path.startswith(_STATE) or "/links/" in path}


class IcebergSinkEnvironment(SinkEnvironment):
    """``IcebergSink`` on a catalog in SQLite; ``commit`` after every put."""

    prefix: ClassVar[str] = "iceberg"

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str]) -> Self:
        def own(data: Path, topic: str) -> Mapping[str, str]:
            kind = {"connector.class": "IcebergSink", "topics": topic, "iceberg.tables": "shop.lines", "tasks.max": "2"}
            return kind | {"iceberg.tables.auto-create-enabled": "true", "max.retries": "4"} | catalog_of(data) | HOIST

        environment = cls._made(folder, settings, own)
        environment.add()
        return environment

    def records(self) -> list[bytes]:
        paths = [task.file.file_path.removeprefix("file://") for task in table_of(self.folder, "shop.lines").scan().plan_files()]
        return [line.encode() for path in paths for line in pq.ParquetFile(path).read()["line"].to_pylist()]

    def seen(self) -> object:
        return table_of(self.folder, "shop.lines").metadata_location, sorted(self.records())


@dataclass(slots=True)
class DeltaSinkEnvironment(SinkEnvironment):
    """``DeltaSink`` into a folder, or a bucket of ``server``; ``commit`` after every put."""

    server: S3Server | None = None

    prefix: ClassVar[str] = "delta"

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], server: S3Server | None = None) -> Self:
        def own(data: Path, topic: str) -> Mapping[str, str]:
            address = {"delta.table.path": str(data / "lines")} if server is None else server.delta_settings(f"{data.name}/lines")
            table = {"delta.table.auto-create-enabled": "true", "max.retries": "4"}
            return {"connector.class": "DeltaSink", "topics": topic, "tasks.max": "2"} | address | table | HOIST

        environment = cls._made(folder, settings, own)
        environment.server = server
        environment.add()
        return environment

    def _table(self) -> DeltaTable:
        options = {} if self.server is None else self.server.delta_options
        return DeltaTable(self.runs.config["delta.table.path"], storage_options=options)

    def records(self) -> list[bytes]:
        lines = pl.read_delta(self._table())
        return [line.encode() for line in lines["line"].to_list()] if "line" in lines.columns else []

    def seen(self) -> object:
        return self._table().version(), sorted(self.records())


class SourceEnvironment(PairEnvironment):
    """Records for a topic."""

    partitions: ClassVar[int] = 1

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, self.topic))

    def seen(self) -> object:
        return topic_records(self.bootstrap, self.topic)


@dataclass(slots=True)
class FileSystemSourceEnvironment(SourceEnvironment):
    """``FileSystemSource`` on Parquet files of 250 records in polls of 100, by two tasks; files are archived."""

    files: int = 0

    prefix: ClassVar[str] = "incoming"

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str]) -> Self:
        def own(data: Path, topic: str) -> Mapping[str, str]:
            kind = {"connector.class": "FileSystemSource", "url": str(data), "topic": topic, "tasks.max": "2"}
            how = {"format": "parquet", "file.glob": "*.parquet", "file.minimum.age.ms": "0", "batch.max.rows": "100"}
            text = {key: value.replace("Hoist", "Extract") for key, value in HOIST.items()}
            return kind | how | text | {"cleanup.policy": "archive"}

        environment = cls._made(folder, settings, own)
        environment.add()
        return environment

    def add(self, count: int = RECORDS) -> None:
        new = lines(count)
        for start in range(0, count, 250):
            path = self.folder / f"{self.files:05d}.parquet"
            table = pa.table({"line": [line.decode() for line in new[start : start + 250]]})
            pq.write_table(table, path.with_suffix(".part"))
            path.with_suffix(".part").rename(path)
            self.files += 1
        self.sent += new

    def verdict(self) -> Verdict:
        """Raises AssertionError unless all files are archived."""
        names = [f"{number:05d}.parquet" for number in range(self.files)]
        assert sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("*.parquet")) == [
            f"finished/{name}" for name in names
        ]
        return SourceEnvironment.verdict(self)


@dataclass(slots=True)
class LogSourceEnvironment(SourceEnvironment):
    """``LogSource`` on a log that a process writes and rotates in every way until ``settle``; its seed is ``seed``."""

    writer: subprocess.Popen[str] | None = None

    prefix: ClassVar[str] = "logs"

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], seed: int = 7) -> Self:
        def own(data: Path, topic: str) -> Mapping[str, str]:
            kind = {"connector.class": "LogSource", "paths": f"{data}/*.log", "topic": topic}
            return kind | {"batch.max.bytes": str(BATCH_BYTES), "line.timeout.ms": str(LINE_TIMEOUT_MS)}

        environment = cls._made(folder, settings, own)
        command = [sys.executable, "-m", "tests.integration.logs.rotation", str(environment.folder), str(seed)]
        environment.writer = subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_until(lambda: environment._bytes() > FIRST_BYTES)
        return environment

    def _bytes(self) -> int:
        """Of all its files; one may be renamed or removed meanwhile."""
        found = 0
        for path in self.folder.glob("*"):
            with contextlib.suppress(FileNotFoundError):
                found += path.stat().st_size
        return found

    def add(self, count: int = RECORDS) -> None:
        """They come by themselves."""

    def settle(self, runs: Runs) -> None:
        """The last line counts as whole after its timeout."""
        assert self.writer is not None
        self.sent = [b"%d" % number for number in range(int(self.writer.communicate()[0]))]
        runs.until_done()
        time.sleep(2 * LINE_TIMEOUT_MS / 1000)

    def verdict(self) -> Verdict:
        """A line counts by its number. Raises AssertionError for parts of lines."""
        found = Counter(topic_records(self.bootstrap, self.topic))
        written = set(self.sent)
        torn = [line for line in found if line.split()[0] not in written or line.strip(b"0123456789 x")]
        assert torn == []
        return judge(self.sent, [line.split()[0] for line in found.elements()])
