"""The peer: a real Kafka Connect worker, warm, raced with its defaults and tuned the way its experts do."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA_CONNECT, fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from tests.benchmark.contestants import Contestant
from tests.benchmark.measure import Cost, StandingProcess
from tests.benchmark.works import PEERS
from tests.java_libraries import PINS
from tests.waiting import HANG_SECONDS

VERSION = KAFKA_CONNECT
HEAP = "2g"
_WORKER_JARS = [
    f"org.apache.kafka:connect-runtime:{VERSION}",
    f"org.apache.kafka:connect-transforms:{VERSION}",
    f"org.apache.kafka:kafka-tools:{VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
]
_PLUGIN_JARS = [f"org.apache.kafka:connect-file:{VERSION}"]
_MIRROR_JARS = [f"org.apache.kafka:connect-mirror:{VERSION}"]
_LOG4J = """\
rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""
_CHECK_SECONDS = 1.0


def worker_jars(cache: Path, java: JavaRuntime) -> tuple[Path, Path]:
    """The folders of the worker's libraries and of its plugins, fetched where they are missing."""
    jars = fetch_jars(cache / "connect", f"worker-{VERSION}", _WORKER_JARS, java, pins=PINS)
    return jars, fetch_jars(cache / "connect" / "plugins", f"connect-file-{VERSION}", _PLUGIN_JARS, java, pins=PINS)


def mirror_plugins(cache: Path, java: JavaRuntime) -> Path:
    """The folder of MirrorMaker 2's connectors, fetched where it is missing: a worker's ``plugin.path``."""
    return fetch_jars(cache / "connect" / "mirror", f"connect-mirror-{VERSION}", _MIRROR_JARS, java, pins=PINS).parent


class ConnectWorker:
    """One distributed worker with its REST port. ``exactly_once`` is its ``exactly.once.source.support``; ``more`` are settings besides."""

    def __init__(
        self,
        directory: Path,
        cache: Path,
        java: JavaRuntime,
        bootstrap_servers: str,
        *,
        exactly_once: bool,
        more: Mapping[str, str] | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory, self._java, self._cache = directory, java, cache
        self._port = free_ports(1)[0]
        self._settings = _worker_settings(directory.name, bootstrap_servers, self._port, exactly_once=exactly_once) | dict(more or {})

    @contextmanager
    def started(self) -> Iterator["ConnectWorker"]:
        """The worker for the time of the ``with``, its REST API answering."""
        command = self._command()
        with (self._directory / "worker.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
            )
        try:
            self._wait_until_it_answers()
            yield self
        finally:
            self._process.terminate()
            try:
                self._process.wait(HANG_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self._port}"

    @property
    def file(self) -> Path:
        """Its worker file, from its first start on."""
        return self._directory / "worker.properties"

    @property
    def pid(self) -> int:
        return self._process.pid

    def request(self, method: str, path: str, body: object = None) -> object:
        """The JSON answer of the REST API. Raises urllib.error.HTTPError for a refusal."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.url}{path}", data=data, method=method, headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(asked, timeout=HANG_SECONDS) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def _command(self) -> list[str]:
        jars, plugins = worker_jars(self._cache, self._java)
        settings = {"plugin.path": str(plugins.parent), **self._settings}
        properties, log4j = self.file, self._directory / "log4j2.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        log4j.write_text(_LOG4J)
        options = [f"-Xmx{HEAP}", f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{jars}/*"]
        return [str(self._java.executable), *options, "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)]

    def _wait_until_it_answers(self) -> None:
        until = time.monotonic() + HANG_SECONDS
        while True:
            try:
                self.request("GET", "/connectors")
                return
            except (urllib.error.URLError, ConnectionError):
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError(f"the Kafka Connect worker does not answer; see {self._directory / 'worker.log'}") from None
                time.sleep(0.2)


class ConnectContestant:
    """A connector on the warm worker. ``tuning`` is what an expert would add to its config."""

    def __init__(self, name: str, worker: ConnectWorker, *, tuning: Mapping[str, str]) -> None:
        self.name = name
        self._worker, self._tuning = worker, tuning

    def send(self, connector: str, config: Mapping[str, str]) -> "ConnectRun":
        run = ConnectRun(self._worker, connector)
        self._worker.request("POST", "/connectors", {"name": connector, "config": {**config, **self._tuning}})
        return run


class ConnectRun:
    """A connector on the worker, from just before the request for it."""

    def __init__(self, worker: ConnectWorker, connector: str) -> None:
        self._worker, self._connector = worker, connector
        self._meter = StandingProcess(worker.pid)
        self._next_check = time.monotonic() + _CHECK_SECONDS

    def check(self) -> None:
        if time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + _CHECK_SECONDS
        try:
            status = json.dumps(self._worker.request("GET", f"/connectors/{self._connector}/status"))
        except urllib.error.HTTPError as error:
            if error.code == 404:  # not started yet
                return
            raise
        if "FAILED" in status:
            raise RuntimeError(f"Kafka Connect's connector {self._connector} failed: {status}")

    def end(self) -> Cost:
        cost = self._meter.cost()
        self._worker.request("DELETE", f"/connectors/{self._connector}")
        self._wait_until_gone()
        return cost

    def _wait_until_gone(self) -> None:
        until = time.monotonic() + HANG_SECONDS
        while self._connector in str(self._worker.request("GET", "/connectors")):
            if time.monotonic() > until:
                raise TimeoutError(f"Kafka Connect did not delete {self._connector} in 60 s")
            time.sleep(0.1)


@contextmanager
def lined_up(
    names: Sequence[str], ours: Contestant, worker: Callable[[], ConnectWorker], tuning: Mapping[str, str]
) -> Iterator[list[Contestant]]:
    """Those of ``names``. A worker is made, and up for the time of the ``with``, only where a peer is among them."""
    own = [ours] if ours.name in names else []
    peers = [name for name in names if name in PEERS]
    if not peers:
        yield own
        return
    with worker().started() as warm:
        yield [*(ConnectContestant(name, warm, tuning=tuning if PEERS[name] else {}) for name in peers), *own]


def _worker_settings(group: str, bootstrap_servers: str, port: int, *, exactly_once: bool) -> dict[str, str]:
    settings = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "listeners": f"http://{LOOPBACK}:{port}",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "exactly.once.source.support": "enabled" if exactly_once else "disabled",
    }
    for kind in ("config", "offset", "status"):
        settings |= {f"{kind}.storage.topic": f"{group}-{kind}", f"{kind}.storage.replication.factor": "1"}
    return settings
