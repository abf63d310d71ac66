"""Runs of a Java source whose poll waits for records, as those of queues do: it would never end by an empty poll."""

from pathlib import Path

import pytest

from tests.integration.java.conftest import JavaRuns
from tests.java_plugins import compiled_plugin

SOURCE = "org.example.WaitingSourceConnector"


@pytest.fixture(scope="module")
def waiting_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_plugin(tmp_path_factory.mktemp("compiled"), SOURCE, "source.SourceConnector")


@pytest.fixture
def waiting(java_runs: JavaRuns, waiting_plugin: Path, unique: str) -> JavaRuns:
    java_runs.use(waiting_plugin, memory="256m")
    java_runs.make_topic(unique)
    return java_runs


def lines(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_a_run_leaves_a_poll_that_waits_after_the_time_that_its_config_gives(waiting: JavaRuns, unique: str) -> None:
    """What was polled before is committed, each record once; the batch log and the topics are noted as ever."""
    source = waiting.config(unique, SOURCE, file=str(waiting.input), topic=unique, airflow_java_poll_timeout="1s")
    expected: list[str] = []
    for new in (["one", "two", "three"], [], ["four"]):
        expected += new
        waiting.input.write_text(lines(*expected))
        code, output = waiting.run(source)
        assert (code, f"task 0: {len(new)} records" in output) == (0, True), output
        assert waiting.records(unique) == expected
    assert " ERROR " not in output, output
    assert waiting.offset(unique) == {"line": 4}
    assert waiting.task(unique).state == "RUNNING"
    assert waiting.topics_of(unique) == [unique]


def test_polls_that_are_left_must_be_committed_one_by_one(waiting: JavaRuns, unique: str) -> None:
    more = {"airflow_java_poll_timeout": "1s", "transaction_boundary": "interval"}
    code, output = waiting.run(waiting.config(unique, SOURCE, file=str(waiting.input), topic=unique, **more))
    assert code == 2, output
    assert "Invalid configuration transaction.boundary: each poll is committed by itself with airflow.java.poll.timeout" in output


@pytest.mark.parametrize("wrong", ["5x", "0", "-1", "", "1e9h"])
def test_a_time_out_that_is_no_duration_is_refused_before_a_jvm_starts(waiting: JavaRuns, unique: str, wrong: str) -> None:
    code, output = waiting.run(waiting.config(unique, SOURCE, file=str(waiting.input), topic=unique, airflow_java_poll_timeout=wrong))
    assert (code, "for configuration airflow.java.poll.timeout" in output) == (2, True), output
    assert "java.org.apache.kafka" not in output
