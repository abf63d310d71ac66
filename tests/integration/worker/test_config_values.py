"""What variables in a config stand for: resolved by each run, for as long as it holds, and shown to no user."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, values_of


@pytest.fixture
def secrets(environment: RunEnvironment, tmp_path: Path) -> Path:
    """A properties file that configs may name as ``${file:…:key}``."""
    path = tmp_path / "secrets.properties"
    environment.properties |= {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(tmp_path),
    }
    return path


def everything_reported(environment: RunEnvironment, result: RunResult, log: str) -> str:
    """What the run left on the internal topics, in its result and in the log."""
    topics = (
        environment.settings.config_topic,
        environment.settings.status_topic,
        environment.settings.offset_topic,
        environment.settings.batch_topic,
    )
    records = [record for topic in topics for record in read_topic(environment.bootstrap, topic)]
    return "\n".join([log, result.to_json(), *(f"{record.key!r} {record.value!r} {record.headers!r}" for record in records)])


def test_a_rotated_secret_is_seen_by_the_next_run_and_shown_nowhere(
    environment: RunEnvironment, secrets: Path, unique: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(environment.bootstrap, unique)
    more = {"password": f"${{file:{secrets}:password}}", "fail_tasks": f"${{file:{secrets}:failing}}", "until": "100"}
    secrets.write_text("password=canary-one\nfailing=0,7000\n")
    result = environment.run(environment.numbers(unique, **more))
    assert result.state is RunState.FAILED
    assert "task 0 cannot go on: [hidden]" in str(result.tasks[0].trace)
    reported = everything_reported(environment, result, caplog.text)
    before = environment.configs().connector_config(environment.connector)
    secrets.write_text("password=canary-two\nfailing=never\n")
    result = environment.run()
    assert result.state is RunState.DONE, result.error
    assert len(values_of(environment.bootstrap, unique)) == 100
    assert environment.configs().connector_config(environment.connector) == before, "no config changed"
    reported += everything_reported(environment, result, caplog.text)
    assert "canary" not in reported
    assert f"${{file:{secrets}:password}}" in reported


def test_values_that_the_worker_declares_public_name_a_topic_and_a_number_and_are_shown(
    environment: RunEnvironment, secrets: Path, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(environment.bootstrap, unique)
    secrets.write_text(f"topic={unique}\nbatch.size=20\n")
    environment.properties["config.providers.file.public.keys"] = "topic|batch\\..*"
    result = environment.run(environment.numbers(f"${{file:{secrets}:topic}}", size=f"${{file:{secrets}:batch.size}}", until="30"))
    assert result.state is RunState.DONE, result.error
    assert values_of(environment.bootstrap, unique) == [f"0-{number}" for number in range(30)]
    assert "[hidden]" not in everything_reported(environment, result, caplog.text)


def test_a_task_ends_when_a_value_has_to_be_resolved_anew_and_the_next_run_goes_on(
    environment: RunEnvironment, secrets: Path, unique: str
) -> None:
    make_topic(environment.bootstrap, unique)
    secrets.write_text("password=lease\n")
    environment.properties["config.providers.file.param.ttl.ms"] = "2500"
    slowly = {"password": f"${{file:{secrets}:password}}", "until": "60", "size": "1", "poll_ms": "60"}
    reasons: list[str | None] = []
    while None not in reasons and len(reasons) < 20:
        result = environment.run(environment.numbers(unique, **slowly))
        assert result.state in (RunState.STOPPED, RunState.DONE), result.error
        reasons.append(result.tasks[0].stopped_by)
    assert reasons[0] == StopReason.EXPIRED
    assert reasons[-1] is None
    assert values_of(environment.bootstrap, unique) == [f"0-{number}" for number in range(60)], "each once"
    environment.put_config(environment.numbers(unique, **(slowly | {"until": "120", "config.action.reload": "none"})))
    assert environment.run().state is RunState.DONE


def test_a_connector_that_may_not_resolve_a_value_is_failed_and_the_error_names_the_setting(
    environment: RunEnvironment, secrets: Path, unique: str
) -> None:
    secrets.write_text("password=canary\n")
    environment.properties[f"config.providers.file.access.other-{unique}"] = ".*"
    variable = f"${{file:{secrets}:password}}"
    result = environment.run(environment.numbers(unique, password=variable))
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    status = environment.statuses().connector(environment.connector)
    assert status is not None
    assert status.state is State.FAILED
    assert f"Invalid value {variable} for configuration password: no config.providers.file.access setting" in str(status.trace)
    environment.properties[f"config.providers.file.access.{environment.connector}"] = f"{secrets}:pass.*"
    assert environment.run().state is RunState.DONE
