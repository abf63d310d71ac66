"""Whether and when a failed task is tried again, by the Variable and the connector's config."""

import json
import random
from datetime import timedelta

import pytest
from airflow.sdk import RetryDecision
from airflow.sdk.definitions.retry_policy import RetryAction
from airflow.sdk.exceptions import AirflowException

from airflow_provider_connect.dag_files.retry import ConnectRetryPolicy, RetrySettings, decide, retry_settings
from airflow_provider_connect.errors import ConfigException, StoreTimeoutException

STEADY = RetrySettings(delay_seconds=2, max_delay_seconds=10, jitter=0)


def caused_by(cause: Exception) -> AirflowException:
    error = AirflowException("it failed")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(("try_number", "seconds"), [(1, 2), (2, 4), (3, 8), (4, 10), (50, 10)])
def test_the_wait_doubles_up_to_its_limit(try_number: int, seconds: float) -> None:
    decision = decide(STEADY, AirflowException("x"), try_number, random.Random(1))
    assert (decision.action, decision.retry_delay) == (RetryAction.RETRY, timedelta(seconds=seconds))


def test_jitter_spreads_the_waits() -> None:
    settings = RetrySettings(delay_seconds=10, jitter=0.5)
    waits = {decide(settings, AirflowException("x"), 1, random.Random(seed)).retry_delay for seed in range(20)}
    assert len(waits) == 20
    assert all(timedelta(seconds=5) <= wait <= timedelta(seconds=15) for wait in waits if wait is not None)


def test_the_variable_can_lower_the_number_of_retries() -> None:
    settings = retry_settings({"airflow.retries": "2"}, {})
    assert decide(settings, AirflowException("x"), 2, random.Random(1)).action is RetryAction.RETRY
    assert decide(settings, AirflowException("x"), 3, random.Random(1)) == RetryDecision.fail(reason="airflow.retries is 2")


def test_the_connectors_config_wins_over_the_variable() -> None:
    settings = retry_settings({"airflow.retries": "2", "airflow.retry.delay": "1s"}, {"airflow.retries": "5"})
    assert (settings.retries, settings.delay_seconds) == (5, 1.0)


def test_what_will_not_go_away_is_not_tried_again() -> None:
    assert decide(STEADY, caused_by(ConfigException("wrong")), 1, random.Random(1)).action is RetryAction.FAIL
    assert decide(STEADY, caused_by(StoreTimeoutException("broker away")), 1, random.Random(1)).action is RetryAction.RETRY


def test_the_variable_is_read_when_the_task_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = ConnectRetryPolicy({})
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", json.dumps({"airflow": {"retry.delay": "7s", "retry.delay.jitter": 0}}))
    assert policy.evaluate(AirflowException("x"), 1, 3).retry_delay == timedelta(seconds=7)
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", json.dumps({"airflow.retry.delay": "9s", "airflow.retry.delay.jitter": 0}))
    assert policy.evaluate(AirflowException("x"), 1, 3).retry_delay == timedelta(seconds=9)


def test_a_key_that_is_refused_is_left_out_and_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    value = {"airflow.retries": "many", "airflow.retry.delay": "9s", "airflow.retry.delay.jitter": 0}
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", json.dumps(value))
    assert ConnectRetryPolicy({}).evaluate(AirflowException("x"), 1, 3).retry_delay == timedelta(seconds=9)
    assert "Invalid value many for configuration airflow.retries" in caplog.text


def test_settings_that_cannot_be_used_leave_the_dags_own_and_are_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", "{nonsense")
    assert ConnectRetryPolicy({}).evaluate(AirflowException("x"), 1, 3) == RetryDecision.default()
    assert "retry settings are refused" in caplog.text


def test_a_policy_reads_back_from_its_serialized_form() -> None:
    policy = ConnectRetryPolicy({"airflow.retries": "4", "airflow.tags": "x"})
    assert policy.serialize() == {"connector_settings": {"airflow.retries": "4"}}
    assert ConnectRetryPolicy.deserialize(policy.serialize()) == policy
