"""A real Kafka Connect standalone worker and ours take each other's offset file over: each goes on where the other ended."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from airflow_provider_connect.runtime.stores.offset_file import OffsetFile
from tests.benchmark.connect_peer import worker_jars
from tests.conftest import CACHE
from tests.integration.standalone.agent import STRING, Agent, properties
from tests.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.soak

MakeAgent = Callable[..., Agent]


@contextmanager
def _connect_standalone(folder: Path, bootstrap: str, offsets: Path, connector: Path) -> Iterator[None]:
    """Kafka Connect's own worker, until it is signalled to end."""
    java = find_java(cache=CACHE)
    jars, plugins = worker_jars(CACHE, java)
    worker = folder / "java.properties"
    settings = {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(offsets),
        "offset.flush.interval.ms": "500",
        "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
        "plugin.path": str(plugins.parent),
    }
    worker.write_text(properties(settings))
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    with (folder / "java.log").open("ab") as log:
        process = subprocess.Popen(
            [str(java.executable), "-Xmx512m", "-cp", f"{jars}/*", main, str(worker), str(connector)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
        )
    try:
        yield
        assert process.poll() is None, (folder / "java.log").read_text()
    finally:
        process.terminate()
        process.wait(HANG_SECONDS)  # a worker of Java that ends while the machine is busy


def _values(bootstrap: str, topic: str, count: int) -> list[str]:
    """The first ``count`` values of a topic of one partition, and whatever follows them at once."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    values: list[str] = []

    def more() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.append(bytes(message.value() or b"").decode())
        return message is None and len(values) >= count

    try:
        wait_until(more)
    finally:
        consumer.close()
    return values


def test_each_goes_on_where_the_other_ended(make_agent: MakeAgent, bootstrap: str, tmp_path: Path, unique: str) -> None:
    agent, source, connector = make_agent(), tmp_path / "in.txt", tmp_path / "source.properties"
    connector.write_text(properties({"name": "lines", "connector.class": "FileStreamSource", "file": str(source), "topic": unique}))
    written: list[str] = []

    def append(*lines: str) -> None:
        with source.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        written.extend(lines)

    append("one", "two")
    with _connect_standalone(tmp_path, bootstrap, agent.offsets, connector):
        assert _values(bootstrap, unique, len(written)) == written
        wait_until(lambda: agent.offsets.exists() and agent.offsets.stat().st_size > 0)
    append("three")
    agent.start(connector)
    assert _values(bootstrap, unique, len(written)) == written
    assert agent.end() == 0, agent.log
    append("four")
    with _connect_standalone(tmp_path, bootstrap, agent.offsets, connector):
        assert _values(bootstrap, unique, len(written)) == written
    file = OffsetFile(agent.offsets)
    assert file.read("lines").get({"filename": str(source)}) == {"position": source.stat().st_size}
    file.close()
