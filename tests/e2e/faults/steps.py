"""Every step of every commit, by guarantee: where a fault is put. A step is a method of the product; a fault falls before or after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tests.e2e.faults.runs import CUT, Fault

_SOURCE = "airflow_provider_connect.worker.delivery.source_delivery"
_SINK = "airflow_provider_connect.worker.delivery.sink_delivery"
_FILE = "airflow_provider_connect.connectors.claimed_file"
_TABLE = "airflow_provider_connect.connectors.jdbc"

LINGER_SECONDS = 0.05  # new connections are cut too
SOURCE_STEPS = {
    "exactly_once": (
        f"{_SOURCE}:ExactlyOnce.deliver",
        f"{_SOURCE}:ExactlyOnce._send_offsets",
        f"{_SOURCE}:ExactlyOnce._commit_transaction",
        "airflow_provider_connect.worker.task.source_loop:SourceLoop._tell_task",
    ),
    "at_least_once": (
        f"{_SOURCE}:AtLeastOnce.deliver",
        f"{_SOURCE}:AtLeastOnce._acknowledge_records",
        f"{_SOURCE}:AtLeastOnce._commit_offsets",
    ),
    "at_most_once": (f"{_SOURCE}:AtMostOnce._commit_offsets", f"{_SOURCE}:AtMostOnce._send_records"),
}
SINK_STEPS = {
    "exactly_once": (
        f"{_SINK}:AtLeastOnce._put",
        f"{_SINK}:AtLeastOnce._pre_commit",
        f"{_FILE}:Sidecars.write",
        f"{_SINK}:AtLeastOnce._commit_group",
    ),
    "at_least_once": (f"{_SINK}:AtLeastOnce._put", f"{_SINK}:AtLeastOnce._pre_commit", f"{_SINK}:AtLeastOnce._commit_group"),
    "at_most_once": (f"{_SINK}:AtMostOnce._commit_group", f"{_SINK}:AtMostOnce._put"),
}
TABLE_SOURCE_STEPS = {"exactly_once": SOURCE_STEPS["exactly_once"]}
TABLE_SINK_STEPS = {
    "exactly_once": (
        f"{_SINK}:AtLeastOnce._put",
        f"{_TABLE}.sink.offsets:OffsetsTable.write",
        f"{_TABLE}.sink.postgresql_store:PostgresqlStore.commit",
        f"{_SINK}:AtLeastOnce._pre_commit",
        f"{_SINK}:AtLeastOnce._commit_group",
    )
}
STEPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "source": SOURCE_STEPS,
    "sink": SINK_STEPS,
    "table source": TABLE_SOURCE_STEPS,
    "table sink": TABLE_SINK_STEPS,
}


def commit_steps(kind: str) -> Iterator[tuple[str, str]]:
    """(guarantee, step) for one of the kinds in ``STEPS``."""
    for guarantee, steps in STEPS[kind].items():
        for step in steps:
            yield guarantee, step


def each_step_once(kind: str) -> Iterator[tuple[str, Fault]]:
    """One fault between any two steps: after each, and before the first; victims take turns."""
    victims = ("worker", "driver", "jvm")
    for number, (guarantee, step) in enumerate(commit_steps(kind)):
        nth = 1 if step.endswith("_commit_group") else 2  # in a run of three partitions puts come more than once, commits may not
        yield guarantee, Fault(step, "before" if number % 5 == 0 else "after", nth=nth, victim=victims[number % 3])


def each_step_loses_connections(kind: str) -> Iterator[Fault]:
    """As ``each_step_once``, but connections are lost, of either sort; backends end by either signal in turn."""
    for number, (_, fault) in enumerate(each_step_once(kind)):
        yield replace(fault, victim="broker connection", signal=CUT, linger=LINGER_SECONDS)
        yield replace(fault, victim="backend", signal=("SIGTERM", "SIGKILL")[number % 2])
