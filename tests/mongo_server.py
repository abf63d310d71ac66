"""A server that speaks MongoDB's protocol, a process on a free port of the loopback interface: FerretDB over SQLite, where Go can build it.

MongoDB itself is on none of the registries that tests fetch from. FerretDB has no change streams.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer
from airflow_provider_connect.runtime.spark.cache import made_once
from tests.conftest import CACHE
from tests.package_clients import fetch
from tests.waiting import HANG_SECONDS

VERSION: Final = "v1.24.0"
_MODULE: Final = f"github.com/FerretDB/FerretDB@{VERSION}"


class MissingGoError(Exception):
    """The server cannot be built here."""


class MongoServer(OwnServer):
    """Takes all clients, without credentials."""

    def __init__(self) -> None:
        super().__init__(signal.SIGKILL)

    def start(self) -> Self:
        """Raises MissingGoError."""
        program = _program()
        self._folder = Path(tempfile.mkdtemp(prefix="mongo-"))
        (self._folder / "data").mkdir()
        where = ["--sqlite-url", f"file:{self._folder}/data/", "--state-dir", self._folder, "--listen-addr", f"{LOOPBACK}:{self.port}"]
        command = [program, "--handler", "sqlite", *where, "--debug-addr", "-", "--telemetry", "disable"]
        self._spawn(command, self._folder / "log", {**os.environ, "DO_NOT_TRACK": "1"})
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            try:
                self.client().admin.command("ping")
            except PyMongoError as error:
                if time.monotonic() > deadline:
                    raise AssertionError((self._folder / "log").read_text()) from error
                time.sleep(0.1)
            else:
                return self

    @property
    def uri(self) -> str:
        return f"mongodb://{LOOPBACK}:{self.port}"

    def client(self) -> MongoClient[dict[str, Any]]:
        return MongoClient(self.uri, serverSelectionTimeoutMS=5000)


@functools.cache
def _program() -> Path:
    if shutil.which("go") is None:
        raise MissingGoError("there is no Go to build FerretDB with")
    try:
        return made_once(CACHE / f"ferretdb-{VERSION}", _build) / "ferretdb"
    except subprocess.CalledProcessError as error:
        raise MissingGoError(f"FerretDB cannot be built: {error.stderr}") from error


def _build(folder: Path) -> None:
    """From a copy of the module, which wants its version in a file that its releases do not have."""
    folder.mkdir()
    found = fetch(["go", "mod", "download", "-json", _MODULE], folder)
    found.check_returncode()
    source = folder / "source"
    shutil.copytree(json.loads(found.stdout)["Dir"], source, copy_function=shutil.copyfile)
    for path in (source, *source.rglob("*")):  # folders of Go's cache are read-only
        if path.is_dir():
            path.chmod(0o755)
    (source / "build" / "version" / "version.txt").write_text(f"{VERSION}\n")
    fetch(["go", "build", "-o", str(folder / "ferretdb"), "./cmd/ferretdb"], source).check_returncode()
    shutil.rmtree(source)
