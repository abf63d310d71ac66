"""This package built as a wheel, and installed from the index into an empty environment, as README describes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from airflow_provider_connect.dev.own_server import free_ports
from airflow_provider_connect.runtime.spark.java_runtime import find_java

CHECKOUT = Path(__file__).resolve().parents[2]
CACHE = CHECKOUT / ".dev" / "cache"
NAME = "airflow-provider-connect["
CHECKOUTS_NAME = "'.[airflow]'"
INSTALLATION, FIRST_CONNECTORS = "## Install\n", "## A first source and a first sink\n"


def built_wheel(source: Path, target: Path) -> Path:
    """Built in ``source`` from a copy of the checkout: setuptools writes beside what it builds, and other tests read the checkout."""
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", "build")
    for folder in ("airflow_provider_connect", "dags", "spark_jobs"):
        shutil.copytree(CHECKOUT / folder, source / folder, ignore=ignored)
    for file in CHECKOUT.glob("*"):
        if file.is_file():
            shutil.copy(file, source)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = target.glob("*.whl")
    return found


class EmptyHome:
    """A user who has nothing but a Python, a Java, and the address of a package index: no checkout, no constraints, no settings, no cache
    of ours. ``wheel`` stands for what the index has under this package's name; everything else comes from the index, through a cache of
    downloads that outlasts the test. Airflow's ports are free ones, for other tests run at the same time."""

    def __init__(self, home: Path, wheel: Path) -> None:
        self.home, self.data, self._wheel = home, home / "data", wheel
        self.data.mkdir(parents=True)
        self.port, logs, trigger_logs = free_ports(3)
        index = {name: text for name, text in os.environ.items() if name.startswith("PIP_") or name.lower().endswith("_proxy")}
        self.environment = index | {
            "HOME": str(home),
            "PATH": os.pathsep.join([str(self._programs()), "/usr/bin", "/bin"]),
            "JAVA_HOME": str(find_java(cache=CACHE).home),
            "LANG": "C.UTF-8",
            "SPT_NOENV": "1",  # setproctitle, which Airflow's processes use, would write over HOME, by which they are found
            "PIP_CACHE_DIR": str(CACHE / "pip"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_COMPILE": "0",  # bytecode of a hundred packages of which Python then compiles the few that it imports
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__BASE_URL": f"http://localhost:{self.port}",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(logs),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_logs),
        }
        self.environment.pop("PIP_CONSTRAINT", None)

    def adapted(self, text: str, bootstrap: str) -> str:
        """A page's text with the addresses of this machine, and the wheel in place of the name on the index."""
        for theirs, ours in (
            ("kafka:9092", bootstrap),
            ("localhost:9092", bootstrap),
            ("localhost:8080", f"localhost:{self.port}"),
            ("/data", str(self.data)),
            (NAME, f"{self._wheel}["),
            (CHECKOUTS_NAME, f"'{self._wheel}[airflow]'"),
        ):
            text = text.replace(theirs, ours)
        return text

    def pieces(self, text: str, bootstrap: str) -> list[str]:
        """README's sections that install the packages, and that run the first connectors."""
        sections = [text.partition(f"\n{heading}")[2].partition("\n## ")[0] for heading in (INSTALLATION, FIRST_CONNECTORS)]
        assert f"pip install {CHECKOUTS_NAME}\n```\n" in sections[0], f"README no longer installs the package under {INSTALLATION!r}"
        assert sections[1], f"README no longer has {FIRST_CONNECTORS!r}"
        return [self.adapted(section, bootstrap) for section in sections]

    def end(self) -> None:
        """Ends the programs that were started in the background of this home."""
        mark = f"HOME={self.home}".encode()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    is_ours = mark in (folder / "environ").read_bytes().split(b"\0")
                    is_shell = (folder / "comm").read_text().strip() == "bash"
                    if is_ours and not is_shell:
                        os.kill(int(folder.name), sign)
                except OSError:
                    continue
            time.sleep(2)

    def _programs(self) -> Path:
        """A folder with ``python3`` alone: the Python that runs the tests, outside of its environment."""
        folder = self.home / "python"
        folder.mkdir()
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        (folder / "python3").symlink_to(Path(sys.base_prefix) / "bin" / f"python{version}")
        return folder
