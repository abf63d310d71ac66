"""The check for new data before a run: what a connector is given, and what becomes of what it raises."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.application.readiness import WORK, source_readiness
from airflow_provider_connect.runtime.worker.application.task_body import TaskHost
from airflow_provider_connect.runtime.worker.application.task_loop import TaskLoop
from airflow_provider_connect.runtime.worker.task.contexts import TaskSourceContext
from airflow_provider_connect.runtime.worker.task.stop_signal import StopEvent
from airflow_provider_connect.runtime.worker.task.task_configs import PlanningContext
from airflow_provider_connect.sdk import Config, ConfigDef, ConfigKey, OffsetReader, SourceConnector, Type
from airflow_provider_connect.sdk.testing.contexts import MemoryConnectorContext, MemorySourceContext

TEXTS = {"pages": "5", "deep": "true", "password": "the secret", "other": "x"}


class PagesSource(SourceConnector):
    config_def = ConfigDef(ConfigKey("pages", Type.INT), ConfigKey("deep", Type.BOOLEAN, False), ConfigKey("password", Type.PASSWORD))
    given: Any = None


class Parsed(PagesSource):
    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        self.given = config
        return bool(config["deep"] and config["pages"] > 4)


class Unannotated(PagesSource):
    def has_new_data(self, config, offsets):  # type: ignore[no-untyped-def]
        self.given = config
        return config["pages"] > 4


class Texts(PagesSource):
    def has_new_data(self, config: Mapping[str, str], offsets: OffsetReader) -> bool | None:
        self.given = config
        return config["deep"] == "true" and config["other"] == "x"


class Texts2(PagesSource):
    def has_new_data(self, settings: dict[str, str], offsets: OffsetReader) -> bool | None:  # type: ignore[override]
        self.given = settings
        return settings["pages"] == "5"


class Broken(PagesSource):
    error: Exception = OSError("no route, with the secret")

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        raise type(self.error)(*self.error.args)


@pytest.mark.parametrize("kind", [Parsed, Unannotated])
def test_a_connector_is_given_its_parsed_config(kind: type[PagesSource]) -> None:
    connector = kind()
    assert connector.check_for_new_data(TEXTS, lambda _: None) is True
    assert isinstance(connector.given, Config)
    assert connector.given.originals == TEXTS


@pytest.mark.parametrize("kind", [Texts, Texts2])
def test_a_connector_whose_method_takes_texts_is_given_texts(kind: type[PagesSource]) -> None:
    connector = kind()
    assert connector.check_for_new_data(TEXTS, lambda _: None) is True
    assert connector.given is TEXTS


@pytest.mark.parametrize("error", [OSError("no route, with the secret"), RetriableException("later: the secret"), NotImplementedError()])
def test_what_a_check_raises_is_logged_with_its_trace_and_a_run_starts(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    connector = Broken()
    connector.error = error
    found = source_readiness("c", connector, TEXTS, WorkerSettings.of({}), Mask({"the secret"}))
    assert (found.state, found.reason) == (WORK, f"the connector failed to check for new data: {type(error).__name__}")
    [record] = caplog.records
    text = record.getMessage()
    assert record.levelno == logging.WARNING
    assert text.startswith("Connector c: has_new_data raised, so a run starts\n")
    assert "in has_new_data" in text
    assert "the secret" not in text


def test_a_config_that_cannot_be_parsed_starts_a_run_which_reports_it(caplog: pytest.LogCaptureFixture) -> None:
    found = source_readiness("c", Parsed(), {"pages": "five"}, WorkerSettings.of({}), Mask())
    assert (found.state, found.reason) == (WORK, "the connector failed to check for new data: ConfigException")
    assert "Invalid value five for configuration pages" in caplog.text


def test_the_check_has_the_connectors_default_settings_as_a_run_has_them() -> None:
    connector = Texts()
    connector.default_settings = {"other": "x", "deep": "false"}  # type: ignore[misc]  # of this instance alone
    config = {key: value for key, value in TEXTS.items() if key != "other"}
    assert source_readiness("c", connector, config, WorkerSettings.of({}), Mask()).state == WORK
    assert connector.given == TEXTS
    payload: Any = SimpleNamespace(task=0, connector="c", settings={}, secrets={}, connector_config=config)
    backing: Any = SimpleNamespace(offsets=lambda location: NoOffsets())
    host = TaskHost(backing, "w", None, mask=Mask())
    checked: Any = SimpleNamespace(connector=connector)
    assert TaskLoop(payload, host, StopEvent(), checked=checked)._has_new_data() is True
    assert connector.given == TEXTS


class NoOffsets:
    def read(self, connector: str) -> SourceOffsets:
        return SourceOffsets(connector, {})

    def close(self) -> None:
        """Nothing is open."""


def test_a_hosted_task_logs_a_check_that_fails_again_and_again_once(caplog: pytest.LogCaptureFixture) -> None:
    connector = Broken()
    payload: Any = SimpleNamespace(task=0, connector="c", settings={}, secrets={}, connector_config=TEXTS)
    checked: Any = SimpleNamespace(connector=connector)
    backing: Any = SimpleNamespace(offsets=lambda location: NoOffsets())
    host = TaskHost(backing, "w", None, mask=Mask({"the secret"}))
    loop = TaskLoop(payload, host, StopEvent(), checked=checked)
    with caplog.at_level(logging.INFO):
        assert [loop._has_new_data() for _ in range(3)] == [None] * 3
        connector.error = OSError("another")
        assert loop._has_new_data() is None
    first, second = [record.getMessage() for record in caplog.records]
    assert first.startswith("Task c-0: its connector could not check for new data, so it runs\n")
    assert "OSError: no route, with [hidden]" in first
    assert "OSError: another" in second


def test_each_read_of_an_offset_returns_none_where_there_is_none() -> None:
    known = SourceOffsets("c", {})
    partition = {"p": 1}
    task = TaskSourceContext({}, Claim(1, "r"), known, lambda: False)
    assert task.offset(partition) is MemorySourceContext({}).offset(partition) is None
    assert task.offset(partition, {"next": 0}) == MemorySourceContext({}).offset(partition, {"next": 0}) == {"next": 0}
    assert task.offset(partition, {}) == {}
    assert PlanningContext("c", lambda _: known).offset(partition) is MemoryConnectorContext().offset(partition) is None
    assert known.get(partition) is None
