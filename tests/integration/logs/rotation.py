"""Writes numbered lines to a log and rotates it in every way: ``python -m tests.integration.logs.rotation FOLDER SEED``.

It ends with its standard input, and prints how many lines it has written. Files that are rotated stay: what is missing a reader has lost.
"""

from __future__ import annotations

import gzip
import os
import random
import select
import shutil
import sys
import time
from pathlib import Path

NAME = "app.log"
LINES_AT_ONCE = 40


class RotatedLog:
    """Lines ``«number» xxx`` of lengths that ``chance`` gives, in ``app.log``, ``app.log.1`` … ``app.log.7.gz``."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.path = folder / NAME
        self.written = 0
        self._folder, self._chance = folder, chance
        self._file = self.path.open("ab", buffering=0)

    def write(self, count: int) -> None:
        """Some lines, now and then one in two parts."""
        for _ in range(count):
            line = b"%d %b\n" % (self.written, b"x" * self._chance.randint(0, 200))
            cut = self._chance.randint(0, len(line)) if self._chance.random() < 0.1 else 0
            self._file.write(line[:cut])
            self._file.write(line[cut:])
            self.written += 1

    def rotate(self) -> None:
        """Rename and write on for a while, or copy and cut; some are compressed."""
        self._shift()
        if self._chance.random() < 0.5:
            self.path.rename(self._folder / f"{NAME}.1")
            self.write(self._chance.randint(0, 5))
            self._file.close()
            self._file = self.path.open("ab", buffering=0)
        else:
            shutil.copyfile(self.path, self._folder / f"{NAME}.1")
            time.sleep(self._chance.choice([0, 0.02]))
            os.truncate(self.path, 0)
        if self._chance.random() < 0.4:
            self._compress(self._chance.choice(list(self._folder.glob(f"{NAME}.*[0-9]"))))

    def _shift(self) -> None:
        """``app.log.2`` becomes ``app.log.3``, the oldest first."""
        rotated = [(int(path.name.removesuffix(".gz").rpartition(".")[2]), path) for path in self._folder.glob(f"{NAME}.*")]
        for number, path in sorted(rotated, reverse=True):
            path.rename(self._folder / f"{NAME}.{number + 1}{'.gz' if path.suffix == '.gz' else ''}")

    def _compress(self, path: Path) -> None:
        """As gzip does it: in pieces, and the file that was is removed at the end."""
        with path.open("rb") as plain, gzip.open(f"{path}.gz", "wb") as compressed:
            while piece := plain.read(4096):
                compressed.write(piece)
        shutil.copystat(path, f"{path}.gz")
        time.sleep(self._chance.choice([0, 0.02]))
        path.unlink()


def main(folder: str, seed: str) -> None:
    chance = random.Random(int(seed))
    log = RotatedLog(Path(folder), chance)
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(chance.randint(1, 10)):
            log.write(chance.randint(1, LINES_AT_ONCE))
            time.sleep(chance.uniform(0, 0.05))
        log.rotate()
    print(log.written)


if __name__ == "__main__":
    main(*sys.argv[1:])
