"""Races between PostgreSQL and a topic: ours beside Debezium's connectors on a real Kafka Connect, with their defaults and tuned."""

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from tests.benchmark.connect_peer import ConnectWorker, lined_up
from tests.benchmark.contestants import Contestant
from tests.benchmark.debezium import debezium_plugins
from tests.benchmark.destinations import TopicDestination
from tests.benchmark.ours import OurContestant
from tests.benchmark.race import Lane, Run, run_in
from tests.benchmark.report import OURS
from tests.benchmark.tables import DATABASE, SCHEMA, TableDestination, Tables, rows_file
from tests.benchmark.topics import Topics
from tests.benchmark.works import PEERS, TUNED_CONSUMER, TUNED_PRODUCER

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_TUNED_SOURCE = {"snapshot.fetch.size": "20000", "max.batch.size": "20480", "max.queue.size": "81920", **TUNED_PRODUCER}
_TUNED_SINK = {"batch.size": "10000", **TUNED_CONSUMER}
_REST_SECONDS = 2.0
_SLOWEST_PER_SECOND = 2_000
_1M, _5M = 1_000_000, 5_000_000


@dataclass(frozen=True, slots=True)
class TableWork:
    """``insert_mode`` None: table → topic; else topic → table, by that mode. ``aims`` as in ``Work``."""

    name: str
    title: str
    insert_mode: str | None
    aims: Mapping[tuple[int, str], float]

    def config(self, contestant: str, tables: Tables, table: str, topic: str) -> dict[str, str]:
        """Each contestant's own words for the same."""
        if contestant not in PEERS:
            return self._ours(tables, table, topic)
        return self._debezium_source(tables, table, topic) if self.insert_mode is None else self._debezium_sink(tables, table, topic)

    def tuning(self) -> Mapping[str, str]:
        """What an expert adds to Debezium's."""
        return _TUNED_SOURCE if self.insert_mode is None else _TUNED_SINK

    def _ours(self, tables: Tables, table: str, topic: str) -> dict[str, str]:
        location = {"connection.url": tables.jdbc_url, "connection.user": USER, "tasks.max": "1"}
        if self.insert_mode is None:
            prefix = topic.removesuffix(table)
            mode = {"mode": "incrementing", "incrementing.column.name": "id", "table.include": table, "schema.pattern": SCHEMA}
            return {"connector.class": "JdbcSource", **location, **mode, "topic.prefix": prefix, **_converters(schemas=False)}
        keys = {"pk.mode": "record_value", "pk.fields": "id"} if self.insert_mode == "upsert" else {"pk.mode": "none"}
        write = {"insert.mode": self.insert_mode, "auto.create": "true", "table.name.format": table, "topics": topic}
        return {"connector.class": "JdbcSink", **location, **write, **keys, **_converters(schemas=True)}

    def _debezium_source(self, tables: Tables, table: str, topic: str) -> dict[str, str]:
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": LOOPBACK,
            "database.port": str(tables.server.port),
            "database.user": USER,
            "database.password": "none",
            "database.dbname": DATABASE,
            "topic.prefix": topic.removesuffix(f".{SCHEMA}.{table}"),
            "table.include.list": f"{SCHEMA}.{table}",
            "plugin.name": "pgoutput",
            "slot.name": f"slot_{table}",
            "slot.drop.on.stop": "true",
            "publication.name": f"publication_{table}",
            "publication.autocreate.mode": "filtered",
            "snapshot.mode": "initial_only",
            "exactly.once.support": "required",
            "transforms": "rows",
            "transforms.rows.type": "io.debezium.transforms.ExtractNewRecordState",
            **_converters(schemas=False),
        }

    def _debezium_sink(self, tables: Tables, table: str, topic: str) -> dict[str, str]:
        keys = {"primary.key.mode": "record_value", "primary.key.fields": "id"} if self.insert_mode == "upsert" else {}
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "tasks.max": "1",
            "topics": topic,
            "connection.url": f"{tables.jdbc_url}?reWriteBatchedInserts=true",
            "connection.username": USER,
            "connection.password": "none",
            "insert.mode": str(self.insert_mode),
            "schema.evolution": "basic",
            "collection.name.format": table,
            **keys,
            **_converters(schemas=True),
        }


TABLE_WORKS = {
    work.name: work
    for work in (
        TableWork(
            "W3",
            "PostgreSQL → topic, exactly once",
            None,
            aims={(_1M, "connect-default"): 4.2, (_1M, "connect-tuned"): 2.2, (_5M, "connect-default"): 5.5, (_5M, "connect-tuned"): 2.8},
        ),
        TableWork(
            "W4",
            "topic → PostgreSQL, insert",
            "insert",
            aims={(_1M, "connect-tuned"): 4.0, (_5M, "connect-tuned"): 5.0},
        ),
        TableWork(
            "W4u",
            "topic → PostgreSQL, upsert",
            "upsert",
            aims={(_1M, "connect-tuned"): 3.0, (_5M, "connect-tuned"): 4.0},
        ),
    )
}


@dataclass(frozen=True, slots=True)
class _Course:
    """So many rows of a work, in tables of a server."""

    work: TableWork
    tables: Tables
    records: int


class TableRaces:
    """Races of one work on a PostgreSQL of their own; peers and ours take turns. Everything is gone when the ``with`` ends."""

    def __init__(self, bootstrap_servers: str, scratch: Path, cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> None:
        self._bootstrap_servers, self._scratch, self._cache = bootstrap_servers, scratch, cache
        self._java, self._notify = java, notify
        self._topics = Topics(bootstrap_servers)
        self._numbers = itertools.count(1)

    def run(self, work: TableWork, names: Sequence[str], records: Sequence[int], runs: int) -> Iterator[Run]:
        """Each run as it ends; one of every contestant before the first is not among them."""
        server = PostgresServer(wal_level="logical", shared_buffers="256MB", max_wal_size="4GB")
        with server, self._contestants(work, names) as chosen:
            tables = Tables(server)
            warm_up = min(_1M // 10, *records)
            self._notify(f"{work.name}: each contestant warms up on {warm_up:,} records")
            list(self._take_turns(chosen, _Course(work, tables, warm_up), 1))
            for count in sorted(records):
                yield from self._take_turns(chosen, _Course(work, tables, count), runs)

    def _take_turns(self, chosen: Sequence[Contestant], course: "_Course", runs: int) -> Iterator[Run]:
        with self._source(course) as source:
            for _, contestant in itertools.product(range(runs), chosen):
                time.sleep(_REST_SECONDS)
                yield self._race(contestant, course, source)

    def _race(self, contestant: Contestant, course: "_Course", source: str) -> Run:
        records = course.records
        with self._lane(contestant.name, course, source) as lane:
            return run_in(lane, contestant, course.work.name, records, limit_seconds=120 + records / _SLOWEST_PER_SECOND)

    @contextmanager
    def _lane(self, contestant: str, course: "_Course", source: str) -> Iterator[Lane]:
        work, tables, records = course.work, course.tables, course.records
        name = f"{work.name.lower()}-{contestant}-{next(self._numbers)}"
        if work.insert_mode is None:
            topic = f"{name}.{SCHEMA}.{source}" if contestant in PEERS else f"{name}.{source}"
            with self._topics.topic(topic), closing(self._topic_of(topic, records)) as arrived:
                yield Lane(name, work.config(contestant, tables, source, topic), arrived)
            return
        table = name.replace("-", "_")
        with closing(TableDestination(tables, table, records)) as filled:
            yield Lane(name, work.config(contestant, tables, table, source), filled)
        tables.execute(f"drop table {table}")

    def _topic_of(self, topic: str, records: int) -> TopicDestination:
        """Every contestant reads the table in the order of its ids."""
        return TopicDestination(
            self._bootstrap_servers, topic, records=records, is_last=lambda value: value is not None and json.loads(value)["id"] == records
        )

    @contextmanager
    def _source(self, course: "_Course") -> Iterator[str]:
        """The table or the topic that every contestant reads."""
        work, records = course.work, course.records
        if work.insert_mode is None:
            with course.tables.filled(f"orders_{records}", records) as table:
                yield table
            return
        with self._topics.topic(f"orders-{work.name.lower()}-{records}") as topic:
            self._topics.fill(topic, rows_file(self._cache / "bench-lines", records))
            yield topic

    @contextmanager
    def _contestants(self, work: TableWork, names: Sequence[str]) -> Iterator[list[Contestant]]:
        directory = self._scratch / f"connect-{work.name.lower()}"

        def worker() -> ConnectWorker:
            more = {"plugin.path": str(debezium_plugins(self._cache / "connect" / "debezium", self._java))}
            return ConnectWorker(directory, self._cache, self._java, self._bootstrap_servers, exactly_once=True, more=more)

        ours = OurContestant(OURS, self._scratch / f"ours-{work.name.lower()}", self._cache, self._bootstrap_servers, exactly_once=True)
        with lined_up(names, ours, worker, work.tuning()) as chosen:
            yield chosen


def _converters(*, schemas: bool) -> dict[str, str]:
    return {
        "key.converter": _JSON,
        "key.converter.schemas.enable": "false",
        "value.converter": _JSON,
        "value.converter.schemas.enable": str(schemas).lower(),
    }
