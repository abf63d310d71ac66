"""What is a secret of a config, and in which forms it is found in a text."""

from __future__ import annotations

import json

import pytest

from airflow_provider_connect.built_in_providers import EnvVarConfigProvider
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.masking import Mask, secret_values
from airflow_provider_connect.settings import WorkerSettings
from airflow_provider_connect.worker.checked_connector import check_connector

SECRET = 'p\'w "ü"/1'
ENV = {"config.providers": "env", "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}


@pytest.mark.parametrize("form", [SECRET, repr({"a": SECRET}), json.dumps(SECRET), "amqp://u:p%27w%20%22%C3%BC%22%2F1@host"])
def test_secret_is_found_in_every_form(form: str) -> None:
    text = Mask([SECRET])(f"it says {form}.")
    assert "[hidden]" in text
    assert "1@" not in text
    assert "ü" not in text


def test_shortest_values_are_left_as_they_are() -> None:
    assert Mask(["on", "5432"])("on port 5432") == "on port [hidden]"


def test_values_of_variables_and_of_keys_named_like_secrets_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "from the environment")
    config = {
        "url": "jdbc:x?password=${env:CANARY}&user=${airflow:shop:login}",
        "producer.override.sasl.jaas.config": 'a.PlainLoginModule required username="u1" password="p2";',
        "topic": "orders",
        "db.password": "plain",
    }
    secrets = {"${airflow:shop:login}": "from airflow", "${variable:other}": "not of this config"}
    found = secret_values(config, {"env": EnvVarConfigProvider()}, secrets)
    assert found == {"from the environment", "from airflow", "u1", "p2", config["producer.override.sasl.jaas.config"], "plain"}


def test_refused_config_does_not_tell_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "not-a-number")
    config = {"connector.class": "FileStreamSource", "file": "f", "topic": "t", "tasks.max": "${env:CANARY}"}
    with pytest.raises(ConfigException) as caught:
        check_connector("c", config, WorkerSettings.of(ENV), {})
    assert "not-a-number" not in str(caught.value.errors) + str(caught.value)
    assert "Invalid value [hidden] for configuration tasks.max" in caught.value.message
    assert caught.value.__suppress_context__
