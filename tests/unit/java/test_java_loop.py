"""A Java task's run and what Java's side hands over, without a JVM."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from airflow_provider_connect.errors import FencedException, JavaException
from airflow_provider_connect.runtime.java.bounded.runs import JavaRun
from airflow_provider_connect.runtime.java.jvm.connect_worker import ConnectWorker, name_in_bean, plugin_line, texts_of
from airflow_provider_connect.runtime.java.task.runner import JavaLoop
from airflow_provider_connect.runtime.worker.task.stop_signal import StopReason

FENCED = "org.apache.kafka.common.errors.FencedInstanceIdException: The broker rejected this static consumer"

LATE = "org.apache.kafka.common.errors.InvalidTxnStateException: The producer attempted a transactional operation in an invalid state."


@dataclass
class Failing:
    """A run that fails with a trace of Java."""

    trace: str

    def run(self) -> StopReason | None:
        raise JavaException(self.trace)


@dataclass
class Killed:
    """A JVM, and the worker within it; ``kills`` counts."""

    kills: int = 0
    jvm: Killed = field(init=False)

    def __post_init__(self) -> None:
        self.jvm = self

    def kill(self) -> None:
        self.kills += 1


@pytest.mark.parametrize(
    ("trace", "raised", "kills"),
    [(FENCED, FencedException, 1), (LATE, FencedException, 1), ("java.lang.NullPointerException", JavaException, 0)],
)
def test_the_jvm_of_a_task_that_was_fenced_does_nothing_more(trace: str, raised: type[Exception], kills: int) -> None:
    """Its clean end takes the static member out of the group, which is its successor's by then."""
    worker = Killed()
    loop = JavaLoop(cast("JavaRun[StopReason]", Failing(trace)), cast(ConnectWorker, worker))
    with pytest.raises(raised):
        loop.run()
    assert worker.kills == kills


def test_a_null_of_a_task_config_is_a_key_that_is_not_there() -> None:
    assert texts_of({"file": "/in", "batch": 3, "gone": None}) == {"file": "/in", "batch": "3"}


CALLED = "\tat org.apache.kafka.connect.runtime.AbstractWorkerSourceTask.initializeAndStart(AbstractWorkerSourceTask.java:285)\n"
SLEEPS = "java.lang.Throwable\n\tat java.base@17.0.15/java.lang.Thread.sleep(Native Method)\n"


@pytest.mark.parametrize(
    ("stack", "line"),
    [
        (f"{SLEEPS}\tat org.example.Waiting.start(Waiting.java:12)\n{CALLED}", "org.example.Waiting.start(Waiting.java:12)"),
        (
            f"{SLEEPS}\tat app//org.db.Driver.read(Driver.java:7)\n\tat org.example.Waiting.start(Waiting.java:12)\n{CALLED}",
            "org.example.Waiting.start(Waiting.java:12), and in it at org.db.Driver.read(Driver.java:7)",
        ),
        (f"{SLEEPS}{CALLED}", ""),
        (f"{SLEEPS}\tat org.example.Own.run(Own.java:3)\n", ""),
    ],
)
def test_a_stack_shows_the_line_of_the_plugin_that_connect_has_called(stack: str, line: str) -> None:
    assert plugin_line(stack) == line


@pytest.mark.parametrize(("client", "name"), [("c %.-1_x", "c %.-1_x"), ("a:b", '"a:b"'), ('a*?"\\ü\n', '"a\\*\\?\\"\\\\ü\\n"')])
def test_the_id_of_a_client_is_quoted_in_names_of_beans_as_kafka_does(client: str, name: str) -> None:
    assert name_in_bean(client) == name
