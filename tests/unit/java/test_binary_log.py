"""Positions of binary logs, what a stranger's config may have their server's connection reach, and when a run has to find out itself."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.bounded.binary_log import BinaryLog, LogPosition
from airflow_provider_connect.runtime.java.bounded.debezium_binary_log import BinaryLogGoal, DebeziumBinaryLog
from airflow_provider_connect.runtime.worker.bounded_call import within

GOOD = {"database.hostname": "db.example", "database.user": "u", "topic.prefix": "p"}
CLEAN = {"file": "binlog.000002", "pos": 400, "gtids": "0-1-7"}


@pytest.mark.parametrize(
    ("reader", "goal", "has_passed"),
    [
        (("log.000002", 400), ("log.000002", 400), True),
        (("log.000002", 399), ("log.000002", 400), False),
        (("log.000010", 4), ("log.000009", 400), True),
        (("log.1000000", 4), ("log.999999", 400), True),
        (("", 4), ("log.000001", 4), False),
        (("other.000002", 400), ("log.000001", 4), False),
        (("log.x", 400), ("log.x", 4), False),
    ],
)
def test_a_reader_has_passed_a_position_by_file_and_bytes(reader: "tuple[str, int]", goal: "tuple[str, int]", has_passed: bool) -> None:
    assert LogPosition(*reader).has_passed(LogPosition(*goal)) is has_passed


@pytest.mark.parametrize(
    ("read", "end", "has_read"),
    [
        ("0-1-7", "0-1-7", True),
        ("0-1-7", "0-2-6", False),  # a transaction of another server, which counts for itself
        ("0-1-7,0-2-6", "0-2-6", True),
        ("0-1-7", "0-1-8", False),
        ("0-1-7,1-1-3", "0-1-7", True),
        ("0-1-7", "0-1-7,1-1-1", False),
        ("0-1-7,1-1-3", "1-1-3,0-1-7", True),
        ("nonsense", "0-1-1", False),
        ("10-1-7", "0-1-7", False),
    ],
)
def test_mariadb_has_more_where_a_domain_has(read: str, end: str, has_read: bool) -> None:
    log = BinaryLog(GOOD, within, has_domains=True)
    behind, before = LogPosition("log.000009", 4, end), LogPosition("log.000001", 4, read)
    assert log.has_read(before, behind) is has_read


def test_without_gtids_the_position_decides() -> None:
    log = BinaryLog(GOOD, within, has_domains=False)
    assert log.has_read(LogPosition("log.000002", 400), LogPosition("log.000002", 400))
    assert not log.has_read(LogPosition("log.000002", 400), LogPosition("log.000002", 401))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("database.hostname", host) for host in ("", "/tmp", "a,b", "h/d?local_infile=1", "u@h", "h:1", "h?read_default_file=/etc/x")),
        ("database.port", "65536"),
        ("database.ssl.mode", "required&ssl_ca=/etc/x"),
        ("topic.prefix", "p,type=*"),
    ],
)
def test_what_is_refused_names_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigException) as refused:
        BinaryLogGoal("mariadb", {**GOOD, key: value}, None, within)
    assert key in str(refused.value)


def test_no_file_of_a_config_is_named_to_the_driver() -> None:
    files = {f"database.ssl.{key}": "/etc/passwd" for key in ("keystore", "truststore")}
    log = BinaryLog({**GOOD, **files, "database.ssl.mode": "verify_ca"}, within, has_domains=True)
    assert "passwd" not in log._server.url.sqlalchemy_url


@pytest.mark.parametrize(
    ("config", "offset"),
    [
        ({}, None),
        ({}, {**CLEAN, "snapshot": "INITIAL"}),
        ({}, {**CLEAN, "event": 2, "row": 1}),
        ({}, {**CLEAN, "incremental_snapshot_collections": "[]"}),
        ({}, {**CLEAN, "pos": "400"}),
        ({"signal.enabled.channels": "source,kafka"}, CLEAN),
        ({"snapshot.mode": "initial_only"}, CLEAN),
    ],
)
def test_a_run_finds_out_where_the_log_alone_cannot(config: "dict[str, str]", offset: "dict[str, object] | None") -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing is connected to")

    assert DebeziumBinaryLog("mariadb").has_new_data({**GOOD, **config}, lambda _: offset, refuse) is None
