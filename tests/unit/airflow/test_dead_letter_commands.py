"""``airflow connect dlq``: which records are shown, how much of each, and which secrets are hidden in them."""

import json

import pytest

from airflow_provider_connect.cli.dead_letters import LONGEST_NAME, LONGEST_TEXT, MOST_HEADERS, is_of, line_of, row_of, values_of_variables
from airflow_provider_connect.config.masking import Mask
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.stores.log_consumer import LogRecord

PREFIX = "__connect.errors."


def record(*headers: tuple[str, bytes | None], timestamp: int = 0, value: bytes = b"v") -> LogRecord:
    return LogRecord(0, 7, timestamp, None, value, list(headers))


def test_a_secret_in_the_connectors_name_hides_no_record() -> None:
    mine = record((PREFIX + "connector.name", b"sink-geheim"))
    assert is_of("sink-geheim", mine)
    assert row_of(mine, Mask({"geheim"}))["errors"] == {"connector.name": "sink-[hidden]"}


@pytest.mark.parametrize(
    ("names", "shown"),
    [([], True), ([b"mine"], True), ([b"other"], False), ([b"other", b"mine"], True), ([b"mine", b"other"], False), ([None], False)],
)
def test_the_last_connector_that_a_record_names_is_its_writer(names: list[bytes | None], shown: bool) -> None:
    assert is_of("mine", record(*((PREFIX + "connector.name", name) for name in names))) is shown


def test_of_each_record_a_part_is_shown() -> None:
    many = [(f"{kind}{number:03}{'x' * 500}", b"y" * 9000) for kind in ("", PREFIX) for number in range(300)]
    row = row_of(record(*many, value=b"z" * 9000), Mask())
    assert row["value"] == "z" * LONGEST_TEXT + "…"
    assert (len(row["headers"]), len(row["errors"])) == (MOST_HEADERS, MOST_HEADERS)
    assert next(iter(row["headers"])) == f"000{'x' * 500}"[:LONGEST_NAME] + "…"
    assert [list(row["errors"])[at][:3] for at in (0, -1)] == ["200", "299"]  # Connect's own come last
    assert {len(text) for text in (row["headers"] | row["errors"]).values()} == {LONGEST_TEXT + 1}


@pytest.mark.parametrize("timestamp", [9 * 10**17, 2**63 - 1, 253402300800000])
def test_a_timestamp_that_no_calendar_has_is_a_number(timestamp: int) -> None:
    assert line_of(row_of(record(timestamp=timestamp), Mask()))["when"] == str(timestamp)


def test_a_record_without_a_timestamp_has_no_date() -> None:
    assert line_of(row_of(record(timestamp=-1), Mask()))["when"] is None
    assert str(line_of(row_of(record(timestamp=0), Mask()))["when"])[:4] in ("1969", "1970")


def test_values_of_connections_and_variables_are_secrets_and_one_that_is_missing_leaves_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_TOKEN", "from-a-variable")
    monkeypatch.setenv("AIRFLOW_VAR_ADMINS", "not-for-this-connector")
    monkeypatch.setenv("AIRFLOW_CONN_STORE", json.dumps({"conn_type": "generic", "password": "from-a-connection"}))
    monkeypatch.setenv("DLQ_TOKEN", "from-the-environment")
    providers = WorkerSettings.of(
        {
            "bootstrap.servers": "localhost:9092",
            "config.providers": "env",
            "config.providers.env.class": "EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "DLQ_.*",
            "config.providers.variable.param.allowlist.pattern": "token|gone",
            "config.providers.airflow.param.allowlist.pattern": ".*",
        }
    ).config_providers("c")
    config = {
        "gone": "${variable:gone} ${airflow:gone:password}",
        "denied": "${variable:admins}",
        "both": "${variable:gone} ${variable:token}",
        "user": "x ${airflow:store:password}",
        "other": "${airflow:store:nothing}",
        "host": "${env:DLQ_TOKEN}",
    }
    assert values_of_variables(config, providers) == {
        "${variable:token}": "from-a-variable",
        "${airflow:store:password}": "from-a-connection",
        "${env:DLQ_TOKEN}": "from-the-environment",
    }
