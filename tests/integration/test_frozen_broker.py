"""Requests to a broker that answers only when they have been given up: librdkafka ends the process whose own timeout of a request to a
group's coordinator has passed before the coordinator is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests.conftest import CACHE
from tests.waiting import HANG_SECONDS

PROGRAM = """
import sys, time
from confluent_kafka import TopicPartition
from airflow_provider_connect.connectors.mirror_maker.cluster import Cluster
from airflow_provider_connect.connectors.mirror_maker.settings import CHECKPOINT
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicSpec
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths

server, asked = sys.argv[1:]
settings = WorkerSettings.of({"bootstrap.servers": server})
connection = AdminConnection({"bootstrap.servers": server}, timeout_seconds=1)
groups, topics = GroupOffsets(settings, connection=connection), TopicAdmin(settings, connection=connection)
config = {"source.cluster.alias": "a", "target.cluster.alias": "b", "admin.timeout.ms": "500"}
config |= {f"{side}.cluster.bootstrap.servers": server for side in ("source", "target")}
cluster = Cluster(CHECKPOINT.parse(config), "source", AllowedPaths([]))
requests = {
    "committed": lambda: groups.committed("g"),
    "committed_now": lambda: groups.committed_now(["g", "h"]),
    "members": lambda: groups.members("g"),
    "delete": lambda: groups.delete("g"),
    "mirrored offsets": lambda: cluster.group_offsets("g"),
    "mirrored members": lambda: cluster.has_members("g"),
    "set mirrored offsets": lambda: cluster.set_group_offsets("g", [TopicPartition("u", 0, 1)]),
    "describe": lambda: topics.partitions(["t"]),
    "create": lambda: topics.try_create(TopicSpec("t", 1, 1, {})),
}

def answer():
    try:
        requests[asked]()
    except ConnectException as error:
        return error
    return None

for client in (connection.client, cluster.admin_client):
    client.list_topics(timeout=240)
topics.try_create(TopicSpec("u", 1, 1, {}))
print("ready", flush=True)
sys.stdin.readline()
refusal = answer()
print("asked", flush=True)
sys.stdin.readline()
end = time.monotonic() + 240
while (error := answer()) is not None and time.monotonic() < end:
    pass
time.sleep(1)  # for answers to the first request
print("refused" if refusal is not None or asked == "committed_now" else "answered", error, flush=True)
"""
ASKED = (
    "committed",
    "committed_now",
    "members",
    "delete",
    "mirrored offsets",
    "mirrored members",
    "set mirrored offsets",
    "describe",
    "create",
)


def test_a_request_that_was_given_up_does_not_end_the_process_when_the_broker_answers(tmp_path: Path) -> None:
    with KafkaServer(tmp_path, CACHE, {}) as server:
        programs = {
            asked: subprocess.Popen(
                [sys.executable, "-c", PROGRAM, server.bootstrap_servers, asked],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for asked in ASKED
        }
        try:
            for program in programs.values():
                expect(program, "ready")
            server.pause()
            for program in programs.values():
                tell(program)
            for program in programs.values():
                expect(program, "asked")
            server.resume()
            for program in programs.values():
                tell(program)
            ends = {asked: (*program.communicate(timeout=HANG_SECONDS), program.returncode) for asked, program in programs.items()}
        finally:
            server.resume()
            for program in programs.values():
                program.kill()
                program.wait()
    assert {asked: (code, output.strip()) for asked, (output, _, code) in ends.items()} == dict.fromkeys(ASKED, (0, "refused None")), ends


def expect(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdout is not None
    if program.stdout.readline().strip() != line:
        raise AssertionError(program.communicate(timeout=HANG_SECONDS)[1])


def tell(program: subprocess.Popen[str]) -> None:
    assert program.stdin is not None
    program.stdin.write("\n")
    program.stdin.flush()
