"""A source on a real database, without Kafka: runs of polls whose offsets are kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing.contexts import MemoryConnectorContext, MemorySourceContext
from tests.columns import there
from tests.integration.jdbc.sinks import TargetDatabase
from tests.reaching import reaching
from tests.waiting import HANG_SECONDS


@dataclass(slots=True)
class Source:
    """A connector of JdbcSource; ``run`` is one run of it with one task, of which everything is committed."""

    target: TargetDatabase
    settings: Mapping[str, str]
    offsets: dict[str, Any] = field(default_factory=dict)
    schemas: dict[str, Schema] = field(default_factory=dict)
    """Those of the values that were sent last, by topic."""
    refusal_of_topic: Callable[[str], str] = lambda _: ""
    missing: str | None = None
    """What the last run or check has noted."""

    def _offset(self, partition: Mapping[str, object], default: Any = None) -> Any:
        return self.offsets.get(str(dict(partition)), default)

    def _connector(self) -> JdbcSourceConnector:
        connector = reaching(JdbcSourceConnector())
        connector.refusal_of_topic = self.refusal_of_topic
        context = MemoryConnectorContext()
        context.offset = self._offset  # type: ignore[method-assign]
        connector.initialize(context)
        connector.start(JdbcSourceConnector.config_def.parse(self._config))
        return connector

    @property
    def _config(self) -> dict[str, str]:
        defaults = {"name": "source", "connection.url": self.target.url, "topic.prefix": "x-", "schema.pattern": self.target.schema or "%"}
        return {**defaults, **self.settings}

    def validate(self) -> dict[str, str]:
        """The errors of the settings, by their keys."""
        return {value.name: "\n".join(value.errors) for value in self._connector().validate(self._config) if value.errors}

    def has_new_data(self) -> bool | None:
        connector = self._connector()
        found = connector.has_new_data(connector.config, self._offset)
        self.missing = connector.missing
        return found

    def run(self, rows: list[dict[str, Any]] | None = None, *, max_tasks: int = 1) -> list[dict[str, Any]]:
        """The values of the records of one run. They are appended to ``rows``, also if the run fails."""
        connector = self._connector()
        rows = [] if rows is None else rows
        configs = connector.task_configs(max_tasks)
        self.missing = connector.missing
        for of_task in configs:
            task = reaching(connector.task_class())
            context = MemorySourceContext(of_task)
            context.offset = self._offset  # type: ignore[method-assign]
            task.initialize(context)
            task.start(connector.task_config(of_task))
            deadline = time.monotonic() + HANG_SECONDS
            try:
                while (polled := task.poll()) is not None:
                    assert time.monotonic() < deadline
                    for batch in [polled] if isinstance(polled, Batch) else polled:
                        rows += there(batch.value).to_pylist()
                        self.schemas[batch.topic] = there(batch.value_schema)
                        self.offsets[str(dict(batch.source_partition or {}))] = batch.source_offset
            finally:
                task.stop()
        return rows
