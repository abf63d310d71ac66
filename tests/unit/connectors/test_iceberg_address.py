"""The address of an Iceberg SQL catalog in PostgreSQL: nothing of the host's user logs in to the server that a config names."""

import socket
import struct
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy.exc import OperationalError

from airflow_provider_connect.connectors.lake.iceberg_catalog import open_catalog
from airflow_provider_connect.connectors.lake.iceberg_settings import CONFIG_DEF, database_address
from airflow_provider_connect.sdk import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config

_ASKS_FOR_TLS, _ASKS_FOR_KERBEROS = 80877103, 80877104
_KERBEROS = 7


def config(port: int) -> Config:
    given = {
        "iceberg.tables": "a.b",
        "iceberg.catalog.type": "sql",
        "iceberg.catalog.uri": f"jdbc:postgresql://127.0.0.1:{port}/lake?connect_timeout=10",
        "iceberg.catalog.warehouse": "s3://lake",
        "iceberg.catalog.jdbc.user": "me",
        "iceberg.catalog.jdbc.password": "1234",
    }
    return CONFIG_DEF.parse(given)


def serve(server: socket.socket, asked: list[int]) -> None:
    """Demands Kerberos of each client, as a server may that a config's author has. Ends with the server's socket."""
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection, suppress(struct.error, OSError):
                answer(connection, asked)


def answer(connection: socket.socket, asked: list[int]) -> None:
    while True:
        length, code = struct.unpack(">ii", connection.recv(8, socket.MSG_WAITALL))
        asked.append(code)
        if code not in (_ASKS_FOR_TLS, _ASKS_FOR_KERBEROS):
            break
        connection.sendall(b"N")
    connection.recv(length - 8, socket.MSG_WAITALL)
    connection.sendall(b"R" + struct.pack(">ii", 8, _KERBEROS))
    connection.recv(1)


def test_a_server_that_demands_kerberos_gets_no_ticket() -> None:
    asked: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, args=(server, asked), daemon=True).start()
        with pytest.raises(OperationalError, match='authentication method requirement "!gss,!sspi" failed'):
            open_catalog(config(server.getsockname()[1]), AllowedPaths(()))
        server.shutdown(socket.SHUT_RDWR)
    assert asked
    assert _ASKS_FOR_KERBEROS not in asked


def test_no_file_of_the_user_is_read_for_a_password_or_a_certificate() -> None:
    options = parse_qs(urlsplit(database_address(config(5432), AllowedPaths(()))).query)
    assert options["gssencmode"] == ["disable"]
    assert options["passfile"] == ["/dev/null"]
    assert not any(Path(options[name][0]).exists() for name in ("sslcert", "sslkey"))
