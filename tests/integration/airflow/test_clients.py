"""Clients that were written for Kafka Connect, against the API in Airflow's API server: below a path, with Basic auth, with real runs."""

from pathlib import Path

import pytest

from tests.conftest import CACHE
from tests.integration.airflow.conftest import Airflow
from tests.integration.clients.environments import python_environment

pytestmark = pytest.mark.soak


@pytest.mark.timeout(900)
@pytest.mark.parametrize("client", ["kafka_connect_py", "kafka_connect_api"])
def test_a_client_that_knows_basic_auth(client: str, airflow: Airflow, tmp_path: Path, unique: str) -> None:
    state = airflow.stack.state() or {}
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    environment = python_environment(CACHE, client)
    login = f"{state['username']}:{state['password']}"
    environment.run(f"with_{client}.py", str(state["rest_url"]), unique, str(file), f"lines-{unique}", login)


@pytest.mark.timeout(900)
def test_a_client_that_drops_the_path_uses_the_server_at_the_root(airflow: Airflow, tmp_path: Path, unique: str) -> None:
    state = airflow.stack.state() or {}
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    environment = python_environment(CACHE, "kafka_connect_python")
    login = f"{state['username']}:{state['password']}"
    environment.run("with_kafka_connect_python.py", str(state["rest_root_url"]), unique, str(file), f"lines-{unique}", login)
