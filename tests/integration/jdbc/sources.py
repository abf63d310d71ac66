"""A source on a real database, without Kafka: runs of polls whose offsets are kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
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

    def _offset(self, partition: Mapping[str, object], default: Any = None) -> Any:
        return self.offsets.get(str(dict(partition)), default)

    def _connector(self) -> JdbcSourceConnector:
        connector = reaching(JdbcSourceConnector())
        context = MemoryConnectorContext()
        context.offset = self._offset  # type: ignore[method-assign]
        connector.initialize(context)
        defaults = {"name": "source", "connection.url": self.target.url, "topic.prefix": "x-", "schema.pattern": self.target.schema or "%"}
        connector.start(JdbcSourceConnector.config_def.parse({**defaults, **self.settings}))
        return connector

    def has_new_data(self) -> bool | None:
        connector = self._connector()
        return connector.has_new_data(connector.config, self._offset)

    def run(self) -> list[dict[str, Any]]:
        """The values of the records of one run."""
        connector = self._connector()
        rows: list[dict[str, Any]] = []
        for of_task in connector.task_configs(1):
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
