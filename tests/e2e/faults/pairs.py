"""The exactly-once pairs of topics with files, lakes and logs by their kinds, and the servers that some of them need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from tests.azure_server import AzuriteServer, azurite
from tests.e2e.faults.file_environments import (
    DeltaSinkEnvironment,
    FileSystemSinkEnvironment,
    FileSystemSourceEnvironment,
    IcebergSinkEnvironment,
    LogSourceEnvironment,
    PairEnvironment,
    Server,
)
from tests.e2e.faults.steps import PAIRS
from tests.hdfs_server import HdfsServer
from tests.s3_servers import MotoServer, VersityServer, gateway
from tests.sftp_server import SftpServer

_FILES: Final = FileSystemSinkEnvironment.on
_ON_SERVERS: Final[Mapping[str, tuple[type[Server], Callable[[Path, Mapping[str, str], Any], PairEnvironment]]]] = {
    "hdfs sink": (HdfsServer, _FILES),
    "sftp sink": (SftpServer, _FILES),
    "moto sink": (MotoServer, _FILES),
    "versity sink": (VersityServer, _FILES),
    "azure sink": (AzuriteServer, _FILES),
    "moto delta sink": (MotoServer, DeltaSinkEnvironment.make),
}
"""The server of each kind, and what makes an environment on it. Any: that server."""
_OWN: Final[Mapping[str, Callable[[Path, Mapping[str, str]], PairEnvironment]]] = {
    "local sink": FileSystemSinkEnvironment.make,
    "iceberg sink": IcebergSinkEnvironment.make,
    "delta sink": DeltaSinkEnvironment.make,
    "files source": FileSystemSourceEnvironment.make,
    "logs source": LogSourceEnvironment.make,
}


class Pairs:
    """Makes environments. A server starts when it is needed first, and ends with ``servers``, or with the thread that asked for it."""

    def __init__(self, servers: ExitStack) -> None:
        self._servers = servers
        self._started: dict[str, Server] = {}

    @classmethod
    def kinds(cls) -> list[str]:
        """Those that can be had here."""
        return [kind for kind in PAIRS if cls.can_be_had(kind)]

    @staticmethod
    def can_be_had(kind: str) -> bool:
        """Versity's gateway needs Go, Azurite Node.js. Only a question about the gateway builds it, which takes minutes."""
        needed = {"versity sink": gateway, "azure sink": azurite}
        return kind not in needed or needed[kind]() is not None

    def make(self, kind: str, folder: Path, settings: Mapping[str, str]) -> PairEnvironment:
        """``settings`` are the worker's."""
        if kind not in _ON_SERVERS:
            return _OWN[kind](folder, settings)
        server_class, make = _ON_SERVERS[kind]
        if kind not in self._started:
            server = self._started[kind] = server_class()
            self._servers.enter_context(server)
        return make(folder, settings, self._started[kind])
