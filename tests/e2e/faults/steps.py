"""Every step of every commit, by guarantee: where a fault is put.

A step is a ``CommitStep`` of the product. What a destination does within one of them is a method of its connector, ``module:Class.method``.
A fault falls before or after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from airflow_provider_connect.runtime.worker.delivery.commit_steps import SINK_STEPS, SOURCE_STEPS, CommitStep
from tests.e2e.faults.runs import CUT, Fault

_TABLE = "airflow_provider_connect.connectors.jdbc.sink"
_SQL = "airflow_provider_connect.sdk.sql_sink:SqlSink"

_FILES = "airflow_provider_connect.connectors.filesystem"
_LAKE = "airflow_provider_connect.connectors.lake"

LINGER_SECONDS = 0.05  # new connections are cut too
PUT, PRE_COMMIT, COMMIT_GROUP = SINK_STEPS["exactly_once"]
_SQL_STEPS = (PUT, f"{_SQL}.write_offsets", f"{_SQL}.commit", PRE_COMMIT, COMMIT_GROUP)


def _file_steps(store: str, file: str) -> Mapping[str, tuple[str, ...]]:
    """Of a sink of files. Within ``put`` and ``pre_commit`` come the end of a temporary file, the link, the move, the removal of links."""
    chain = f"{_FILES}.commit_chain:CommitChain"
    within = f"{_FILES}.stores.{file}.close", f"{chain}._append", f"{_FILES}.stores.{store}.move", f"{chain}.commit"
    return {"exactly_once": (PUT, *within, PRE_COMMIT, COMMIT_GROUP)}


_DELTA_STEPS: Mapping[str, tuple[str, ...]] = {
    "exactly_once": (
        PUT,
        f"{_LAKE}.delta_session:DeltaSession._commit_rows",
        f"{_LAKE}.delta_session:DeltaSession.commit",
        PRE_COMMIT,
        COMMIT_GROUP,
    )
}

STEPS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "source": SOURCE_STEPS,
    "sink": {
        **SINK_STEPS,
        "exactly_once": (PUT, PRE_COMMIT, "airflow_provider_connect.connectors.transactional_file:CommitFiles.write", COMMIT_GROUP),
    },
    "table source": {"exactly_once": SOURCE_STEPS["exactly_once"]},
    "mirror source": {"exactly_once": SOURCE_STEPS["exactly_once"]},
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
    "local sink": _file_steps("local_store:LocalStore", "local_store:LocalFile"),
    "hdfs sink": _file_steps("web_hdfs_store:WebHdfsStore", "web_hdfs_store:WebHdfsFile"),
    "sftp sink": _file_steps("sftp_store:SftpStore", "sftp_store:SftpFile"),
    "moto sink": _file_steps("object_store:ObjectStore", "object_store:ObjectFile"),
    "versity sink": _file_steps("object_store:ObjectStore", "object_store:ObjectFile"),
    "azure sink": _file_steps("object_store:ObjectStore", "object_store:ObjectFile"),
    "iceberg sink": {
        "exactly_once": (
            PUT,
            f"{_LAKE}.iceberg_table:TableWriter.flush",
            f"{_LAKE}.iceberg_table:TableWriter._stage_changes",
            "pyiceberg.catalog.sql:SqlCatalog.commit_table",
            PRE_COMMIT,
            COMMIT_GROUP,
        )
    },
    "delta sink": _DELTA_STEPS,
    "moto delta sink": _DELTA_STEPS,
    "files source": {"exactly_once": (*SOURCE_STEPS["exactly_once"], f"{_FILES}.source.task:FileSystemSourceTask._clean")},
    "logs source": {"exactly_once": SOURCE_STEPS["exactly_once"]},
}
PAIRS = (
    *("local sink", "hdfs sink", "sftp sink", "moto sink", "versity sink", "azure sink", "iceberg sink"),
    *("delta sink", "moto delta sink", "files source", "logs source"),
)
"""The kinds between topics and files."""


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
