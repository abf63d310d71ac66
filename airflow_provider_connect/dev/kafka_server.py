"""A real Apache Kafka broker (KRaft, one node) on the loopback interface, for development, demonstrations and tests.

Its data, settings and log are in one folder. A server with a folder that was used before continues with the same data and ports.
"""

import base64
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports, is_listening
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.jar_cache import KAFKA, announce, fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime, find_java
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent

_STARTED = "Kafka Server started"
_META = "meta.properties"
_SMALL = {
    "num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "16777216",
}
_LOG4J = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def kafka_jars(cache: Path, java: JavaRuntime, *, version: str = KAFKA, notify: Callable[[str], None] = announce) -> Path:
    """The folder with the jars of a broker of this ``version``, fetched once into the cache (44 MB, less than a minute)."""
    libraries = (f"org.apache.kafka:kafka_2.13:{version}", "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4")
    return fetch_jars(cache, f"kafka-{version}", libraries, java, notify=notify)


class KafkaServer:
    """One broker. ``start`` returns when the broker answers. A context manager starts and stops it.

    ``properties`` are added to small single-node settings, or override them. ``quick`` limits the JVM to its first compiler, which is
    faster to start; use it for tests, but not for measurements. Unless ``outlives_parent``, the broker is killed when the thread that
    started it ends.
    """

    def __init__(  # each argument is one setting of a server; all but the first have a default
        self,
        directory: Path,
        cache: Path,
        properties: Mapping[str, str] | None = None,
        *,
        heap: str = "512m",
        quick: bool = True,
        outlives_parent: bool = False,
        version: str = KAFKA,
        notify: Callable[[str], None] = announce,
    ) -> None:
        self.directory = directory.absolute()
        self.log_file = self.directory / "server.log"
        self._cache, self._notify, self._version = cache, notify, version
        self._heap, self._quick, self._outlives_parent = heap, quick, outlives_parent
        self._java: JavaRuntime | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._settings_file = self.directory / "server.properties"
        known = _read_properties(self._settings_file)
        self.port, self._controller_port = _ports_of(known) if known else free_ports(2)
        self._settings = {**_SMALL, **self._addresses(), **(properties or {})}

    @property
    def bootstrap_servers(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    @property
    def pid(self) -> int:
        """The broker's process id. Raises ConnectException if it does not run."""
        if self._process is None:
            raise ConnectException(f"The Kafka broker in {self.directory} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, timeout_seconds: float = 300) -> "KafkaServer":
        """Format the folder if it is new, start the broker, and wait until it answers."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._settings_file.write_text("".join(f"{name}={value}\n" for name, value in self._settings.items()))
        (self.directory / "log4j2.properties").write_text(_LOG4J)
        if not (self.directory / "data" / _META).exists():
            self._format()
        written = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._settings_file)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
                preexec_fn=None if self._outlives_parent else dies_with_parent(),  # noqa: PLW1509 - calls the kernel only
            )
        self._wait_until_started(self._process, written, timeout_seconds)
        return self

    def stop(self, timeout_seconds: float = 20) -> None:
        """Shut the broker down, and kill it if it does not end in time. Its data is kept."""
        self._end(signal.SIGTERM, timeout_seconds)

    def kill(self) -> None:
        """End the broker with SIGKILL. Its data is kept."""
        self._end(signal.SIGKILL, 10)

    def restart(self) -> None:
        """Shut down and start again with the same data and ports."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze the broker (SIGSTOP): connections stay open, but it does not answer."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Resume a frozen broker."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> "KafkaServer":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _addresses(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{self.port},CONTROLLER://{LOOPBACK}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.directory / "data"),
        }

    def _command(self, main: str, *arguments: str) -> list[str]:
        self._java = self._java or find_java(cache=self._cache)
        jars = kafka_jars(self._cache, self._java, version=self._version, notify=self._notify)
        options = [f"-Xmx{self._heap}", "-XX:+UseSerialGC" if self._quick else "-XX:+UseG1GC", "-Xshare:auto"]
        if self._quick:
            options.append("-XX:TieredStopAtLevel=1")
        options += [f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}", "-cp", f"{jars}/*"]
        return [str(self._java.executable), *options, main, *arguments]

    def _format(self) -> None:
        """Kafka's own tool, which takes a JVM, formats one folder for each version. Other folders are copies with ids of their own."""
        template = self._cache / f"kafka-{self._version}-format"
        if not template.exists():
            self._format_template(template)
        shutil.copytree(template, self.directory / "data", dirs_exist_ok=True)
        ids = {"version": "1", "node.id": "1", "cluster.id": _new_id(), "directory.id": _new_id()}
        (self.directory / "data" / _META).write_text("".join(f"{name}={value}\n" for name, value in ids.items()))

    def _format_template(self, template: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self._cache) as folder:
            data, settings = Path(folder) / "data", Path(folder) / "server.properties"
            settings.write_text("".join(f"{name}={value}\n" for name, value in {**self._addresses(), "log.dirs": str(data)}.items()))
            formatting = self._command("kafka.tools.StorageTool", "format", "-t", _new_id(), "-c", str(settings))
            done = subprocess.run(formatting, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ConnectException(f"The Kafka broker's folder {data} cannot be formatted: {done.stdout}{done.stderr}")
            (data / _META).unlink()
            with suppress(OSError):  # another process has created it meanwhile
                data.rename(template)

    def _wait_until_started(self, process: subprocess.Popen[bytes], written: int, timeout_seconds: float) -> None:
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline:
            with self.log_file.open("rb") as log:
                log.seek(written)
                text = log.read().decode(errors="replace")
            if _STARTED in text and is_listening(self.port):
                return
            if process.poll() is not None:
                self._process = None
                raise ConnectException(f"The Kafka broker ended with exit code {process.returncode}. {self.log_file}:\n{text[-2000:]}")
            time.sleep(0.05)
        self.kill()
        raise ConnectException(f"The Kafka broker did not start within {timeout_seconds} s; see {self.log_file}")

    def _end(self, sign: signal.Signals, timeout_seconds: float) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGCONT)  # a frozen process would not receive SIGTERM
        process.send_signal(sign)
        try:
            process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _new_id() -> str:
    """An id as Kafka writes it: a random UUID in URL-safe base64, without padding and without a leading hyphen."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()).startswith("-"):
        pass
    return text


def _read_properties(file: Path) -> dict[str, str]:
    if not file.exists():
        return {}
    return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)


def _ports_of(properties: Mapping[str, str]) -> tuple[int, int]:
    ports = [int(address.rpartition(":")[2]) for address in properties["listeners"].split(",")]
    return ports[0], ports[1]


if __name__ == "__main__":
    kafka_jars(cache_directory(), find_java())
