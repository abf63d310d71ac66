"""``make chaos``: kill everything everywhere and count records. Exit code 1 if any guarantee was broken."""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.spark.cache import cache_directory
from tests.conftest import worker_properties
from tests.e2e.chaos import control_storm
from tests.e2e.chaos.airflow_storm import AirflowStorm
from tests.e2e.chaos.deck import FILES, MIRRORS, TABLES
from tests.e2e.chaos.destination_storm import DestinationStorm
from tests.e2e.chaos.direct import DirectStorm
from tests.e2e.chaos.file_storm import FileStorm
from tests.e2e.chaos.jvm_storm import JvmStorm
from tests.e2e.chaos.key_storm import KeyStorm
from tests.e2e.chaos.outage_storm import OutageStorm
from tests.e2e.chaos.shared_storm import SharedStorm, members_of_every_guarantee
from tests.e2e.chaos.tally import Tally
from tests.e2e.chaos.through_airflow import AirflowRuns
from tests.e2e.chaos.topic_storm import TopicStorm
from tests.e2e.chaos.writer_storm import WriterStorm
from tests.e2e.faults.pairs import Pairs

AIRFLOW_SHARE = 4  # of so many kills one goes through Airflow


def main() -> int:
    """Three storms at once: spark-submits of our own, runs that a real Airflow schedules, and a broker that goes away. Then those of
    files and lakes, of destinations that change, of tables, of mirrors, of shared applications, of Java connectors, of writers, of keys,
    and of control."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=60, help="SIGKILLs of runs in all")
    parser.add_argument("--airflow-kills", type=int, help="of these so many through Airflow; a quarter unless given")
    parser.add_argument("--control-kills", type=int, default=30, help="SIGKILLs besides, of those who control connectors")
    parser.add_argument("--table-kills", type=int, default=60, help="besides, of runs with tables, and of their connections")
    parser.add_argument("--mirror-kills", type=int, default=20, help="besides, of runs that mirror a topic")
    parser.add_argument("--shared-kills", type=int, default=60, help="besides, of shared applications")
    parser.add_argument("--jvm-kills", type=int, default=40, help="besides, of Java connectors in runs that stay")
    parser.add_argument("--file-kills", type=int, default=150, help="besides, of runs with files, object stores, lakes and logs")
    parser.add_argument(
        "--writer-seconds", type=float, default=300, help="how long tables are written to while runs follow each other, over all modes"
    )
    parser.add_argument("--key-tables", type=int, default=36, help="tables whose keys are equal though they are written in different ways")
    parser.add_argument("--topic-deletions", type=int, default=20, help="topics deleted in the middle of runs; and records of 1 MiB")
    parser.add_argument("--changes", type=int, default=120, help="runs of sinks whose destinations others have changed since the last one")
    parser.add_argument("--no-outages", dest="outages", action="store_false", help="the broker stays")
    parser.add_argument("--no-crowd", dest="crowd", action="store_false", help="no clients of two API servers")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32), help="the same seed, the same faults")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and folders are removed in the same way as always
    through_airflow = -(-arguments.kills // AIRFLOW_SHARE) if arguments.airflow_kills is None else arguments.airflow_kills
    tally = Tally()
    wanted = arguments.kills + arguments.file_kills + arguments.table_kills + arguments.mirror_kills + arguments.shared_kills
    wanted += arguments.jvm_kills + arguments.control_kills
    tally.notify(
        f"seed {arguments.seed}, {wanted} kills: {arguments.kills} of runs, {through_airflow} of those through Airflow, "
        f"{arguments.file_kills} of runs with files, {arguments.table_kills} with tables, {arguments.mirror_kills} of mirrors, "
        f"{arguments.shared_kills} of shared applications, {arguments.jvm_kills} of Java connectors in runs that stay, and "
        f"{arguments.control_kills} of control"
    )
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        with ThreadPoolExecutor(1) as pool:
            away = pool.submit(_outages, folder, tally) if arguments.outages else None
            with tally.calming():
                if arguments.kills:
                    _storm(folder, tally, arguments.seed, arguments.kills - through_airflow, through_airflow)
                for storm, subfolder, count, seed in (
                    (_topics, "topics", arguments.topic_deletions, 6),
                    (_files, "files", arguments.file_kills, 8),
                    (_changes, "changes", arguments.changes, 9),
                    (_tables, "tables", arguments.table_kills, 4),
                    (_mirrors, "mirrors", arguments.mirror_kills, 7),
                    (_shared, "shared", arguments.shared_kills, 10),
                    (_jvms, "jvms", arguments.jvm_kills, 11),
                    (_writers, "writers", arguments.writer_seconds, 5),
                ):
                    if count:
                        storm(folder / subfolder, tally, arguments.seed + seed, count)
                if arguments.key_tables:
                    _keys(tally, arguments.seed % 1_000_000, arguments.key_tables)
                if arguments.control_kills:
                    control_storm.kills(folder / "control", tally, arguments.seed + 2, arguments.control_kills)
                if arguments.crowd:
                    control_storm.crowd(folder / "crowd", tally, arguments.seed + 3)
                if away is not None:
                    away.result()
    print(f"\nseed {arguments.seed}\n{tally.report()}", flush=True)
    return 1 if tally.violations or len(tally.kills) < wanted else 0


def _outages(folder: Path, tally: Tally) -> None:
    OutageStorm(folder / "outages", tally).run()
    if not tally.is_over:
        control_storm.statuses(folder / "statuses", tally)


def _storm(folder: Path, tally: Tally, seed: int, direct: int, through_airflow: int) -> None:
    """Servers are started by this thread, because each ends with the thread that started it."""
    with KafkaServer(folder / "kafka", cache_directory()) as kafka, ThreadPoolExecutor(1) as pool:
        storm = DirectStorm(folder / "direct", kafka.bootstrap_servers, tally, random.Random(seed), groups=FILES)
        running = pool.submit(storm.run, direct)
        with tally.calming():
            if through_airflow:
                with AirflowRuns(folder / "airflow") as runs:
                    AirflowStorm(runs, tally, random.Random(seed + 1)).run(through_airflow)
            running.result()


def _topics(folder: Path, tally: Tally, seed: int, deletions: int) -> None:
    with KafkaServer(folder / "kafka", cache_directory()) as kafka:
        TopicStorm(folder / "runs", kafka.bootstrap_servers, tally, random.Random(seed)).run(deletions)


def _files(folder: Path, tally: Tally, seed: int, kills: int) -> None:
    with ExitStack() as servers:
        kafka = servers.enter_context(KafkaServer(folder / "kafka", cache_directory()))
        FileStorm(folder / "runs", kafka.bootstrap_servers, tally, random.Random(seed), Pairs(servers)).run(kills)


def _changes(folder: Path, tally: Tally, seed: int, rounds: int) -> None:
    with KafkaServer(folder / "kafka", cache_directory()) as kafka:
        DestinationStorm(folder / "runs", kafka.bootstrap_servers, tally, random.Random(seed)).run(rounds)


def _tables(folder: Path, tally: Tally, seed: int, kills: int) -> None:
    with KafkaServer(folder / "kafka", cache_directory()) as kafka, PostgresServer() as postgres:
        storm = DirectStorm(folder / "direct", kafka.bootstrap_servers, tally, random.Random(seed), groups=TABLES, database=postgres.url())
        storm.run(kills)


def _mirrors(folder: Path, tally: Tally, seed: int, kills: int) -> None:
    with KafkaServer(folder / "kafka", cache_directory()) as kafka:
        DirectStorm(folder / "direct", kafka.bootstrap_servers, tally, random.Random(seed), groups=MIRRORS).run(kills)


def _shared(folder: Path, tally: Tally, seed: int, kills: int) -> None:
    with KafkaServer(folder / "kafka", cache_directory()) as kafka, PostgresServer() as postgres:
        (folder / "runs").mkdir(parents=True)
        given = worker_properties(kafka.bootstrap_servers, "shared-storm")
        members = members_of_every_guarantee(folder / "runs", given, postgres.url())
        SharedStorm(folder / "runs", given, tally, random.Random(seed), members).run(kills)


def _jvms(folder: Path, tally: Tally, seed: int, kills: int) -> None:
    with KafkaServer(folder / "kafka", cache_directory()) as kafka:
        (folder / "runs").mkdir(parents=True)
        JvmStorm(folder / "runs", kafka.bootstrap_servers, tally, random.Random(seed)).run(kills)


def _writers(folder: Path, tally: Tally, seed: int, seconds: float) -> None:
    with KafkaServer(folder / "kafka", cache_directory()) as kafka, PostgresServer() as postgres:
        WriterStorm(folder / "runs", kafka.bootstrap_servers, postgres, tally, seed).run(seconds)


def _keys(tally: Tally, seed: int, tables: int) -> None:
    with PostgresServer() as postgres:
        KeyStorm(postgres, tally, seed).run(tables)


if __name__ == "__main__":
    sys.exit(main())
