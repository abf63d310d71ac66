"""Where the storage library takes credentials for S3 from when a config gives a part of them: a host with a role, and a bucket's address.

The host is a server here: its metadata service, its endpoint for the credentials of containers, and the address in ``store.url``.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store

from airflow_provider_connect.connectors.bucket_access import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, STORE_URL, s3_options
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, URL, open_store
from airflow_provider_connect.connectors.filesystem.stores.object_store import open_bucket
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.config_def import Config, ConfigDef

ROLE = "KEY-OF-THE-ROLE"
PARTS = (ACCESS_KEY, SECRET_KEY, SESSION_TOKEN)
SOME = list(itertools.product([None, "", "own"], repeat=3))
WHOLE = [given for given in SOME if given[0] and given[1]]
_CREDENTIALS = {"AccessKeyId": ROLE, "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z", "Code": "Success"}


class Host:
    """A server. ``asked`` has the paths where the host was asked for credentials, ``signatures`` those of requests to the bucket."""

    def __init__(self) -> None:
        asked, signatures = self.asked, self.signatures = list[str](), list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/bucket/"):
                    signatures.append(self.headers.get("Authorization", ""))
                    self._answer(403, b"")
                    return
                asked.append(self.path)
                self._answer(200, b"role" if self.path.endswith("security-credentials/") else json.dumps(_CREDENTIALS).encode())

            def do_PUT(self) -> None:
                asked.append(self.path)
                self._answer(200, b"token")

            def _answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Host:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def host() -> Iterator[Host]:
    with Host() as host:
        yield host


@pytest.fixture
def environment(host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Host:
    """The host's own credentials and the addresses where it gives more, as the environments of EC2, ECS and EKS have them."""
    token = tmp_path / "token"
    token.write_text("token")
    for name, value in {
        "AWS_ACCESS_KEY_ID": "KEY-OF-THE-ENVIRONMENT",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_SESSION_TOKEN": "t",
        "AWS_METADATA_ENDPOINT": host.url,
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{host.url}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/host",
        "AWS_ENDPOINT_URL_STS": host.url,
    }.items():
        monkeypatch.setenv(name, value)
    return host


def config(host: Host, given: tuple[str | None, ...]) -> Config:
    keys = {key: text for key, text in zip(PARTS, given, strict=True) if text is not None}
    return ConfigDef(*STORE_KEYS).parse({URL: "s3://bucket", STORE_URL: host.url, **keys})


@pytest.mark.parametrize("part", [{"session_token": "own"}, {}], ids=str)
def test_the_library_itself_signs_with_the_role_of_the_host(host: Host, part: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What ours must not be given: a token alone, or nothing and the right to sign. The signature goes to the address of the bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    options: Any = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 0}}
    bucket = S3Store("bucket", endpoint=host.url, region="us-east-1", metadata_endpoint=host.url, **options, **part)  # type: ignore[arg-type]
    with pytest.raises(PermissionDeniedError):
        obstore.get(bucket, "x")
    assert any("security-credentials/role" in path for path in host.asked)
    assert [ROLE in signature for signature in host.signatures] == [True]


@pytest.mark.parametrize("given", SOME, ids=str)
def test_no_part_of_the_credentials_has_the_host_asked_for_its_role(environment: Host, given: tuple[str | None, ...]) -> None:
    """Even of a config that nothing has checked, and were the host's metadata service where the library searches for it."""
    parsed = config(environment, given)
    bucket = open_bucket("s3", "bucket", "", {**s3_options(parsed), "metadata_endpoint": environment.url})
    with pytest.raises(PermissionDeniedError):
        obstore.get(bucket, "x")
    assert environment.asked == []
    assert [("Credential=own/" in signature, bool(signature)) for signature in environment.signatures] == [(given in WHOLE,) * 2]


@pytest.mark.parametrize("given", SOME, ids=str)
def test_a_store_is_opened_with_whole_credentials_or_none(environment: Host, given: tuple[str | None, ...]) -> None:
    parsed = config(environment, given)
    if any(given) and given not in WHOLE:
        with pytest.raises(ConfigException, match="aws"):
            open_store(parsed, ALL_ALLOWED)
    else:
        with pytest.raises(ConfigException, match="refuses access"):
            open_store(parsed, ALL_ALLOWED).read("x")
    assert environment.asked == []
    assert not any(key in signature for signature in environment.signatures for key in (ROLE, "KEY-OF-THE-ENVIRONMENT"))
