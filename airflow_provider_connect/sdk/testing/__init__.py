"""Contract suites: what the framework relies on in a plugin, as pytest classes. Subclass one as ``Test…`` and fill in what it asks for.

::

    class TestFeedSource(SourceConnectorSuite):
        connector_class = FeedSource

        @pytest.fixture(autouse=True)
        def feed(self, tmp_path): self.feed = Feed(tmp_path)

        def config(self): return {"feed": self.feed.path, "topic": "t"}

        def write_to_source(self, count): self.feed.add_events(count)

A capability that a plugin lacks is declared by a class attribute, and its tests are then skipped by name. Needs pytest; ``sdk`` itself
does not import it.

For tests of one's own: ``run`` runs a connector with several tasks in memory, and ends it where a ``Fault`` is. ``FakeReporter`` keeps the
records that a sink refuses.
"""

import pytest

pytest.register_assert_rewrite(
    *(f"airflow_provider_connect.sdk.testing_{part}" for part in ("calls", "data", "objects", "runs", "sinks", "sources"))
)

from airflow_provider_connect.sdk.task import CommitStep  # noqa: E402
from airflow_provider_connect.sdk.testing.calls import Fault, Killed, SinkCalls  # noqa: E402
from airflow_provider_connect.sdk.testing.contexts import (  # noqa: E402
    FakeReporter,
    MemoryConnectorContext,
    MemorySinkContext,
    MemorySourceContext,
    Offsets,
    partition_key,
)
from airflow_provider_connect.sdk.testing.data import ConverterSuite, TransformationSuite  # noqa: E402
from airflow_provider_connect.sdk.testing.runs import SinkRun, SourceRun, run  # noqa: E402
from airflow_provider_connect.sdk.testing.sinks import SinkConnectorSuite  # noqa: E402
from airflow_provider_connect.sdk.testing.sources import SourceConnectorSuite  # noqa: E402

__all__ = [
    "CommitStep",
    "ConverterSuite",
    "FakeReporter",
    "Fault",
    "Killed",
    "MemoryConnectorContext",
    "MemorySinkContext",
    "MemorySourceContext",
    "Offsets",
    "SinkCalls",
    "SinkConnectorSuite",
    "SinkRun",
    "SourceConnectorSuite",
    "SourceRun",
    "TransformationSuite",
    "partition_key",
    "run",
]
