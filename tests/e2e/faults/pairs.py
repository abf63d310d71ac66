"""The exactly-once pairs of topics with files, lakes and logs by their kinds, and the servers that some of them need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from tests.azure_server import AzuriteServer, azurite
from tests.e2e.faults.file_environments import (
    DeltaSinkEnvironment,
    FileSystemSinkEnvironment,
    FileSystemSourceEnvironment,
    IcebergSinkEnvironment,
    Location,
    LogSourceEnvironment,
    PairEnvironment,
)
from tests.e2e.faults.steps import PAIRS
from tests.hdfs_server import HdfsServer
from tests.s3_servers import MotoServer, S3Server, VersityServer, gateway
from tests.sftp_server import SftpServer

_SERVERS: Final[Mapping[str, type[S3Server | AzuriteServer | HdfsServer | SftpServer]]] = {
    "hdfs sink": HdfsServer,
    "sftp sink": SftpServer,
    "moto sink": MotoServer,
    "versity sink": VersityServer,
    "azure sink": AzuriteServer,
    "moto delta sink": MotoServer,
}
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
        self._started: dict[str, S3Server | AzuriteServer | HdfsServer | SftpServer] = {}

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
        if kind not in _SERVERS:
            return _OWN[kind](folder, settings)
        if kind not in self._started:
            server = self._started[kind] = _SERVERS[kind]()
            self._servers.enter_context(server)
        server = self._started[kind]
        if kind == "moto delta sink" and isinstance(server, S3Server):
            return DeltaSinkEnvironment.make(folder, settings, server)
        return FileSystemSinkEnvironment.make(folder, settings, partial(Location.on, server))
