"""DeltaSink with a real broker: runs, kills between the steps of a commit, the example."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.example_dags import configs_of
from tests.integration.herder.killed_change import KillPoint
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.worker.environment import RunEnvironment
from tests.integration.worker.note_runs import JSON, write_around_a_kill, write_changes
from tests.samples import sample

SESSION = "connectors.lake.delta_session:DeltaSession"
KILL_POINTS = (
    KillPoint(f"{SESSION}.commit", "before", 2),  # the first is the claim's
    KillPoint(f"{SESSION}._commit_rows", "after", 1),
    KillPoint(f"{SESSION}.commit", "after", 2),
    KillPoint(CommitStep.COMMIT_GROUP, "before", 1),
)
SOME = sample(KILL_POINTS, 1)


def config(environment: RunEnvironment, topic: str, **more: str) -> dict[str, str]:
    own = {
        "name": environment.connector,
        "connector.class": "DeltaSink",
        "topics": topic,
        "delta.table.path": str(environment.folder / "notes"),
        "delta.table.auto-create-enabled": "true",
    }
    return own | JSON | {key.replace("_", "."): value for key, value in more.items()}


@pytest.mark.parametrize("kill_point", SOME, ids=lambda kill_point: f"{kill_point.side} {kill_point.method.rpartition(':')[2]}")
def test_killed_between_the_steps_of_a_commit_nothing_is_lost_or_doubled(
    environment: RunEnvironment, unique: str, kill_point: KillPoint
) -> None:
    given = config(environment, unique)
    write_around_a_kill(environment, unique, given, kill_point, next_tasks="2")
    assert [row["id"] for row in delta_rows(environment.folder / "notes")] == list(range(1000))
    assert environment.readiness(given).state == "no-work"


def test_the_example_changes_the_rows_of_its_table(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONNECT_DEMO_DIR", str(tmp_path))
    write_changes(environment, configs_of(monkeypatch, "example_delta_sink.py"))
    assert [row["id"] for row in delta_rows(tmp_path / "delta-orders")] == list(range(5))
