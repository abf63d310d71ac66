"""The REST server on a port of its own: users, TLS, and where it listens, by Kafka Connect's worker settings."""

import datetime
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.rest.access import OpenToAll
from airflow_provider_connect.rest.basic_access import CREDENTIALS, EXTENSION, JAAS, BasicAccess
from airflow_provider_connect.rest.server import ANONYMOUS, PORT, RestListener, RestServer, create_access, rest_server
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.views import ServerView
from tests.http_client import request
from tests.waiting import HANG_SECONDS


def no_herder() -> Herder:
    raise ConnectException("The broker does not answer")


def started(worker: Mapping[str, str]) -> RestServer:
    return rest_server(worker, herder=no_herder, info=lambda: ServerView("1", "2", "3"), port=0)


@pytest.fixture
def pem(tmp_path: Path) -> Path:
    """A certificate for the loopback interface that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1)).add_extension(names, critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    file = tmp_path / "server.pem"
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return file


def test_it_listens_on_the_loopback_interface_unless_the_settings_name_another() -> None:
    assert RestListener.of({}) == RestListener("127.0.0.1", PORT)
    assert RestListener.of({}).is_local
    listener = RestListener.of({"listeners": "http://:9000"})
    assert (listener.host, listener.port, listener.is_local) == ("0.0.0.0", 9000, False)
    assert RestListener.of({"listeners": "http://connect.example:9000"}, host="localhost", port=1).is_local


@pytest.mark.parametrize("listeners", ["ftp://x:1", "http://x:99999", "http://a:1,http://b:2", "https://localhost:1"])
def test_a_listener_that_cannot_be_is_refused(listeners: str) -> None:
    with pytest.raises(ConfigException):
        RestListener.of({"listeners": listeners})


def test_a_server_without_a_herder_reports_it_and_serves_what_needs_none() -> None:
    with started({}) as server:
        health = httpx.get(f"{server.url}/health", timeout=HANG_SECONDS)
        assert (health.status_code, health.json()["status"]) == (503, "starting")
        assert "The broker does not answer" in health.json()["message"]
        assert httpx.get(f"{server.url}/connectors", timeout=HANG_SECONDS).json() == {
            "error_code": 500,
            "message": "The broker does not answer",
        }
        assert httpx.get(f"{server.url}/", timeout=HANG_SECONDS).json() == {"version": "1", "commit": "2", "kafka_cluster_id": "3"}
        assert "root" in httpx.get(f"{server.url}/admin/loggers", timeout=HANG_SECONDS).json()


@pytest.mark.parametrize("signature", ["no base64", "nö base64"])
def test_a_signature_that_is_not_base64_is_refused(signature: str) -> None:
    headers = {b"X-Connect-Authorization": signature.encode(), b"X-Connect-Request-Signature-Algorithm": b"HmacSHA256"}
    with started({}) as server:
        refused = httpx.post(f"{server.url}/connectors/c/tasks", headers=headers, timeout=HANG_SECONDS)
    assert (refused.status_code, refused.json()["message"]) == (400, "The signature of the internal request is not base64")


def test_without_admin_listeners_there_are_no_loggers() -> None:
    with started({"admin.listeners": ""}) as server:
        assert httpx.get(f"{server.url}/admin/loggers", timeout=HANG_SECONDS).status_code == 404


@pytest.mark.parametrize("by", ["file", "jaas"])
def test_basic_auth_lets_in_whom_the_file_names(tmp_path: Path, by: str) -> None:
    users = tmp_path / "users.properties"
    users.write_text("alice=wonder=land\nbob=builder\n")
    jaas = tmp_path / "jaas.conf"
    module = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
    jaas.write_text(f'KafkaConnect {{\n  {module} required\n  file="{users}";\n}};\n')
    named = {CREDENTIALS: str(users)} if by == "file" else {JAAS: str(jaas)}
    with started({"rest.extension.classes": EXTENSION, **named}) as server:
        assert httpx.get(f"{server.url}/", auth=("alice", "wonder=land"), timeout=HANG_SECONDS).status_code == 200
        for auth in (None, ("alice", "builder"), ("carol", ""), ("", "")):
            refused = httpx.get(f"{server.url}/", auth=auth, timeout=HANG_SECONDS)
            assert (refused.status_code, refused.json()["message"]) == (401, "User cannot access the resource.")
            assert refused.headers["WWW-Authenticate"].startswith("Basic")
        for credentials in ("alice:wonder=land", "YWxpY2U6/w==", "YWxpY2U6d29uZGVyPWxhbmQ=é"):
            refused = httpx.get(f"{server.url}/", headers={b"Authorization": f"Basic {credentials}".encode()}, timeout=HANG_SECONDS)
            assert (refused.status_code, refused.json()["message"]) == (401, "User cannot access the resource.")


@pytest.mark.parametrize(
    "worker",
    [
        {"rest.extension.classes": "com.example.Other"},
        {"rest.extension.classes": EXTENSION},
        {CREDENTIALS: "/no/such/file"},
        {"rest.extension.classes": EXTENSION, JAAS: "/no/such/file"},
    ],
)
def test_users_that_cannot_be_read_keep_it_from_starting(worker: dict[str, str]) -> None:
    with pytest.raises(ConfigException):
        started(worker)


def test_it_speaks_tls(pem: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(pem))
    with started({"listeners": "https://127.0.0.1:0", "listeners.https.ssl.keystore.location": str(pem)}) as server:
        assert server.url.startswith("https://")
        assert httpx.get(f"{server.url}/", verify=trusting, timeout=HANG_SECONDS).status_code == 200


def test_it_speaks_tls_with_what_stands_in_the_settings_themselves(pem: Path) -> None:
    certificate, _, key = pem.read_text().partition("-----BEGIN PRIVATE")
    worker: dict[str, Any] = {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate.replace("\n", "\\n"),
        "ssl.keystore.key": f"-----BEGIN PRIVATE{key}",
    }
    with started(worker) as server:
        assert httpx.get(f"{server.url}/", verify=ssl.create_default_context(cafile=str(pem)), timeout=HANG_SECONDS).status_code == 200


def test_it_asks_clients_for_certificates(pem: Path) -> None:
    worker = {"listeners": "https://127.0.0.1:0", "ssl.keystore.location": str(pem), "ssl.client.auth": "required"}
    with pytest.raises(ConfigException, match=r"ssl\.truststore\.location"):
        RestListener.of(worker)
    trusting = ssl.create_default_context(cafile=str(pem))
    with started({**worker, "ssl.truststore.location": str(pem)}) as server:
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{server.url}/", verify=trusting, timeout=HANG_SECONDS)
        trusting.load_cert_chain(str(pem))
        assert httpx.get(f"{server.url}/", verify=trusting, timeout=HANG_SECONDS).status_code == 200


@pytest.mark.parametrize("key", ["ssl.keystore.type", "ssl.truststore.type"])
def test_javas_own_stores_are_refused_with_the_way_out(pem: Path, key: str) -> None:
    with pytest.raises(ConfigException, match="openssl pkcs12"):
        RestListener.of({"listeners": "https://x:1", "ssl.keystore.location": str(pem), key: "JKS"})


def test_a_page_of_a_named_origin_may_call() -> None:
    with started({"access.control.allow.origin": "https://ui.example", "access.control.allow.methods": "GET,PUT"}) as server:
        asked = {"Origin": "https://ui.example", "Access-Control-Request-Method": "PUT"}
        assert httpx.options(f"{server.url}/connectors", headers=asked).headers["access-control-allow-origin"] == "https://ui.example"
        shown = httpx.get(f"{server.url}/", headers={"Origin": "https://evil.example"}, timeout=HANG_SECONDS)
        assert "access-control-allow-origin" not in shown.headers


@pytest.mark.parametrize("listeners", ["http://:0", "http://0.0.0.0:0"])
def test_beyond_this_machine_it_is_never_open_by_accident(tmp_path: Path, listeners: str) -> None:
    with pytest.raises(ConfigException, match=r"rest\.anonymous\.access=true"):
        started({"listeners": listeners})
    users = tmp_path / "users.properties"
    users.write_text("alice=wonderland\n")
    with started({"listeners": listeners, CREDENTIALS: str(users)}) as server:
        url = f"http://localhost:{urlsplit(server.url).port}/"
        assert httpx.get(url, timeout=HANG_SECONDS).status_code == 401
        assert httpx.get(url, auth=("alice", "wonderland"), timeout=HANG_SECONDS).status_code == 200
    with started({"listeners": listeners, ANONYMOUS: "true"}) as server:
        assert httpx.get(f"http://localhost:{urlsplit(server.url).port}/", timeout=HANG_SECONDS).status_code == 200
    with pytest.raises(ConfigException, match=r"rest\.anonymous\.access"):
        started({"listeners": listeners, ANONYMOUS: "maybe"})


def test_users_of_another_kind_are_asked_for_unless_the_settings_name_others(tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("alice=wonderland\n")
    given, local = BasicAccess({"bob": "builder"}), RestListener()
    assert create_access({}, local, otherwise=given) is given
    assert type(create_access({ANONYMOUS: "true"}, local, otherwise=given)) is OpenToAll
    assert create_access({CREDENTIALS: str(users), ANONYMOUS: "true"}, local, otherwise=given) is not given
    assert type(create_access({}, local)) is OpenToAll


@pytest.mark.parametrize(
    ("host", "is_known"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:9", True),
        ("[::1]:8083", True),
        ("192.0.2.7:8083", True),
        ("localhost", True),
        ("LocalHost.:8083", True),
        (socket.gethostname(), True),
        ("connect.example:8083", True),
        ("evil.example", False),
        ("evil.example:8083", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.0.0.1@evil.example", False),
        ("[::1].evil.example]", True),  # is read up to the bracket, as an address; no browser sends it
        ("0x7f.1", False),
        ("lоcalhost".encode(), False),
    ],
)
def test_a_page_whose_name_leads_here_is_refused(host: str | bytes, is_known: bool) -> None:
    headers = {b"Host": host if isinstance(host, bytes) else host.encode()}
    with started({"rest.allowed.hosts": "connect.example, other.example"}) as server:
        for method, path in (("GET", "/"), ("PUT", "/connectors/x/pause"), ("OPTIONS", "/connectors"), ("GET", "/nowhere")):
            answer = request(method, f"{server.url}{path}", headers=headers, timeout=HANG_SECONDS)
            assert (answer.status_code == 421) is not is_known, (method, path)
            assert is_known or "rest.allowed.hosts" in answer.json()["message"]


def test_any_name_may_be_allowed() -> None:
    with started({"rest.allowed.hosts": "*"}) as server:
        assert httpx.get(f"{server.url}/", headers={"Host": "evil.example"}, timeout=HANG_SECONDS).status_code == 200


FOREIGN: list[dict[str, str]] = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:9"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
@pytest.mark.parametrize("has_users", [True, False])
def test_a_foreign_page_changes_nothing(tmp_path: Path, headers: dict[str, str], has_users: bool) -> None:
    """Also where a browser knows the password, or needs none: a POST without a body asks no one before it is sent."""
    users = tmp_path / "users.properties"
    users.write_text("alice=wonderland\n")
    with started({CREDENTIALS: str(users)} if has_users else {}) as server:
        for method, path in (("POST", "/connectors/x/restart"), ("PUT", "/connectors/x/pause"), ("DELETE", "/connectors/x")):
            refused = request(method, f"{server.url}{path}", headers=headers, auth=("alice", "wonderland"), timeout=HANG_SECONDS)
            assert (refused.status_code, refused.json()["error_code"]) == (403, 403), (method, path)
        assert request("GET", f"{server.url}/", headers=headers, auth=("alice", "wonderland"), timeout=HANG_SECONDS).status_code == 200


def test_pages_of_this_server_and_of_named_origins_may_change() -> None:
    with started({"access.control.allow.origin": "https://ui.example"}) as server:
        own: list[dict[str, str]] = [
            {},
            {"Origin": server.url},
            {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"},
            {"Origin": "https://ui.example"},
            {"Origin": "https://ui.example", "Sec-Fetch-Site": "cross-site"},
        ]
        for headers in own:
            answer = httpx.put(f"{server.url}/connectors/x/pause", headers=headers, timeout=HANG_SECONDS)
            assert answer.json() == {"error_code": 500, "message": "The broker does not answer"}, headers
