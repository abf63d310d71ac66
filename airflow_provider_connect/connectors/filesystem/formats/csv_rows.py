"""The rows of a CSV file as columns of texts, and the unreadable rows. Knows nothing of names and schemas."""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any, Final

from airflow_provider_connect.connectors.filesystem.formats.content import Content
from airflow_provider_connect.connectors.filesystem.formats.contract import CHUNK_BYTES, NonClosingFile
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.expansion import MOST_COLUMNS, MOST_FAULTS, is_wrong_format, limit_faults, wrong_format
from airflow_provider_connect.errors import DataException

_HEAD_BYTES: Final = 1 << 16
_ROWS_ALONE: Final = 64
_MAX_ROW_BYTES: Final = 2 * CHUNK_BYTES
"""Maximum size of a row, because the library cannot read rows longer than two of its blocks."""
_TOO_LONG: Final = "straddl"
"""Part of the library's error message for a row that is too long."""
_QUOTED: Final = re.compile(b'"[^"]*("|$)')


class CsvRows:
    """Can be iterated once. Yields batches of text columns. An empty field without quotes is null. With one column, an empty line is null;
    with more columns, it is ignored."""

    def __init__(self, file: NonClosingFile, codec: str | None, encoding: str, delimiter: str) -> None:
        self._file, self._codec, self._encoding, self._delimiter = file, codec, encoding, delimiter
        self._bad: list[DataException] = []  # the first errors since the last call of take_errors
        self._bad_count = 0
        self._passed = 0  # rows returned
        self._skipped_rows = 0  # rows skipped because of errors
        self._has_too_many_errors = False
        self._is_second = False  # whether the file is read a second time, without rows that are too long for the library
        self._again = (0, 0)  # rows that were returned and skipped at first
        self._source = _Source(Content(file, codec, encoding))

    @property
    def fault(self) -> Exception | None:
        """The reason why the rest of the file cannot be read."""
        return self._source.content.fault

    def take_errors(self) -> Iterator[DataException]:
        """The errors of the rows skipped since the last call."""
        bad, count = self._bad, self._bad_count
        self._bad, self._bad_count = [], 0
        return limit_faults(bad, count)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        head = Content(self._file, self._codec, self._encoding)
        columns = _count_columns(head, self._delimiter.encode())
        if not columns:
            self._source.content = head
            return
        try:
            yield from self._batches(ignores_empty=columns > 1)
        except pa.ArrowInvalid as error:
            if self._has_too_many_errors:
                raise wrong_format(self._skipped_rows, self._passed) from None
            if _TOO_LONG not in str(error):
                raise
            self._is_second, self._again = True, (self._passed, self._skipped_rows)
            self._passed = self._skipped_rows = 0
            yield from self._batches(ignores_empty=columns > 1)

    def _batches(self, *, ignores_empty: bool) -> Iterator[pa.RecordBatch]:
        reader = self._reader(ignores_empty=ignores_empty)
        passing = self._again[0]
        for batch in reader:
            rows = self._texts(self._without_end(batch))
            passed = min(passing, rows.num_rows)
            passing -= passed
            if passed < rows.num_rows:
                yield rows.slice(passed)

    def _without_end(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without the end mark, or without the incomplete last row that contains it."""
        if not self._source.is_over or not batch.num_rows:
            return batch
        last = batch.column(batch.num_columns - 1)[-1].as_py()
        if last is None or not last.endswith(self._source.end):
            return batch
        is_row = last == self._source.end and batch.num_columns == 1
        if not is_row and self.fault is None:
            number = self._passed + self._skipped_rows + batch.num_rows
            self._leave_out(lambda: f"Row {number} has a quote that is not closed: it goes on to the end of the file")
        return batch.slice(0, batch.num_rows - 1)

    def _texts(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Bytes as text. Rows that are not UTF-8 are skipped."""
        names = batch.schema.names
        try:
            texts = pa.RecordBatch.from_arrays([column.cast(pa.string()) for column in batch.columns], names)
        except pa.ArrowInvalid:
            first = self._passed + self._skipped_rows + 1
            wrong = sorted(self._not_text(batch))
            for row in wrong:
                self._leave_out(partial(_not_text_message, first + row, batch, row))
            mask = pc.invert(pc.is_in(pa.array(range(batch.num_rows)), pa.array(wrong)))
            batch = batch.filter(mask)
            texts = pa.RecordBatch.from_arrays([column.cast(pa.string()) for column in batch.columns], names)
        self._passed += texts.num_rows
        return texts

    def _not_text(self, batch: pa.RecordBatch) -> set[int]:
        """The rows that are not UTF-8. Raises DataException if nearly all rows are invalid."""
        found: set[int] = set()
        for column in batch.columns:
            for row in _not_text(column, 0):
                found.add(row)
                bad = self._skipped_rows + len(found)
                if is_wrong_format(bad, good := self._passed + row + 1 - len(found)):
                    raise wrong_format(bad, good)
        return found

    def _leave_out(self, message: Callable[[], str]) -> None:
        self._skipped_rows += 1
        if self._skipped_rows > self._again[1]:
            self._add_bad(message)

    def _add_bad(self, message: Callable[[], str]) -> None:
        self._bad_count += 1
        if self._bad_count <= MOST_FAULTS:
            self._bad.append(DataException(message()))

    def _reader(self, *, ignores_empty: bool) -> Any:  # Any: pyarrow has no types
        csv = import_module("pyarrow.csv")
        content = Content(self._file, self._codec, self._encoding)
        self._source = _Source(ShortRows(content, self._delimiter, _MAX_ROW_BYTES, self._report_long) if self._is_second else content)

        def note(row: Any) -> str:
            if self._source.is_over and self._source.end.decode() in row.text:
                text = row.text.partition(self._source.end.decode())[0]
                if text and self.fault is None:
                    self._leave_out(lambda: f"Row {row.number} has a quote that is not closed: {text[:100]}")
                return "skip"
            self._leave_out(lambda: _wrong_columns_message(row))
            self._has_too_many_errors = is_wrong_format(self._skipped_rows, self._passed)
            return "error" if self._has_too_many_errors else "skip"

        return csv.open_csv(
            pa.PythonFile(self._source, "r"),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=_MAX_ROW_BYTES if self._is_second else CHUNK_BYTES, autogenerate_column_names=True
            ),
            parse_options=csv.ParseOptions(
                delimiter=self._delimiter, newlines_in_values=True, ignore_empty_lines=ignores_empty, invalid_row_handler=note
            ),
            convert_options=csv.ConvertOptions(
                column_types={f"f{number}": pa.binary() for number in range(MOST_COLUMNS)},
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )

    def _report_long(self, begin: int, length: int) -> None:
        reason = "Split it, or skip it with errors.tolerance=all"
        self._add_bad(lambda: f"The row at byte {begin} has {length} bytes, and rows of up to {_MAX_ROW_BYTES} are read. {reason}")


class _Source(io.RawIOBase):
    """Content for the library, followed by an end mark. ``end`` is a separate row, unless a quote is open or the content is truncated."""

    def __init__(self, content: Content | ShortRows) -> None:
        super().__init__()
        self.content, self.end, self.is_over = content, uuid.uuid4().hex.encode(), False
        self._last = b"\n"

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """``size`` bytes if available. Includes the end mark if it fits, because the library reads nothing from a first piece that has no
        line end."""
        if self.is_over:
            return b""
        data = self.content.read(size)
        while 0 < len(data) < size and (more := self.content.read(size - len(data))):
            data += more
        self._last = data[-1:] or self._last
        is_line = self.content.fault is not None or self._last in b"\r\n"
        end = self.end if is_line else b"\n" + self.end
        if data and len(data) + len(end) > size:
            return data
        self.is_over = True
        return data + end


def _wrong_columns_message(row: Any) -> str:  # Any: pyarrow has no types
    where = "" if row.number is None else f" {row.number}"
    return f"Row{where} has {row.actual_columns} columns, not {row.expected_columns}: {row.text[:100]}"


def _count_columns(content: Content, delimiter: bytes) -> int:
    """The number of columns in the first row. 0 if there is no content. Raises DataException for too many columns, because the library
    creates them all when it opens the file."""
    head, row = b"", b""
    while len(head) < CHUNK_BYTES and (piece := content.read(_HEAD_BYTES)):
        head += piece
        row, *others = _QUOTED.sub(b"", head).replace(b"\r", b"\n").lstrip(b"\n").split(b"\n", 1)
        if others:
            break
    if (count := row.count(delimiter) + 1) > MOST_COLUMNS:
        raise DataException(f"The first row has at least {count} columns, and text files may have at most {MOST_COLUMNS}")
    return count if head else 0


def _not_text(column: pa.Array, first: int) -> Iterator[int]:
    """The rows that are not UTF-8."""
    try:
        column.cast(pa.string())
    except pa.ArrowInvalid:
        if len(column) <= _ROWS_ALONE:
            yield from (first + row for row, data in enumerate(column.to_pylist()) if not _is_text(data))
            return
        half = len(column) // 2
        yield from _not_text(column.slice(0, half), first)
        yield from _not_text(column.slice(half), first + half)


def _is_text(data: bytes | None) -> bool:
    try:
        return data is None or data.decode() is not None
    except UnicodeDecodeError:
        return False


def _not_text_message(number: int, batch: pa.RecordBatch, row: int) -> str:
    shown = str([column[row].as_py() for column in batch.columns])[:100]
    return f"Row {number} is not text in the encoding of the file: {shown}"


# The content of a CSV file without rows that are too long for the reader. Each such row is reported.
_START, _TEXT, _INSIDE, _QUOTE = range(4)  # at the start of a field, in an unquoted field, within quotes, after a quote within quotes
_MARK: Final = ord('"')


class ShortRows:
    """Content without rows of more than ``most`` bytes. ``report`` receives the first byte and length of each such row."""

    def __init__(self, content: Content, delimiter: str, most: int, report: Callable[[int, int], None]) -> None:
        self._content, self._delimiter, self._most, self._report = content, delimiter.encode(), most, report
        self._state = _START
        self._parts: list[bytes] = []  # of the current, incomplete row; empty if it is too long
        self._begin = self._length = 0

    @property
    def fault(self) -> Exception | None:
        return self._content.fault

    def read(self, size: int) -> bytes:
        """Complete rows of about ``size`` bytes. Empty at the end."""
        while data := self._content.read(min(size, self._most)):
            if found := self._rows(data):
                return found
        rest, self._parts = b"".join(self._parts), []
        if self._length > self._most:
            self._report(self._begin, self._length)
        self._length = 0
        return rest

    def _rows(self, data: bytes) -> bytes:
        first = last = self._row_end(data, 0)
        if first < 0:
            self._add(data)
            return b""
        while (end := self._row_end(data, last)) >= 0:
            last = end
        self._add(data[:first])
        if self._length > self._most:
            self._report(self._begin, self._length)
        found = b"".join((*self._parts, data[first:last]))
        self._begin += self._length + last - first
        self._parts, self._length = [], 0
        self._add(data[last:])
        return found

    def _add(self, data: bytes) -> None:
        self._length += len(data)
        self._parts = [*self._parts, data] if self._length <= self._most else []

    def _row_end(self, data: bytes, at: int) -> int:
        """The position after the next line end outside quotes. -1 if this data has no such line end."""
        feed = turn = -1
        while at < len(data):
            if self._state == _INSIDE:
                at = data.find(b'"', at) + 1
                if not at:
                    return -1
                self._state = _QUOTE
            elif self._state == _QUOTE or (self._state == _START and data[at] == _MARK):
                self._state = _INSIDE if data[at] == _MARK else _TEXT
                at += data[at] == _MARK
            else:
                feed = _find(data, b"\n", at) if feed < at else feed
                turn = _find(data, b"\r", at, feed) if turn < at else turn
                end = min(feed, turn)
                quoted = data.find(self._delimiter + b'"', at, end)
                if quoted >= 0:
                    at, self._state = quoted + 2, _INSIDE
                    continue
                if end < len(data):
                    self._state = _START
                    return end + (2 if data[end : end + 2] == b"\r\n" else 1)
                self._state = _START if data.endswith(self._delimiter) else _TEXT
                return -1
        return -1


def _find(data: bytes, part: bytes, begin: int, end: int | None = None) -> int:
    """The position of ``part``, or the length of the data if it is absent."""
    at = data.find(part, begin, end)
    return len(data) if at < 0 else at
