"""Contract suites: pytest classes that test what the framework relies on in a plugin. Subclass one as ``Test…`` and define its methods.

::

    class TestFeedSource(SourceConnectorSuite):
        connector_class = FeedSource

        @pytest.fixture(autouse=True)
        def feed(self, tmp_path): self.feed = Feed(tmp_path)

        def config(self): return {"feed": self.feed.path, "topic": "t"}

        def write_to_source(self, count): self.feed.add_events(count)

Class attributes declare the capabilities of a plugin; the tests of other capabilities are skipped. This package needs pytest, which ``sdk``
itself does not import.

For an author's own tests, ``run`` runs a connector with several tasks in memory, and a ``Fault`` ends it at a given step. ``FakeReporter``
keeps the records that a sink refuses.
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
