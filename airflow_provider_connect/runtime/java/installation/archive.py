"""Unpacks archives of jars (zip, tar) from Confluent Hub and Maven. Writes nothing outside the folder or beyond the limits.

The names, links and sizes that an archive declares are not trusted.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, cast

from airflow_provider_connect.errors import BadRequestException, ConnectException
from airflow_provider_connect.runtime.plugins.catalog.plugin_metadata import escaping_member

ENDINGS: Final = (".zip", ".tar", ".tar.gz", ".tgz", ".jar")
MOST_BYTES: Final = 2 << 30
MOST_FILES: Final = 20_000
_PIECE: Final = 1 << 20
_MOST_READ: Final = 4 << 20
_MOST_HEADERS: Final = 4096  # bytes for each file
_MOST_DIRECTORY: Final = 32 << 20
_LONGEST_END: Final = (1 << 16) + 200  # of a zip, whose last record may contain a comment
_IN_ZIP64: Final = 0xFFFFFFFF
_PACKED: Final[dict[bytes, Callable[..., Any]]] = {b"\x1f\x8b": gzip.GzipFile, b"BZh": bz2.BZ2File, b"\xfd7zXZ\0": lzma.LZMAFile}


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    is_folder: bool
    is_file: bool  # false for a link or a device
    open: Callable[[], IO[bytes]]


def unpack(archive: Path, folder: Path) -> None:
    """Fill the empty ``folder`` with the files of ``archive``. A single top-level folder is stripped.

    Raises BadRequestException for a file that is not an archive. Raises ConnectException for an archive with links, with members outside of
    the folder, or with more than ``MOST_FILES`` files or ``MOST_BYTES`` bytes. ``folder`` may then contain some files.
    """
    try:
        with _members(archive) as members:
            _check(archive, members)
            top = _only_top(members)
            left = MOST_BYTES
            for member in members:
                path = folder.joinpath(*_parts(member.name)[1 if top else 0 :])
                if member.is_folder:
                    path.mkdir(parents=True, exist_ok=True)
                    continue
                path.parent.mkdir(parents=True, exist_ok=True)
                left -= _copy(member, path, left, archive)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError, ValueError, lzma.LZMAError) as error:
        raise BadRequestException(f"{archive} cannot be read as an archive: {error}") from error
    except OSError as error:
        raise ConnectException(f"{archive} cannot be unpacked: {error.strerror or error}") from error


@contextmanager
def _members(archive: Path) -> Iterator[list[_Member]]:
    if archive.name.endswith((".zip", ".jar")):
        _check_directory(archive)
        with zipfile.ZipFile(archive) as opened:
            yield [_zipped(opened, member) for member in opened.infolist()]
        return
    with _unpacked(archive) as stream, tarfile.open(fileobj=cast(IO[bytes], _Bounded(stream, archive)), mode="r:") as tar:
        yield [_in_tar(tar, member) for _, member in zip(range(MOST_FILES + 1), tar, strict=False)]


def _check_directory(archive: Path) -> None:
    """Refuses a zip with a large directory, because the library would read the directory in one piece."""
    with archive.open("rb") as file:
        file.seek(max(0, archive.stat().st_size - _LONGEST_END))
        end = file.read()
    at, at_large = end.rfind(b"PK\5\6"), end.rfind(b"PK\6\6")
    sizes = [struct.unpack_from("<L", end, at + 12)[0]] if 0 <= at <= len(end) - 16 else []
    sizes += [struct.unpack_from("<Q", end, at_large + 40)[0]] if 0 <= at_large <= len(end) - 48 else []
    if any(_MOST_DIRECTORY < size != _IN_ZIP64 for size in sizes):
        raise ConnectException(f"{archive} is not installed: it has more than {MOST_FILES} files")


def _unpacked(archive: Path) -> IO[bytes]:
    with archive.open("rb") as file:
        magic = file.read(6)
    for beginning, opened in _PACKED.items():
        if magic.startswith(beginning):
            return cast(IO[bytes], opened(archive))
    return archive.open("rb")


class _Bounded:
    """The stream that ``tarfile`` reads. Limits single reads, because ``tarfile`` reads long names and headers in one piece."""

    def __init__(self, stream: IO[bytes], archive: Path) -> None:
        self._stream, self._archive = stream, archive
        self.close, self.tell = stream.close, stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_READ:
            raise ConnectException(f"{self._archive} is not installed: one of its headers has more than {_MOST_READ >> 20} MiB")
        return self._stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        if position > MOST_BYTES + MOST_FILES * _MOST_HEADERS:
            raise ConnectException(f"{self._archive} is not installed: it unpacks to more than {MOST_BYTES >> 20} MiB")
        return self._stream.seek(position, whence)


def _zipped(opened: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Member:
    mode = stat.S_IFMT(member.external_attr >> 16)
    is_plain = mode in (0, stat.S_IFREG, stat.S_IFDIR)
    return _Member(member.filename, member.is_dir(), is_plain and not member.is_dir(), lambda: opened.open(member))


def _in_tar(tar: tarfile.TarFile, member: tarfile.TarInfo) -> _Member:
    def content() -> IO[bytes]:
        found = tar.extractfile(member)
        assert found is not None
        return found

    return _Member(member.name, member.isdir(), member.isreg(), content)


def _check(archive: Path, members: list[_Member]) -> None:
    if len(members) > MOST_FILES:
        raise ConnectException(f"{archive} is not installed: it has more than {MOST_FILES} files")
    escaping = escaping_member(member.name for member in members)
    if escaping is not None:
        raise ConnectException(f"{archive} is not installed: its member {escaping} leads out of it")
    nameless = next((member.name for member in members if not (member.is_folder or _parts(member.name))), None)
    if nameless is not None:
        raise ConnectException(f"{archive} is not installed: its member {nameless!r} has no name")
    odd = next((member.name for member in members if not (member.is_file or member.is_folder)), None)
    if odd is not None:
        raise ConnectException(f"{archive} is not installed: its member {odd} is neither a file nor a folder")


def _only_top(members: list[_Member]) -> bool:
    """Whether all files are in one top-level folder."""
    files = [_parts(member.name) for member in members if member.is_file]
    return len({path[0] for path in files}) == 1 and all(len(path) > 1 for path in files)


def _parts(name: str) -> list[str]:
    return [part for part in re.split(r"[/\\]", name) if part not in ("", ".")]


def _copy(member: _Member, path: Path, left: int, archive: Path) -> int:
    """Copy a member. Returns its size in bytes. Raises OSError if there was already a member with the same name."""
    copied = 0
    with member.open() as content, path.open("xb") as file:
        while piece := content.read(_PIECE):
            copied += len(piece)
            if copied > left:
                raise ConnectException(f"{archive} is not installed: it unpacks to more than {MOST_BYTES >> 20} MiB")
            file.write(piece)
    return copied
