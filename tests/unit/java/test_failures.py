"""Traces of Java tasks, as Kafka 4.3 writes them, and what is added."""

import pytest

from airflow_provider_connect.errors import JavaException, is_transient, last_line
from airflow_provider_connect.runtime.java.bounded.runs import task_failure

HEAD = "org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer send callback\n\tat a.B.c(B.java:1)\n"
CAUSE = "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: "
BY_CLIENT = (
    "The message is 2000088 bytes when serialized which is larger than 1048576, which is the value of the max.request.size configuration."
)
BY_MEMORY = (
    "The message is 9 bytes when serialized which is larger than the total memory buffer you have configured with the buffer.memory "
    "configuration."
)
BY_BROKER = "The request included a message larger than the max message size the server will accept."
OF_TOPIC = "max.message.bytes of the topic, whose default is the brokers' message.max.bytes"


@pytest.mark.parametrize(
    ("trace", "advice"),
    [
        (HEAD + CAUSE + BY_CLIENT, f"raise producer.override.max.request.size of the connector, and {OF_TOPIC}"),
        (HEAD + CAUSE + BY_MEMORY, f"raise producer.override.buffer.memory of the connector, and {OF_TOPIC}"),
        (HEAD + CAUSE + BY_BROKER, f"raise {OF_TOPIC}"),
        (
            f"{HEAD}\tat io.debezium.storage.kafka.history.KafkaSchemaHistory.storeRecord(K.java:1)\n{CAUSE}{BY_CLIENT}",
            f"raise schema.history.internal.producer.max.request.size of the connector, and {OF_TOPIC}",
        ),
    ],
)
def test_a_record_that_is_too_large_ends_a_trace_with_the_settings_to_raise(trace: str, advice: str) -> None:
    found = task_failure(trace, is_source=True)
    assert found.trace.startswith(trace)
    assert last_line(found.trace) == f"A record is too large: {advice}"
    assert not is_transient(found)


def test_other_traces_and_those_of_sinks_stay_as_they_are() -> None:
    for trace, is_source in ((HEAD, True), (HEAD + CAUSE + BY_CLIENT, False)):
        found = task_failure(trace, is_source=is_source)
        assert (type(found), found.trace, is_transient(found)) == (JavaException, trace, True)
    assert task_failure(None, is_source=True).trace == "org.apache.kafka.connect.errors.ConnectException: the task has failed"
