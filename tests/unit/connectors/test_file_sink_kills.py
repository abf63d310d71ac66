"""The exactly-once file under SIGKILL and SIGSTOP at any instant: what a reader finds is exactly the lines up to the committed offset.

A writer is a forked process that puts the numbers from the committed offset on, one a line, in batches of any size, and commits now
and then.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors import commit_files
from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector, FileStreamSinkTask
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import FencedException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing.contexts import MemorySinkContext
from tests.reaching import reaching

FENCED, FAILED = 3, 4


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_files, "LOCK_SECONDS", 0.1)


def started(path: Path, claim: int, tasks: int = 1) -> FileStreamSinkTask:
    config = {"file": str(path), "tasks.max": str(tasks)}
    task = reaching(FileStreamSinkTask())
    task.initialize(MemorySinkContext(config, [], claim_epoch=claim, exactly_once=True))
    task.start(FileStreamSinkConnector.config_def.parse(config))
    return task


def line(partition: int, number: int) -> str:
    return f"{partition}:{number}"


def write(path: Path, claim: int, *, partition: int = 0, tasks: int = 1, seed: int = 0, limit: int = 10**9) -> int:
    """Write on from the committed offset; the offset reached."""
    chance = random.Random(seed)
    own = TopicPartition("numbers", partition)
    task = started(path, claim, tasks)
    number = (task.open([own]) or {}).get(own, 0)
    while number < limit:
        count = min(chance.choice((1, 3, 500, 20_000)), limit - number)
        column = pa.array([line(partition, n) for n in range(number, number + count)])
        task.put(Batch("numbers", column, value_schema=STRING_SCHEMA))
        number += count
        if chance.random() < 0.5 or number >= limit:
            task.pre_commit({own: number})
    task.stop()
    return number


def forked(work: Callable[[], object]) -> int:
    """Run ``work`` in a process of its own; its id."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except FencedException:
        os._exit(FENCED)
    except BaseException:  # the parent reads the exit code
        os._exit(FAILED)
    os._exit(0)


def exit_code(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def found(path: Path, claim: int, partitions: int = 1) -> dict[int, int]:
    """The committed offsets, after checking that the file holds exactly the lines before them, each partition in order."""
    own = [TopicPartition("numbers", n) for n in range(partitions)]
    task = started(path, claim)
    offsets = task.open(own) or {}
    task.stop()
    lines = path.read_text().split("\n")
    assert lines.pop() == ""
    for tp in own:
        of_partition = [text for text in lines if text.startswith(f"{tp.partition}:")]
        assert of_partition == [line(tp.partition, n) for n in range(offsets.get(tp, 0))]
    assert len(lines) == sum(offsets.values())
    return {tp.partition: offset for tp, offset in offsets.items()}


@pytest.fixture(autouse=True)
def warm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Arrow's functions are loaded here, not in every forked process: they are to be killed at work, not as they begin."""
    write(tmp_path_factory.mktemp("warm") / "out.txt", 1, limit=1)


@pytest.fixture
def claims() -> Callable[[], int]:
    numbers = iter(range(1, 10**6))
    return lambda: next(numbers)


def test_killed_at_any_instant_it_loses_and_doubles_nothing(tmp_path: Path, claims: Callable[[], int]) -> None:
    path, chance, kills, reached, delivered = tmp_path / "out.txt", random.Random(11), 0, 0, 0
    while kills < 60 or delivered < 10_000:
        claim, seed = claims(), kills
        child = forked(partial(write, path, claim, seed=seed))
        time.sleep(chance.uniform(0, 0.06))
        os.kill(child, signal.SIGKILL)
        assert exit_code(child) == -signal.SIGKILL
        kills += 1
        if path.exists() and kills % 3 == 0:
            offset = found(path, claims()).get(0, 0)
            assert offset >= reached
            delivered += offset - reached
            reached = offset
        if reached > 400_000:  # begin again: large files make the reading slow
            for file in tmp_path.iterdir():
                file.unlink()
            reached = 0
    end = found(path, claims()).get(0, 0) + 1000
    assert write(path, claims(), limit=end) == end
    assert found(path, claims()) == {0: end}


@pytest.mark.soak
def test_several_tasks_killed_at_any_instant(tmp_path: Path, claims: Callable[[], int]) -> None:
    path, chance, kills, delivered = tmp_path / "out.txt", random.Random(12), 0, 0
    while kills < 40 or delivered < 1000:
        claim = claims()
        children = [forked(partial(write, path, claim, partition=n, tasks=2, seed=kills + n)) for n in range(2)]
        for child in chance.sample(children, 2):
            time.sleep(chance.uniform(0, 0.05))
            os.kill(child, signal.SIGKILL)
            kills += 1
        assert [exit_code(child) for child in children] == [-signal.SIGKILL] * 2
        if path.exists():
            delivered = max(delivered, sum(found(path, claims(), partitions=2).values()))
        if path.exists() and path.stat().st_size > 8 << 20:
            for file in tmp_path.iterdir():
                file.unlink()


def test_stopped_writer_that_wakes_changes_nothing(tmp_path: Path, claims: Callable[[], int]) -> None:
    chance = random.Random(13)
    outcomes = set()
    for turn in range(8):
        path = tmp_path / f"out-{turn}.txt"
        claim = claims()
        zombie = forked(partial(write, path, claim, seed=turn))
        time.sleep(chance.uniform(0.01, 0.08))
        os.kill(zombie, signal.SIGSTOP)
        try:
            os.waitpid(zombie, os.WUNTRACED)
            reached = found(path, claims()).get(0, 0)
            claim = claims()
            assert write(path, claim, limit=reached + 700) == reached + 700
            os.kill(zombie, signal.SIGCONT)
            outcomes.add(exit_code(zombie))
        except BaseException:
            os.kill(zombie, signal.SIGKILL)
            raise
        assert found(path, claims()) == {0: reached + 700}
    assert outcomes == {FENCED}
