"""An SFTP server in a process of its own, on a free port of the loopback interface: asyncssh's, or OpenSSH's behind asyncssh's SSH.

``python -m tests.sftp_server PORT FOLDER [PROGRAM]`` is the process.
"""

from __future__ import annotations

import asyncio
import functools
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import asyncssh

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer, is_listening
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from tests.conftest import CACHE
from tests.debian_packages import MissingServerError, unpacked
from tests.waiting import wait_until

PASSWORD, PASSPHRASE = "pass of ada", "words before a key"


class SftpServer(OwnServer):
    """User ``ada`` logs in with ``PASSWORD`` or ``user_key``. Files lie in folders of ``data``."""

    def __init__(self) -> None:
        super().__init__(signal.SIGKILL)

    def start(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="sftp-"))
        self.data = self._folder / "data"
        self.data.mkdir()
        host_key, user_key = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
        (self._folder / "host").write_bytes(host_key.export_private_key())
        (self._folder / "users").write_bytes(user_key.export_public_key())
        self.user_key = user_key.export_private_key(passphrase=PASSPHRASE, rounds=50).decode()
        self.fingerprint = host_key.get_fingerprint("sha256")
        self.known_hosts = f"[{LOOPBACK}]:{self.port} {host_key.export_public_key().decode()}"
        self.again()
        return self

    def again(self) -> None:
        """Start the process; after ``die`` too."""
        assert self._folder is not None
        self._spawn([sys.executable, "-m", "tests.sftp_server", self.port, self._folder, *self._program()], self._folder / "log")
        wait_until(lambda: is_listening(self.port), (self._folder / "log").read_text)

    def die(self) -> None:
        """Connections and all."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def settings(self, folder: str) -> dict[str, str]:
        """A connector's. The folder is there."""
        (self.data / folder).mkdir(parents=True, exist_ok=True)
        login = {"sftp.username": "ada", "sftp.password": PASSWORD, "sftp.known.hosts": self.known_hosts}
        return {"url": f"sftp://{LOOPBACK}:{self.port}{self._root()}/{folder}", **login}

    def files(self, folder: str) -> dict[str, bytes]:
        """The files below a folder by their paths there."""
        root = self.data / folder
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def _program(self) -> list[Path]:
        return []

    def _root(self) -> str:
        return ""


class OpenSshServer(SftpServer):
    """OpenSSH's own server of files. Its paths are the host's."""

    def _program(self) -> list[Path]:
        program = openssh()
        assert program is not None
        return [program]

    def _root(self) -> str:
        return str(self.data)


@functools.cache
def openssh() -> Path | None:
    """OpenSSH's program, of the system or from Debian's package, unpacked into the cache; None where neither can be had."""
    program = Path("usr/lib/openssh/sftp-server")
    if (installed := Path("/", program)).exists():
        return installed
    try:
        return unpacked(CACHE / "openssh", ["openssh-sftp-server"]) / program
    except MissingServerError:
        return None


class _Login(asyncssh.SSHServer):  # type: ignore[misc]
    def __init__(self, program: str | None) -> None:
        self._program = program

    def password_auth_supported(self) -> bool:
        return True

    def validate_password(self, username: str, password: str) -> bool:
        return (username, password) == ("ada", PASSWORD)

    def session_requested(self) -> Any:
        """Asked for where asyncssh does not serve files itself."""
        return self._program is not None and _Piped(self._program)


class _Piped(asyncssh.SSHServerSession):  # type: ignore[misc]
    """A session that is another program's."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._input: asyncio.Queue[bytes] = asyncio.Queue()

    def connection_made(self, chan: Any) -> None:
        self._channel = chan

    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == "sftp"

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._serve())

    def data_received(self, data: bytes, datatype: Any) -> None:
        self._input.put_nowait(data)

    def eof_received(self) -> bool:
        self._input.put_nowait(b"")
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._input.put_nowait(b"")

    async def _serve(self) -> None:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(self._program, stdin=pipe, stdout=pipe, preexec_fn=dies_with_parent())
        assert child.stdin is not None
        output = asyncio.create_task(self._return(child.stdout))
        while data := await self._input.get():
            child.stdin.write(data)
            await child.stdin.drain()
        child.stdin.close()
        await output
        self._channel.exit(await child.wait())

    async def _return(self, output: Any) -> None:
        while data := await output.read(1 << 16):
            self._channel.write(data)


async def _serve(port: int, folder: Path, program: str | None) -> None:
    class Files(asyncssh.SFTPServer):  # type: ignore[misc]
        def __init__(self, channel: Any) -> None:
            super().__init__(channel, chroot=str(folder / "data").encode())

    keys = {"server_host_keys": [str(folder / "host")], "authorized_client_keys": str(folder / "users")}
    await asyncssh.listen(
        LOOPBACK, port, server_factory=lambda: _Login(program), sftp_factory=None if program else Files, encoding=None, config=None, **keys
    )
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else None))
