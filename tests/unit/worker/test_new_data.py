"""The check for new data before a run: what a connector is given, and what becomes of what it raises."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import count, repeat
from typing import Any

import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.application.readiness import WORK, source_readiness
from airflow_provider_connect.runtime.worker.task.contexts import TaskSourceContext
from airflow_provider_connect.runtime.worker.task.renewal import Renewal
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from airflow_provider_connect.runtime.worker.task.task_configs import PlanningContext
from airflow_provider_connect.sdk import Config, ConfigDef, ConfigKey, DataSignal, OffsetReader, SourceConnector, Type
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


class Stop:
    """A StopSignal that gives its reason when it is asked the ``after``-th time."""

    def __init__(self, after: int | None = None) -> None:
        self.after, self.asked = after, 0

    def reason(self) -> StopReason | None:
        self.asked += 1
        return StopReason.PAUSED if self.asked == self.after else None


def renewal_of(
    connector: SourceConnector,
    mask: Callable[[str], str] = str,
    *,
    stop: Stop | None = None,
    records: Iterator[int] | None = None,
    offsets_written: Iterator[int] | None = None,
    waits: list[float] | None = None,
    idle_seconds: float | None = None,
) -> Renewal:
    """A renewal whose time passes in ``waits`` alone."""
    task: Any = "a new task"
    passed: list[float] = [] if waits is None else waits
    signal: Any = stop or Stop()
    counts = records or repeat(0)
    written = offsets_written or count()
    return Renewal(
        "c-0",
        connector,
        TEXTS,
        offsets=lambda: SourceOffsets("c", {}),
        create_task=lambda _: task,
        stop=signal,
        records=lambda: next(counts),
        offsets_written=lambda: next(written),
        mask=mask,
        sleep=passed.append,
        now=lambda: sum(passed),
        idle_seconds=idle_seconds,
    )


class Answers(PagesSource):
    """Answers one after the other."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        return self.answers.pop(0)


def test_the_wait_for_new_data_doubles_up_to_that_of_the_connector() -> None:
    waits: list[float] = []
    connector = Answers(False, False, False, False, True)
    connector.check_seconds = 0.1  # type: ignore[misc]  # of this instance alone
    assert renewal_of(connector, waits=waits)() == "a new task"
    assert waits == pytest.approx([0.02, 0.04, 0.08, 0.1, 0.1])


def test_the_wait_is_short_again_after_a_record_was_read() -> None:
    waits: list[float] = []
    renewal = renewal_of(Answers(False, False, True, None, True, True), records=iter([5, 5, 6, 6]), waits=waits)
    for _ in range(4):
        assert renewal() == "a new task"
    assert waits == pytest.approx([0.02, 0.04, 0.08, 0.1, 0.06, 0.02, 0.04])


def test_a_source_without_offsets_is_not_read_again_at_once() -> None:
    waits: list[float] = []
    renewal = renewal_of(Answers(True, True, True), records=iter([5, 10, 15]), offsets_written=repeat(0), waits=waits)
    for _ in range(3):
        assert renewal() == "a new task"
    assert sum(waits) == pytest.approx(0.02 + 300 + 300)


def test_a_wait_with_an_idle_timeout_ends_after_that_time_without_a_record() -> None:
    waits: list[float] = []
    answers = Answers(*[False] * 20, True, *[False] * 200)
    renewal = renewal_of(answers, records=iter([5, 6]), waits=waits, idle_seconds=60.0)
    assert renewal() == "a new task"
    begun = sum(waits)
    assert renewal() is StopReason.IDLE
    assert begun < 60
    assert sum(waits) - begun == pytest.approx(60.0)


def test_a_wait_ends_with_the_reason_to_stop() -> None:
    assert renewal_of(Answers(False, False, False), stop=Stop(after=3))() is StopReason.PAUSED


class Signalled(Answers):
    """With a signal that is up after each of ``seconds``, and then fails."""

    check_seconds = 0.1

    def __init__(self, waits: list[float], seconds: list[float], *answers: bool | None) -> None:
        super().__init__(*answers)
        self.waits, self.seconds, self.closed = waits, seconds, 0

    def open_data_signal(self, config: Config) -> DataSignal | None:
        self.given = config
        return self

    def wait(self, timeout_seconds: float) -> bool:
        if not self.seconds:
            raise OSError("the secret is out")
        self.waits.append(min(timeout_seconds, self.seconds[0]))
        self.seconds[0] -= self.waits[-1]
        if self.seconds[0] <= 0:
            self.seconds.pop(0)
            return True
        return False

    def close(self) -> None:
        self.closed += 1


def test_a_signal_ends_the_wait_and_checks_go_on_beside_it() -> None:
    waits: list[float] = []
    connector = Signalled(waits, [0.0, 0.3, 1.2], True, True, False, False, True)
    renewal = renewal_of(connector, waits=waits, records=iter([1, 2, 3]))
    for _ in range(3):
        assert renewal() == "a new task"
    assert waits == pytest.approx([0.0, 0.3, 0.5, 0.5, 0.2])
    assert connector.given["pages"] == 5
    renewal.close()
    assert connector.closed == 1


def test_a_signal_without_data_or_with_data_that_no_task_can_read_keeps_no_core_busy() -> None:
    waits: list[float] = []
    connector = Signalled(waits, [0.0] * 100, *[False] * 3, *[True] * 10)
    renewal = renewal_of(connector, waits=waits)
    for _ in range(4):
        assert renewal() == "a new task"
    assert [seconds for seconds in waits if seconds] == [0.005] * 3 + [0.02] * 3


def test_a_signal_that_fails_is_logged_once_and_the_waits_are_those_without_it(caplog: pytest.LogCaptureFixture) -> None:
    waits: list[float] = []
    connector = Signalled(waits, [], False, False, False, False, True)
    renewal = renewal_of(connector, Mask({"the secret"}), waits=waits)
    assert renewal() == "a new task"
    renewal.close()
    assert waits == pytest.approx([0.005, 0.04, 0.08, 0.1, 0.1])
    assert connector.closed == 1
    [record] = caplog.records
    assert record.getMessage() == "Task c-0: without a signal of new data, it checks every 0.1 s: [hidden] is out"


def test_a_signal_does_not_shorten_the_wait_of_a_source_without_offsets() -> None:
    waits: list[float] = []
    connector = Signalled(waits, [0.0], True, True)
    renewal = renewal_of(connector, records=iter([5, 10]), offsets_written=repeat(0), waits=waits)
    assert [renewal(), renewal()] == ["a new task"] * 2
    assert sum(waits) == pytest.approx(300)


def test_a_stop_is_noticed_within_half_a_second_of_a_wait_for_a_signal() -> None:
    waits: list[float] = []
    connector = Signalled(waits, [9.0])
    assert renewal_of(connector, stop=Stop(after=2), waits=waits)() is StopReason.PAUSED
    assert waits == [0.5]


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


def test_a_run_that_stays_logs_a_check_that_fails_again_and_again_once(caplog: pytest.LogCaptureFixture) -> None:
    connector = Broken()
    renewal = renewal_of(connector, Mask({"the secret"}))
    with caplog.at_level(logging.INFO):
        assert [renewal.has_new_data() for _ in range(3)] == [None] * 3
        connector.error = OSError("another")
        assert renewal.has_new_data() is None
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
