"""One session of races: a broker, the works asked for, every contestant warm, contestants taking turns."""

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.prepare import prepare
from tests.benchmark import agent_work, rest_work, staying_work
from tests.benchmark.connect_peer import ConnectWorker, lined_up, mirror_plugins
from tests.benchmark.contestants import Contestant
from tests.benchmark.lake_works import LAKE_WORKS, LakeRaces, LakeWork
from tests.benchmark.machine import describe
from tests.benchmark.ours import OurContestant
from tests.benchmark.race import Course, Run
from tests.benchmark.report import FIRST, OURS, SECOND, race_table, spread_text, write_raw
from tests.benchmark.spark_peer import SPARK
from tests.benchmark.start_works import TITLE, WORK, airflow_runs, ladder_table, submit_runs
from tests.benchmark.table_works import TABLE_WORKS, TableRaces, TableWork
from tests.benchmark.works import PEERS, WORKS, Aimed, Direction, Work

CONTESTANTS = (*PEERS, SPARK, OURS)
_WARM_UP_RECORDS = 1_000_000
_REST_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What to race: names of works and contestants, numbers of records and of rows of tables and lakes (none: those that a
    work has aims for), runs of each, the file of raw runs."""

    works: Sequence[str]
    contestants: Sequence[str]
    records: Sequence[int]
    rows: Sequence[int]
    runs: int
    raw: Path

    def rows_of(self, work: Aimed) -> list[int]:
        """The numbers of rows that a work is raced with."""
        return list(self.rows) or sorted({count for count, _ in work.aims})


class Session:
    """Carries a plan out in the folder ``bench`` of ``directory``; what is fetched or made once stays in its ``cache``.

    The folder is made anew each time and removed at the end. After a failure it stays, for the logs in it.
    """

    def __init__(self, directory: Path, plan: Plan) -> None:
        self._plan = plan
        self._cache = directory / "cache"
        self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._scratch = directory / "bench"
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        self._java = find_java(cache=self._cache)
        self._runs: list[Run] = []
        self._started, self._load = time.monotonic(), os.getloadavg()[0]

    def run(self) -> dict[str, str]:
        """A table for each work, by its heading. Raw runs are written after every race, so that an interrupted session leaves some."""
        prepare(self._notify, cache=self._cache)
        tables = {}
        with KafkaServer(self._scratch / "kafka", self._cache, heap="1g", quick=False, notify=self._notify) as kafka:
            for work in (WORKS[name] for name in self._plan.works if name in WORKS):
                tables[f"{work.name}: {work.title}"] = self._race(work, kafka.bootstrap_servers)
            for table_work in (TABLE_WORKS[name] for name in self._plan.works if name in TABLE_WORKS):
                tables[f"{table_work.name}: {table_work.title}"] = self._race_tables(table_work, kafka.bootstrap_servers)
            for lake_work in (LAKE_WORKS[name] for name in self._plan.works if name in LAKE_WORKS):
                tables[f"{lake_work.name}: {lake_work.title}"] = self._race_tables(lake_work, kafka.bootstrap_servers)
            if agent_work.WORK in self._plan.works:
                runs = agent_work.agent_runs(kafka.bootstrap_servers, self._scratch, self._notify)
                self._note(runs)
                tables[agent_work.TITLE] = agent_work.agent_table(runs)
            if WORK in self._plan.works:
                self._note(submit_runs(kafka.bootstrap_servers, self._scratch, self._cache, self._ladder_runs()))
            if rest_work.WORK in self._plan.works and rest_work.CONNECT in self._plan.contestants:
                self._note(rest_work.connect_requests(kafka.bootstrap_servers, self._scratch, self._cache, self._java, self._notify))
        if WORK in self._plan.works:  # without the other broker beside it
            self._note(airflow_runs(self._scratch, self._cache, self._ladder_runs(), self._notify))
            tables[TITLE] = ladder_table([run for run in self._runs if run.work == WORK])
        if rest_work.WORK in self._plan.works:
            if OURS in self._plan.contestants:
                self._note(rest_work.our_requests(self._scratch, self._cache, self._notify))
            tables[rest_work.TITLE] = rest_work.request_table([run for run in self._runs if run.work == rest_work.WORK])
        if staying_work.WORK in self._plan.works:
            staying_work.staying_runs(self._scratch, self._cache, self._java, self._notify, self._note)
            tables[staying_work.TITLE] = staying_work.staying_table([run for run in self._runs if run.work == staying_work.WORK])
        shutil.rmtree(self._scratch)
        return tables

    def measured_on(self) -> str:
        """A sentence for the tables: when, and on which machine."""
        return f"Measured on {date.today()}: {describe(self._java)}; load before: {self._load:.1f}."

    def _ladder_runs(self) -> int:
        return max(5, self._plan.runs)

    def _race(self, work: Work, bootstrap_servers: str) -> str:
        course = Course(bootstrap_servers, self._cache / "bench-lines", self._scratch)
        with self._contestants(work, bootstrap_servers) as contestants:
            warm_up = min(_WARM_UP_RECORDS, *self._plan.records)
            with course.source_topic(work, warm_up) as topic:
                for contestant in contestants:
                    self._notify(f"{work.name}: {contestant.name} warms up on {warm_up:,} records")
                    course.race(contestant, work, warm_up, topic)
            for records in sorted(self._plan.records):
                with course.source_topic(work, records) as topic:
                    if OURS in self._plan.contestants and records == min(self._plan.records):
                        pair = [self._ours(name, work, bootstrap_servers) for name in (FIRST, SECOND)]
                        self._take_turns(course, pair, work, records, topic)
                        self._notify(spread_text([run for run in self._runs if run.work == work.name]))
                    self._take_turns(course, contestants, work, records, topic)
        return race_table(work, [run for run in self._runs if run.work == work.name])

    def _race_tables(self, work: TableWork | LakeWork, bootstrap_servers: str) -> str:
        course = bootstrap_servers, self._scratch, self._cache, self._java, self._notify
        plan = self._plan.contestants, self._plan.rows_of(work), self._plan.runs
        for run in TableRaces(*course).run(work, *plan) if isinstance(work, TableWork) else LakeRaces(*course).run(work, *plan):
            self._note([run])
            self._notify(str(run))
        return race_table(work, [run for run in self._runs if run.work == work.name])

    @contextmanager
    def _contestants(self, work: Work, bootstrap_servers: str) -> Iterator[list[Contestant]]:
        """Those of the plan; the Kafka Connect worker is up inside the ``with``."""
        directory = self._scratch / f"connect-{work.name.lower()}"

        def worker() -> ConnectWorker:
            is_mirror = work.direction is Direction.MIRROR
            more = {"plugin.path": str(mirror_plugins(self._cache, self._java))} if is_mirror else {}
            return ConnectWorker(directory, self._cache, self._java, bootstrap_servers, exactly_once=work.exactly_once, more=more)

        ours = self._ours(OURS, work, bootstrap_servers)
        with lined_up(self._plan.contestants, ours, worker, work.tuning()) as chosen:
            yield chosen

    def _ours(self, name: str, work: Work, bootstrap_servers: str) -> OurContestant:
        directory = self._scratch / f"ours-{work.name.lower()}"
        return OurContestant(name, directory, self._cache, bootstrap_servers, exactly_once=work.exactly_once)

    def _take_turns(self, course: Course, contestants: Sequence[Contestant], work: Work, records: int, topic: str) -> None:
        for _ in range(self._plan.runs):
            for contestant in contestants:
                time.sleep(_REST_SECONDS)
                run = course.race(contestant, work, records, topic)
                self._note([run])
                self._notify(str(run))

    def _note(self, runs: Sequence[Run]) -> None:
        self._runs += runs
        write_raw(self._plan.raw, self._runs)

    def _notify(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:7.1f} s] {text}", flush=True)
