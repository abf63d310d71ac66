"""Destinations that exactly-once sinks of notes write to, each in a folder, and what another reader finds in them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import AdminClient

from airflow_provider_connect.runtime.model.run import RunResult
from tests.conftest import worker_properties
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.tables import catalog_of, rows_of
from tests.integration.worker.environment import PLAIN, RunEnvironment, make_topic
from tests.integration.worker.note_runs import JSON
from tests.integration.worker.test_filesystem_sink import published
from tests.waiting import HANG_SECONDS, wait_until


@dataclass(frozen=True)
class Kind:
    """A destination in a folder: its settings, and the ids of the notes in it, sorted."""

    settings: Callable[[Path], dict[str, str]]
    ids: Callable[[Path], list[int]]


def _jdbc_ids(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "notes.db")) as database:
        return [row[0] for row in database.execute("SELECT id FROM notes ORDER BY id")]


def _json_ids(texts: list[str]) -> list[int]:
    return sorted(json.loads(text)["payload"]["id"] for text in texts)


KINDS = {
    "file": Kind(
        lambda folder: {"connector.class": "FileStreamSink", "file": str(folder / "notes.txt")} | PLAIN,
        lambda folder: _json_ids((folder / "notes.txt").read_text().splitlines()),
    ),
    "files": Kind(
        lambda folder: {"connector.class": "FileSystemSink", "url": str(folder), "flush.size": "10", "format": "json"} | JSON,
        lambda folder: sorted(json.loads(line)["id"] for path in published(folder) for line in (folder / path).read_text().splitlines()),
    ),
    "delta": Kind(
        lambda folder: (
            {
                "connector.class": "DeltaSink",
                "delta.table.path": str(folder / "notes"),
                "delta.table.auto-create-enabled": "true",
            }
            | JSON
        ),
        lambda folder: sorted(row["id"] for row in delta_rows(folder / "notes")),
    ),
    "iceberg": Kind(
        lambda folder: (
            {
                "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
                "iceberg.tables": "shop.notes",
                "iceberg.tables.auto-create-enabled": "true",
                "iceberg.control.topic": "control-iceberg",
            }
            | catalog_of(folder)
            | JSON
        ),
        lambda folder: sorted(row["id"] for row in rows_of(folder, "shop.notes")),
    ),
    "table": Kind(
        lambda folder: (
            {
                "connector.class": "JdbcSink",
                "connection.url": f"jdbc:sqlite:{folder / 'notes.db'}",
                "auto.create": "true",
                "table.name.format": "notes",
            }
            | JSON
        ),
        _jdbc_ids,
    ),
}


def config(environment: RunEnvironment, kind: Kind, topic: str, **more: str) -> dict[str, str]:
    own = {"name": environment.connector, "topics": topic}
    return own | kind.settings(environment.folder) | {key.replace("_", "."): text for key, text in more.items()}


def run(environment: RunEnvironment, given: dict[str, str]) -> RunResult:
    """A run with this config, whatever the last one had."""
    if environment.runs:
        environment.put_config(given)
    return environment.run(given)


def reason(result: RunResult) -> str:
    """Why a run has failed: its error, and the traces of its tasks."""
    return " ".join(filter(None, [result.error, *(task.trace for task in result.tasks)]))


def make_again(environment: RunEnvironment, topic: str, partitions: int = 1) -> None:
    """Delete the topic, with the group's offsets, and create it once more."""
    admin = AdminClient({"bootstrap.servers": environment.bootstrap})  # kept until the answer is there
    admin.delete_topics([topic])[topic].result(HANG_SECONDS)
    wait_until(lambda: not environment.group_offsets(), "the group has no offsets of the deleted topic")
    make_topic(environment.bootstrap, topic, partitions)


def in_another_cluster(environment: RunEnvironment, unique: str) -> RunEnvironment:
    """A connector of the same name, with other internal topics."""
    return replace(environment, properties=worker_properties(environment.bootstrap, f"other-{unique}"), runs=0)
