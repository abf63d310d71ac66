"""The records of one file, or of one split, in pieces of a few rows. Knows which piece is the last when it returns it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_connect.connectors.filesystem.formats.contract import Piece
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException


@dataclass(frozen=True, slots=True)
class Rows:
    """Some records; ``read`` is how many there are up to their end. None are left where ``is_last``."""

    values: pa.Array
    schema: Schema | None
    read: int
    is_last: bool


class PartReader:
    """``rows`` records were read before: they are passed over, with what could not be read among them."""

    def __init__(self, pieces: Iterator[Piece], rows: int, most_rows: int) -> None:
        self._pieces = pieces
        self._passing = rows
        self._most = most_rows
        self._read = rows
        self._ahead: list[Piece] = []  # one at most
        self._values: pa.Array | None = None
        self._schema: Schema | None = None

    def next(self) -> Rows:
        """Not to be called again behind the last. Raises DataException for a record, or for the rest of a file, that cannot be read: what
        comes next is what follows."""
        while self._values is None or not len(self._values):
            if not self._peek():
                return Rows(pa.array([], pa.string()), None, self._read, True)
            piece = self._ahead.pop()
            if isinstance(piece, DataException):
                raise piece
            self._values, self._schema = piece
        values, self._values = self._values.slice(0, self._most), self._values.slice(self._most)
        self._read += len(values)
        return Rows(values, self._schema, self._read, not len(self._values) and not self._peek())

    def _peek(self) -> bool:
        """Whether there is another piece with something in it."""
        while not self._ahead:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            if isinstance(piece, DataException):
                if not self._passing:
                    self._ahead.append(piece)
                continue
            passed = min(self._passing, len(piece[0]))
            self._passing -= passed
            if passed < len(piece[0]):
                self._ahead.append((piece[0].slice(passed), piece[1]))
        return True
