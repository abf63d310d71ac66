"""Records what a real Kafka Connect 4.3.1 answers about MirrorMaker's connectors: ``python -m tests.contract.record_mirror_settings``."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from airflow_provider_connect.runtime.model.views import ConfigKeyView
from tests.conftest import CACHE
from tests.contract.rest.connect_worker import connect_worker
from tests.contract.rest.server import Server

FILE = Path(__file__).parent / "golden" / "mirror_settings.jsonl"
CONNECTORS = ("Source", "Checkpoint", "Heartbeat")
WRONG = {
    "refresh.topics.interval.seconds": "x",
    "replication.factor": "-3",
    "offset.lag.max": "-1",
    "offset-syncs.topic.location": "elsewhere",
    "consumer.poll.timeout.ms": "z",
    "emit.checkpoints.enabled": "maybe",
    "emit.checkpoints.interval.seconds": "-1",
    "heartbeats.topic.replication.factor": "0",
}
CASES = {"nothing": {}, "aliases": {"source.cluster.alias": "a"}, "wrong": {"source.cluster.alias": "a", **WRONG}}


def class_name(connector: str) -> str:
    return f"org.apache.kafka.connect.mirror.Mirror{connector}Connector"


def read_recorded() -> dict[str, Any]:
    """What was recorded, by connector."""
    return {name: one for line in FILE.read_text(encoding="utf-8").splitlines() for name, one in json.loads(line).items()}


def listed(keys: Iterable[ConfigKeyView]) -> list[list[object]]:
    """Definitions in the form of the recording."""
    return [
        [k.name, k.type, k.required, k.default_value, k.importance, k.group, k.order, k.width, k.display_name, list(k.dependents)]
        for k in keys
    ]


def recorded(server: Server, connector: str) -> dict[str, Any]:
    """Definitions as lists, without documentation, and the errors of each case by setting."""
    name = class_name(connector)
    keys = server.call({"method": "GET", "path": f"/connector-plugins/{name}/config"})["body"]
    errors = {}
    for case, config in CASES.items():
        asked = {"connector.class": name, "name": "x", **config}
        body = server.call({"method": "PUT", "path": f"/connector-plugins/{name}/config/validate", "json": asked})["body"]
        values = [one["value"] for one in body["configs"]]
        errors[case] = {value["name"]: value["errors"] for value in values if value["errors"]}
    return {"keys": [[part for field, part in key.items() if field != "documentation"] for key in keys], "errors": errors}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, connect_worker("default", Path(folder), CACHE) as server:
        found = {connector: recorded(server, connector) for connector in CONNECTORS}
    lines = [json.dumps({connector: one}) for connector, one in found.items()]
    FILE.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
