"""Credentials of a registry: what reaches it, by a real server before the registry that lets in only who has them."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
import logging
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from airflow_provider_connect.converters.registry.avro_converter import AvroConverter
from airflow_provider_connect.data.schema import INT64_SCHEMA
from airflow_provider_connect.errors import ConfigException, DataException, UnavailableException
from tests.integration.registry.conftest import configured
from tests.registry_server import RegistryServer
from tests.waiting import HANG_SECONDS

USER, SECRET, TOKEN = "reader", "s3cret-word", "t0ken-word"
BASIC = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()


class Gate(ThreadingHTTPServer):
    """Hands requests with the header ``needed`` on to ``target``. ``/token`` gives TOKEN to the client; ``/away`` leads elsewhere."""

    daemon_threads = True

    def __init__(self, target: str, needed: str) -> None:
        super().__init__(("127.0.0.1", 0), Pass)
        self.target, self.needed = target, needed
        self.elsewhere, self.page = "", b""
        self.seen: list[str] = []


class Pass(BaseHTTPRequestHandler):
    server: Gate

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        authorization = self.headers.get("Authorization", "")
        self.server.seen.append(authorization)
        if self.server.elsewhere:
            self.answer(302, b"{}", location=self.server.elsewhere + self.path)
        elif self.server.page:
            self.answer(200, self.server.page)
        elif self.path == "/token":
            is_client = authorization == BASIC and b"grant_type=client_credentials" in body and b"scope=registry" in body
            token = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600}
            self.answer(200 if is_client else 401, json.dumps(token if is_client else {"error": "invalid_client"}).encode())
        elif self.server.needed and authorization != self.server.needed:
            self.answer(401, b'{"error_code":40101,"message":"who are you?"}')
        else:
            self.hand_on(body)

    do_POST = do_GET  # noqa: N815 - the name that http.server calls

    def hand_on(self, body: bytes) -> None:
        headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
        request = urllib.request.Request(self.server.target + self.path, body or None, headers, method=self.command)
        try:
            with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
                self.answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            self.answer(error.code, error.read())

    def answer(self, status: int, body: bytes, location: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(target: str, needed: str = "", tls: ssl.SSLContext | None = None) -> Iterator[tuple[Gate, str]]:
    gate = Gate(target, needed)
    if tls is not None:
        gate.socket = tls.wrap_socket(gate.socket, server_side=True)
    thread = threading.Thread(target=gate.serve_forever, daemon=True)
    thread.start()
    try:
        yield gate, f"{'http' if tls is None else 'https'}://127.0.0.1:{gate.server_address[1]}"
    finally:
        gate.shutdown()
        gate.server_close()
        thread.join()


def writes(converter: AvroConverter, topic: str) -> bool:
    return len(converter.from_connect_column(topic, INT64_SCHEMA, pa.array([1]))) == 1


def test_a_user_is_let_in_and_a_wrong_password_is_an_error_without_it(
    registry: RegistryServer, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(registry.url, BASIC) as (gate, url), caplog.at_level(logging.DEBUG):
        assert writes(configured(AvroConverter, url, basic_auth_user_info=f"{USER}:{SECRET}"), unique)
        wrong = configured(AvroConverter, url, basic_auth_user_info=f"{USER}:{SECRET}-wrong", max_retries="0")
        with pytest.raises(UnavailableException, match=r"who are you\?.*401.*Check basic\.auth\.user\.info") as caught:
            writes(wrong, unique)
    assert SECRET not in str(caught.value) + caplog.text
    assert BASIC in gate.seen


def test_a_token_is_sent(registry: RegistryServer, unique: str) -> None:
    with serving(registry.url, f"Bearer {TOKEN}") as (_, url):
        settings = {"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": TOKEN}
        assert writes(configured(AvroConverter, url, **settings), unique)  # type: ignore[arg-type]


def test_a_token_is_obtained_with_the_clients_secret_once(registry: RegistryServer, unique: str) -> None:
    with serving(registry.url, f"Bearer {TOKEN}") as (gate, url):
        settings = {
            "bearer_auth_credentials_source": "OAUTHBEARER",
            "bearer_auth_issuer_endpoint_url": f"{url}/token",
            "bearer_auth_client_id": USER,
            "bearer_auth_scope": "registry",
            "max_retries": "0",
        }
        converter = configured(AvroConverter, url, bearer_auth_client_secret=SECRET, **settings)  # type: ignore[arg-type]
        assert writes(converter, unique)
        assert writes(converter, f"{unique}-2")
        assert gate.seen.count(BASIC) == 1
        wrong = configured(AvroConverter, url, bearer_auth_client_secret="wrong-word", **settings)  # type: ignore[arg-type]
        with pytest.raises(UnavailableException, match="No OAuth token for the schema registry") as caught:
            writes(wrong, unique)
        assert "wrong-word" not in str(caught.value)


def test_a_redirect_gets_no_credentials(registry: RegistryServer, unique: str) -> None:
    with serving(registry.url) as (other, elsewhere), serving(registry.url) as (gate, url):
        gate.elsewhere = elsewhere
        with pytest.raises(DataException, match="302"):
            writes(configured(AvroConverter, url, basic_auth_user_info=f"{USER}:{SECRET}"), unique)
        assert other.seen == []


def test_a_page_that_is_no_answer_of_a_registry_is_no_fault_of_the_records(registry: RegistryServer, unique: str) -> None:
    with serving(registry.url) as (gate, url):
        gate.page = b"<html>Sign in</html>"
        with pytest.raises(UnavailableException, match="The response for schema 1 is not one of a schema registry"):
            configured(AvroConverter, url).to_connect_column(unique, pa.array([b"\0\0\0\0\x01x"]))


def test_nothing_of_the_host_is_sent(registry: RegistryServer, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1 login {USER} password {SECRET}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    with serving(registry.url) as (gate, url):
        assert writes(configured(AvroConverter, url), unique)
        assert set(gate.seen) == {""}


# TLS

Signer = tuple[x509.Certificate, ec.EllipticCurvePrivateKey]


def certificate(folder: Path, name: str, issuer: Signer | None = None) -> tuple[Path, Path, Signer]:
    """A PEM file of the certificate, one with its key too, and both as objects."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    signer, signing = (subject, key) if issuer is None else (issuer[0].subject, issuer[1])
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True, content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
                key_cert_sign=issuer is None, crl_sign=issuer is None, encipher_only=False, decipher_only=False,
            ),
            critical=True,
        )
        .sign(signing, hashes.SHA256())
    )  # fmt: skip
    public, private = folder / f"{name}.pem", folder / f"{name}-key.pem"
    public.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    encrypted = serialization.BestAvailableEncryption(SECRET.encode())
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encrypted)
    private.write_bytes(pem + public.read_bytes())
    return public, private, (built, key)


def test_mutual_tls_with_files_that_the_worker_allows(registry: RegistryServer, unique: str, tmp_path: Path) -> None:
    authority, _, issuer = certificate(tmp_path, "authority")
    _, server, _ = certificate(tmp_path, "server", issuer)
    _, client, _ = certificate(tmp_path, "client", issuer)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(server, password=SECRET)
    tls.load_verify_locations(authority)
    tls.verify_mode = ssl.CERT_REQUIRED
    trust = {"schema_registry_ssl_truststore_location": str(authority), "max_retries": "0"}
    own = {"schema_registry_ssl_keystore_location": str(client)}
    allowed = (str(tmp_path),)
    with serving(registry.url, tls=tls) as (_, url):
        whole = trust | own | {"schema_registry_ssl_key_password": SECRET}
        assert writes(configured(AvroConverter, url, allowed=allowed, **whole), unique)  # type: ignore[arg-type]
        for settings in ({"max_retries": "0"}, trust):  # an authority that is not known; no certificate of the client's
            with pytest.raises(UnavailableException, match="unavailable"):
                writes(configured(AvroConverter, url, allowed=allowed, **settings), unique)  # type: ignore[arg-type]
        with pytest.raises(ConfigException, match=r"schema\.registry\.ssl\.truststore\.location"):
            configured(AvroConverter, url, **whole)  # type: ignore[arg-type]
        wrong = whole | {"schema_registry_ssl_key_password": "wrong-word"}
        with pytest.raises(ConfigException, match=r"schema\.registry\.ssl\.keystore\.location cannot be used") as caught:
            configured(AvroConverter, url, allowed=allowed, **wrong)  # type: ignore[arg-type]
        assert "wrong-word" not in str(caught.value)
