"""What RetriableException means for each call of a plugin, as the table in docs/errors.md has it. Each leaves a line in the log."""

from __future__ import annotations

import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.worker.application import task_body
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.samples import sample

LONG_SECONDS = 10_000.0  # longer than a run that would go on
FAILED_CALLS = [
    ("source", "connector.start", "the service is away in connector.start"),
    ("source", "task_configs", "the service is away in task_configs"),
    ("source", "recommender", "could not check its configuration: RetriableException: the service is away in recommender"),
    ("source", "start", "the service is away in start"),
    ("source", "poll", r"poll has failed .*, and never succeeded before the time of the run was over: the service is away"),
    ("sink", "start", "the service is away in start"),
    ("sink", "open", "the service is away in open"),
    ("sink", "put", r"put has failed .*, and never succeeded before the time of the run was over: the service is away"),
    ("sink", "pre_commit", "the service is away in pre_commit"),
    ("sink", "flush", "the service is away in flush"),
    ("sink", "close", "the service is away in close"),
]
LOGGED_CALLS = [("source", "commit"), ("source", "stop"), ("sink", "stop")]


def config_of(environment: RunEnvironment, kind: str, topic: str, call: str) -> dict[str, str]:
    make_topic(environment.bootstrap, topic)
    if kind == "source":
        return environment.away_source(topic, away_in=call)
    send(environment.bootstrap, topic, ["one"])
    return environment.away_sink(topic, away_in=call)


@pytest.mark.parametrize("failed", sample(FAILED_CALLS, 1, 5, 7), ids=lambda failed: f"{failed[0]}-{failed[1]}")
def test_the_run_fails_and_the_next_one_retries(
    environment: RunEnvironment,
    unique: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    failed: tuple[str, str, str],
) -> None:
    kind, call, text = failed
    config = config_of(environment, kind, unique, call)

    def now() -> float:
        """The time of the run is over once the call has failed."""
        return time.monotonic() + (LONG_SECONDS if f"the service is away in {call}" in caplog.text else 0.0)

    with monkeypatch.context() as patch:
        patch.setattr(task_body, "time", SimpleNamespace(monotonic=now, process_time=time.process_time, time=time.time))
        result = environment.run(config)
    assert result.state is RunState.FAILED
    assert result.retriable
    assert re.search(text, result.error or "")
    assert f"the service is away in {call}" in caplog.text
    environment.put_config({**config, "away.in": ""})
    again = environment.run()
    assert (again.state, [task.records for task in again.tasks]) == (RunState.DONE, [0 if call == "close" else 1])


@pytest.mark.parametrize(("kind", "call"), LOGGED_CALLS)
def test_what_comes_after_the_delivery_is_logged(
    environment: RunEnvironment, unique: str, caplog: pytest.LogCaptureFixture, kind: str, call: str
) -> None:
    result = environment.run(config_of(environment, kind, unique, call))
    assert (result.state, [task.records for task in result.tasks]) == (RunState.DONE, [1])
    assert f"the service is away in {call}" in caplog.text


def test_the_documentation_has_a_row_for_each_call() -> None:
    documented = (Path(__file__).parents[3] / "docs" / "errors.md").read_text().partition("## RetriableException")[2]
    for call in {"check", *(call.rpartition(".")[2] for _, call, *_ in [*FAILED_CALLS, *LOGGED_CALLS])}:
        assert call == "recommender" or f"`{call}`" in documented or f".{call}`" in documented, call
