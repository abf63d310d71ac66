"""A broker of its own that goes away in the middle of runs of both directions: frozen, killed, for 3 s and for 60."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.runtime.spark.cache import cache_directory
from tests.conftest import worker_properties
from tests.e2e.chaos.tally import Tally
from tests.e2e.faults.environments import SinkEnvironment, SourceEnvironment
from tests.e2e.faults.outage import in_the_middle, live_through

OUTAGES = ((3.0, False), (3.0, True), (60.0, False), (60.0, True))
MANY = 30_000  # more than one read of the sink takes
RunEnvironment = SourceEnvironment | SinkEnvironment


class OutageStorm:
    """One source and one sink in each outage, exactly once; then the next run finishes the work."""

    def __init__(self, folder: Path, tally: Tally) -> None:
        folder.mkdir(parents=True)
        self._folder, self._tally = folder, tally

    def run(self) -> None:
        with KafkaServer(self._folder / "kafka", cache_directory()) as server:
            for seconds, kill in OUTAGES:
                if self._tally.is_over:
                    return
                name = f"broker {'killed' if kill else 'frozen'} for {seconds:g} s"
                try:
                    self._outage(server, name, seconds, kill=kill)
                except Exception as error:  # (an environment that cannot be played to its end is a violation too, and the others go on)
                    self._tally.broken(f"{name}: {error!r}")

    def _outage(self, server: KafkaServer, name: str, seconds: float, *, kill: bool) -> None:
        settings = worker_properties(server.bootstrap_servers, name.replace(" ", "-"))
        makes: dict[str, Callable[..., RunEnvironment]] = {"source": SourceEnvironment.make, "sink": SinkEnvironment.make}
        environments = {kind: make(self._folder, settings, "exactly_once") for kind, make in makes.items()}
        environments["sink"].add(MANY)
        outcomes = live_through(
            server, [(environment, in_the_middle(environment)) for environment in environments.values()], seconds=seconds, kill=kill
        )
        for (kind, environment), outcome in zip(environments.items(), outcomes, strict=True):
            self._tally.notify(f"{name}, {kind}: {outcome}")
            environment.runs.until_done()
            self._tally.judged(f"{name}, {kind}", "exactly_once", environment.verdict())
