"""Offsets of groups, and internal topics, on a broker that has just begun, of the newest and the oldest version that are tested: librdkafka
ends the process that asks a coordinator too early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA, OLDEST_KAFKA
from tests.conftest import CACHE
from tests.waiting import HANG_SECONDS

STORE = """
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets

settings = WorkerSettings.of({"bootstrap.servers": sys.argv[1]})
offsets = GroupOffsets(settings, connection=AdminConnection.of(settings, timeout_seconds=200))
with ThreadPoolExecutor(20) as pool:
    assert [*pool.map(offsets.committed, [f"new-{number}" for number in range(100)])] == [{}] * 100
"""
TOPICS = """
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin

settings = WorkerSettings.of({"bootstrap.servers": sys.argv[1]})
admin = TopicAdmin(settings)
ids = admin.ensure_internal_topics()
assert {topic["cleanup.policy"] for topic in admin.configs(ids).values()} == {"compact"}
"""
MIRROR = """
from airflow_provider_connect.connectors.mirror_maker.cluster import Cluster
from airflow_provider_connect.connectors.mirror_maker.settings import CHECKPOINT
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths

config = {"source.cluster.alias": "a", "target.cluster.alias": "b"}
config |= {f"{side}.cluster.bootstrap.servers": sys.argv[1] for side in ("source", "target")}
cluster = Cluster(CHECKPOINT.parse(config), "source", AllowedPaths([]))
cluster.admin_client  # the threads share it
groups = [f"new-{number}" for number in range(100)]
with ThreadPoolExecutor(20) as pool:
    assert [*pool.map(cluster.group_offsets, groups)] == [{}] * 100
"""


@pytest.mark.parametrize("version", [KAFKA, pytest.param(OLDEST_KAFKA, marks=pytest.mark.soak)])
@pytest.mark.parametrize("program", [STORE, pytest.param(MIRROR, marks=pytest.mark.soak), TOPICS], ids=["store", "mirror", "topics"])
def test_a_broker_that_has_just_begun(program: str, version: str, tmp_path: Path) -> None:
    with KafkaServer(tmp_path, CACHE, {}, version=version) as server:
        command = [sys.executable, "-c", f"import sys\nfrom concurrent.futures import ThreadPoolExecutor\n{program}"]
        done = subprocess.run([*command, server.bootstrap_servers], capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, "")
