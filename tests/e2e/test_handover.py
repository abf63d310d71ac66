"""Connectors that go from a real Kafka Connect 4.3.1 to us and back, on the same topics and under the same ``group.id``.

Some travel at once, so that the worker starts no more often than it must. Each goes through four legs: 1 on Connect 2 with us 3 on Connect
again 4 with us again. Between two legs the side that is left has ended.
"""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.benchmark.connect_peer import ConnectWorker
from tests.conftest import CACHE
from tests.e2e.killed_run import run_and_kill
from tests.integration.herder.conftest import AskedHere, RunsByHand
from tests.integration.worker.environment import PLAIN, RunEnvironment, make_topic, send, values_of
from tests.waiting import HANG_SECONDS, wait_until

QUICK = {
    "offset.flush.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "plugin.discovery": "only_scan",
    "header.converter": "org.apache.kafka.connect.storage.StringConverter",
}


@dataclass(slots=True)
class Connect:
    """The real worker, while it runs."""

    worker: ConnectWorker

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer; asked again for a while when the worker is rebalancing."""
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            try:
                return self.worker.request(method, path, body)
            except urllib.error.HTTPError as error:
                if error.code not in {404, 409, 500} or time.monotonic() > deadline:
                    raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from error
                time.sleep(0.3)

    def create(self, environment: RunEnvironment, config: Mapping[str, str]) -> None:
        self.ask("PUT", f"/connectors/{environment.connector}/config", dict(config))

    def stop(self, environment: RunEnvironment) -> None:
        self.ask("PUT", f"/connectors/{environment.connector}/stop")
        wait_until(lambda: self.states(environment) == ("STOPPED", []))

    def resume(self, environment: RunEnvironment) -> None:
        self.ask("PUT", f"/connectors/{environment.connector}/resume")

    def states(self, environment: RunEnvironment) -> tuple[str, list[str]]:
        found = self.ask("GET", f"/connectors/{environment.connector}/status")
        return found["connector"]["state"], [task["state"] for task in found["tasks"]]

    def offsets(self, environment: RunEnvironment) -> list[tuple[dict[str, object], dict[str, object]]]:
        found = self.ask("GET", f"/connectors/{environment.connector}/offsets")["offsets"]
        return [(entry["partition"], entry["offset"]) for entry in found]

    def alter(self, environment: RunEnvironment, partition: Mapping[str, object], offset: Mapping[str, object] | None) -> None:
        self.ask("PATCH", f"/connectors/{environment.connector}/offsets", {"offsets": [{"partition": partition, "offset": offset}]})

    def reset(self, environment: RunEnvironment) -> None:
        self.ask("DELETE", f"/connectors/{environment.connector}/offsets")


@dataclass(slots=True)
class Traveller:
    """One connector. Each leg leaves it as the next one is to find it, and checks what must hold then."""

    environment: RunEnvironment
    topic: str
    herder: Herder = field(init=False)

    def first(self, connect: Connect) -> None: ...

    def second(self) -> None: ...

    def between(self) -> None: ...

    def third(self, connect: Connect) -> None: ...

    def fourth(self) -> None: ...

    def run(self) -> None:
        assert self.environment.run().state is RunState.DONE

    def write(self, *lines: str) -> None:
        """Lines to the file of a source."""
        with self.environment.file.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def expect_topic(self, *values: str) -> None:
        wait_until(lambda: len(values_of(self.environment.bootstrap, self.topic)) >= len(values))
        assert values_of(self.environment.bootstrap, self.topic) == list(values)

    def expect_file(self, *lines: str) -> None:
        wait_until(lambda: len(self.environment.lines()) >= len(lines))
        assert self.environment.lines() == list(lines)

    @property
    def partition(self) -> dict[str, object]:
        return {"filename": str(self.environment.file)}


class FileSource(Traveller):
    """Each side goes on behind the last line of the other."""

    def first(self, connect: Connect) -> None:
        make_topic(self.environment.bootstrap, self.topic)
        self.write("one", "two")
        connect.create(self.environment, self.environment.file_source(self.topic))
        self.expect_topic("one", "two")
        wait_until(lambda: connect.offsets(self.environment) == [(self.partition, {"position": 8})])
        self.write("three")

    def second(self) -> None:
        self.write("four")
        self.run()
        self.run()
        self.expect_topic("one", "two", "three", "four")

    def third(self, connect: Connect) -> None:
        assert connect.offsets(self.environment) == [(self.partition, {"position": 19})]
        self.write("five")
        self.expect_topic("one", "two", "three", "four", "five")
        wait_until(lambda: connect.states(self.environment) == ("RUNNING", ["RUNNING"]))

    def fourth(self) -> None:
        self.write("six")
        self.run()
        self.expect_topic("one", "two", "three", "four", "five", "six")


class KilledSource(Traveller):
    """Our run is killed between produce and commit, and the connector is stopped. Connect goes on behind what was committed."""

    def first(self, connect: Connect) -> None:
        make_topic(self.environment.bootstrap, self.topic)
        self.write("one")
        connect.create(self.environment, self.environment.file_source(self.topic, **self.guarantee))
        self.expect_topic("one")

    def second(self) -> None:
        self.write("two", "three")
        run_and_kill(self.environment)
        self.herder.stop(self.environment.connector)

    def third(self, connect: Connect) -> None:
        assert connect.offsets(self.environment) == [(self.partition, {"position": 4})]
        connect.resume(self.environment)
        self.expect_topic("one", *self.doubled, "two", "three")

    def fourth(self) -> None:
        self.write("four")
        self.run()
        self.expect_topic("one", *self.doubled, "two", "three", "four")

    guarantee: ClassVar[Mapping[str, str]] = {}
    doubled: ClassVar[tuple[str, ...]] = ()


class KilledAtLeastOnce(KilledSource):
    """What was sent and not committed comes again, and nothing is lost."""

    guarantee: ClassVar[Mapping[str, str]] = {"delivery_guarantee": "at_least_once"}
    doubled = ("two", "three")


class AlteredSource(Traveller):
    """Offsets altered and reset on one side are where the other side goes on."""

    def first(self, connect: Connect) -> None:
        make_topic(self.environment.bootstrap, self.topic)
        self.write("one", "two", "three")
        connect.create(self.environment, self.environment.file_source(self.topic))
        self.expect_topic("one", "two", "three")
        connect.stop(self.environment)
        connect.alter(self.environment, self.partition, {"position": 8})

    def second(self) -> None:
        assert self.herder.offsets(self.environment.connector) == [OffsetView(self.partition, {"position": 8})]
        self.herder.resume(self.environment.connector)
        self.run()
        self.expect_topic("one", "two", "three", "three")
        self.herder.stop(self.environment.connector)
        self.herder.alter_offsets(self.environment.connector, [OffsetView(self.partition, {"position": 4})])

    def third(self, connect: Connect) -> None:
        assert connect.offsets(self.environment) == [(self.partition, {"position": 4})]
        connect.resume(self.environment)
        self.expect_topic("one", "two", "three", "three", "two", "three")
        connect.stop(self.environment)
        connect.reset(self.environment)

    def fourth(self) -> None:
        assert self.herder.offsets(self.environment.connector) == []
        self.herder.resume(self.environment.connector)
        self.run()
        self.expect_topic("one", "two", "three", "three", "two", "three", "one", "two", "three")


class FileSink(Traveller):
    """A sink whose group, and whose file, the other side has moved on."""

    def first(self, connect: Connect) -> None:
        make_topic(self.environment.bootstrap, self.topic)
        send(self.environment.bootstrap, self.topic, ["one", "two"])
        connect.create(self.environment, self.environment.file_sink(self.topic))
        self.expect_file("one", "two")

    def second(self) -> None:
        send(self.environment.bootstrap, self.topic, ["three"])
        self.run()
        self.run()
        self.expect_file("one", "two", "three")

    def third(self, connect: Connect) -> None:
        send(self.environment.bootstrap, self.topic, ["four", "five"])
        self.expect_file("one", "two", "three", "four", "five")

    def fourth(self) -> None:
        send(self.environment.bootstrap, self.topic, ["six"])
        self.run()
        self.run()
        self.expect_file("one", "two", "three", "four", "five", "six")


class AlteredSink(Traveller):
    """The same with offsets altered on either side, and reset by Connect: then nothing of what we knew comes back."""

    def first(self, connect: Connect) -> None:
        make_topic(self.environment.bootstrap, self.topic)
        send(self.environment.bootstrap, self.topic, ["one", "two", "three"])
        connect.create(self.environment, self.environment.file_sink(self.topic))
        self.expect_file("one", "two", "three")
        connect.stop(self.environment)
        connect.alter(self.environment, self.position, {"kafka_offset": 2})

    def second(self) -> None:
        self.herder.resume(self.environment.connector)
        self.run()
        self.expect_file("one", "two", "three", "three")
        self.herder.stop(self.environment.connector)
        self.herder.alter_offsets(self.environment.connector, [OffsetView(self.position, {"kafka_offset": 1})])

    def third(self, connect: Connect) -> None:
        assert connect.offsets(self.environment) == [(self.position, {"kafka_offset": 1})]
        connect.resume(self.environment)
        self.expect_file("one", "two", "three", "three", "two", "three")
        connect.stop(self.environment)
        connect.reset(self.environment)

    def fourth(self) -> None:
        assert self.herder.offsets(self.environment.connector) == []
        self.herder.resume(self.environment.connector)
        self.run()
        self.expect_file("one", "two", "three", "three", "two", "three", "one", "two", "three")
        self.herder.stop(self.environment.connector)
        self.herder.alter_offsets(self.environment.connector, [OffsetView(self.position, {"kafka_offset": 2})])
        self.herder.resume(self.environment.connector)
        self.run()
        self.expect_file("one", "two", "three", "three", "two", "three", "one", "two", "three", "three")

    @property
    def position(self) -> dict[str, object]:
        return {"kafka_topic": self.topic, "kafka_partition": 0}


class FailedWithUs(Traveller):
    """Our FAILED becomes the real worker's RUNNING."""

    def second(self) -> None:
        make_topic(self.environment.bootstrap, self.topic)
        send(self.environment.bootstrap, self.topic, ["one"])
        self.environment.put_config(self.environment.file_sink(self.topic) | {"file": str(self._later / "out.txt")})
        assert self.environment.run().state is RunState.FAILED
        assert self.states() == ("RUNNING", ["FAILED"])

    def between(self) -> None:
        self._later.mkdir()

    def third(self, connect: Connect) -> None:
        wait_until(lambda: connect.states(self.environment) == ("RUNNING", ["RUNNING"]))
        wait_until(lambda: (self._later / "out.txt").read_text() == "one\n")

    def fourth(self) -> None:
        send(self.environment.bootstrap, self.topic, ["two"])
        self.run()
        assert (self._later / "out.txt").read_text() == "one\ntwo\n"
        assert self.states() == ("RUNNING", ["RUNNING"])

    def states(self) -> tuple[str, list[str]]:
        found = self.herder.connector_status(self.environment.connector)
        return found.connector.state, [task.state for task in found.tasks]

    @property
    def _later(self) -> Path:
        return self.environment.folder / f"later-{self.environment.connector}"


class RunningWithUs(FailedWithUs):
    """Our RUNNING becomes the real worker's FAILED, which we report as it is, until a run of ours is RUNNING again."""

    def first(self, connect: Connect) -> None:
        make_topic(self.environment.bootstrap, self.topic)
        send(self.environment.bootstrap, self.topic, ['"one"'])
        connect.create(self.environment, self.environment.file_sink(self.topic) | JSON_VALUES)
        self.expect_file("one")

    def second(self) -> None:
        send(self.environment.bootstrap, self.topic, ['"two"'])
        self.run()
        assert self.states() == ("RUNNING", ["RUNNING"])
        send(self.environment.bootstrap, self.topic, ["no JSON"])

    def third(self, connect: Connect) -> None:
        wait_until(lambda: connect.states(self.environment) == ("RUNNING", ["FAILED"]))

    def fourth(self) -> None:
        found = self.herder.connector_status(self.environment.connector)
        assert [(task.state, "DataException" in str(task.trace)) for task in found.tasks] == [("FAILED", True)]
        self.herder.stop(self.environment.connector)
        self.herder.alter_offsets(
            self.environment.connector, [OffsetView({"kafka_topic": self.topic, "kafka_partition": 0}, {"kafka_offset": 3})]
        )
        send(self.environment.bootstrap, self.topic, ['"four"'])
        self.herder.resume(self.environment.connector)
        self.run()
        assert self.states() == ("RUNNING", ["RUNNING"])
        self.expect_file("one", "two", "four")


JSON_VALUES = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


@contextmanager
def on_connect(worker: ConnectWorker) -> Iterator[Connect]:
    with worker.started():
        yield Connect(worker)


@contextmanager
def with_us(properties: dict[str, str], travellers: list[Traveller]) -> Iterator[None]:
    """A herder of ours, the internal topics made or found."""
    settings = travellers[0].environment.settings
    TopicAdmin(settings).ensure_internal_topics()
    with Herder(settings, RunsByHand(), probe=AskedHere(settings)) as herder:
        for traveller in travellers:
            traveller.herder = herder
        yield


def our_properties(bootstrap: str, group: str, *, exactly_once: bool) -> dict[str, str]:
    """A worker of ours in the group and on the topics of the real one."""
    topics = {f"{kind}.storage.topic": f"{group}-{kind}" for kind in ("config", "offset", "status")}
    factors = {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status", "batch")}
    own = {"group.id": group, "batch.storage.topic": f"{group}-batch", "offset.flush.interval.ms": "500", "connectors.allowed.paths": "/"}
    support = {"exactly.once.source.support": "enabled" if exactly_once else "disabled"}
    return {"bootstrap.servers": bootstrap, **own, **topics, **factors, **support, **PLAIN}


SOURCES: list[type[Traveller]] = [FileSource, KilledSource, AlteredSource]
SINKS: list[type[Traveller]] = [FileSink, AlteredSink, FailedWithUs, RunningWithUs]


@dataclass(frozen=True, slots=True)
class Journey:
    """Which sides have exactly-once support for sources, and who travels. Sinks do not know of that support: they travel once."""

    connect_exactly_once: bool
    ours_exactly_once: bool
    kinds: list[type[Traveller]]


JOURNEYS = {
    "default": Journey(False, True, SOURCES + SINKS),  # a Connect on its default settings
    "both": Journey(True, True, SOURCES),
    "connect": Journey(True, False, [FileSource, KilledAtLeastOnce, AlteredSource]),
}


@pytest.mark.soak
@pytest.mark.parametrize("journey", JOURNEYS.values(), ids=JOURNEYS)
def test_there_and_back(bootstrap: str, unique: str, tmp_path: Path, journey: Journey) -> None:
    group = f"handover-{unique}"
    properties = our_properties(bootstrap, group, exactly_once=journey.ours_exactly_once)
    travellers = [
        kind(RunEnvironment(properties, f"{kind.__name__.lower()}-{unique[-8:]}", tmp_path), f"{kind.__name__}-{unique}")
        for kind in journey.kinds
    ]
    java, support = find_java(cache=CACHE), journey.connect_exactly_once
    worker = ConnectWorker(tmp_path / group, CACHE, java, bootstrap, exactly_once=support, more=QUICK)
    with on_connect(worker) as connect:
        for traveller in travellers:
            traveller.first(connect)
    with with_us(properties, travellers):
        for traveller in travellers:
            traveller.second()
    for traveller in travellers:
        traveller.between()
    with on_connect(worker) as connect:
        for traveller in travellers:
            traveller.third(connect)
    with with_us(properties, travellers):
        for traveller in travellers:
            traveller.fourth()
