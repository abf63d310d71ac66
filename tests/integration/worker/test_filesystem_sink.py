"""Runs of FileSystemSink on a real broker: what is in the files, when they end, and what is left of a process that was killed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pyarrow.parquet
import pytest

from airflow_provider_connect.runtime.model.run import RunState
from tests.example_dags import configs_of
from tests.integration.worker.environment import RunEnvironment, make_topic, send

PARTITIONS = 3


def published(folder: Path) -> list[str]:
    """The paths that readers see."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*+*") if path.is_file())
    return sorted(path for path in found if "_connect/" not in path)


def texts(folder: Path) -> list[str]:
    """All values in files of JSON lines."""
    return [json.loads(line) for path in published(folder) for line in (folder / path).read_text().splitlines()]


@pytest.fixture
def sink(environment: RunEnvironment, tmp_path: Path) -> dict[str, str]:
    """The config of a sink of a topic of its own, whose files end after ten records."""
    topic = make_topic(environment.bootstrap, f"topic-{environment.connector}", partitions=PARTITIONS)
    own = {"url": str(tmp_path), "topics": topic, "flush.size": "10"}
    return {"name": environment.connector, "connector.class": "FileSystemSink", **own}


def test_each_run_adds_files_of_what_is_new(environment: RunEnvironment, sink: dict[str, str], tmp_path: Path) -> None:
    topic = sink["topics"]
    for run, count in enumerate((35, 8)):
        send(environment.bootstrap, topic, [f"value {run} {number}" for number in range(count)], partitions=PARTITIONS)
        assert environment.run(sink).state is RunState.DONE
    wanted = [f"value {run} {number}" for run, count in enumerate((35, 8)) for number in range(count)]
    assert sorted(texts(tmp_path)) == sorted(wanted)
    firsts = [[0, 10, 12], [0, 10, 12], [0, 10, 11]]  # 12, 12 and 11 records, then 3, 3 and 2
    assert published(tmp_path) == [
        f"topics/{topic}/partition={number}/{topic}+{number}+{first:010d}.json" for number in range(3) for first in firsts[number]
    ]
    temporary = [path for path in (tmp_path / "topics/_connect").rglob("*") if path.is_file() and not {"links", "owners"} & set(path.parts)]
    assert temporary == []


def test_the_example_writes_parquet_by_day(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CONNECT_EXAMPLE_FILES_URL", raising=False)
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(tmp_path))
    [(name, config)] = configs_of(monkeypatch, "example_filesystem_sink.py").items()
    config["topics.regex"] = f"{environment.connector}-(orders|people)"  # other tests have topics with the example's names
    topic = make_topic(environment.bootstrap, f"{environment.connector}-people")
    schema = {"type": "struct", "optional": False, "fields": [{"field": "name", "type": "string"}, {"field": "age", "type": "int32"}]}
    send(environment.bootstrap, topic, [json.dumps({"schema": schema, "payload": {"name": "Ada", "age": 36}})])
    assert dataclasses.replace(environment, connector=name).run(config).state is RunState.DONE
    [path] = published(tmp_path)
    assert path.startswith(f"files/{topic}/year=20")
    assert pyarrow.parquet.read_table(tmp_path / path, partitioning=None).to_pylist() == [{"name": "Ada", "age": 36}]
