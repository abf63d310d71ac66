"""Offsets of groups on a broker whose coordinators have just begun: librdkafka ends the process that asks one too early."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests.conftest import CACHE

STORE = """
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.stores.group_offsets import GroupOffsets

offsets = GroupOffsets(WorkerSettings.of({"bootstrap.servers": sys.argv[1]}))
with ThreadPoolExecutor(20) as pool:
    assert [*pool.map(offsets.committed, [f"new-{number}" for number in range(100)])] == [{}] * 100
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


@pytest.mark.parametrize("program", [STORE, MIRROR], ids=["store", "mirror"])
def test_groups_have_no_offsets_yet(program: str, tmp_path: Path) -> None:
    with KafkaServer(tmp_path, CACHE, {}) as server:
        command = [sys.executable, "-c", f"import sys\nfrom concurrent.futures import ThreadPoolExecutor\n{program}"]
        done = subprocess.run([*command, server.bootstrap_servers], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
