"""The other side: one run of a connector as the product starts it, by spark-submit, its start-up included."""

import itertools
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_connect.dev.stack import SPARK_MASTER
from airflow_provider_connect.runtime.model.run import RunSpec, RunState
from airflow_provider_connect.runtime.spark.run_directory import RunDirectory
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.benchmark.measure import Cost, StartedTree

APPLICATION = Path(__file__).parents[2] / "spark_jobs" / "run_connector.py"
_END_SECONDS = 60.0


class OurContestant:
    """Runs connectors with the product's own defaults. ``exactly_once`` is the worker's ``exactly.once.source.support``."""

    def __init__(self, name: str, directory: Path, cache: Path, bootstrap_servers: str, *, exactly_once: bool) -> None:
        self.name = name
        self._directory, self._cache = directory, cache
        self._settings = _worker_settings(directory.name, bootstrap_servers, exactly_once=exactly_once)
        self._numbers = itertools.count(1)

    def send(self, connector: str, config: Mapping[str, str]) -> "OurRun":
        run_id = f"run-{next(self._numbers)}"
        directory = RunDirectory.make(self._directory, connector, run_id)
        directory.write_spec(RunSpec(connector, self._settings, run_id, define=config))
        options = submit_options(SPARK_MASTER, cache=self._cache, scratch=directory.scratch())
        command = options.command(SPARK_MASTER, str(APPLICATION), "--run-dir", str(directory.path))
        return OurRun(connector, directory, StartedTree(command, environ=options.environment(), log=directory.path / "spark.log"))


class OurRun:
    """A spark-submit, from its start to the end of the last process that it started."""

    def __init__(self, connector: str, directory: RunDirectory, tree: StartedTree) -> None:
        self._connector, self._directory, self._tree = connector, directory, tree

    def check(self) -> None:
        if self._tree.process.poll() is not None:
            self._raise_failure()

    def end(self) -> Cost:
        self._tree.wait(_END_SECONDS)
        self._raise_failure()
        self._directory.remove_run()
        return self._tree.cost()

    def _raise_failure(self) -> None:
        result = self._directory.result()
        if result is None or result.state is not RunState.DONE:
            log = (self._directory.path / "spark.log").read_text(errors="replace")
            raise RuntimeError(f"the run of {self._connector} ended with {result}; the end of its log:\n{log[-3000:]}")


def _worker_settings(group: str, bootstrap_servers: str, *, exactly_once: bool) -> dict[str, str]:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "exactly.once.source.support": "enabled" if exactly_once else "disabled",
        "connectors.allowed.paths": "/",
    }
    for kind in ("config", "offset", "status", "batch"):
        settings |= {f"{kind}.storage.topic": f"{group}-{kind}", f"{kind}.storage.replication.factor": "1"}
    return settings
