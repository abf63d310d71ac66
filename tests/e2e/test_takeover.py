"""A whole Kafka Connect 4.3.1 becomes a shared application, by its worker file and on its own topics, and gets its connectors back."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.airflow_home import airflow_home
from tests.benchmark.connect_peer import ConnectWorker
from tests.conftest import CACHE
from tests.e2e.faults import shared_application
from tests.e2e.test_handover import QUICK, on_connect
from tests.final_failures import expect_each_once
from tests.integration.client.commands import run_commands
from tests.integration.worker.environment import PLAIN, RunEnvironment, make_topic, values_of
from tests.waiting import HANG_SECONDS, wait_until

MANY = 2_000


@dataclass(slots=True)
class Lines:
    """A file that ``source`` copies to a topic, and ``sink`` from there to another file."""

    source: RunEnvironment
    sink: RunEnvironment
    topic: str
    sent: list[str] = field(default_factory=list)

    def write(self) -> None:
        new = [f"line {number}" for number in range(len(self.sent), len(self.sent) + MANY)]
        with self.source.file.open("a") as file:
            file.writelines(f"{line}\n" for line in new)
        self.sent += new

    def arrive(self) -> None:
        """Wait until as many have arrived as were written."""
        wait_until(lambda: len(self.copied()) >= len(self.sent) and len(self.sink.lines()) >= len(self.sent))

    def copied(self) -> list[str]:
        return values_of(self.source.bootstrap, self.topic)


@pytest.mark.soak
def test_a_cluster_is_taken_over_by_its_worker_file_and_given_back(bootstrap: str, unique: str, tmp_path: Path) -> None:
    group, topic = f"takeover-{unique}", make_topic(bootstrap, f"lines-{unique}")
    worker = ConnectWorker(tmp_path / group, CACHE, find_java(cache=CACHE), bootstrap, exactly_once=False, more=QUICK)
    source, sink, paused = (
        RunEnvironment({"bootstrap.servers": bootstrap}, f"{kind}-{unique}", tmp_path) for kind in ("in", "out", "rest")
    )
    lines = Lines(source, sink, topic)
    own = {"batch.storage.topic": f"{group}-batch", "batch.storage.replication.factor": "1", "connectors.allowed.paths": str(tmp_path)}
    variables = {
        "AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps(own | PLAIN | {"airflow.allowed.applications": "crm"}),
        "AIRFLOW__CONNECT__WORKER_PROPERTIES": str(worker.file),
    }
    takeover = ["import", str(worker.file), "--takeover", "--application", "crm"]
    with on_connect(worker) as connect:
        home = airflow_home(tmp_path / "airflow", variables)
        lines.write()
        connect.create(source, source.file_source(topic))
        connect.create(sink, sink.file_sink(topic))
        connect.create(paused, paused.file_sink(topic))
        connect.ask("PUT", f"/connectors/{paused.connector}/pause")
        lines.arrive()
        (early,) = run_commands(home, [takeover])
        assert (early.code, "Stop them first" in early.err) == (1, True), early
    lines.write()
    check_takeover(home, takeover)

    application = shared_application.start(tmp_path / "application", parse_properties(worker.file.read_bytes()) | own | PLAIN, "process")
    try:
        lines.arrive()
        lines.write()
        lines.arrive()
        stopped, states = run_commands(home, [["stop", source.connector, sink.connector, paused.connector], ["list", "-o", "json"]])
        assert stopped.code == 0, stopped.err
        assert {row["state"] for row in states.json} == {"STOPPED"}
        application.process.send_signal(signal.SIGTERM)
        application.process.wait(HANG_SECONDS)
    finally:
        shared_application.kill(application)
    lines.write()
    with on_connect(worker) as connect:
        assert connect.ask("GET", f"/connectors/{sink.connector}")["config"]["airflow.application"] == "crm"
        connect.resume(source)
        connect.resume(sink)
        lines.arrive()
        lines.write()
        lines.arrive()
    expect_each_once(lines.copied(), lines.sent)
    expect_each_once(sink.lines(), lines.sent)


def check_takeover(home: Mapping[str, str], takeover: list[str]) -> None:
    """It is refused by an Airflow of another group, and may be repeated."""
    (refused,) = run_commands({**home, "AIRFLOW__CONNECT__GROUP_ID": "another"}, [takeover])
    assert "for configuration group.id: this Airflow has another" in refused.err
    done, again = run_commands(home, [takeover, takeover])
    assert (done.code, again.code) == (0, 0), done.err + again.err
    assert done.out.count("joins application crm") == 3
    assert "DAG connect-application.crm hosts them" in done.out
    assert again.out.count("is in application crm") == 3
