"""``python -m tests.benchmark.poisoned``: the same records clean and poisoned, every thousandth a bad one, and what the poison costs.

Sinks run in this process, without Spark; the time that a run of a single record takes is left out. What arrived is counted and every dead
letter checked after each run.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import adbc_driver_postgresql.dbapi as adbc

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.runtime.model.run import RunSpec, RunState
from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.stores.topic_reader import TopicReader, raw
from airflow_provider_connect.runtime.worker.application.application import Application
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from tests.benchmark.measure import tree_seconds
from tests.benchmark.tables import Tables, rows_file
from tests.benchmark.topics import Topics

CHECKOUT = Path(__file__).parents[2]
EVERY = 1000
_STARTS = 4  # runs of a single record, of which the fastest is what starting takes
_DATA = "org.apache.kafka.connect.errors.DataException"
_REFUSED = "airflow_provider_connect.connectors.jdbc.database.database_errors.RefusedException"
_ID = re.compile(rb"\bid=(\d+)")
_COLUMNS = ("id", "customer", "amount", "paid", "created_ms", "note")
_TABLE = """create table {table} (id bigint primary key, customer integer not null, amount double precision check (amount >= 0),
                                   paid boolean, created_ms bigint, note varchar(100))"""


def _no_json(line: str, number: int) -> str:
    """Cut off, no JSON at all, short and broken, broken in the middle."""
    inside = line.replace('"amount":', '"amount"=').replace('"id=', '"\\id=')
    broken = (line[: len(line) - 40], "order " * 30, '{"id":1,', inside)
    return broken[number // EVERY % len(broken)]


def _no_row(line: str, number: int, *, is_upsert: bool) -> str:
    """A key that there is (for upsert a text that is too long), a null, a check that fails, a number that is too large."""
    row = json.loads(line)
    id: dict[str, object] = {"note": "x" * 101} if is_upsert else {"id": row["payload"]["id"] - 700}
    wrong = (id, {"customer": None}, {"amount": -1.0}, {"customer": 1 << 40})
    row["payload"] |= wrong[number // EVERY % len(wrong)]
    return json.dumps(row, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Work:
    """Records to a destination. ``stage`` and ``error`` are what the headers of dead-letter records must be."""

    name: str
    title: str
    stage: str
    error: str
    is_file: bool = False

    def bad(self, line: str, number: int) -> str:
        return _no_json(line, number) if self.stage == "VALUE_CONVERTER" else _no_row(line, number, is_upsert=self.name == "upsert")

    def config(self, tables: Tables, table: str, file: Path) -> dict[str, str]:
        if self.is_file:
            return {"connector.class": "FileStreamSink", "file": str(file), "value.converter.schemas.enable": "false"}
        return {
            "connector.class": "JdbcSink",
            "connection.url": tables.jdbc_url,
            "connection.user": USER,
            "insert.mode": "upsert" if self.name == "upsert" else "insert",
            "pk.mode": "record_value" if self.name == "upsert" else "none",
            "pk.fields": "id" if self.name == "upsert" else "",
            "table.name.format": table,
        }


WORKS = {
    work.name: work
    for work in (
        Work("file", "JSON texts → file, no JSON", "VALUE_CONVERTER", _DATA, is_file=True),
        Work("json", "JSON with schema → PostgreSQL, no JSON", "VALUE_CONVERTER", _DATA),
        Work("constraint", "JSON with schema → PostgreSQL insert, a constraint violated", "TASK_PUT", _REFUSED),
        Work("upsert", "JSON with schema → PostgreSQL upsert, a constraint violated", "TASK_PUT", _REFUSED),
    )
}


@dataclass(frozen=True, slots=True)
class Took:
    """Of one run. ``cpu_seconds`` are those of this process and of PostgreSQL."""

    seconds: float
    cpu_seconds: float


class Course:
    """Runs works on a broker and a PostgreSQL."""

    def __init__(self, kafka: KafkaServer, postgres: PostgresServer, folder: Path, cache: Path) -> None:
        self._bootstrap_servers, self._folder, self._cache = kafka.bootstrap_servers, folder, cache
        self._topics, self._tables = Topics(kafka.bootstrap_servers), Tables(postgres)
        self._postgres = int((Path(str(postgres._folder)) / "data" / "postmaster.pid").read_text().split()[0])
        self._runs = 0

    def measure(self, work: Work, records: int, runs: int) -> Iterator[tuple[Took, Took]]:
        """Clean and poisoned, in turns; the time of one record taken off."""
        wanted = ((1, False), (records, False), (records, True))
        files = [self._lines(work, count, is_poisoned=is_poisoned) for count, is_poisoned in wanted]
        with (
            self._topics.topic(f"{work.name}-one") as one,
            self._topics.topic(f"{work.name}-clean") as clean,
            self._topics.topic(f"{work.name}-poisoned") as poisoned,
        ):
            for topic, file in zip((one, clean, poisoned), files, strict=True):
                self._topics.fill(topic, file)
            start = min((self._run(work, one, files[0]) for _ in range(_STARTS)), key=lambda took: took.seconds)
            for _ in range(runs):
                taken = [self._run(work, topic, file) for topic, file in zip((clean, poisoned), files[1:], strict=True)]
                first, second = (Took(took.seconds - start.seconds, took.cpu_seconds - start.cpu_seconds) for took in taken)
                yield first, second

    def _run(self, work: Work, topic: str, lines: Path) -> Took:
        self._runs += 1
        name = f"{work.name}-{self._runs}"
        table, file = f"rows_{self._runs}", self._folder / f"{name}.txt"
        self._tables.execute(_TABLE.format(table=table))
        queue = f"letters-{name}"
        config = {
            "name": name,
            "topics": topic,
            "tasks.max": "1",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": queue,
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
            **work.config(self._tables, table, file),
        }
        spec = RunSpec(name, self._worker_settings(), "run", define=config)
        began, began_cpu = time.monotonic(), self._cpu_seconds()
        result = Application(spec, lambda: run_task, host="127.0.0.1", on_claim=lambda _: None).run()
        took = Took(time.monotonic() - began, self._cpu_seconds() - began_cpu)
        if result.state is not RunState.DONE:
            raise RuntimeError(f"{name} ended with {result}")
        bad = _bad_lines(lines)
        self._check_arrived(work, table, file, lines, bad)
        self._check_letters(work, queue, topic, name, bad)
        self._tables.execute(f"drop table {table}")
        file.unlink(missing_ok=True)
        return took

    def _cpu_seconds(self) -> float:
        return time.process_time() + tree_seconds(self._postgres)

    def _worker_settings(self) -> dict[str, str]:
        settings = {"bootstrap.servers": self._bootstrap_servers, "group.id": "poisoned"}
        for kind in ("config", "offset", "status", "batch"):
            settings |= {f"{kind}.storage.topic": f"poisoned-{kind}", f"{kind}.storage.replication.factor": "1"}
        return settings

    def _lines(self, work: Work, records: int, *, is_poisoned: bool) -> Path:
        """A file of a topic's values. Those of clean records are the same for several works."""
        kind = f"{work.name}-poisoned" if is_poisoned else "plain" if work.is_file else "with-schema"
        path = self._folder / f"{kind}-{records}.txt"
        return made_once(path, lambda new: _write_lines(new, rows_file(self._cache, records), work, is_poisoned=is_poisoned))

    def _check_arrived(self, work: Work, table: str, file: Path, lines: Path, bad: Mapping[int, bytes]) -> None:
        """Every other record, once."""
        with lines.open("rb") as source:
            wanted = [number for number, _ in enumerate(source, 1) if number - 1 not in bad]
        if work.is_file:
            with file.open("rb") as arrived:
                found = [int(number) for number in _ID.findall(arrived.read())]
        else:
            with closing(adbc.connect(self._tables.uri)) as connection, connection.cursor() as cursor:
                cursor.execute(f"select id from {table} order by id")
                found = cursor.fetch_arrow_table()["id"].to_pylist()
        if found != wanted:
            raise RuntimeError(f"{work.name}: {len(wanted)} records should have arrived, {len(found)} did: {set(found) ^ set(wanted)}")

    def _check_letters(self, work: Work, queue: str, topic: str, connector: str, bad: Mapping[int, bytes]) -> None:
        """Each bad record, once, with what Connect reports about it."""
        with TopicReader(queue, {"bootstrap.servers": self._bootstrap_servers, "group.id": "letters"}, raw) as log:
            dead_letters = log.read_to_end()
        found = {}
        for dead_letter in dead_letters:
            context = {key.removeprefix("__connect.errors."): (value or b"").decode() for key, value in dead_letter.headers}
            found[int(context["offset"])] = dead_letter.value
            reported = {key: context[key] for key in ("topic", "partition", "connector.name", "task.id", "stage", "exception.class.name")}
            wanted = dict(zip(reported, (topic, "0", connector, "0", work.stage, work.error), strict=True))
            if reported != wanted or not context["exception.message"] or not context["exception.stacktrace"]:
                raise RuntimeError(f"{work.name}: a letter should hold {wanted} and holds {context}")
        if found != bad or len(dead_letters) != len(bad):
            raise RuntimeError(
                f"{work.name}: {len(bad)} records should be in the queue, {len(dead_letters)} are: {found.keys() ^ bad.keys()}"
            )


def _write_lines(path: Path, source: Path, work: Work, *, is_poisoned: bool) -> None:
    fields = [
        {"type": kind, "optional": name != "id", "field": name}
        for name, kind in zip(_COLUMNS, ("int64", "int64", "double", "boolean", "int64", "string"), strict=True)
    ]
    schema = json.dumps({"type": "struct", "fields": fields, "optional": False, "name": "orders"}, separators=(",", ":"))
    with source.open(encoding="ascii") as lines, path.open("w", encoding="ascii") as file:
        for number, line in enumerate(lines):
            payload = line.rstrip("\n").partition(',"payload":')[2]
            text = f'"id={number + 1} {"order " * 15}"' if work.is_file else f'{{"schema":{schema},"payload":{payload}'
            file.write(f"{work.bad(text, number) if is_poisoned and _is_bad(number) else text}\n")


def _is_bad(offset: int) -> bool:
    return offset % EVERY == EVERY - 2


def _bad_lines(lines: Path) -> dict[int, bytes]:
    """The bad records of a file by their offsets."""
    if "poisoned" not in lines.name:
        return {}
    with lines.open("rb") as file:
        return {offset: line.rstrip(b"\n") for offset, line in enumerate(file) if _is_bad(offset)}


def report(work: Work, records: int, pairs: Sequence[tuple[Took, Took]]) -> str:
    """The result of a measurement."""
    clean, poisoned = zip(*pairs, strict=True)
    speeds = [records / statistics.median(took.seconds for took in side) for side in (clean, poisoned)]
    cost = [statistics.median(took.cpu_seconds for took in side) for side in (clean, poisoned)]
    return (
        f"{work.title}: {speeds[0]:,.0f} records/s clean, {speeds[1]:,.0f} poisoned: {speeds[1] / speeds[0]:.0%}; "
        f"CPU {cost[0]:.2f} s and {cost[1]:.2f} s: {cost[0] / cost[1]:.0%}"
    )


def main() -> None:
    """Measures what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark.poisoned", description="What one bad record in a thousand costs.")
    parser.add_argument("--work", choices=WORKS, action="append", help="all of them, unless given; may be repeated")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    cache = CHECKOUT / ".dev" / "cache"
    os.environ.setdefault("AIRFLOW_PROVIDER_CONNECT_CACHE", str(cache))
    folder = Path(tempfile.mkdtemp(prefix="poisoned-"))
    try:
        with (
            KafkaServer(folder / "kafka", cache, heap="1g", quick=False) as kafka,
            PostgresServer(shared_buffers="256MB", max_wal_size="4GB") as postgres,
        ):
            course = Course(kafka, postgres, folder, cache / "bench-lines")
            for work in _chosen(arguments.work or WORKS):
                pairs = []
                for pair in course.measure(work, arguments.records, arguments.runs):
                    pairs.append(pair)
                    print(f"  {work.name}: {pair[0]} {pair[1]}", flush=True)
                print(report(work, arguments.records, pairs), flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _chosen(names: Iterable[str]) -> list[Work]:
    return [WORKS[name] for name in names]


if __name__ == "__main__":
    main()
