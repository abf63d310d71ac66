"""``airflow connect dlq get``: which records are shown, how much of each, and which secrets are hidden in them."""

import json

import pytest

from airflow_provider_connect.cli.configs import values_of_variables
from airflow_provider_connect.cli.dead_letters import line_of
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.dead_letters import Part, dead_letter_topic, is_of, row_of
from airflow_provider_connect.runtime.herder.sinks import fitting
from airflow_provider_connect.runtime.stores.log_consumer import LogRecord

PREFIX = "__connect.errors."
PART = Part()


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
    found = record(*((PREFIX + "connector.name", name) for name in names))
    assert is_of("mine", found) is shown
    assert is_of("mine", found, without_headers=False) is (shown and names != [])


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("", "is not set"),
        ("__consumer_offsets", "internal topic"),
        ("connect-configs", "internal topic"),
        ("${env:QUEUE}", "is not a valid topic"),
        ("x" * 9999, "is not a valid topic"),
        ("\ud800", "is not a valid topic"),
    ],
)
def test_a_queue_that_may_not_be_shown(topic: str, reason: str) -> None:
    settings = WorkerSettings.of({"config.storage.topic": "connect-configs"})
    with pytest.raises(BadRequestException, match=reason) as refused:
        dead_letter_topic("c", {"errors.deadletterqueue.topic.name": topic}, settings)
    assert len(refused.value.message) < 1000


def test_a_queue_on_another_cluster_is_not_shown() -> None:
    config = {"errors.deadletterqueue.topic.name": "letters", "producer.override.bootstrap.servers": "other:9092"}
    settings = WorkerSettings.of({"bootstrap.servers": "here:9092"})
    with pytest.raises(BadRequestException, match="another cluster"):
        dead_letter_topic("c", config, settings)
    assert dead_letter_topic("c", config | {"producer.override.bootstrap.servers": "here:9092"}, settings) == "letters"


def test_an_answer_has_the_first_rows_that_fit() -> None:
    rows = [{"value": "x" * 100} for _ in range(5)]
    assert fitting(rows, 250) == rows[:2]
    assert fitting(rows, 10_000) == rows
    assert fitting(rows, 10) == []


def test_of_each_record_a_part_is_shown() -> None:
    many = [(f"{kind}{number:03}{'x' * 500}", b"y" * 9000) for kind in ("", PREFIX) for number in range(300)]
    row = row_of(record(*many, value=b"z" * 9000), Mask())
    assert row["value"] == "z" * PART.text + "…"
    assert (len(row["headers"]), len(row["errors"])) == (PART.headers, PART.headers)
    assert next(iter(row["headers"])) == f"000{'x' * 500}"[: PART.name] + "…"
    assert [list(row["errors"])[at][:3] for at in (0, -1)] == ["200", "299"]  # Connect's own come last
    assert {len(text) for text in (row["headers"] | row["errors"]).values()} == {PART.text + 1}


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
