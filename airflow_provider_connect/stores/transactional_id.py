"""Taking over a transactional id, without the half second that librdkafka waits when it asks for the producer id too early."""

import time

from confluent_kafka import KafkaException, Producer

from airflow_provider_connect.stores.kafka_errors import translated


def take_over(producer: Producer, timeout_seconds: float) -> None:
    """Every older producer of the id is fenced, and what it left open is aborted. Raises RetriableException, FencedException."""
    try:
        init_transactions(producer, timeout_seconds)
    except KafkaException as error:
        raise translated(error, "taking over a transactional id") from error


def init_transactions(producer: Producer, timeout_seconds: float) -> None:
    """The client's own call, at a moment when it is quick.

    Its first question for a producer id may find no broker connected, and its second comes 500 ms later (measured: 5 of 30 times). After
    the metadata of the cluster was fetched it never did (0 of 60).
    """
    deadline = time.monotonic() + timeout_seconds
    producer.list_topics(timeout=timeout_seconds)
    producer.init_transactions(max(0.1, deadline - time.monotonic()))
