"""The version of the bundle with which Airflow has parsed a connector's DAG file, such as a commit: it goes with the definition."""

import json
from pathlib import Path

from tests.airflow_home import airflow_home, run_python


def test_a_definition_has_the_version_of_its_bundle(tmp_path: Path) -> None:
    file = tmp_path / "definitions.py"  # whose code Airflow keeps, so "-c" will not do
    file.write_text(_DEFINITIONS)
    found = json.loads(run_python(airflow_home(tmp_path / "home"), str(file)).splitlines()[-1])
    assert found == {"versioned": "3f2a9c1", "plain": None}


_DEFINITIONS = """
import json
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.serialized_dag import SerializedDagModel
from airflow.serialization.serialized_objects import LazyDeserializedDAG
from airflow.utils.session import create_session
from airflow_provider_connect import ConnectorDag
from airflow_provider_connect.api_server.serialized_dags import definition

CONFIG = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/tmp/in"}
found = {}
with create_session() as session:
    session.add(DagBundleModel(name="repo"))
    session.flush()
    for name, version in (("versioned", "3f2a9c1"), ("plain", None)):
        dag = ConnectorDag(name, CONFIG)
        session.add(DagModel(dag_id=dag.dag_id, bundle_name="repo"))
        session.flush()
        SerializedDagModel.write_dag(LazyDeserializedDAG.from_dag(dag), bundle_name="repo", bundle_version=version, session=session)
        session.flush()
        found[name] = definition(session, dag.dag_id).version
print(json.dumps(found))
"""
