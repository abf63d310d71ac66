"""The last records of partitions. The offset before an end may be a transaction's marker, or a record of an aborted transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.stores.kafka_errors import translated

_FIRST: Final = 16
_WIDER: Final = 16
_SECONDS: Final = 30.0


def last_records(config: Mapping[str, Any], group: str, spans: Mapping[TopicPartition, tuple[int, int]]) -> dict[TopicPartition, int]:
    """The offset of the last committed record of each partition, within its span. A span is a first offset and an end offset. Partitions
    without such a record are left out.

    Reads the last offsets of each partition. As long as it finds no record, it reads earlier offsets. ``config`` is the config of a
    consumer. Nothing is committed. Raises RetriableException when the brokers do not answer.
    """
    if not spans:
        return {}
    forced = {"group.id": group, "enable.auto.commit": "false", "enable.partition.eof": "true", "isolation.level": "read_committed"}
    consumer = Consumer({**config, **forced})
    try:
        found: dict[TopicPartition, int] = {}
        left, length = dict(spans), _FIRST
        while left:
            starts = {p: max(first, end - length) for p, (first, end) in left.items()}
            found |= _read(consumer, starts, {p: end for p, (_, end) in left.items()})
            left = {p: span for p, span in left.items() if p not in found and starts[p] > span[0]}
            length *= _WIDER
        return found
    except KafkaException as error:
        raise translated(error, "reading the ends of topics") from error
    finally:
        consumer.close()


def _read(consumer: Consumer, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The last record of each partition, from its start to its end."""
    consumer.assign([ClientPartition(p.topic, p.partition, start) for p, start in starts.items()])
    found: dict[TopicPartition, int] = {}
    open_ = set(starts)
    while open_:
        message = consumer.poll(_SECONDS)
        if message is None:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        partition = TopicPartition(str(message.topic()), int(message.partition() or 0))
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            open_.discard(partition)
        elif error is not None:
            raise KafkaException(error)
        elif (offset := message.offset()) is not None and offset < ends[partition]:
            found[partition] = max(offset, found.get(partition, offset))
            if offset == ends[partition] - 1:
                open_.discard(partition)
        else:
            open_.discard(partition)
    return found
