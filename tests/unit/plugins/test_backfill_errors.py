"""Which connectors can be a backfill, and which need a destination of its own."""

import pytest

from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector
from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector
from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.runtime.model.backfill import CHANGED, OF, RANGES
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import backfill_errors
from airflow_provider_connect.sdk.connector import Connector

CONFIG = {"topics": "a", RANGES: "a:0:0:5", OF: "orders"}


@pytest.mark.parametrize(
    ("connector", "more", "reason"),
    [
        (FileStreamSinkConnector(), {}, "another value of file"),
        (FileStreamSinkConnector(), {CHANGED: "tasks.max"}, "another value of file"),
        (FileSystemSinkConnector(), {}, "another value of topics.dir or url"),
        (FileStreamSourceConnector(), {}, "Only a sink"),
        (None, {}, "A Java connector reads to the end"),
        (None, {RANGES: ""}, "A Java connector reads to the end"),
        (FileStreamSourceConnector(), {RANGES: ""}, "No setting of this source bounds"),
        (JdbcSourceConnector(), {RANGES: ""}, "set rows.from or rows.to"),
        (FileSystemSourceConnector(), {RANGES: ""}, "set file.modified.from or file.modified.to or file.prefix or"),
        (FileSystemSourceConnector(), {RANGES: "", CHANGED: "file.prefix", "cleanup.policy": "archive"}, "set cleanup.policy=none"),
        (JdbcSinkConnector(), {RANGES: ""}, "A sink's backfill has ranges"),
        (JdbcSinkConnector(), {"topics": "b"}, "topics must name the topics of these ranges"),
    ],
)
def test_a_connector_that_cannot_deliver_a_range_beside_itself_is_refused(
    connector: Connector | None, more: dict[str, str], reason: str
) -> None:
    [[error]] = backfill_errors({**CONFIG, **more}, connector).values()
    assert reason in error


@pytest.mark.parametrize(
    ("connector", "more"),
    [
        (FileStreamSinkConnector(), {CHANGED: "tasks.max,file"}),
        (FileSystemSinkConnector(), {CHANGED: "topics.dir"}),
        (JdbcSinkConnector(), {}),
        (FileStreamSinkConnector(), {OF: ""}),
        (FileStreamSourceConnector(), {RANGES: "", OF: ""}),
        (None, {RANGES: "", OF: ""}),
        (JdbcSourceConnector(), {RANGES: "", CHANGED: "topic.prefix,rows.to"}),
        (FileSystemSourceConnector(), {RANGES: "", CHANGED: "file.glob"}),
        (FileSystemSourceConnector(), {RANGES: "", CHANGED: "file.glob", "cleanup.policy": "none"}),
    ],
)
def test_others_are_taken(connector: Connector | None, more: dict[str, str]) -> None:
    assert backfill_errors({**CONFIG, **more}, connector) == {}
