"""Records the dead letters of a real Kafka Connect 4.3.1: ``python -m tests.contract.record_dead_letters`` writes the golden file.

Takes half a minute. Names of topics and connectors are those of the cases, so nothing has to be edited.
"""

from __future__ import annotations

import base64
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.log_consumer import LogRecord
from tests.benchmark.connect_peer import ConnectWorker
from tests.conftest import CACHE
from tests.contract.dead_letter_cases import CASES, DeadLetterCase, sink_config
from tests.integration.worker.environment import make_topic, read_topic
from tests.waiting import HANG_SECONDS

GOLDEN = Path(__file__).parent / "golden" / "dead_letters.json"
SETTLED_SECONDS = 3.0  # after the last letter, for one that should not come


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder) / "kafka", CACHE) as kafka:
        bootstrap, java = kafka.bootstrap_servers, find_java(cache=CACHE)
        more = {"offset.flush.interval.ms": "500", "scheduled.rebalance.max.delay.ms": "0"}
        with ConnectWorker(Path(folder) / "connect", CACHE, java, bootstrap, exactly_once=False, more=more).started() as worker:
            for name, case in CASES.items():
                send_records(bootstrap, make_topic(bootstrap, name), case)
                config = sink_config(name, name, f"dlq-{name}", f"{folder}/{name}.txt", case)
                worker.request("PUT", f"/connectors/{name}/config", config)
            recorded = {name: _letters(bootstrap, f"dlq-{name}") for name in CASES}
    GOLDEN.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")


def send_records(bootstrap: str, topic: str, case: DeadLetterCase) -> None:
    """The records of a case to partition 0 of a topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for record in case.records:
        headers: list[tuple[str, str | bytes | None]] | None = list(record.headers) or None
        producer.produce(topic, record.value, record.key, partition=0, headers=headers, timestamp=record.timestamp)
    assert producer.flush(HANG_SECONDS) == 0


def as_json(record: LogRecord) -> dict[str, Any]:
    """A letter as the golden file has it: bytes that are no UTF-8 stand as ``{"base64": …}``."""
    return {
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [[name, _text(value)] for name, value in record.headers or ()],
    }


def _letters(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    found: list[LogRecord] = []
    deadline, settled = time.monotonic() + HANG_SECONDS, 0.0
    while time.monotonic() < deadline and not (found and time.monotonic() > settled):
        try:
            now = read_topic(bootstrap, topic)
        except TopicMissingException:
            now = []
        if len(now) != len(found):
            found, settled = now, time.monotonic() + SETTLED_SECONDS
        time.sleep(0.3)
    return [as_json(record) for record in found]


def _text(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


if __name__ == "__main__":
    main()
