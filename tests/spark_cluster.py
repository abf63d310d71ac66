"""A Spark standalone cluster on the loopback interface: a master and workers, each a process, for trying what a cluster changes."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports, is_listening
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from airflow_provider_connect.runtime.spark.spark_home import find_spark
from tests.waiting import HANG_SECONDS


class SparkCluster:
    """``url`` is its master URL. As a context manager it starts and stops; it is killed with the process that started it."""

    def __init__(self, directory: Path, cache: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.directory = directory.absolute()
        self._port = free_ports(1)[0]
        self.url = f"spark://{LOOPBACK}:{self._port}"
        self._cache, self._workers, self._cores, self._memory = cache, workers, cores, memory
        self.master: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> "SparkCluster":
        """Starts the master, waits until it listens, then starts the workers and waits until it knows all of them."""
        at = ("--host", LOOPBACK, "--webui-port", "0")
        self.master = self._spawn("master", "org.apache.spark.deploy.master.Master", *at, "--port", str(self._port))
        deadline = time.monotonic() + HANG_SECONDS
        self._wait_until(lambda: is_listening(self._port), deadline)
        for number in range(1, self._workers + 1):
            name = f"worker-{number}"
            share = ("--cores", str(self._cores), "--memory", self._memory, "--work-dir", str(self.directory / name / "work"))
            self.workers.append(self._spawn(name, "org.apache.spark.deploy.worker.Worker", *at, *share, self.url))
        self._wait_until(lambda: self.log("master").count("Registering worker") >= self._workers, deadline)
        return self

    def stop(self) -> None:
        """Ends workers and master, and with the workers their executors."""
        for process in [*self.workers, *([self.master] if self.master else [])]:
            process.send_signal(signal.SIGTERM)
        for process in [*self.workers, *([self.master] if self.master else [])]:
            try:
                process.wait(HANG_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(HANG_SECONDS)
        self.master, self.workers = None, []

    def log(self, name: str) -> str:
        """The log of ``master`` or ``worker-1`` so far."""
        return (self.directory / name / "log").read_text(errors="replace")

    def __enter__(self) -> "SparkCluster":
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self, name: str, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
        java, spark = find_java(cache=self._cache), find_spark("local", cache=self._cache)
        folder = self.directory / name
        folder.mkdir(parents=True, exist_ok=True)
        ours = {"JAVA_HOME": str(java.home), "SPARK_HOME": str(spark.path), "SPARK_LOCAL_IP": LOOPBACK, "SPARK_DAEMON_MEMORY": "256m"}
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(
                [str(spark.path / "bin" / "spark-class"), main, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **ours},
                start_new_session=True,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
            )

    def _wait_until(self, is_so: Callable[[], bool], deadline: float) -> None:
        while not is_so():
            ended = [process.returncode for process in [self.master, *self.workers] if process is not None and process.poll() is not None]
            if ended or time.monotonic() > deadline:
                self.stop()
                raise ConnectException(f"The Spark cluster did not start; see the logs in {self.directory}")
            time.sleep(0.05)
