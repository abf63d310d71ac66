"""README's installation and first connectors, and the tutorial, from an empty environment: the lines of the pages, timed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests.integration.installation import CACHE, CHECKOUT, EmptyHome
from tests.integration.pages import Shell, run_steps, steps

README, TUTORIAL = CHECKOUT / "README.md", CHECKOUT / "docs" / "tutorial.md"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[KafkaServer]:
    """A Kafka of one broker that holds nothing: the internal topics have their default names."""
    with KafkaServer(tmp_path / "kafka", CACHE) as server:
        yield server


@pytest.mark.timeout(2700)
@pytest.mark.soak
def test_every_line_works_from_an_empty_environment(tmp_path: Path, wheel: Path, broker: KafkaServer, timings: list[str]) -> None:
    """One test, for all of it happens in one environment, which takes a minute to be installed."""
    home = EmptyHome(tmp_path / "home", wheel)
    installation, rest = home.pieces(README.read_text(encoding="utf-8"), broker.bootstrap_servers)
    assert str(wheel) in installation
    started = time.monotonic()
    with Shell(home.home, home.environment) as shell:
        run_steps(shell, steps(installation), home.home, timings, compares=False)
        _both_halves_of_spark_have_one_version(shell)
        timings.append(f"{time.monotonic() - started:6.1f} s  README: the packages")
        try:
            _first_connectors(home, shell, rest, timings)
        finally:
            home.end()
    timings.append(f"{time.monotonic() - started:6.1f} s  README: from nothing to the second connector's file")
    started = time.monotonic()
    _tutorial(home, broker, timings)
    timings.append(f"{time.monotonic() - started:6.1f} s  the tutorial")


def _both_halves_of_spark_have_one_version(shell: Shell) -> None:
    printed, _ = shell.run("pip list --format freeze | grep ^pyspark")
    versions = dict(line.split("==") for line in printed.split())
    assert versions.keys() == {"pyspark", "pyspark-client"}
    assert versions["pyspark"] == versions["pyspark-client"]


def _first_connectors(home: EmptyHome, shell: Shell, text: str, timings: list[str]) -> None:
    printed = run_steps(shell, steps(text), home.home, timings, compares=False)
    listed, _ = shell.run("airflow connect list")
    health, _ = shell.run(f'curl -s -u "admin:$PASSWORD" http://localhost:{home.port}/connect/health')
    assert (home.data / "seen.txt").read_text() == "tea\nbread\nmilk\n"
    assert "tea\nbread\nmilk\n" in printed
    assert re.search(r"orders-sink\b.*RUNNING", printed, re.DOTALL)
    assert {"orders-sink", "orders-source"} <= set(re.findall(r"orders-\w+", listed))
    assert '"Worker has completed startup and is ready to handle requests."' in health


def _tutorial(home: EmptyHome, broker: KafkaServer, timings: list[str]) -> None:
    work = home.home / "tutorial"
    work.mkdir()
    text = home.adapted(TUTORIAL.read_text(encoding="utf-8"), broker.bootstrap_servers)
    with Shell(work, home.environment) as shell:
        shell.run(". ../connect/bin/activate")
        run_steps(shell, steps(text), work / "sales", timings)
