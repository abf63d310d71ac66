"""The values of Airflow's variables, requested by the driver of a shared application and answered by its Airflow task."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.spark.secret_requests import answering, request_secrets


def secrets_of(connector: str, config: Mapping[str, str]) -> Mapping[str, str]:
    if connector == "refused":
        raise ConfigException("the variable is not allowed")
    if connector == "broken":
        raise OSError("the vault is away")
    return {"${airflow:shop:password}": f"secret of {config['key']}"}


def test_a_request_is_answered_and_leaves_no_file(tmp_path: Path) -> None:
    with answering(tmp_path, secrets_of):
        assert request_secrets(tmp_path, "orders/ä", {"key": "one"}) == {"${airflow:shop:password}": "secret of one"}
        assert request_secrets(tmp_path, "orders/ä", {"key": "two"}) == {"${airflow:shop:password}": "secret of two"}
        assert list(tmp_path.iterdir()) == []


def test_a_refusal_and_a_failure_reach_the_driver(tmp_path: Path) -> None:
    with answering(tmp_path, secrets_of):
        with pytest.raises(ConfigException, match="not allowed"):
            request_secrets(tmp_path, "refused", {})
        with pytest.raises(RetriableException, match="OSError"):
            request_secrets(tmp_path, "broken", {})
    assert list(tmp_path.iterdir()) == []
