"""What a stranger's config may have a replication slot's connection reach."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.bounded.debezium_postgres import DebeziumPostgres, PostgresGoal
from airflow_provider_connect.runtime.java.bounded.replication_slot import ReplicationSlot
from airflow_provider_connect.runtime.worker.bounded_call import within

GOOD = {"database.hostname": "db.example", "database.user": "u", "database.dbname": "d", "topic.prefix": "p"}
HOSTS = ["", "/tmp", "@x", "a,/tmp", "a,b", "h/d?sslkey=/etc/x", "h?service=x", "u@h", "%2Ftmp", "h:1", "[%2Ftmp]", "."]


@pytest.mark.parametrize("host", ["db.example", "localhost", "10.0.0.1", "::1", "[fe80::1]", "a_b-c.example"])
def test_a_server_is_named_by_name_or_address(host: str) -> None:
    ReplicationSlot({**GOOD, "database.hostname": host}, within)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("database.hostname", host) for host in HOSTS),
        *(("database.port", port) for port in ("0", "65536", "1,2", "x", "٣", "9" * 5000)),
        ("database.sslmode", "x&sslkey=/etc/x"),
        ("slot.name", "x'; DROP TABLE t"),
        ("slot.name", "x" * 64),
        ("topic.prefix", "p,type=*"),
        ("topic.prefix", ""),
        ("slot.drop.on.stop", " TRUE"),
    ],
)
def test_what_is_refused_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigException) as refused:
        PostgresGoal({**GOOD, key: value}, within)
    assert key in str(refused.value)


def test_no_file_of_a_config_is_named_to_the_driver() -> None:
    files = {f"database.{key}": "/etc/passwd" for key in ("sslcert", "sslkey", "sslrootcert", "sslpassword", "sslfactory")}
    slot = ReplicationSlot({**GOOD, **files}, within)
    assert "passwd" not in slot._server.url.adbc_uri


@pytest.mark.parametrize(
    ("config", "offset"),
    [
        ({}, None),
        ({}, {"lsn": 1, "snapshot": "INITIAL"}),
        ({}, {"lsn": 1, "incremental_snapshot_collections": "[]"}),
        ({}, {"lsn": "1"}),
        ({"signal.enabled.channels": "source,kafka"}, {"lsn": 1}),
        ({"snapshot.mode": "initial_only"}, {"lsn": 1}),
    ],
)
def test_a_run_finds_out_where_the_slot_alone_cannot(config: "dict[str, str]", offset: "dict[str, object] | None") -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is connected to")

    assert DebeziumPostgres().has_new_data({**GOOD, **config}, lambda _: offset, refuse) is None
