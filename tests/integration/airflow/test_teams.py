"""Whose team a connector is, in an Airflow of several teams: also before Airflow knows its DAG."""

import json
import subprocess
import sys

import pytest

from tests.integration.airflow.test_dag_test import home
from tests.waiting import HANG_SECONDS

__all__ = ["home"]  # a fixture

_SCRIPT = """
import json
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.team import Team
from airflow.utils.session import create_session
from airflow_provider_connect.api_server.access import read_teams

with create_session() as session:
    if session.get(DagBundleModel, "others") is None:
        shop, other = Team(name="shop"), Team(name="other")
        for name, team in (("connectors", shop), ("others", other)):
            bundle = DagBundleModel(name=name)
            bundle.teams.append(team)
            session.add(bundle)
        session.add(DagBundleModel(name="free"))
        session.flush()
        for bundle in ("others", "free"):
            session.add(DagModel(dag_id=f"connect.of-{bundle}", bundle_name=bundle))
print("TEAMS", json.dumps([read_teams(dag_id) for dag_id in ("connect.unknown", "connect.of-others", "connect.of-free")]))
"""
_BUNDLES = [{"name": "connectors", "classpath": "airflow_provider_connect.dag_files.bundle.ConnectorsBundle", "kwargs": {}}]


@pytest.mark.soak
@pytest.mark.parametrize(("bundles", "unknown"), [(_BUNDLES, ["shop"]), ([], [None, "other", "shop"])])
def test_a_dag_that_is_not_in_the_database_is_not_of_no_team(home: dict[str, str], bundles: list[object], unknown: list[str]) -> None:
    environment = home | {
        "AIRFLOW__CORE__MULTI_TEAM": "True",
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles),
    }
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TEAMS ")] or [done.stdout + done.stderr]
    assert json.loads(line.removeprefix("TEAMS ")) == [unknown, ["other"], [None]]
