"""Races between a topic and files or tables of a lake: ours beside a plain Spark job, or Apache Iceberg's sink on a real Kafka Connect."""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.json
import pyarrow.parquet

from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from tests.benchmark.connect_peer import ConnectContestant, ConnectWorker
from tests.benchmark.contestants import Contestant
from tests.benchmark.destinations import TopicDestination
from tests.benchmark.lake_destinations import FolderDestination, IcebergDestination
from tests.benchmark.ours import OurContestant
from tests.benchmark.race import Lane, Run, run_in
from tests.benchmark.report import OURS
from tests.benchmark.spark_peer import SPARK, SparkContestant
from tests.benchmark.tables import rows_file
from tests.benchmark.topics import Topics
from tests.benchmark.works import TUNED_CONSUMER
from tests.java_libraries import PINS
from tests.raw_batches import varint
from tests.registry_server import RegistryServer

TUNED = "connect-tuned"
ICEBERG_VERSION = "1.12.0"
_ICEBERG_SINK = [
    f"org.apache.iceberg:iceberg-kafka-connect:{ICEBERG_VERSION}",
    f"org.apache.iceberg:iceberg-parquet:{ICEBERG_VERSION}",
    "org.apache.hadoop:hadoop-client-api:3.5.0:jar:",
    "org.apache.hadoop:hadoop-client-runtime:3.5.0:jar:",
    "org.xerial:sqlite-jdbc:3.54.1.0:jar:",
]
_COMMIT_MS = "2000"  # Iceberg's sink commits every five minutes by default
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_COLUMNS = {"id": "BIGINT", "customer": "INT", "amount": "DOUBLE", "paid": "BOOLEAN", "created_ms": "BIGINT", "note": "STRING"}
_ARROW = {"BIGINT": pa.int64(), "INT": pa.int32(), "DOUBLE": pa.float64(), "BOOLEAN": pa.bool_(), "STRING": pa.string()}
_REST_SECONDS = 2.0
_SLOWEST_PER_SECOND = 2_000
_HEADER_BYTES = 5  # of a registry, in front of a record
_2M = 2_000_000


@dataclass(frozen=True, slots=True)
class LakeWork:
    """``peer`` is the one other contestant. ``aims`` as in ``Work``."""

    name: str
    title: str
    peer: str
    aims: Mapping[tuple[int, str], float]


LAKE_WORKS = {
    work.name: work
    for work in (
        LakeWork("W6", "topic → Parquet files, exactly once", SPARK, {(_2M, SPARK): 2.0}),
        LakeWork("W7", "topic → Iceberg, exactly once", TUNED, {(_2M, TUNED): 2.0}),
        LakeWork("W8", "Parquet files → topic as Avro", SPARK, {(_2M, SPARK): 3.0}),
    )
}


class LakeRaces:
    """Races of one work; the peer and ours take turns. Everything is gone when ``run`` ends."""

    def __init__(self, bootstrap_servers: str, scratch: Path, cache: Path, java: JavaRuntime, notify: Callable[[str], None]) -> None:
        self._bootstrap_servers, self._scratch, self._cache = bootstrap_servers, scratch, cache
        self._java, self._notify = java, notify
        self._topics = Topics(bootstrap_servers)
        self._numbers = itertools.count(1)

    def run(self, work: LakeWork, names: Sequence[str], records: Sequence[int], runs: int) -> Iterator[Run]:
        """Each run as it ends; one of every contestant on few records is not among them."""
        with ExitStack() as stack:
            registry = stack.enter_context(RegistryServer(self._cache)).url if work.name == "W8" else ""
            chosen = [*self._peers(work, names, stack), *self._ours(work, names)]
            self._notify(f"{work.name}: each contestant warms up")
            for count, times in ((min(100_000, *records), 1), *((count, runs) for count in sorted(records))):
                with self._source(work, count) as source:
                    for turn, contestant in itertools.product(range(times), chosen):
                        time.sleep(_REST_SECONDS if turn else 0)
                        with self._lane(work, contestant.name, source, count, registry) as lane:
                            limit = 300 + count / _SLOWEST_PER_SECOND
                            run = run_in(lane, contestant, work.name, count, limit_seconds=limit)
                        if count in records:
                            yield run

    def _peers(self, work: LakeWork, names: Sequence[str], stack: ExitStack) -> list[Contestant]:
        if work.peer not in names:
            return []
        directory = self._scratch / f"{work.peer}-{work.name.lower()}"
        if work.peer == SPARK:
            return [SparkContestant(directory, self._cache, self._java, self._bootstrap_servers)]
        jars = fetch_jars(self._cache / "connect" / "iceberg", f"sink-{ICEBERG_VERSION}", _ICEBERG_SINK, self._java, pins=PINS)
        more = {"plugin.path": str(jars.parent)}
        worker = ConnectWorker(directory, self._cache, self._java, self._bootstrap_servers, exactly_once=True, more=more)
        return [ConnectContestant(TUNED, stack.enter_context(worker.started()), tuning=TUNED_CONSUMER)]

    def _ours(self, work: LakeWork, names: Sequence[str]) -> list[Contestant]:
        directory = self._scratch / f"ours-{work.name.lower()}"
        return [OurContestant(OURS, directory, self._cache, self._bootstrap_servers, exactly_once=True)] if OURS in names else []

    @contextmanager
    def _source(self, work: LakeWork, records: int) -> Iterator[str]:
        """The topic or the folder that every contestant reads."""
        if work.name == "W8":
            yield str(parquet_file(self._cache / "bench-lines", records).parent)
            return
        with self._topics.topic(f"rows-{work.name.lower()}-{records}") as topic:
            self._topics.fill(topic, rows_file(self._cache / "bench-lines", records))
            yield topic

    @contextmanager
    def _lane(self, work: LakeWork, contestant: str, source: str, records: int, registry: str) -> Iterator[Lane]:
        name = f"{work.name.lower()}-{contestant}-{next(self._numbers)}"
        folder = self._scratch / name
        folder.mkdir()
        if work.name == "W6":
            with closing(FolderDestination(folder, records)) as files:
                yield Lane(name, _to_files(contestant, source, folder), files)
        elif work.name == "W7":
            with self._topics.topic(f"control-{name}") as control, closing(IcebergDestination(folder, records)) as table:
                yield Lane(name, _to_iceberg(contestant, source, folder, control), table)
        else:
            with self._topics.topic(name) as topic:
                arrived = TopicDestination(self._bootstrap_servers, topic, records=records, is_last=_is_last(contestant, records))
                with closing(arrived):
                    yield Lane(name, _from_files(contestant, source, topic, registry), arrived)


def parquet_file(directory: Path, rows: int) -> Path:
    """The rows of ``rows_file`` as one Parquet file in a folder of its own."""

    def write(folder: Path) -> None:
        folder.mkdir()
        payload = pa.struct([pa.field(name, _ARROW[kind], nullable=name == "note") for name, kind in _COLUMNS.items()])
        options = pyarrow.json.ParseOptions(explicit_schema=pa.schema([("payload", payload)]), unexpected_field_behavior="ignore")
        values = pyarrow.json.read_json(rows_file(directory, rows), parse_options=options)["payload"].combine_chunks()
        pyarrow.parquet.write_table(pa.Table.from_arrays(values.flatten(), schema=pa.schema(list(payload))), folder / "rows.parquet")

    return made_once(directory / f"parquet-{rows}", write) / "rows.parquet"


def _to_files(contestant: str, topic: str, folder: Path) -> dict[str, str]:
    if contestant == SPARK:
        return {"topic": topic, "path": str(folder / "rows"), "schema": ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())}
    return {"connector.class": "FileSystemSink", "tasks.max": "1", "topics": topic, "url": str(folder), "format": "parquet", **_VALUES}


def _to_iceberg(contestant: str, topic: str, folder: Path, control: str) -> dict[str, str]:
    sink = {
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "iceberg.tables": "bench.rows",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "iceberg.catalog.warehouse": f"{folder}/warehouse",
        "iceberg.control.topic": control,
        "iceberg.control.commit.interval-ms": _COMMIT_MS,
        **_VALUES,
    }
    if contestant == OURS:
        return sink | {"iceberg.catalog.type": "jdbc"}
    return sink | {"iceberg.catalog.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog"}


def _from_files(contestant: str, folder: str, topic: str, registry: str) -> dict[str, str]:
    if contestant == SPARK:
        return {"topic": topic, "path": folder}
    files = {"connector.class": "FileSystemSource", "tasks.max": "1", "url": folder, "format": "parquet", "file.minimum.age.ms": "0"}
    return files | {"topic": topic, "value.converter": "AvroConverter", "value.converter.schema.registry.url": registry}


_VALUES = {
    "key.converter": _JSON,
    "key.converter.schemas.enable": "false",
    "value.converter": _JSON,
    "value.converter.schemas.enable": "true",
}


def _is_last(contestant: str, records: int) -> Callable[[bytes | None], bool]:
    """Spark's job keeps no order, and writes no markers of transactions: its last record is that of the last offset."""
    if contestant == SPARK:
        return lambda value: value is not None
    begins = varint(records)
    return lambda value: value is not None and value[_HEADER_BYTES:].startswith(begins)
