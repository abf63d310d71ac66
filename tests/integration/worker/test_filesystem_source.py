"""FileSystemSource on a real broker: the example, kills between the steps of a commit, and what stays on the offsets topic."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import SOURCE_STEPS, CommitStep
from tests.example_dags import configs_of, page_of
from tests.integration.herder.killed_change import KillPoint
from tests.integration.worker.environment import RunEnvironment, read_topic, values_of
from tests.integration.worker.killed_run import run_and_kill

JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
CLEAN = "connectors.filesystem.source.task:FileSystemSourceTask._clean"
FILES = 6
ROWS = 40
QUICK = {"transaction.boundary.poll.linger.ms": "0"}  # a transaction a poll


def config_of(environment: RunEnvironment, **more: str) -> dict[str, str]:
    own = {
        "name": environment.connector,
        "connector.class": "FileSystemSource",
        "url": str(environment.folder / "in"),
        "topic": f"{environment.connector}-files",
        "file.minimum.age.ms": "0",
        "batch.max.rows": "25",
    }
    return own | JSON | {key.replace("_", "."): value for key, value in more.items()}


def add(environment: RunEnvironment, first: int = 0, count: int = FILES) -> None:
    folder = environment.folder / "in"
    folder.mkdir(exist_ok=True)
    for number in range(first, first + count):
        lines = (json.dumps({"n": number * ROWS + row}) for row in range(ROWS))
        (folder / f"{number:03d}.json").write_text("\n".join(lines) + "\n")


def delivered(environment: RunEnvironment) -> list[int]:
    return sorted(json.loads(value)["n"] for value in values_of(environment.bootstrap, f"{environment.connector}-files"))


def run(environment: RunEnvironment, config: dict[str, str]) -> None:
    result = environment.run(config)
    assert (result.state, result.error) == (RunState.DONE, None)


def test_the_example_reads_a_file_once_and_moves_it(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(tmp_path))
    [config] = configs_of(monkeypatch, "example_filesystem_source.py").values()
    config["name"] = environment.connector
    for command in re.findall(r"(?m)^    (.*)$", page_of("example_filesystem_source.py")):
        subprocess.run(command.replace("/tmp/connect-demo", str(tmp_path)), shell=True, check=True)
    [file] = (tmp_path / "incoming").iterdir()
    os.utime(file, (time.time() - 60, time.time() - 60))
    run(environment, config)
    assert values_of(environment.bootstrap, "demo-files") == ['{"order":1,"what":"tea"}']
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")] == ["incoming/finished/orders-1.json"]
    assert environment.readiness(config).state == "no-work"


def kill_points() -> Iterator[object]:
    """Each step of a commit, early and late in the run, and the clean-up behind it; ``make test`` has one of each kind."""
    steps = [*SOURCE_STEPS["exactly_once"], CommitStep.NOTIFY_TASK, CLEAN]
    for step in dict.fromkeys(steps):
        for side, nth in (("after", 2), ("before", 3), ("after", 5), ("before", 1)):
            is_sample = (side, nth) == ("after", 2) and step in (CommitStep.COMMIT_TRANSACTION, CLEAN)
            point = KillPoint(str(step), side, nth)
            yield pytest.param(point, id=f"{side} {str(step).rpartition(':')[2]}, {nth}", marks=[] if is_sample else pytest.mark.soak)


@pytest.mark.parametrize("point", kill_points())
def test_a_killed_run_loses_and_doubles_nothing(environment: RunEnvironment, point: KillPoint) -> None:
    add(environment)
    tasks = "1" if point.method == CLEAN else "2"  # calls of two threads cannot be counted apart
    config = config_of(environment, cleanup_policy="archive", tasks_max=tasks)
    environment.properties |= QUICK
    run_and_kill(environment, config, point)
    run(environment, config)
    assert delivered(environment) == list(range(FILES * ROWS))
    left = sorted(path.name for path in (environment.folder / "in" / "finished").iterdir())
    assert left == [f"{number:03d}.json" for number in range(FILES)]
    assert not list((environment.folder / "in").glob("*.json"))


def test_the_offsets_topic_forgets_files_that_are_cleaned_up_or_passed(environment: RunEnvironment) -> None:
    add(environment)
    config = config_of(environment, file_names_ascending="true", batch_max_rows="1000")
    run(environment, config)
    assert len(environment.offsets().pairs()) == FILES
    add(environment, FILES, 1)
    run(environment, config)
    assert sorted(str(offset.get("after", "")) for _, offset in environment.offsets().pairs() if offset) == ["", f"{FILES - 1:03d}.json"]
    records = [record for record in read_topic(environment.bootstrap, environment.settings.offset_topic) if b".json" in (record.key or b"")]
    latest = {record.key: record.value for record in records}
    assert sum(value is None for value in latest.values()) == FILES
    assert delivered(environment) == list(range((FILES + 1) * ROWS))


def test_parquet_with_a_schema_comes_in_several_tasks(environment: RunEnvironment) -> None:
    folder = environment.folder / "in"
    folder.mkdir()
    for number in range(3):
        query = f"SELECT range::BIGINT AS n, 'text of ' || range AS t FROM range({number * 1000}, {number * 1000 + 1000})"
        duckdb.execute(f"COPY ({query}) TO '{folder}/{number}.parquet' (FORMAT parquet)")
    run(environment, config_of(environment, format="parquet", tasks_max="3", file_glob="*.parquet"))
    assert delivered(environment) == list(range(3000))


def test_a_folder_without_files_starts_no_run_until_one_comes(environment: RunEnvironment) -> None:
    config = config_of(environment)
    (environment.folder / "in").mkdir()
    run(environment, config)
    assert environment.readiness().state == "no-work"
    add(environment, count=1)
    assert environment.readiness().state == "work"
    run(environment, config)
    assert (delivered(environment), environment.readiness().state) == (list(range(ROWS)), "no-work")
