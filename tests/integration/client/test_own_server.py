"""``airflow connect rest``: our REST API in a process of its own, for Airflow's users, driven by the client as a real Kafka Connect is."""

import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from airflow_provider_connect.cli.overview import Overview
from airflow_provider_connect.client.conversation import RetryLimits
from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.client.server import Server
from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, NotFoundException
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import OffsetView
from tests.waiting import HANG_SECONDS

START = RetryLimits(seconds=120, first_wait_seconds=0.5)


def test_the_client_drives_our_own_server(
    home: dict[str, str],
    worker_settings: Callable[..., dict[str, str]],
    unique: str,
    file_source: dict[str, str],
    tmp_path: Path,
) -> None:
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps({"admin": "secret", "viewer": "glass"}))
    environment = home | {
        "AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(worker_settings()),
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret of tests that is long enough for any of the algorithms there are",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin,viewer:viewer",
    }
    with own_server(environment, tmp_path / "rest.log") as url:
        with ConnectClient(Server.of(url, login="admin", password="secret"), retry=START) as client:
            client.server_info()
            for auth, statuses in ((None, (401, 401)), (("viewer", "glass"), (200, 403)), (("admin", "glass"), (401, 401))):
                read = httpx.get(f"{url}/connectors", auth=auth, timeout=HANG_SECONDS)
                written = httpx.put(f"{url}/connectors/{unique}/pause", auth=auth, timeout=HANG_SECONDS)
                assert (read.status_code, written.status_code) == statuses
            strange = httpx.get(f"{url}/connectors", auth=("admin", "secret"), headers={"Host": "evil.example"}, timeout=HANG_SECONDS)
            assert strange.status_code == 421
            lead_a_life(client, unique, file_source)
        refuses_odd_requests(url, ("admin", "secret"), unique)
        for method, path in (("BREW", f"/connectors/{unique}"), ("PUT", f"/connectors/{unique}/config"), ("TRACE", "/"), ("GET", "/ui")):
            asked = httpx.request(method, f"{url}{path}", content=b"x", timeout=HANG_SECONDS)
            assert (asked.status_code, asked.json()["error_code"]) == (401, 401), (method, path)


def test_without_users_only_the_flag_opens_it(
    home: dict[str, str], worker_settings: Callable[..., dict[str, str]], unique: str, tmp_path: Path
) -> None:
    """Even then the Host header, the page that asks, the verb and the length of a body are checked."""
    environment = home | {"AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(worker_settings())}
    with own_server(environment, tmp_path / "rest.log", "--anonymous", "--host", "0.0.0.0") as url:
        with ConnectClient(Server.of(url), retry=START) as client:
            assert client.connectors() == []
        refuses_odd_requests(url, None, unique)
        for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "https://evil.example"}, 403)):
            assert httpx.put(f"{url}/connectors/{unique}/pause", headers=headers, timeout=HANG_SECONDS).status_code == status
    assert "Every client of 0.0.0.0:" in (tmp_path / "rest.log").read_text()


def refuses_odd_requests(url: str, auth: tuple[str, str] | None, name: str) -> None:
    """Verbs that are none, and bodies over a mebibyte, with their length declared or not."""
    path = f"{url}/connectors/{name}"
    for method in ("BREW", "PROPFIND", "POST", "TRACE"):
        answer = httpx.request(method, path, auth=auth, timeout=HANG_SECONDS)
        assert (answer.status_code, answer.json()["error_code"]) == (405, 405), method
        assert "GET" in answer.headers["Allow"]
        assert httpx.request(method, f"{url}/nowhere", auth=auth, timeout=HANG_SECONDS).status_code == 404
    token = "" if auth is None else f"Authorization: {httpx.BasicAuth(*auth)._auth_header}\r\n"
    address = urlsplit(url)
    chunks = (b"10000\r\n" + b" " * 65536 + b"\r\n") * 16 + b"1\r\n \r\n"
    for head, sent in (("Content-Length: 1048577", b""), ("Transfer-Encoding: chunked", chunks)):
        with socket.create_connection((address.hostname, address.port or 80), timeout=HANG_SECONDS) as client:
            request = (
                f"PUT /connectors/{name}/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{token}{head}\r\n\r\n"
            )
            client.sendall(request.encode() + sent)
            response = http.client.HTTPResponse(client)
            response.begin()
            assert (response.status, json.loads(response.read())["message"]) == (413, "The body is longer than 1048576 bytes")


@contextmanager
def own_server(environment: Mapping[str, str], log: Path, *arguments: str) -> Iterator[str]:
    """The URL of ``airflow connect rest``, which may not answer yet."""
    port = free_ports(1)[0]
    command = [sys.executable, "-m", "airflow", "connect", "rest", "--port", str(port), *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    except BaseException:
        print(log.read_text(errors="replace"))
        raise
    finally:
        process.terminate()
        process.wait(HANG_SECONDS)


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
