"""The rows of a CSV file as columns of texts, and the rows that cannot be read. Knows nothing of names and schemas."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

from airflow_provider_connect.connectors.filesystem.formats.content import Content
from airflow_provider_connect.connectors.filesystem.formats.contract import CHUNK_BYTES, KeptOpen
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.arrow import pa, pc

_MOST_COLUMNS: Final = 4096


class CsvRows:
    """Iterated once. Rows are batches of texts, null where a field is empty without quotes. In files of one column an empty line is a null,
    in others it is no row."""

    def __init__(self, file: KeptOpen, codec: str, encoding: str, delimiter: str) -> None:
        self._file, self._codec, self._encoding, self._delimiter = file, codec, encoding, delimiter
        self._bad: list[DataException] = []
        self._passed = 0  # rows that were returned
        self._left_out = 0  # rows that were not
        self._source = _Source(Content(file, codec, encoding))

    @property
    def fault(self) -> Exception | None:
        """What is wrong with the rest of the file."""
        return self._source.content.fault

    def take_bad(self) -> list[DataException]:
        """The rows that were left out since the last call."""
        bad, self._bad = self._bad, []
        return bad

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        head = Content(self._file, self._codec, self._encoding)
        if not head.read(1):
            self._source.content = head
            return
        reader = self._reader(ignores_empty=True)
        if len(reader.schema) == 1:
            self._bad.clear()
            self._left_out = 0
            reader = self._reader(ignores_empty=False)
        for batch in reader:
            rows = self._texts(self._without_end(batch))
            if rows.num_rows:
                yield rows

    def _without_end(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without the mark behind the content; and without the row that it is in, which is not whole."""
        if not self._source.is_over or not batch.num_rows:
            return batch
        last = batch.column(batch.num_columns - 1)[-1].as_py()
        if last is None or not last.endswith(self._source.end):
            return batch
        is_row = last == self._source.end and batch.num_columns == 1
        if not is_row and self.fault is None:
            number = self._passed + self._left_out + batch.num_rows
            self._leave_out(f"Row {number} has a quote that is not closed: it goes on to the end of the file")
        return batch.slice(0, batch.num_rows - 1)

    def _texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bytes as texts; a row that is not UTF-8 is left out."""
        names = batch.schema.names
        try:
            texts = pa.RecordBatch.from_arrays([column.cast(pa.string()) for column in batch.columns], names)
        except pa.ArrowInvalid:
            first = self._passed + self._left_out + 1
            wrong = sorted({row for column in batch.columns for row in _not_text(column, 0)})
            for row in wrong:
                self._leave_out(f"Row {first + row} is not text in the encoding of the file: {_shown(batch, row)}")
            mask = pc.invert(pc.is_in(pa.array(range(batch.num_rows)), pa.array(wrong)))
            batch = batch.filter(mask)
            texts = pa.RecordBatch.from_arrays([column.cast(pa.string()) for column in batch.columns], names)
        self._passed += texts.num_rows
        return texts

    def _leave_out(self, message: str) -> None:
        self._left_out += 1
        self._bad.append(DataException(message))

    def _reader(self, *, ignores_empty: bool) -> Any:  # Any: pyarrow has no types
        csv = import_module("pyarrow.csv")
        self._source = _Source(Content(self._file, self._codec, self._encoding))

        def note(row: Any) -> str:
            text, end, _ = row.text.partition(self._source.end.decode())
            if end:
                if text and self.fault is None:
                    self._leave_out(f"Row {row.number} has a quote that is not closed: {text[:100]}")
                return "skip"
            where = "" if row.number is None else f" {row.number}"
            self._leave_out(f"Row{where} has {row.actual_columns} columns, not {row.expected_columns}: {row.text[:100]}")
            return "skip"

        return csv.open_csv(
            pa.PythonFile(self._source, "r"),
            read_options=csv.ReadOptions(use_threads=False, block_size=CHUNK_BYTES, autogenerate_column_names=True),
            parse_options=csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=ignores_empty, invalid_row_handler=note
            ),
            convert_options=csv.ConvertOptions(
                column_types={f"f{number}": pa.binary() for number in range(_MOST_COLUMNS)},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )


class _Source(io.RawIOBase):
    """Content for the library, with a mark behind it: ``end`` is a row of its own, unless a quote is open or the content is cut."""

    def __init__(self, content: Content) -> None:
        super().__init__()
        self.content, self.end, self.is_over = content, uuid.uuid4().hex.encode(), False
        self._last = b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self.is_over:
            return b""
        data = self.content.read(size)
        if data:
            self._last = data[-1:]
            return data
        self.is_over = True
        return self.end if self.content.fault is not None or self._last in b"\r\n" else b"\n" + self.end


def _not_text(column: pa.Array, first: int) -> Iterator[int]:
    """The rows that are not UTF-8."""
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        if len(column) == 1:
            yield first
            return
        half = len(column) // 2
        yield from _not_text(column.slice(0, half), first)
        yield from _not_text(column.slice(half), first + half)


def _shown(batch: pa.RecordBatch, row: int) -> str:
    return str([column[row].as_py() for column in batch.columns])[:100]
