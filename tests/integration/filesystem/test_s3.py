"""S3: credentials of the host, and what is wrong with an address. On two servers where Go is there."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, open_store
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.config_def import ConfigDef
from tests.integration.filesystem.chains import opened
from tests.reaching import reaching
from tests.s3_servers import SERVERS, S3Server, s3_server


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    with s3_server(request.param) as server:
        yield server


@pytest.fixture
def settings(server: S3Server) -> dict[str, str]:
    return server.settings(uuid.uuid4().hex)


def test_credentials_of_the_host_are_not_used(server: S3Server, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in place of missing ones, nor beside those of the config; nor an address."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": server.access_key,
        "AWS_SECRET_ACCESS_KEY": server.secret_key,
        "AWS_SESSION_TOKEN": "token-of-the-host",
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    assert opened(settings).create("by-config", b"x")
    bare = {key: value for key, value in settings.items() if not key.startswith("aws.")}
    signed: list[str] = []
    with _Listener(signed) as address:
        with pytest.raises(ConfigException, match="refuses access"):
            opened(bare | {"store.url": address}).read("x")
        with pytest.raises(ConfigException, match="refuses access"):
            opened(settings | {"store.url": address}).read("x")
    assert [("token-of-the-host" in each, "AWS4" in each) for each in signed] == [(False, False), (False, True)]


def test_a_dry_run_of_a_sink_names_a_bucket_that_is_missing(settings: dict[str, str]) -> None:
    """As its run does; nothing is written to one that is there."""
    config = {"name": "c", "topics": "t", **settings}
    sink = reaching(FileSystemSinkConnector())
    sink.check_fully(config)
    with pytest.raises(ConfigException, match=r"There is no such bucket\. Create it, or set another"):
        sink.check_fully(config | {"url": "s3://no-such-bucket-here/x"})


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"url": "s3://user:secret@bucket/x"}, "url"),
        ({"url": "s3:///x"}, "url"),
        ({"url": "s3://bucket/../x"}, "url"),
        ({"url": "s3://bucket/x?secret=1"}, "url"),
        ({"store.url": "unix:///run/x"}, "store.url"),
        ({"url": "az://container"}, "azblob.account.name"),
        ({"url": "gs://bucket", "gcs.credentials.json": '{"private_key": "secret"}'}, "gcs.credentials.json"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named_and_no_secret_shown(changes: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigException, match=key) as raised:
        open_store(ConfigDef(*STORE_KEYS).parse({"url": "s3://bucket", **changes}), ALL_ALLOWED)
    assert "secret" not in str(raised.value).replace("aws.secret", "")


class _Listener:
    """A server that notes the headers of requests, and answers 403."""

    def __init__(self, seen: list[str]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                seen.append(str(self.headers))
                self.send_response(403)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
