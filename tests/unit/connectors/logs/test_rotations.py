"""A log that is written, renamed, copied and cut, and compressed step by step, between any two polls of a task that is killed now and then.

Each seed is one sequence of steps. Left out is what ``copytruncate`` itself loses: nothing is written between a copy and its cut. A file
that was cut is not removed where less than a kilobyte of it may have been read: a limit, of which docs/logs.md speaks.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from airflow_provider_connect.connectors.logs.source import LogSourceConnector
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.task import SourceTask
from airflow_provider_connect.sdk.testing import MemorySourceContext, Offsets, partition_key
from tests.reaching import reaching

FOUND_ONCE = (142, 148, 439, 43620193)
"""Seeds that have doubled lines: a file was cut before its first line was read; a copy in the making got the inode of a file that had been
read in part and compressed away."""
STEPS = 120


class RotatedLog:
    """Lines ``«number» xxx`` in ``app.log`` and what becomes of it. Each change gets a later modification time."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.written = 0
        self._folder, self._chance = folder, chance
        self._has_numbers = chance.random() < 0.5  # else dates
        self._is_short = chance.random() < 0.5  # lines
        self._were_cut: set[int] = set()  # inodes
        self._path = folder / "app.log"
        self._seconds = 1_700_000_000.0
        self._days = 0
        self._remainder_text = b""  # of a line that is written in part
        self._old: BinaryIO | None = None  # a renamed file that the writer has not closed yet
        self._copy: tuple[Path, bool] | None = None  # a copy in the making, and whether it is whole
        self._compressed: tuple[Path, Path, bool] | None = None  # a file, what it becomes, and whether that is whole
        self._file = self._opened()

    def write(self) -> None:
        if self._copy is not None and self._copy[1]:
            return
        for _ in range(self._chance.randint(1, 8)):
            data, self._remainder_text = self._remainder_text or self._line(), b""
            if self._chance.random() < 0.15:
                cut = self._chance.randint(0, len(data) - 1)
                self._put(self._file, data[:cut])
                self._remainder_text = data[cut:]
                return
            self._put(self._file, data)

    def write_on(self) -> None:
        """Into the renamed file, which is closed then."""
        if self._old is not None:
            for _ in range(self._chance.randint(0, 3)):
                self._put(self._old, self._line())
            self._old.close()
            self._old = None

    def rename(self) -> None:
        if self._copy or self._old or self._compressed:
            return
        self._put(self._file, self._remainder_text)
        self._remainder_text = b""
        self._path.rename(self._rotated())
        if self._chance.random() < 0.5:
            self._old = self._file
        else:
            self._file.close()
        self._file = self._opened()

    def copy(self) -> None:
        """One step of copytruncate: a part is copied, all, the file is cut."""
        if self._compressed or self._old or self._remainder_text:
            return
        data = self._path.read_bytes()
        if self._copy is None and data:
            self._copy = self._rotated(), False
            self._write_whole(self._copy[0], data[: self._chance.randint(0, len(data))])
        elif self._copy is not None and not self._copy[1]:
            self._copy = self._copy[0], True
            self._write_whole(self._copy[0], data)
            if self._chance.random() < 0.5:
                shutil.copystat(self._path, self._copy[0])
        elif self._copy is not None:
            os.truncate(self._path, 0)
            self._stamp(self._path)
            self._were_cut.add(self._path.stat().st_ino)
            self._copy = None

    def compress(self) -> None:
        """One step of it: a part is written, all, the file is removed."""
        if self._copy or self._old:
            return
        if self._compressed is None:
            plain = [path for path in sorted(self._folder.glob("app.log?*")) if path.suffix != ".gz"]
            plain = [path for path in plain if not self._is_short or path.stat().st_ino not in self._were_cut]
            if plain:
                path = self._chance.choice(plain)
                self._compressed = path, Path(f"{path}.gz"), False
                data = gzip.compress(path.read_bytes())
                self._write_whole(self._compressed[1], data[: self._chance.randint(0, len(data))])
            return
        path, compressed, is_whole = self._compressed
        if is_whole:
            path.unlink()
            self._compressed = None
        else:
            compressed.write_bytes(gzip.compress(path.read_bytes()))
            shutil.copystat(path, compressed)
            self._compressed = path, compressed, True

    def finish(self) -> None:
        self._put(self._file, self._remainder_text)
        self._remainder_text = b""
        self.write_on()
        while self._copy:
            self.copy()
        while self._compressed:
            self.compress()
        self._file.close()

    def _line(self) -> bytes:
        number, self.written = self.written, self.written + 1
        return b"%d %b\n" % (number, b"x" * self._chance.choice([0, 5, 100, 1500] if self._is_short else [1100, 1500, 2500]))

    def _rotated(self) -> Path:
        if not self._has_numbers:
            self._days += 1
            return self._folder / f"app.log-2026{self._days:04}"
        numbered = [(int(path.name.removesuffix(".gz").rpartition(".")[2]), path) for path in self._folder.glob("app.log.*")]
        for number, path in sorted(numbered, reverse=True):
            self._move(path, self._folder / f"app.log.{number + 1}{'.gz' if path.suffix == '.gz' else ''}")
        return self._folder / "app.log.1"

    def _move(self, path: Path, new: Path) -> None:
        path.rename(new)
        if self._compressed is not None:
            plain, compressed, is_whole = self._compressed
            self._compressed = new if plain == path else plain, new if compressed == path else compressed, is_whole

    def _opened(self) -> BinaryIO:
        file = cast("BinaryIO", self._path.open("ab", buffering=0))
        self._stamp(self._path)
        return file

    def _put(self, file: BinaryIO, data: bytes) -> None:
        if data:
            file.write(data)
            self._stamp(file.fileno())

    def _write_whole(self, path: Path, data: bytes) -> None:
        path.write_bytes(data)
        self._stamp(path)

    def _stamp(self, file: Path | int) -> None:
        self._seconds += self._chance.randint(1, 3) / 1000
        os.utime(file, (self._seconds, self._seconds))


class KilledReader:
    """A task with its commits. What it has returned since the last one is forgotten when it is killed."""

    def __init__(self, config: dict[str, str]) -> None:
        self.config = config
        self.delivered: list[str] = []
        self._values: list[str] = []
        self._committed: Offsets = {}
        self._offsets: Offsets = {}
        self._task: SourceTask | None = None

    def poll(self) -> bool:
        """True: the run has ended."""
        if self._task is None:
            self._task = reaching(LogSourceConnector.task_class())
            self._task.initialize(MemorySourceContext(self.config, dict(self._committed)))
            self._task.start(LogSourceConnector().task_config(self.config))
        polled = self._task.poll()
        if polled is None:
            self.commit()
            self.kill()
            return True
        for batch in [polled] if isinstance(polled, Batch) else polled:
            assert isinstance(batch, Batch)
            assert batch.source_partition is not None
            assert batch.value is not None
            self._values += batch.value.to_pylist()
            self._offsets[partition_key(batch.source_partition)] = dict(batch.source_offset or {})
        return False

    def commit(self) -> None:
        self.delivered += self._values
        self._committed = {key: offset for key, offset in (self._committed | self._offsets).items() if offset}
        self._values, self._offsets = [], {}

    def kill(self) -> None:
        if self._task is not None:
            self._task.stop()
        self._task, self._values, self._offsets = None, [], {}


def rotate_and_read(folder: Path, seed: int) -> tuple[list[int], list[int]]:
    """The numbers of the lines that are lost, and of those that came twice."""
    chance = random.Random(seed)
    folder.mkdir()
    log = RotatedLog(folder, chance)
    follow = chance.choice(["true", "false"])
    config = {"paths": f"{folder}/*.log", "topic": "t", "batch.max.bytes": chance.choice(["64", "700", "8192"]), "follow": follow}
    reader = KilledReader({**config, "poll.interval.ms": "10", "line.timeout.ms": str(10**12)})
    changes = [log.write] * 6 + [log.write_on] * 2 + [log.rename] * 2 + [log.copy] * 4 + [log.compress] * 4
    for _ in range(STEPS):
        chance.choice([*changes, *[reader.poll] * 12, *[reader.commit] * 3, reader.kill])()
    log.finish()
    reader.kill()
    reader.config["follow"] = "false"
    for _ in range(3):
        while not reader.poll():
            pass
    shutil.rmtree(folder)
    counts = Counter(int(value.split()[0]) for value in reader.delivered)
    return [number for number in range(log.written) if number not in counts], [number for number, count in counts.items() if count > 1]


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param([*FOUND_ONCE, *range(40)], id="some"),
        pytest.param(range(first := 10_000 * int(os.environ.get("SEED", "1")), first + 2000), id="many", marks=pytest.mark.soak),
    ],
)
def test_each_line_is_read_once_however_a_log_is_rotated_between_polls(tmp_path: Path, seeds: list[int]) -> None:
    found = {seed: rotate_and_read(tmp_path / str(number), seed) for number, seed in enumerate(seeds)}
    assert {seed: wrong for seed, wrong in found.items() if wrong != ([], [])} == {}
