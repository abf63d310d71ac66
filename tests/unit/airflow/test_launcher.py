"""Whether anything keeps a connector from runs: without the bundle, one that no DAG file defines has none."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from airflow.models.dag import DagModel
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

from airflow_provider_connect.api_server.launcher import NO_BUNDLE, AirflowLauncher
from airflow_provider_connect.hooks.airflow_settings import BUNDLE

FILES = {"name": "dags-folder", "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {}}
NO_APPLICATION = "Application crm, which airflow.application names, has no DAG and never runs"
STORED = {"name": "mine", "classpath": BUNDLE, "kwargs": {}}


@pytest.fixture
def launcher() -> AirflowLauncher:
    """Over a database with the DAG of a connector ``defined``, and that of ``gone``, whose file was removed."""
    engine = create_engine("sqlite://")
    cast("Any", DagModel.__table__).create(engine)

    @contextmanager
    def sessions() -> Iterator[Session]:
        with Session(engine) as session:
            yield session

    with sessions() as session:
        for name, is_stale in (("defined", False), ("gone", True)):
            session.add(DagModel(dag_id=f"connect.{name}", bundle_name="dags-folder", fileloc="/x.py", is_stale=is_stale))
        session.add(DagModel(dag_id="connect.stays", bundle_name="dags-folder", fileloc="/x.py", timetable_summary="@continuous"))
        session.commit()
    return AirflowLauncher(sessions, lambda: {"hosted": "crm"})


def test_no_run_is_queued_behind_one_that_stays(launcher: AirflowLauncher) -> None:
    """Another run would need tables that this database does not have."""
    launcher.trigger("stays")
    launcher.trigger("stays", [0])


@pytest.mark.parametrize(
    ("bundles", "connector", "obstacle"),
    [
        ([FILES], None, NO_BUNDLE),
        ([FILES], "unknown", NO_BUNDLE),
        ([FILES], "gone", NO_BUNDLE),
        ([FILES], "defined", None),
        ([FILES], "hosted", NO_BUNDLE.replace("Connectors created over REST have no DAGs and never run", NO_APPLICATION)),
        ([FILES, STORED], "hosted", None),
        ([FILES, STORED], None, None),
        ([FILES, STORED], "unknown", None),
    ],
)
def test_a_connector_without_a_dag_file_needs_the_bundle(
    monkeypatch: pytest.MonkeyPatch, launcher: AirflowLauncher, *, bundles: list[object], connector: str | None, obstacle: str | None
) -> None:
    monkeypatch.setenv("AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST", json.dumps(bundles))
    assert launcher.obstacle(connector) == obstacle
