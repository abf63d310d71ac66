"""An agent at rest over many log files: how late a line arrives, and what waiting costs. No peer: Kafka Connect has no such source."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import psutil
from confluent_kafka import Consumer, TopicPartition

from tests.benchmark.measure import tree_seconds
from tests.benchmark.race import Run
from tests.benchmark.topics import Topics
from tests.integration.standalone.agent import Agent, properties

WORK, TITLE = "agent", "agent: LogSource follows 1,000 files in connect-standalone"
_FILES, _LINES = 1_000, 30
_REST_SECONDS = 20.0
_LIMIT_SECONDS = 120.0
_NOT_THERE = ("pandas", "pyspark")
"""Not part of an installation for agents; Airflow is hidden as well."""
_MEMORY = "own memory"


def agent_runs(bootstrap_servers: str, scratch: Path, notify: Callable[[str], None]) -> list[Run]:
    """One run for each line: ``seconds`` from its writing to a consumer; ``cpu_seconds`` for each second at rest. The memory is resident,
    pages of libraries included; a run named for it has that of the process alone."""
    folder = scratch / "agent"
    logs = folder / "logs"
    logs.mkdir(parents=True)
    for number in range(_FILES):
        (logs / f"{number}.log").write_text("first\n")
    agent = Agent(folder, bootstrap_servers)
    for name in _NOT_THERE:
        package = folder / "no-airflow" / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"raise ImportError('{name} is not installed here')\n")
    with Topics(bootstrap_servers).topic("agent") as topic:
        config = {"name": "logs", "connector.class": "LogSource", "paths": f"{logs}/*.log", "topic": topic, "follow": "true"}
        (folder / "logs.properties").write_text(properties(config))
        consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "agent", "fetch.wait.max.ms": "10"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            agent.start(folder / "logs.properties")
            _receive(consumer, _FILES)
            notify(f"{WORK}: the agent has read {_FILES:,} files")
            seconds = [_latency(logs / "7.log", consumer) for _ in range(_LINES)]
            assert agent.process is not None
            process = psutil.Process(agent.process.pid)
            before = tree_seconds(process.pid)
            time.sleep(_REST_SECONDS)
            share = (tree_seconds(process.pid) - before) / _REST_SECONDS
            memory = process.memory_info()
            own = memory.rss - memory.shared
        finally:
            consumer.close()
            agent.stop()
    lines = [Run(WORK, "line", _FILES, round(taken, 3), round(share, 4), memory.rss, 1) for taken in seconds]
    return [*lines, Run(WORK, _MEMORY, _FILES, 0.0, 0.0, own, 1)]


def agent_table(runs: Sequence[Run]) -> str:
    """One row, as Markdown."""
    lines = [run for run in runs if run.contestant != _MEMORY]
    [own] = (run.peak_rss_bytes for run in runs if run.contestant == _MEMORY)
    seconds = [run.seconds for run in lines]
    latency = f"{median(seconds):.2f} | {max(seconds):.2f}"
    return (
        "| files | lines | p50 s | longest s | aim | % of a core at rest | aim | own MB | resident MB, libraries included |\n"
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        f"| {_FILES:,} | {len(lines)} | {latency} | < 1 | {100 * lines[0].cpu_seconds:.1f} | ≤ 1 | {own / 1e6:.0f} "
        f"| {lines[0].peak_rss_bytes / 1e6:.0f} |\n"
    )


def _latency(log: Path, consumer: Consumer) -> float:
    """Of a line that is written at any time between two listings."""
    time.sleep(random.uniform(0.5, 1.5))
    written = time.monotonic()
    with log.open("a") as file:
        file.write("line\n")
    _receive(consumer, 1)
    return time.monotonic() - written


def _receive(consumer: Consumer, count: int) -> None:
    until = time.monotonic() + _LIMIT_SECONDS
    while count > 0:
        count -= len(consumer.consume(count, 0.005))
        if time.monotonic() > until:
            raise TimeoutError(f"{count} lines have not come within {_LIMIT_SECONDS:.0f} s")
