"""Every step of every commit, by guarantee: where a fault is put.

A step is a ``CommitStep`` of the product. What a destination does within one of them is a method of its connector, ``module:Class.method``.
A fault falls before or after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_connect.worker.delivery.commit_steps import SINK_STEPS, SOURCE_STEPS, CommitStep
from tests.e2e.faults.runs import CUT, Fault

_TABLE = "airflow_provider_connect.connectors.jdbc.sink"
_SQL = "airflow_provider_connect.sdk.sql_sink:SqlSink"

LINGER_SECONDS = 0.05  # new connections are cut too
PUT, PRE_COMMIT, COMMIT_GROUP = SINK_STEPS["exactly_once"]
_SQL_STEPS = (PUT, f"{_SQL}.write_offsets", f"{_SQL}.commit", PRE_COMMIT, COMMIT_GROUP)
STEPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "source": SOURCE_STEPS,
    "sink": {
        **SINK_STEPS,
        "exactly_once": (PUT, PRE_COMMIT, "airflow_provider_connect.connectors.claimed_file:Sidecars.write", COMMIT_GROUP),
    },
    "table source": {"exactly_once": SOURCE_STEPS["exactly_once"]},
    "table sink": {
        "exactly_once": (
            PUT,
            f"{_TABLE}.offsets:OffsetsTable.write",
            f"{_TABLE}.postgresql_store:PostgresqlStore.commit",
            PRE_COMMIT,
            COMMIT_GROUP,
        )
    },
    "engine sink": {"exactly_once": _SQL_STEPS},
    "driver sink": {"exactly_once": _SQL_STEPS},
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
        nth = 1 if step == CommitStep.COMMIT_GROUP else 2  # in a run of three partitions puts come more than once, commits may not
        yield guarantee, Fault(step, "before" if number % 5 == 0 else "after", nth=nth, victim=victims[number % 3])


def each_step_loses_connections(kind: str) -> Iterator[Fault]:
    """As ``each_step_once``, but connections are lost, of either sort; backends end by either signal in turn."""
    for number, (_, fault) in enumerate(each_step_once(kind)):
        yield replace(fault, victim="broker connection", signal=CUT, linger=LINGER_SECONDS)
        yield replace(fault, victim="backend", signal=("SIGTERM", "SIGKILL")[number % 2])
