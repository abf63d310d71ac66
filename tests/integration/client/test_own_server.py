"""``airflow connect rest``: our REST API in a process of its own, for Airflow's users, driven by the client as a real Kafka Connect is."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from airflow_provider_connect.cli.overview import Overview
from airflow_provider_connect.client.conversation import RetryLimits
from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, NotFoundException
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.model.views import OffsetView

START = RetryLimits(seconds=120, first_wait_seconds=0.5)


def test_the_client_drives_our_own_server(
    home: dict[str, str],
    worker_settings: Callable[..., dict[str, str]],
    unique: str,
    file_source: dict[str, str],
    tmp_path: Path,
) -> None:
    port = free_ports(1)[0]
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps({"admin": "secret", "viewer": "glass"}))
    environment = home | {
        "AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(worker_settings()),
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of tests that is long enough for any of the algorithms there are",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
    }
    command = [sys.executable, "-m", "airflow", "connect", "rest", "--port", str(port)]
    with (tmp_path / "rest.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        with ConnectClient(Server.of(url, login="admin", password="secret"), retry=START) as client:
            client.server_info()
            for auth, statuses in ((None, (401, 401)), (("viewer", "glass"), (200, 403)), (("admin", "glass"), (401, 401))):
                read = httpx.get(f"{url}/connectors", auth=auth, timeout=120)
                written = httpx.put(f"{url}/connectors/{unique}/pause", auth=auth, timeout=120)
                assert (read.status_code, written.status_code) == statuses
            strange = httpx.get(f"{url}/connectors", auth=("admin", "secret"), headers={"Host": "evil.example"}, timeout=120)
            assert strange.status_code == 421
            lead_a_life(client, unique, file_source)
    except BaseException:
        print((tmp_path / "rest.log").read_text(errors="replace"))
        raise
    finally:
        process.terminate()
        process.wait(60)


def lead_a_life(client: ConnectClient, name: str, config: dict[str, str]) -> None:
    """All that needs no run."""
    assert client.server_info().kafka_cluster_id
    assert client.health().status == "healthy"
    assert client.validate("FileStreamSource", {**config, "name": name}).error_count == 0
    with pytest.raises(BadRequestException, match=r"tasks\.max"):
        client.create_connector(name, {**config, "tasks.max": "0"})
    made = client.create_connector(name, config, TargetState.STOPPED)
    assert made.config == {**config, "name": name}
    with pytest.raises(AlreadyExistsException):
        client.create_connector(name, config)
    assert client.statuses()[name].connector.state == "STOPPED"
    assert client.patch_connector_config(name, {"batch.size": "7"}).config["batch.size"] == "7"
    partition = {"filename": config["file"]}
    assert "altered" in client.alter_offsets(name, [OffsetView(partition, {"position": 4})])
    assert client.offsets(name) == [OffsetView(partition, {"position": 4})]
    assert "reset" in client.reset_offsets(name)
    assert client.offsets(name) == []
    assert client.active_topics(name) == []
    found = client.preview(name, records=1)
    assert ([record.value for record in found.records], found.tasks[0].config["file"]) == (["one"], config["file"])
    with pytest.raises(BadRequestException, match="records"):
        client.preview(name, records=0)
    with pytest.raises(BadRequestException, match="available versions"):
        client.request_upgrade(name, "[98,99)")
    with pytest.raises(NotFoundException, match="No upgrade"):
        client.upgrade(name)
    assert client.workers() == []
    assert [(line.row.name, line.row.state, line.progress) for line in Overview(client).lines([name])] == [(name, "STOPPED", None)]
    assert "root" in client.loggers()
    assert "file" in {key.name for key in client.plugin_config("FileStreamSource")}
    assert "sink" in {plugin.type for plugin in client.plugins()}
    client.delete_connector(name)
    with pytest.raises(NotFoundException, match=f"Connector {name} not found"):
        client.connector_info(name)
