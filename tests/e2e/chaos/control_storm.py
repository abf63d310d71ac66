"""What happens to control: its processes killed, its statuses without a broker, its API servers besieged. One after another."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.spark.cache import cache_directory
from tests.conftest import worker_properties
from tests.e2e.chaos import status_outage
from tests.e2e.chaos.deck import Deck
from tests.e2e.chaos.tally import Tally
from tests.e2e.control.killable import KillableAirflow
from tests.e2e.control.storm import ACTS, ControlStorm
from tests.e2e.control.two_servers import changed_by_a_crowd

STATUS_SECONDS = 300.0
CROWD_SECONDS = 60.0


def kills(folder: Path, tally: Tally, seed: int, count: int) -> None:
    """So many, each kind once before any comes again. Servers are started by this thread, because each ends with the thread that did."""
    chance = random.Random(seed)
    deck = Deck(ACTS, chance)
    with KillableAirflow(folder) as airflow:
        ControlStorm(airflow, tally, chance).run(itertools.islice(iter(deck.draw, None), count))


def statuses(folder: Path, tally: Tally, seconds: float = STATUS_SECONDS) -> None:
    """Statuses change while a broker of their own is away."""
    name = f"statuses, broker away for {seconds:g} s"
    with KafkaServer(folder, cache_directory()) as server:
        try:
            for problem in status_outage.problems_of(status_outage.live_through(server, "statuses", seconds), tally.notify):
                tally.broken(f"{name}: {problem}")
        except Exception as error:  # (what cannot be played to its end is a violation too)
            tally.broken(f"{name}: {error!r}")


def crowd(folder: Path, tally: Tally, seed: int, seconds: float = CROWD_SECONDS) -> None:
    """Many clients change connectors through two API servers over one PostgreSQL."""
    with KafkaServer(folder / "kafka", cache_directory()) as server, PostgresServer() as postgres:
        worker = worker_properties(server.bootstrap_servers, "crowd")
        try:
            tally.notify(f"two API servers: {changed_by_a_crowd(folder / 'airflow', worker, postgres, seconds=seconds, seed=seed)}")
        except Exception as error:  # (as above)
            tally.broken(f"two API servers: {error!r}")
