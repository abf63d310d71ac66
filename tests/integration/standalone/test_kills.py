"""The process is killed, or signalled to end, in the middle of its work: at least once, and an offset file that is whole."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Self

import pytest

from airflow_provider_connect.runtime.stores.offset_file import OffsetFile
from airflow_provider_connect.runtime.wire import java_map
from tests.integration.standalone.agent import Agent, properties
from tests.waiting import wait_until

MakeAgent = Callable[..., Agent]
LINES_A_WRITE = 500
KILLS = 3


class Growing:
    """A file that is written to, line after line, until the ``with`` ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.lines: list[str] = []

    def _write(self) -> None:
        with self._path.open("a") as file:
            while not self._enough.wait(0.02):
                more = [f"line {len(self.lines) + number}" for number in range(LINES_A_WRITE)]
                file.writelines(f"{line}\n" for line in more)
                file.flush()
                self.lines += more

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()


def _connectors(folder: Path, unique: str) -> list[Path]:
    source, sink = folder / "source.properties", folder / "sink.properties"
    lines = {"name": f"{unique}-in", "connector.class": "FileStreamSource", "file": str(folder / "in.txt"), "topic": unique}
    source.write_text(properties(lines))
    sink.write_text(
        properties({"name": f"{unique}-out", "connector.class": "FileStreamSink", "file": str(folder / "out.txt"), "topics": unique})
    )
    return [source, sink]


def _arrived(folder: Path) -> Counter[str]:
    out = folder / "out.txt"
    return Counter(out.read_text().splitlines() if out.exists() else [])


def _moves_on(folder: Path) -> None:
    """Wait until more lines have arrived than now."""
    before = sum(_arrived(folder).values())
    wait_until(lambda: sum(_arrived(folder).values()) > before)


def test_no_line_is_lost_when_the_process_is_killed(make_agent: MakeAgent, tmp_path: Path, unique: str) -> None:
    seed = int(os.environ.get("SEED", "1"))
    chance, connectors = random.Random(seed), _connectors(tmp_path, unique)
    whole = 0
    agent = make_agent(offset_flush_interval_ms="300").start(*connectors)
    with Growing(tmp_path / "in.txt") as growing:
        for _ in range(KILLS):
            _moves_on(tmp_path)
            until = time.monotonic() + chance.uniform(0.1, 1.5)
            while time.monotonic() < until or not agent.offsets.exists():
                if agent.offsets.exists():
                    java_map.decode(agent.offsets.read_bytes())  # at any instant it is whole
                    whole += 1
            agent.end(signal.SIGKILL)
            java_map.decode(agent.offsets.read_bytes())
            agent.start(*connectors)
        _moves_on(tmp_path)
    wanted = set(growing.lines)
    wait_until(lambda: wanted <= set(_arrived(tmp_path)))
    arrived = _arrived(tmp_path)
    doubled, torn = sum(arrived[line] - 1 for line in wanted), set(arrived) - wanted
    assert all(any(line.startswith(piece) for line in wanted) for piece in torn)  # a line that a kill cut off is there again, whole
    print(f"seed {seed}: {KILLS} kills, {len(wanted)} lines, 0 lost, {doubled} doubled, {len(torn)} torn; offset file whole {whole} times")


@pytest.mark.soak
def test_no_line_is_doubled_when_the_process_is_asked_to_end(make_agent: MakeAgent, tmp_path: Path, unique: str) -> None:
    connectors = _connectors(tmp_path, unique)
    agent = make_agent(offset_flush_interval_ms="60000").start(*connectors)
    with Growing(tmp_path / "in.txt") as growing:
        for number in (signal.SIGTERM, signal.SIGINT):
            _moves_on(tmp_path)
            assert agent.end(number) == 0, agent.log
            agent.start(*connectors)
        _moves_on(tmp_path)
    wait_until(lambda: sum(_arrived(tmp_path).values()) >= len(growing.lines))
    assert agent.end() == 0, agent.log
    assert (tmp_path / "out.txt").read_text().splitlines() == growing.lines
    file = OffsetFile(agent.offsets)
    assert file.read(f"{unique}-in").get({"filename": str(tmp_path / "in.txt")}) == {"position": (tmp_path / "in.txt").stat().st_size}
    file.close()
