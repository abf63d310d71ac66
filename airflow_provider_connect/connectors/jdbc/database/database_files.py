"""The host's files that a database URL reaches: SQLite's file, a local server's socket, TLS files, and files that a driver may open by
itself.

All of them must be below the worker's allowed folders (``sdk.allowed_paths``). Knows nothing of connections.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import stat
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import unquote

from airflow_provider_connect.connectors.jdbc.database.database_options import file_options
from airflow_provider_connect.connectors.jdbc.database.database_url import URL, DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.database.other_databases import unsupported_reason
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import SETTING, AllowedPaths
from airflow_provider_connect.sdk.config_def import ConfigValue

_OPENS_FILES: Final = ("mysqldb", "mariadbconnector", "mysqlconnector")  # at the server's request (LOCAL INFILE), or a socket for localhost
_HOST: Final = re.compile(r"[A-Za-z0-9_.:,%\[\]-]+")


def add_path_errors(values: Iterable[ConfigValue], allowed: AllowedPaths) -> None:
    """Add an error to a URL that reaches files outside of the worker's allowed folders. Opens no database."""
    for value in values:
        if value.name == URL and value.value and not value.errors:
            try:
                with_resolved_paths(parse_url(str(value.value)).within(allowed))
            except ConfigException as error:
                value.errors += error.errors


def with_resolved_paths(url: DatabaseUrl) -> DatabaseUrl:
    """The same database with paths of the host resolved. Raises ConfigException for a path outside of the allowed folders."""
    if url.dialect.is_file:
        return dataclasses.replace(url, database=url.allowed.resolve(URL, url.database or ""))
    url = _with_files_resolved(url)
    if url.dialect.uses_libpq:
        return _with_sockets_resolved(url)
    if not url.allowed.allow_all:
        _refuse_unchecked_drivers(url)
    return url


def _with_files_resolved(url: DatabaseUrl) -> DatabaseUrl:
    """Resolve the paths of certificates and keys. A relative path is relative to the worker's folder."""
    found = {name: url.allowed.resolve(URL, path) for name, path in file_options(url.dialect, url.options).items()}
    return dataclasses.replace(url, options={**url.options, **found}) if found else url


@contextlib.contextmanager
def guarded_files(url: DatabaseUrl) -> Iterator[DatabaseUrl]:
    """The URL to connect to inside the block. Raises ConfigException at the block's end if SQLite has opened a file that is not the URL's,
    such as the target of a new link. A new file is created here, without following links."""
    if not url.dialect.is_file:
        yield with_resolved_paths(url)
        return
    folder, name = url.allowed.folder_of(URL, url.database or "")
    path = os.path.join(folder.path, name)
    mode = url.options.get("mode", "rwc")
    if mode == "rwc":
        with contextlib.suppress(FileExistsError, FileNotFoundError):  # the driver reports a missing folder
            os.close(folder.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
        mode = "rw"
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISLNK(folder.stat(name).st_mode):
            raise url.allowed.refusal(URL, url.database or "")
    yield dataclasses.replace(url, database=path, options={**url.options, "mode": mode})
    if not _has_open(path):
        raise url.allowed.refusal(URL, url.database or "")


def _has_open(path: str) -> bool:
    """Whether this process has opened the file at exactly this path. Opens no descriptor, because closing a second descriptor of the file
    would drop SQLite's locks."""
    descriptors = "/proc/self/fd"
    if not os.path.isdir(descriptors):  # not Linux: check that the path is still not a link
        return os.path.realpath(path) == path
    for number in os.listdir(descriptors):
        with contextlib.suppress(OSError):
            if os.readlink(f"{descriptors}/{number}") == path:
                return True
    return False


def _with_sockets_resolved(url: DatabaseUrl) -> DatabaseUrl:
    """Resolve the folders of sockets. libpq accepts such a folder as a host, and without a host uses its default folder."""
    named = url.options.get("host")
    given = (unquote(url.host or "") if named is None else named).split(",")
    hosts = [_socket_resolved(url, host.strip()) for host in given]
    if not any(host.startswith("/") for host in hosts):
        return url
    if named is None and len(hosts) > 1:  # each host has a port, which is not part of a path
        raise ConfigException.of(
            URL, f"{url.dialect.name}://…", "A socket's folder cannot be one of several hosts here. Name them with ?host="
        )
    return dataclasses.replace(url, options={**url.options, "host": ",".join(hosts)})


def _socket_resolved(url: DatabaseUrl, host: str) -> str:
    if host.startswith("/"):
        return url.allowed.resolve(URL, host)
    if (not host or host.startswith("@")) and not url.allowed.allow_all:
        reason = f"A local socket is reached only by its folder, which must be below the worker setting {SETTING}. Name a host."
        raise ConfigException.of(URL, f"{url.dialect.name}://{host}", reason)
    return host


def _refuse_unchecked_drivers(url: DatabaseUrl) -> None:
    if not url.dialect.is_known:
        others = f"SQLAlchemy dialects of others are used only where {SETTING} is /, since their drivers may open files of the worker."
        raise ConfigException.of(URL, f"{url.dialect.name}:…", f"{unsupported_reason(url.dialect.name)} {others}")
    if url.driver in _OPENS_FILES:
        reason = (
            f"This driver may open files of the worker by itself, and is only used where the worker setting {SETTING} is /. "
            "Leave the driver out of the URL: then pymysql is used."
        )
        raise ConfigException.of(URL, f"{url.dialect.name}+{url.driver}:…", reason)
    if url.host is None or not _HOST.fullmatch(url.host):
        raise ConfigException.of(URL, f"{url.dialect.name}://…", "The host must be a name or an address.")
