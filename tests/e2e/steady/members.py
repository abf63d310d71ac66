"""Connectors of the steady run: thirty of thirteen classes, each with what was sent and a verdict about what has arrived."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qs, urlsplit

from confluent_kafka import Producer

from tests.e2e.faults.environments import MirrorEnvironment, SinkEnvironment, SourceEnvironment, lines, make_topic, send
from tests.e2e.faults.file_environments import (
    DeltaSinkEnvironment,
    FileSystemSinkEnvironment,
    FileSystemSourceEnvironment,
    IcebergSinkEnvironment,
)
from tests.e2e.faults.oracle import Verdict, file_records, judge, topic_records
from tests.e2e.faults.runs import Runs
from tests.e2e.faults.table_environments import SqlSinkEnvironment, TableSinkEnvironment, TableSourceEnvironment
from tests.waiting import HANG_SECONDS

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
LIVELY, QUIET = 1, 6
PLUGINS = '''\
"""A feed over HTTP as a source, and a sink into SQLite that can be told to misbehave."""

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
from airflow_provider_connect.sdk import AllowedPaths, RetriableException, sink, source


def _rows(address: str, after: int) -> list[dict[str, Any]]:
    try:
        return httpx.get(address, params={"after": after, "limit": 100}, timeout=30).raise_for_status().json()
    except httpx.TransportError as error:
        raise RetriableException(str(error)) from error


def has_more(address: str, cursor: int = 0) -> bool:
    return bool(_rows(address, cursor))


@source(cursor="id", key="id", has_new_data=has_more)
def feed(address: str, cursor: int = 0) -> Iterator[list[dict[str, Any]]]:
    while rows := _rows(address, cursor):
        yield rows
        cursor = rows[-1]["id"]


def _expand() -> None:
    held = [bytearray(os.urandom(1 << 20) * 64) for _ in range(64)]
    time.sleep(120)
    print(len(held))


def _hang() -> None:
    re.fullmatch("(a+)+b", "a" * 64)  # holds the interpreter's lock for years


TROUBLES = {"expand": _expand, "hang": _hang, "sleep": lambda: time.sleep(100_000)}


@sink
def shelf(rows: list[str | None], database: str, trouble: str, allowed_paths: AllowedPaths) -> None:
    order = allowed_paths.file_path("trouble", trouble)
    if os.path.exists(order):
        word = Path(order).read_text()
        os.unlink(order)
        TROUBLES[word]()
    with sqlite3.connect(allowed_paths.file_path("database", database), timeout=30) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS lines (line)")
        connection.executemany("INSERT INTO lines VALUES (?)", [(row,) for row in rows])
    connection.close()
'''


class SteadyEnvironment(Protocol):
    """What all environments of the faults have."""

    runs: Runs
    sent: list[bytes]

    def add(self, count: int = ...) -> None: ...

    def verdict(self) -> Verdict: ...


@dataclass(slots=True)
class Member:
    """One connector. It gets ``count`` records at each of every ``beats`` beats."""

    kind: str
    guarantee: str
    environment: SteadyEnvironment
    beats: int = LIVELY
    count: int = 20
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.environment.runs.connector

    @property
    def config(self) -> dict[str, str]:
        return {**self.environment.runs.config, "delivery.guarantee": self.guarantee, **self.more}

    def beat(self, number: int) -> None:
        if number % self.beats == 0:
            self.environment.add(self.count)

    @property
    def is_complete(self) -> bool:
        try:
            return self.environment.verdict().lost == 0
        except AssertionError:  # (files that are not archived yet)
            return False


@dataclass(slots=True)
class RotatedLogEnvironment:
    """``LogSource`` on a log that is renamed now and then."""

    bootstrap: str
    topic: str
    file: Path
    runs: Runs
    sent: list[bytes] = field(default_factory=list)
    rotations: int = 0

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str]) -> RotatedLogEnvironment:
        name = f"log-{os.urandom(4).hex()}"
        (folder / name).mkdir()
        config = {"name": name, "connector.class": "LogSource", "paths": f"{folder / name}/*.log", "topic": f"topic-{name}"}
        make_topic(settings["bootstrap.servers"], f"topic-{name}")
        environment = cls(settings["bootstrap.servers"], f"topic-{name}", folder / name / "app.log", Runs(folder, name, settings, config))
        environment.add()
        return environment

    def add(self, count: int = 1000) -> None:
        new = lines(count)
        with self.file.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in new))
        self.sent += new

    def rotate(self) -> None:
        """Another file has the name; the old one stays in the folder."""
        self.rotations += 1
        self.file.rename(self.file.with_name(f"app.log.{self.rotations}"))
        self.add(50)

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, self.topic))


class ReplacedFileEnvironment(SourceEnvironment):
    """``FileStreamSource`` on a file that is replaced when all of it has been delivered."""

    def replace(self) -> None:
        new = lines(200)
        other = self.file.with_suffix(".new")
        other.write_bytes(b"".join(line + b"\n" for line in new))
        other.replace(self.file)
        self.sent += new


class PartitionedSinkEnvironment(SinkEnvironment):
    """``FileStreamSink`` on a topic that gets more partitions, and writes to another file after a change of its config."""

    def send_to(self, partitions: range, count: int) -> None:
        """Records to partitions that ``add`` does not know."""
        new = lines(count)
        producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True})
        for number, record in enumerate(new):
            producer.produce(self.topic, record, partition=partitions[number % len(partitions)])
        assert producer.flush(HANG_SECONDS) == 0
        self.sent += new


class MovedSinkEnvironment(SinkEnvironment):
    """``FileStreamSink`` that writes to another file after each change of its config."""

    def move(self, number: int) -> dict[str, str]:
        """The settings that change."""
        return {"file": str(self.file.with_name(f"{self.runs.connector}-{number}.txt"))}

    def verdict(self) -> Verdict:
        files = [self.file, *self.file.parent.glob(f"{self.runs.connector}-*.txt")]
        return judge(self.sent, [record for file in files for record in file_records(file)])


class TolerantSinkEnvironment(SinkEnvironment):
    """``FileStreamSink`` of JSON texts with ``errors.tolerance=all`` and a dead letter queue."""

    def tolerate(self) -> dict[str, str]:
        """Its settings."""
        json_values = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
        queue = {"errors.deadletterqueue.topic.name": f"dead-{self.topic}", "errors.deadletterqueue.topic.replication.factor": "1"}
        return {**json_values, **queue, "errors.tolerance": "all"}

    def add(self, count: int = 3000) -> None:
        new = lines(count)
        send(self.bootstrap, self.topic, [json.dumps(line.decode()).encode() for line in new])
        self.sent += new

    def add_bad(self, count: int) -> None:
        send(self.bootstrap, self.topic, [b"{no JSON %d" % number for number in range(count)])

    def dead_letters(self) -> list[bytes]:
        return topic_records(self.bootstrap, f"dead-{self.topic}")


@dataclass(slots=True)
class FeedEnvironment:
    """The function ``feed``: rows of an HTTP server of this process."""

    bootstrap: str
    topic: str
    sent: list[bytes]
    runs: Runs

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], feeds: Feeds) -> FeedEnvironment:
        name = f"feed-{os.urandom(4).hex()}"
        feeds.rows[name] = []
        config = {
            "name": name,
            "connector.class": "steady.feed",
            "address": f"{feeds.address}/{name}",
            "topic": f"topic-{name}",
            "key.converter": "org.apache.kafka.connect.converters.LongConverter",
            "transforms": "text",
            "transforms.text.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
            "transforms.text.field": "line",
        }
        make_topic(settings["bootstrap.servers"], f"topic-{name}")
        environment = cls(settings["bootstrap.servers"], f"topic-{name}", feeds.rows[name], Runs(folder, name, settings, config))
        environment.add(500)
        return environment

    def add(self, count: int = 20) -> None:
        self.sent += lines(count)

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, self.topic))


class Feeds:
    """Rows by the name of their feed, which ``GET /«name»?after=«id»`` returns. Ids are numbers from 1 on."""

    def __init__(self) -> None:
        self.rows: dict[str, list[bytes]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Answer, self.rows))
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def serving(self) -> Iterator[Feeds]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()


class _Answer(BaseHTTPRequestHandler):
    def __init__(self, rows: Mapping[str, list[bytes]], *connection: object) -> None:
        self._rows = rows
        super().__init__(*connection)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        address = urlsplit(self.path)
        asked = parse_qs(address.query)
        after, limit = int(asked["after"][0]), int(asked["limit"][0])
        rows = self._rows[address.path[1:]][after : after + limit]
        body = json.dumps([{"id": number, "line": row.decode()} for number, row in enumerate(rows, after + 1)]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@dataclass(slots=True)
class ShelfEnvironment:
    """The function ``shelf``, at least once. ``order`` has it misbehave at its next batch."""

    bootstrap: str
    topic: str
    database: Path
    runs: Runs
    sent: list[bytes] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str]) -> ShelfEnvironment:
        name = f"shelf-{os.urandom(4).hex()}"
        database, topic = folder / f"{name}.db", f"topic-{name}"
        own = {"database": str(database), "trouble": str(database.with_suffix(".order"))}
        make_topic(settings["bootstrap.servers"], topic, partitions=3)
        config = {"name": name, "connector.class": "steady.shelf", "topics": topic, **own}
        environment = cls(settings["bootstrap.servers"], topic, database, Runs(folder, name, settings, config))
        environment.add()
        return environment

    @property
    def order_file(self) -> Path:
        return self.database.with_suffix(".order")

    def order(self, word: str) -> None:
        """``expand``, ``hang`` or ``sleep``."""
        written = self.order_file.with_suffix(".part")
        written.write_text(word)
        written.rename(self.order_file)
        self.add(20)

    def add(self, count: int = 1000) -> None:
        new = lines(count)
        send(self.bootstrap, self.topic, new)
        self.sent += new

    def verdict(self) -> Verdict:
        if not self.database.exists():
            return judge(self.sent, [])
        with closing(sqlite3.connect(self.database, timeout=HANG_SECONDS)) as connection:
            has_table = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'lines'").fetchone()
            rows = connection.execute("SELECT line FROM lines").fetchall() if has_table else []
        return judge(self.sent, [row.encode() for (row,) in rows])


def install_plugins(folder: Path) -> Path:
    """The plugin directory with ``feed``, ``shelf`` and the sinks on ``SqlSink``."""
    plugins = folder / "plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    (plugins / "steady.py").write_text(PLUGINS)
    return plugins


def members(folder: Path, given: Mapping[str, str], database: str, feeds: Feeds) -> list[Member]:
    """All thirty. ``given`` are the worker's settings; ``database`` is SQLAlchemy's address of a PostgreSQL."""
    once, least = EXACTLY_ONCE, AT_LEAST_ONCE
    small = f"sqlite:///{folder}/rows.db"
    tolerant = TolerantSinkEnvironment.make(folder, given, once)
    more = {"bad records": tolerant.tolerate(), "Parquet sink": {"rotate.schedule.interval.ms": "5000"}}
    makers: list[tuple[str, str, Callable[[], SteadyEnvironment], int, int]] = [
        ("file source", once, lambda: SourceEnvironment.make(folder, given, once), LIVELY, 20),
        ("replaced file", once, lambda: ReplacedFileEnvironment.make(folder, given, once), LIVELY, 20),
        ("file source", least, lambda: SourceEnvironment.make(folder, given, least), LIVELY, 20),
        ("partitions", once, lambda: PartitionedSinkEnvironment.make(folder, given, once), LIVELY, 20),
        ("moved file", once, lambda: MovedSinkEnvironment.make(folder, given, once), LIVELY, 20),
        ("file sink", least, lambda: SinkEnvironment.make(folder, given, least), LIVELY, 20),
        ("bad records", once, lambda: tolerant, LIVELY, 20),
        *(("table source", each, lambda: TableSourceEnvironment.make(folder, given, database), LIVELY, 20) for each in (once, once, least)),
        *(("table sink", each, lambda: TableSinkEnvironment.make(folder, given, database), LIVELY, 20) for each in (once, once, least)),
        *(("SQLite sink", once, lambda: SqlSinkEnvironment.make(folder, given, small), LIVELY, 20) for _ in range(2)),
        *(("mirror", once, lambda: MirrorEnvironment.make(folder, given), LIVELY, 2) for _ in range(2)),
        *(("log source", each, lambda: RotatedLogEnvironment.make(folder, given), LIVELY, 20) for each in (once, least)),
        *(("Parquet sink", once, lambda: FileSystemSinkEnvironment.make(folder, given), LIVELY, 50) for _ in range(2)),
        *(("Delta sink", once, lambda: DeltaSinkEnvironment.make(folder, given), QUIET, 50) for _ in range(2)),
        ("Iceberg sink", once, lambda: IcebergSinkEnvironment.make(folder, given), QUIET, 50),
        *(("Parquet source", each, lambda: FileSystemSourceEnvironment.make(folder, given), QUIET, 50) for each in (once, least)),
        *(("HTTP feed", once, lambda: FeedEnvironment.make(folder, given, feeds), LIVELY, 20) for _ in range(2)),
        *(("function sink", least, lambda: ShelfEnvironment.make(folder, given), LIVELY, 20) for _ in range(2)),
    ]
    return [Member(kind, guarantee, make(), beats, count, more.get(kind, {})) for kind, guarantee, make, beats, count in makers]
