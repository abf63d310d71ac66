"""The lines that are moved: made once, cached, and the same on every machine. Knows nothing of Kafka."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from airflow_provider_connect.runtime.spark.cache import made_once

LINE_BYTES = 100
_DIGITS, _WORDS, _WORD_BYTES, _VOCABULARY = 12, 11, 8, 4096
_AT_ONCE = 200_000


def lines_file(directory: Path, records: int) -> Path:
    """A file of so many lines of 100 bytes and a line feed: the line's number, then words drawn from a vocabulary of 4,096.

    Such lines compress about as well as log lines do, and no two are equal, so that a lost or doubled one shows.
    """
    return made_once(directory / f"lines-{records}.txt", lambda path: _write_lines(path, records))


def last_line(path: Path) -> bytes:
    """The last line of a file of ``lines_file``, without its line feed."""
    with path.open("rb") as file:
        file.seek(-LINE_BYTES - 1, 2)
        return file.read(LINE_BYTES)


def _write_lines(path: Path, records: int) -> None:
    random = np.random.default_rng(20)
    vocabulary = random.integers(ord("a"), ord("z") + 1, (_VOCABULARY, _WORD_BYTES), dtype=np.uint8)
    vocabulary[:, 0] = ord(" ")
    with path.open("wb") as file:
        for first in range(0, records, _AT_ONCE):
            numbers = np.arange(first, min(first + _AT_ONCE, records))
            words = vocabulary[random.integers(0, _VOCABULARY, (len(numbers), _WORDS))].reshape(len(numbers), -1)
            ends = np.full((len(numbers), 1), ord("\n"), dtype=np.uint8)
            file.write(np.concatenate((_digits(numbers), words, ends), axis=1).tobytes())


def _digits(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    powers = 10 ** np.arange(_DIGITS - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)
