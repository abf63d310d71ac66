"""DeltaSink into buckets, on two servers where Go is there: the suite, zombies, keys and addresses. polars reads the tables."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from deltalake.exceptions import DeltaError

from airflow_provider_connect.connectors.lake.delta_errors import translate_error
from airflow_provider_connect.connectors.lake.delta_offsets import DeltaOffsets
from airflow_provider_connect.connectors.lake.delta_session import DeltaSession
from airflow_provider_connect.connectors.lake.delta_settings import DeltaSettings
from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.data.schema import INT32_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.datasets import Dataset
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import MODES, UPSERT, deliver, opened, wake_within_a_commit
from tests.integration.lake.notes import NotesSuite, batches, note
from tests.s3_servers import SERVERS, MotoServer, S3Server, s3_server

KEYS = ("aws.access.key.id", "aws.secret.access.key")


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    with s3_server(request.param) as server:
        yield server


@pytest.fixture
def config(server: S3Server) -> dict[str, str]:
    """Of a table of its own."""
    own = {"name": "sink", "topics": "notes", "delta.table.auto-create-enabled": "true", "max.retries": "2"}
    return own | server.delta_settings(f"lake/{uuid.uuid4().hex}")


@pytest.mark.soak
class TestDeltaSinkOnS3(NotesSuite):
    connector_class = DeltaSinkConnector
    lines_between_kills = 11

    @pytest.fixture(autouse=True)
    def table(self, server: S3Server, config: dict[str, str]) -> None:
        self._server, self._config = server, config

    def config(self) -> dict[str, str]:
        return self._config | {"topics": "suite"} | self.settings

    def delivered(self) -> list[Any]:
        return delta_rows(self._config["delta.table.path"], self._server.delta_options)


@pytest.mark.soak
class TestDeltaSinkUpsertOnS3(TestDeltaSinkOnS3):
    lines_between_kills = 37
    settings: ClassVar[dict[str, str]] = UPSERT


def rows(server: S3Server, config: dict[str, str]) -> list[dict[str, Any]]:
    return delta_rows(config["delta.table.path"], server.delta_options)


def test_rows_are_changed_deleted_and_get_columns(server: S3Server, config: dict[str, str]) -> None:
    settings = config | UPSERT | {"delta.table.evolve-schema-enabled": "true", "delta.table.partition-by": "text"}
    deliver(settings, batches([note(1, "a"), note(2, "b"), note(1, "c")]))
    wide = Schema.struct({"id": INT32_SCHEMA, "text": STRING_SCHEMA.as_optional(), "size": INT32_SCHEMA.as_optional()})
    deliver(settings, batches([{"id": 3, "text": "d", "size": 5}, {"id": 2, "text": "e"}], wide, first=3), claim_epoch=2)
    deliver(settings, batches([None], first=5), claim_epoch=3)
    assert rows(server, config) == [note(2, "e") | {"size": None}, note(3, "d") | {"size": 5}]
    folder = config["delta.table.path"].removeprefix(f"s3://{server.bucket}/")
    assert {name.partition("/")[0] for name in server.files(folder)} >= {"_delta_log", "text=d", "text=e"}


def test_lineage_names_the_table(config: dict[str, str]) -> None:
    calls = opened(config)
    calls.put(batches([note(1, "a")])[0])
    calls.commit()
    assert list(calls.task.datasets()) == [Dataset.at(config["delta.table.path"], {"id": "int64", "text": "string"})]


@pytest.mark.parametrize("mode", MODES)
def test_a_zombie_that_wakes_within_its_commit_writes_nothing(
    server: S3Server, config: dict[str, str], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """S3 itself refuses its change."""
    before = wake_within_a_commit(config, mode, monkeypatch)
    assert rows(server, config) == [note(0)] * before + [note(3)]


def test_a_table_that_is_gone_is_not_begun_again(server: S3Server, config: dict[str, str]) -> None:
    session = DeltaSession(
        DeltaSettings.of(DeltaSinkConnector.task_config(config), ALL_ALLOWED),
        ALL_ALLOWED,
        DeltaOffsets("sink", ()),
        UnwrittenFields("sink", "evolve"),
    )
    session.write(batches([note(1)])[0])
    folder = config["delta.table.path"].removeprefix(f"s3://{server.bucket}/")
    client = server.client()
    for name in server.files(folder):
        client.delete_object(Bucket=server.bucket, Key=f"{folder}/{name}")
    with pytest.raises(ConfigException, match="The table no longer exists"):
        session.commit()
    assert server.files(folder) == {}


def test_credentials_of_the_host_are_not_used(
    server: S3Server, config: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nor its addresses, roles and profiles: the library would search for them."""
    (tmp_path / ".aws").mkdir()
    pair = f"aws_access_key_id = {server.access_key}\naws_secret_access_key = {server.secret_key}\n"
    (tmp_path / ".aws" / "credentials").write_text(f"[default]\n{pair}")
    own = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key, "AWS_SESSION_TOKEN": "token-of-the-host"}
    others = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_FORCE_CREDENTIAL_LOAD": "true", "AWS_S3_LOCKING_PROVIDER": "dynamodb"}
    with monkeypatch.context() as host:
        for name, value in {"HOME": str(tmp_path), **own, **others}.items():
            host.setenv(name, value)
        deliver(config, batches([note(1)]))
        deliver(config | UPSERT, batches([note(1, "changed")], first=1), claim_epoch=2)
        for left_out in (KEYS, KEYS[:1], KEYS[1:]):
            bare = {key: value for key, value in config.items() if key not in left_out}
            with pytest.raises(ConfigException, match=r"aws\.access\.key\.id, aws\.secret\.access\.key"):
                deliver(bare, batches([note(2)], first=2), claim_epoch=3)
    assert rows(server, config) == [note(1, "changed")]


def test_a_bucket_that_is_not_there_and_a_server_that_is_away_are_named(config: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=r"delta\.table\.path: There is no such bucket"):
        deliver(config | {"delta.table.path": "s3://no-such-bucket/table"}, batches([note(1)]))
    with pytest.raises(ConnectException, match=r"s3://.* cannot be used now \(delta\.table\.path\)"):
        deliver(config | {"store.url": "http://127.0.0.1:9", "max.retries": "0"}, batches([note(1)]))


@pytest.mark.parametrize("settings", [{}, UPSERT], ids=["append", "upsert"])
def test_a_server_that_goes_away_within_a_commit_is_a_reason_to_try_again(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    with MotoServer() as server:
        config = (
            server.delta_settings("lake/notes") | settings | {"delta.table.auto-create-enabled": "true", "name": "sink", "topics": "notes"}
        )
        session = DeltaSession(
            DeltaSettings.of(DeltaSinkConnector.task_config(config), ALL_ALLOWED),
            ALL_ALLOWED,
            DeltaOffsets("sink", ()),
            UnwrittenFields("sink", "evolve"),
        )
        session.write(batches([note(1)])[0])
        session.commit()
        session.write(batches([note(2)])[0])
        server.stop()
        monkeypatch.setattr(DeltaSession, "_check_same_table", lambda _: None)  # which asks the server first
        with pytest.raises(DeltaError) as raised:
            session.commit()
        assert isinstance(translate_error(raised.value, "s3://bucket/lake/notes"), RetriableException)


def test_wrong_keys_are_named_without_their_secret(server: S3Server, config: dict[str, str]) -> None:
    if isinstance(server, MotoServer):
        pytest.skip("it takes any credentials")
    with pytest.raises(ConfigException, match=r"The store refuses access\. Check aws\.access\.key\.id") as raised:
        deliver(config | {"aws.secret.access.key": "wrong-secret"}, batches([note(1)]))
    assert "wrong-secret" not in str(raised.value)


OF_S3 = ("s3://bucket", "s3://bucket/", "s3:///a", "s3://bucket/a/../b", "s3://bucket/a/%2e%2e/b", "s3://bucket/a?x=1", "s3://bucket//a")
OTHERS = ("s3://user:hunter2@bucket/a", "gs://bucket/a", "s3a://bucket/a", "http://host/a", "file:///tmp/a", "memory:///a", "s3://b/a\0b")


@pytest.mark.parametrize("address", [*OF_S3, *OTHERS])
def test_other_addresses_are_refused(config: dict[str, str], address: str) -> None:
    errors = {value.name: value.errors for value in DeltaSinkConnector().validate(config | {"delta.table.path": address}) if value.errors}
    assert errors.keys() == {"delta.table.path"}
    assert "Give the absolute path of a folder, or s3://bucket/path" in str(errors)
    assert "hunter2" not in str(errors["delta.table.path"])
