"""Sinks that read topics by a pattern: searched for at the start of each run, shared by the tasks."""

from __future__ import annotations

import time

from airflow_provider_connect.runtime.model.run import RunState
from tests.integration.worker.environment import RunEnvironment, make_topic, send


def test_topics_that_match_are_searched_for_at_each_run(environment: RunEnvironment, unique: str) -> None:
    """The worker's own topics have the test's name in theirs too; they are never read, and neither are Kafka's."""
    first, second, third, other = f"{unique}.a", f"{unique}.b", f"{unique}.c", f"x-{unique}.a"
    for topic, partitions in ((first, 3), (second, 1), (other, 1)):
        make_topic(environment.bootstrap, topic, partitions)
    send(environment.bootstrap, first, [f"a{number}" for number in range(30)], partitions=3)
    send(environment.bootstrap, second, ["b0", "b1"])
    send(environment.bootstrap, other, ["only the end of its name matches"])
    config = environment.slow_sink("", tasks_max="2")
    del config["topics"]
    config["topics.regex"] = rf"({unique}\..|[a-w_].*{unique}|__[ct].*)"
    result = environment.run(config)
    assert (result.state, result.error) == (RunState.DONE, None)
    assert sorted(environment.lines()) == sorted([*(f"a{number}" for number in range(30)), "b0", "b1"])
    assert all(task.records for task in result.tasks), "partitions are spread over the tasks"
    assert len(result.tasks) == 2
    assert {p.topic for p in environment.group_offsets()} == {first, second}
    assert environment.readiness(config).state == "no-work"

    send(environment.bootstrap, make_topic(environment.bootstrap, third), ["c0"])
    assert environment.readiness(config).state == "work"
    assert environment.run(config).state is RunState.DONE
    assert environment.lines()[-1] == "c0"
    assert len(environment.lines()) == 33
    assert environment.readiness(config).state == "no-work"


def test_a_pattern_that_nothing_matches_yet_is_no_error(environment: RunEnvironment, unique: str) -> None:
    config = environment.file_sink("")
    del config["topics"]
    config["topics.regex"] = f"later-{unique}"
    assert environment.run(config).state is RunState.DONE
    assert environment.readiness(config).state == "no-work"
    send(environment.bootstrap, make_topic(environment.bootstrap, f"later-{unique}"), ["now"])
    assert environment.readiness(config).state == "work"
    environment.run(config)
    assert environment.lines() == ["now"]


def test_thousands_of_topics_are_asked_for_at_once(environment: RunEnvironment, unique: str) -> None:
    """One by one, ten thousand kept the check of a run, in Airflow's own process, for minutes."""
    config = environment.file_sink(",".join(f"{unique}.{number}" for number in range(5000)))
    assert environment.run(config).state is RunState.DONE
    begun = time.process_time()
    assert environment.readiness(config).state == "no-work"
    assert time.process_time() - begun < 5
