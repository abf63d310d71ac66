"""The second cluster, from which is mirrored; and a worker group on the first with one connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.conftest import CACHE, WorkerSettings
from tests.integration.mirror_maker.mirror import MirrorEnvironment
from tests.integration.worker.environment import RunEnvironment

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="session")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of the source cluster."""
    with KafkaServer(tmp_path_factory.mktemp("origin"), CACHE, {"log.retention.check.interval.ms": "500", **AUTHORIZED}) as server:
        yield server.bootstrap_servers


@pytest.fixture
def mirror(tmp_path: Path, worker_settings: WorkerSettings, unique: str, origin: str) -> MirrorEnvironment:
    """A worker group on the target cluster. Only topics that begin with the test's name are mirrored."""
    runs = RunEnvironment(worker_settings(), f"c-{unique}", tmp_path)
    TopicAdmin(runs.settings).ensure_internal_topics()
    return MirrorEnvironment(runs, origin, unique)
