"""Runs without Spark: what they refuse."""

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException, is_transient
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.java.jvm.host import JavaHost
from airflow_provider_connect.runtime.model.run import RunSpec
from airflow_provider_connect.runtime.worker.application.driver import _here


def test_a_connector_that_works_with_spark_is_refused_for_good() -> None:
    payload: Any = SimpleNamespace(needs_spark=True)
    with pytest.raises(ConfigException, match=r"airflow\.engine: .*leave the key out") as raised:
        _here(RunSpec("orders", {}, "run-1"), Mask(), JavaHost())(payload)
    assert not is_transient(raised.value)
