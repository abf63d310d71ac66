"""A real Kafka Connect 4.3.1 with the settings of a profile, on a broker of its own: what the recordings are made from."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA_CONNECT, fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from tests.contract.rest.profiles import worker_settings
from tests.contract.rest.server import Server
from tests.java_libraries import PINS
from tests.waiting import HANG_SECONDS

VERSION = KAFKA_CONNECT
_WORKER = tuple(f"org.apache.kafka:{name}:{VERSION}" for name in ("connect-runtime", "connect-transforms", "connect-mirror", "kafka-tools"))
_LOG = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
_FILE = f"org.apache.kafka:connect-file:{VERSION}"
_LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


@contextmanager
def connect_worker(profile: str, folder: Path, cache: Path) -> Iterator[Server]:
    """One distributed worker, fresh, its API answering. Its log is ``worker.log`` in ``folder``.

    Raises ValueError for the profile ``versions``: it needs jars whose classes were built to report the version of their own jar.
    """
    if profile == "versions":
        raise ValueError(
            "the profile versions cannot be recorded with the released jars: their classes all report the version of the worker"
        )
    java = find_java(cache=cache)
    jars = fetch_jars(cache / "connect", f"recorded-{VERSION}", (*_WORKER, _LOG), java, pins=PINS)
    plugins = fetch_jars(cache / "connect" / "plugins", f"connect-file-{VERSION}", (_FILE,), java, pins=PINS)
    files, port = folder / "data", free_ports(1)[0]
    files.mkdir(parents=True)
    with KafkaServer(folder / "kafka", cache) as kafka:
        settings = {key: value for key, value in worker_settings(profile, folder).items() if not key.startswith(("batch.", "plugin."))} | {
            "bootstrap.servers": kafka.bootstrap_servers,
            "listeners": f"http://{LOOPBACK}:{port}",
            "plugin.path": str(plugins.parent),
            "scheduled.rebalance.max.delay.ms": "0",
        }
        (folder / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        (folder / "log4j2.properties").write_text(_LOG4J)
        options = ["-Xmx1g", f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}", "-cp", f"{jars}/*"]
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        with (folder / "worker.log").open("wb") as log:
            worker = subprocess.Popen(
                [str(java.executable), *options, main, str(folder / "worker.properties")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
            )
        server = Server(f"http://{LOOPBACK}:{port}", kafka.bootstrap_servers, files)
        try:
            _wait_until_it_answers(server, worker, folder)
            yield server
        finally:
            worker.terminate()
            try:
                worker.wait(HANG_SECONDS)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def _wait_until_it_answers(server: Server, worker: "subprocess.Popen[bytes]", folder: Path) -> None:
    until = time.monotonic() + HANG_SECONDS
    while True:
        try:
            if server.call({"method": "GET", "path": "/health"})["status"] == 200:
                return
        except OSError:
            pass
        if worker.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"Kafka Connect does not answer; see {folder / 'worker.log'}")
        time.sleep(0.25)
