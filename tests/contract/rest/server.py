"""The server that a scenario is replayed against: its API to the letter, its broker, and a folder that it reaches."""

import base64
import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.contract.rest.scenarios import Step
from tests.kafka_topics import create_topic
from tests.waiting import HANG_SECONDS


@dataclass(frozen=True, slots=True)
class Server:
    """``url`` is the base of the API; ``headers`` go with every request; ``versions`` are placeholders of the profile ``versions``."""

    url: str
    bootstrap_servers: str
    files: Path
    headers: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def call(self, step: Step) -> dict[str, Any]:
        """One request, sent as the step describes it, and its answer in the form of the recordings."""
        base = urlsplit(self.url)
        connection = http.client.HTTPConnection(base.netloc, timeout=HANG_SECONDS)
        try:
            connection.putrequest(step["method"], base.path + step["path"], skip_accept_encoding=True)
            body = _body(step)
            given = step.get("headers", {})
            headers = {"Accept": "application/json", **({"Content-Type": "application/json"} if body is not None else {})}
            for name, value in {**headers, "Content-Length": str(len(body or b"")), **self.headers, **given}.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            if body:
                connection.send(body)
            return _recorded(connection.getresponse(), step["method"])
        finally:
            connection.close()

    def create_topic(self, topic: str, partitions: int) -> None:
        create_topic(self.bootstrap_servers, topic, partitions)

    def produce(self, topic: str, records: list[dict[str, Any]]) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        for record in records:
            producer.produce(topic, record.get("value"), record.get("key"), partition=record.get("partition", 0))
        if producer.flush(HANG_SECONDS):
            raise TimeoutError(f"records for {topic} could not be sent")

    def consume(self, topic: str, count: int, seconds: float, fields: list[str]) -> dict[str, Any]:
        """Until ``count`` records are there, committed, from the beginning of all partitions."""
        deadline = time.monotonic() + seconds
        records: list[Any] = []
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "replay", "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest", "isolation.level": "read_committed"})
        try:
            while not (partitions := _partitions(consumer, topic)) and time.monotonic() < deadline:
                time.sleep(0.25)
            if partitions:
                consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            while len(records) < count and time.monotonic() < deadline and partitions:
                message = consumer.poll(0.25)
                if message is not None and message.error() is None:
                    records.append(message)
        finally:
            consumer.close()
        records.sort(key=lambda record: (record.partition(), record.offset()))
        shown = [{name: value for name, value in _fields(record).items() if name in fields} for record in records]
        return {"status": "arrived" if len(records) >= count else "missing", "content_type": "", "body": shown}

    def read_file(self, file: str, count: int, seconds: float, *, any_order: bool) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        path = self.files / file
        while True:
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            if len(lines) >= count or time.monotonic() > deadline:
                status = "arrived" if len(lines) >= count else "missing"
                return {"status": status, "content_type": "", "body": sorted(lines) if any_order else lines}
            time.sleep(0.25)


def _body(step: Step) -> bytes | None:
    if "json" in step:
        return json.dumps(step["json"], ensure_ascii=False).encode()
    if "raw" in step:
        return str(step["raw"]).encode()
    if "base64" in step:
        return base64.b64decode(step["base64"])
    if "repeat" in step:
        repeat = step["repeat"]
        return f"{repeat.get('before', '')}{repeat['text'] * repeat['times']}{repeat.get('after', '')}".encode()
    return None


def _recorded(response: http.client.HTTPResponse, method: str) -> dict[str, Any]:
    data = response.read()
    answer: dict[str, Any] = {"status": response.status, "content_type": _media_type(response)}
    for name in ("location", "allow") if method == "OPTIONS" else ("location",):
        if response.getheader(name) is not None:
            answer[name] = response.getheader(name)
    if data:
        try:
            answer["body"] = json.loads(data)
        except ValueError:
            answer["text"] = data.decode(errors="replace")
    return answer


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    try:
        found = consumer.list_topics(topic, timeout=HANG_SECONDS).topics[topic]
    except KafkaException:
        return []
    return [] if found.error is not None else list(found.partitions)


def _fields(record: Any) -> dict[str, Any]:
    def text(data: bytes | None) -> str | None:
        return None if data is None else data.decode()

    headers = [[name, text(value)] for name, value in record.headers() or []]
    return {"key": text(record.key()), "value": text(record.value()), "partition": record.partition(), "headers": headers}


def _media_type(response: http.client.HTTPResponse) -> str:
    return (response.getheader("content-type") or "").partition(";")[0].strip().lower()
