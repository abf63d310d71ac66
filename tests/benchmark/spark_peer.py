"""Another peer: a plain Spark batch job that does the same, as a user without this package would write it. Its start-up counts, too."""

import json
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_connect.dev.stack import SPARK_MASTER
from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from airflow_provider_connect.runtime.spark.submit_options import submit_options
from tests.benchmark.measure import Cost, StartedTree
from tests.java_libraries import PINS

SPARK = "spark"
APPLICATION = Path(__file__).with_name("spark_batch.py")
_NO_OTHERS = "jar:"  # this jar alone: Spark has what it needs
_LIBRARIES = [
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0:{_NO_OTHERS}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1:{_NO_OTHERS}",  # the newest that is there
    f"org.apache.kafka:kafka-clients:4.3.1:{_NO_OTHERS}",
    f"org.apache.spark:spark-avro_2.13:4.1.1:{_NO_OTHERS}",  # as of this
    f"org.apache.commons:commons-pool2:2.12.1:{_NO_OTHERS}",
]
_END_SECONDS = 600.0


class SparkContestant:
    """Runs ``spark_batch.py`` with a config as its arguments."""

    name = SPARK

    def __init__(self, directory: Path, cache: Path, java: JavaRuntime, bootstrap_servers: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._cache, self._bootstrap_servers = directory, cache, bootstrap_servers
        self._jars = fetch_jars(cache, "spark-kafka", _LIBRARIES, java, pins=PINS)

    def send(self, connector: str, config: Mapping[str, str]) -> "SparkRun":
        options = submit_options(SPARK_MASTER, cache=self._cache, scratch=self._directory, frame=True)
        asked = json.dumps({"bootstrap.servers": self._bootstrap_servers, **config})
        command = options.command(SPARK_MASTER, str(APPLICATION), asked)
        command[1:1] = ["--jars", ",".join(map(str, sorted(self._jars.iterdir())))]
        log = self._directory / f"{connector}.log"
        return SparkRun(connector, log, StartedTree(command, environ=options.environment(), log=log))


class SparkRun:
    """A spark-submit, from its start to the end of the last process that it started."""

    def __init__(self, connector: str, log: Path, tree: StartedTree) -> None:
        self._connector, self._log, self._tree = connector, log, tree

    def check(self) -> None:
        if self._tree.process.poll():
            raise RuntimeError(f"{self._connector} failed; the end of its log:\n{self._log.read_text(errors='replace')[-3000:]}")

    def end(self) -> Cost:
        self._tree.wait(_END_SECONDS)
        self.check()
        return self._tree.cost()
