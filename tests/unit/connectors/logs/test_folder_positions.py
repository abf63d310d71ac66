"""What copytruncate does between the steps of one scan: a copy whose original is cut meanwhile goes on where the original was read to."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from airflow_provider_connect.connectors.logs.files import LogFile
from airflow_provider_connect.connectors.logs.folder_positions import FolderPositions
from airflow_provider_connect.connectors.logs.position import Identity, Position, fingerprint

READ = b"".join(b"%d %s\n" % (number, b"x" * 90) for number in range(8))
WHOLE = READ + b"".join(b"%d %s\n" % (number, b"y" * 90) for number in range(8, 40))


class Folder:
    """``app.log``, read up to the end of READ, and copied with all of WHOLE; ``before_opening`` is called with each file's name."""

    def __init__(self, path: Path, read: bytes) -> None:
        self.path = path
        self.before_opening: Callable[[str], None] = lambda name: None
        self.positions = FolderPositions(
            str(path), lambda _: None, self.opened, retention=10**12, completion_time=10**12, completes_open_entries=False
        )
        (path / "app.log").write_bytes(read)
        file = self.listed("app.log")
        position = Position(len(read), fingerprint(read[:1024]), fingerprint(read[-1024:]), file.size, file.modified)
        self.positions.known[Identity(file.device, file.inode)] = position
        self.early = file
        with (path / "app.log").open("ab") as log:
            log.write(WHOLE[len(read) :])
        shutil.copyfile(path / "app.log", path / "app.log.1")

    def listed(self, name: str) -> LogFile:
        found = (self.path / name).stat()
        return LogFile(name, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns // 1000, "app.log")

    def opened(self, file: LogFile) -> BinaryIO | None:
        self.before_opening(file.name)
        return cast("BinaryIO", (self.path / file.name).open("rb"))

    def cut(self) -> None:
        os.truncate(self.path / "app.log", 0)

    def scanned(self, *files: LogFile) -> dict[str, int]:
        """What is to be read, by name, and from which position."""
        return {unread.file.name: unread.position.bytes for unread in self.positions.unread(files, now=self.early.modified)}


@pytest.fixture(params=[len(READ), len(WHOLE) // 2], ids=["little", "more"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Folder:
    """Of which less than a kilobyte was read, or more."""
    return Folder(tmp_path, WHOLE[: request.param])


@pytest.mark.parametrize("openings", range(5))
def test_cut_in_the_middle_of_a_scan(folder: Folder, openings: int) -> None:
    """The scan opens the log to recognise it, and again to compare the copy with it."""
    read, left = folder.early.size, openings

    def cut(name: str) -> None:
        nonlocal left
        if left == 0:
            folder.cut()
        left -= 1

    folder.before_opening = cut
    first = folder.scanned(folder.listed("app.log"), folder.listed("app.log.1"))
    assert first.get("app.log.1", read) == read
    folder.before_opening = lambda name: None
    folder.cut()
    assert folder.scanned(folder.listed("app.log"), folder.listed("app.log.1"))["app.log.1"] == read


def test_copied_after_the_log_was_listed(folder: Folder) -> None:
    """The log was shorter when the scan reached it than the copy is, which the scan reached later."""
    assert "app.log.1" not in folder.scanned(folder.early, folder.listed("app.log.1"))
    folder.cut()
    assert folder.scanned(folder.listed("app.log"), folder.listed("app.log.1"))["app.log.1"] == folder.early.size
