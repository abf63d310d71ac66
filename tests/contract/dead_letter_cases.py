"""Sinks with poisoned topics whose dead letters were recorded from a real Kafka Connect: what is sent, and the configs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as it is sent; ``timestamp`` in ms."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class DeadLetterCase:
    """``records`` go to one topic of one partition, and a file sink with ``config`` reads them."""

    records: Sequence[Sent]
    config: Mapping[str, str]
    fails: bool = False  # the task


CONTEXT = {"errors.tolerance": "all", "errors.deadletterqueue.context.headers.enable": "true"}
PLAIN_JSON = {"value.converter": JSON, "value.converter.schemas.enable": "false", "key.converter": STRING}
POISONED = [
    Sent(b"k0", b'{"n":0}', timestamp=1_700_000_000_000),
    Sent(b"k1", b'{"n":', [("own", b"header"), ("empty", b""), ("null", None)], 1_700_000_000_001),
    Sent(None, b"not json \xc3\xa4", timestamp=1_700_000_000_002),
    Sent(b"k3", b'{"n":3}', timestamp=1_700_000_000_003),
]

CASES: Mapping[str, DeadLetterCase] = {
    "value-converter": DeadLetterCase(POISONED, {**CONTEXT, **PLAIN_JSON}),
    "without-context": DeadLetterCase(POISONED, {**CONTEXT, **PLAIN_JSON, "errors.deadletterqueue.context.headers.enable": "false"}),
    "without-tolerance": DeadLetterCase(POISONED, {**CONTEXT, **PLAIN_JSON, "errors.tolerance": "none"}, fails=True),
    "no-envelope": DeadLetterCase(
        [Sent(b"k", b'{"schema":{"type":"string"},"payload":"a"}'), Sent(b"k", b'{"n":1}'), Sent(b"k", None)],
        {**CONTEXT, **PLAIN_JSON, "value.converter.schemas.enable": "true"},
    ),
    "key-converter": DeadLetterCase(
        [Sent(b"{", b"both are bad: {"), Sent(b'{"k":1}', b'"a"'), Sent(b"x", b'"b"')],
        {**CONTEXT, **PLAIN_JSON, "key.converter": JSON, "key.converter.schemas.enable": "false"},
    ),
    "transformation": DeadLetterCase(
        [Sent(b"k", b"1"), Sent(b"k", b"one", [("h", b"1")]), Sent(b"k", b"2")],
        {
            **CONTEXT,
            "value.converter": STRING,
            "key.converter": STRING,
            "transforms": "cast",
            "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
            "transforms.cast.spec": "int32",
        },
    ),
}


def sink_config(name: str, topic: str, dead_letters: str, file: str, case: DeadLetterCase) -> dict[str, str]:
    """The config of the file sink of a case."""
    return {
        "name": name,
        "connector.class": "FileStreamSink",
        "file": file,
        "topics": topic,
        "errors.deadletterqueue.topic.name": dead_letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        **case.config,
    }
