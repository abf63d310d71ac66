"""A connection to an SFTP server with asyncssh, in a separate thread: trusted host keys, login, and calls from another thread.

The host's ssh configuration, known hosts, keys, agent and Kerberos ticket are not used.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import asyncssh

T = TypeVar("T")
_FINGERPRINTS: Final = re.compile(r"\s*SHA256:[A-Za-z0-9+/]{43}(?:[\s,]+SHA256:[A-Za-z0-9+/]{43})*\s*")
_CONNECT_SECONDS, _ALIVE_SECONDS, _UNANSWERED = 30, 15, 4


class WrongLoginError(ValueError):
    """A field of ``SftpLogin`` is invalid. ``name`` is the field. The message does not contain its value."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


@dataclass(frozen=True, slots=True)
class SftpLogin:
    """A login. ``host_keys`` are lines of a known_hosts file, or fingerprints ``SHA256:…``. Raises WrongLoginError."""

    host: str
    port: int
    user: str
    host_keys: str
    password: str | None = field(default=None, repr=False)
    private_key: str | None = field(default=None, repr=False)
    passphrase: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self._trusted()
        self._keys()

    async def connect(self) -> Any:  # Any: asyncssh.SSHClientConnection
        trusted, fingerprints = self._trusted()

        class Client(asyncssh.SSHClient):  # type: ignore[misc]
            def validate_host_public_key(self, host: str, addr: str, port: int, key: Any) -> bool:
                """Called for keys that are not in ``trusted``."""
                return key.get_fingerprint("sha256") in fingerprints

        return await asyncssh.connect(
            self.host,
            self.port,
            client_factory=Client,
            known_hosts=trusted,
            username=self.user,
            password=self.password,
            client_keys=self._keys() or None,
            config=None,
            agent_path=None,
            gss_host=None,
            gss_kex=False,
            gss_auth=False,
            host_based_auth=False,
            x509_trusted_certs=None,
            x509_trusted_cert_paths=[],
            connect_timeout=_CONNECT_SECONDS,
            login_timeout=_CONNECT_SECONDS,
            keepalive_interval=_ALIVE_SECONDS,
            keepalive_count_max=_UNANSWERED,
        )

    def _trusted(self) -> tuple[Any, frozenset[str]]:
        """Known hosts for asyncssh, and fingerprints. The known hosts are never empty, because asyncssh would then read the host's."""
        if _FINGERPRINTS.fullmatch(self.host_keys):
            return asyncssh.import_known_hosts("# none"), frozenset(re.split(r"[\s,]+", self.host_keys.strip()))
        try:
            trusted = asyncssh.import_known_hosts(self.host_keys)
        except (ValueError, asyncssh.Error):
            raise WrongLoginError("host_keys", "Neither lines of a known_hosts file nor fingerprints SHA256:….") from None
        return trusted, frozenset()

    def _keys(self) -> list[Any]:
        if self.private_key is None:
            return []
        try:
            return [asyncssh.import_private_key(self.private_key, self.passphrase)]
        except asyncssh.KeyEncryptionError:
            raise WrongLoginError("passphrase", "It does not open the private key.") from None
        except (asyncssh.KeyImportError, ValueError):
            raise WrongLoginError("private_key", "Not a private key, or its encryption is not supported.") from None


class SftpConnection:
    """Opened by the first call, and reopened by the next call after it was lost."""

    def __init__(self, login: SftpLogin) -> None:
        self._login = login
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._connection: Any = None
        self._client: Any = None

    def call(self, act: Callable[[Any], Awaitable[T]]) -> T:
        """Call ``act`` with asyncssh's SFTPClient. Must be called from one thread at a time. Raises asyncssh.Error and OSError.

        Raises OSError in the connection's own thread, which would wait for itself for ever: the garbage collector, which runs in any
        thread, closes streams that were left open.
        """
        if threading.current_thread() is self._thread:
            raise OSError("The thread of an SFTP connection cannot wait for its own answer")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name=f"sftp-{self._login.host}", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._call_in_loop(act), self._loop).result()

    def close(self) -> None:
        loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._close_connection(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

    async def _call_in_loop(self, act: Callable[[Any], Awaitable[T]]) -> T:
        try:
            if self._client is None:
                self._connection = await self._login.connect()
                self._client = await self._connection.start_sftp_client(path_errors="surrogateescape")
            return await act(self._client)
        except (asyncssh.DisconnectError, asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection, OSError):
            await self._close_connection()
            raise

    async def _close_connection(self) -> None:
        connection, self._connection, self._client = self._connection, None, None
        if connection is not None:
            connection.abort()
            await connection.wait_closed()
