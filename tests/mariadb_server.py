"""A real MariaDB on the loopback interface for tests: the one on PATH, or else Debian's package, unpacked into the cache. Needs no root."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import pymysql

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer
from tests.debian_packages import unpacked
from tests.waiting import HANG_SECONDS

_PACKAGES = ("mariadb-server-core", "liburing2", "libaio1t64", "libaio1")  # the last two are one library of two releases
_TABLES = ("mysql_system_tables.sql", "mysql_system_tables_data.sql")


class MariadbServer(OwnServer):
    """Database ``shop``, user ``root`` without password. Its start raises MissingServerError. ``binary_log``: it writes one, of rows."""

    def __init__(self, cache: Path, *, binary_log: bool = False) -> None:
        super().__init__(signal.SIGTERM)
        self._cache = cache / "mariadb"
        self._binary_log = binary_log

    @property
    def url(self) -> str:
        """The JDBC address of ``shop``."""
        return f"jdbc:mariadb://{LOOPBACK}:{self.port}/shop"

    def connect(self) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        """A connection that commits each statement."""
        return pymysql.connect(host=LOOPBACK, port=self.port, user="root", database="shop", autocommit=True)

    def start(self) -> Self:
        program, share, environment = self._program()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="mariadb-"))
        for name in ("data", "tmp"):  # a server that starts removes the temporary tables of others from a folder that they share
            (folder / name).mkdir()
        options = [
            "--no-defaults",
            f"--datadir={folder / 'data'}",
            f"--tmpdir={folder / 'tmp'}",
            f"--lc-messages-dir={share}",
            "--innodb-buffer-pool-size=16M",
        ]
        command = [str(program), *options, *(["--user=root"] if os.geteuid() == 0 else [])]
        tables = "\n".join((share / name).read_text(encoding="utf-8") for name in _TABLES)
        text = f"CREATE DATABASE mysql;\nUSE mysql;\n{tables}\nCREATE DATABASE shop;\n"
        subprocess.run(
            [*command, "--bootstrap"], input=text.encode(), env=environment, capture_output=True, check=True, timeout=HANG_SECONDS
        )
        own = [f"--port={self.port}", f"--bind-address={LOOPBACK}", f"--socket={folder / 'socket'}", "--skip-name-resolve"]
        if self._binary_log:
            own += [f"--log-bin={folder / 'data' / 'binlog'}", "--binlog-format=ROW", "--server-id=1"]
        self._spawn([*command, *own], folder / "log", environment)
        self._wait(folder / "log")
        return self

    def _wait(self, log: Path) -> None:
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except pymysql.MySQLError:
                assert self._process is not None
                assert self._process.poll() is None, log.read_text(errors="replace")[-2000:]
                assert time.monotonic() < deadline, "MariaDB does not answer"
                time.sleep(0.1)

    def _program(self) -> tuple[Path, Path, dict[str, str]]:
        """The server, its folder of messages, and the environment that it finds its libraries in."""
        installed, share = shutil.which("mariadbd", path=f"{os.environ['PATH']}:/usr/sbin"), Path("/usr/share/mysql")
        if installed and (share / _TABLES[0]).exists():
            return Path(installed), share, dict(os.environ)
        root = unpacked(self._cache / "root", _PACKAGES)
        libraries = ":".join(str(folder) for folder in sorted({file.parent for file in root.rglob("*.so.*")}))
        return root / "usr/sbin/mariadbd", root / "usr/share/mysql", {**os.environ, "LD_LIBRARY_PATH": libraries}
