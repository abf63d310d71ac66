"""The interface of file formats: a writer of columns, a reader of columns, and splits of a file that several tasks can read.

Knows nothing of stores: a file is an open binary file, which the caller closes.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol, TypeAlias

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.data.columns import cast_to_schema
from airflow_provider_connect.data.schema import Schema, SchemaType
from airflow_provider_connect.errors import ConfigException, DataException

CHUNK_BYTES: Final = 8 << 20
"""Approximate size of a read."""
FORMAT: Final = "format"
COMPRESSION: Final = "compression"
"""The settings that name a format and a codec."""

BROKEN: Final = (DataException, OSError, EOFError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError)
"""Exceptions, in addition to Arrow's, that libraries raise for invalid files."""

Piece: TypeAlias = "tuple[pa.Array, Schema | None] | DataException"
"""Values with their schema. For an unreadable record or rest of a file, an exception, which is returned instead of raised."""


@dataclass(frozen=True, slots=True, order=True)
class Split:
    """A part of a file from ``begin`` to ``end`` (exclusive), in bytes of text, row groups of Parquet, or stripes of ORC."""

    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.begin}-{self.end}"


class FileWriter(Protocol):
    """Writes values to one file. ``close`` completes the content; the caller closes the file."""

    @property
    def bytes_written(self) -> int:
        """Approximate size of the file, in bytes. Buffered values count with their size in memory."""
        ...

    def write(self, values: pa.Array) -> None:
        """Write values of the writer's type. Raises DataException for values that the format does not support."""
        ...

    def close(self) -> None: ...


class FileFormat(Protocol):
    """A format with its compression and options."""

    @property
    def extension(self) -> str:
        """The extension of file names, with the dot: ``.json.gz``."""
        ...

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        """Raise DataException if values of this schema and type cannot be written."""

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> FileWriter:
        """Start a file. Raises DataException as ``accepts`` does."""
        ...

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        """The values of a seekable file, or of a split of the file. Each call returns the same pieces. Errors of the file system are
        raised."""
        ...

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        """Independently readable parts of a file of ``size`` bytes, each of about ``wanted_bytes``. The result for a file never changes."""
        ...


class CountingFile(io.RawIOBase):
    """Writes to a file and counts the bytes. Closing it does not close the file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # the library passes a buffer
        if not self._file.closed:  # when a discarded file is released, the library writes the file's end
            self._file.write(view)
        self.count += view.nbytes
        return view.nbytes


class NonClosingFile(io.RawIOBase):
    """Reads a file from its start. ``close`` does nothing, because libraries close the files that they read. ``error`` is the exception of
    a failed read, because libraries may hide it."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        file.seek(0)
        self._file = file
        self.error: Exception | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            return bytes(self._file.read(size) if size >= 0 else self._file.read())  # some stores return their own buffer types
        except Exception as error:
            self.error = error
            raise

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        """Does nothing, because the file is read again, and the caller closes it."""


def group_splits(file: BinaryIO, wanted_bytes: int, read_sizes: Callable[[NonClosingFile], list[int]]) -> list[Split]:
    """Splits of consecutive groups, each up to ``wanted_bytes``. At least one split. ``read_sizes`` returns the bytes of each group."""
    kept = NonClosingFile(file)
    try:
        sizes = read_sizes(kept)
    except (pa.ArrowException, *BROKEN) as error:
        unreadable_error(kept, error)  # raises an error of the store
        return [Split(0, 1)]  # its reader reports the fault
    found, begin, total = [], 0, 0
    for number, size in enumerate(sizes):
        if total and total + size > wanted_bytes:
            found.append(Split(begin, number))
            begin, total = number, 0
        total += size
    return [*found, Split(begin, max(len(sizes), 1))]


def check_codec(codec: str | None, codecs: Sequence[str], default: str) -> str:
    """The codec's name in lower case. Raises ConfigException, which lists the supported codecs."""
    name = (codec or default).lower()
    if name not in codecs:
        raise ConfigException.of(COMPRESSION, codec, f"Files of this format support: {', '.join(codecs)}.")
    return name


def check_struct(schema: Schema | None, name: str) -> Schema:
    """The schema of values that become columns of a file. Raises DataException."""
    if schema is None or schema.type is not SchemaType.STRUCT:
        found = "values without a schema" if schema is None else f"values of type {schema.type.name}"
        remedy = "a converter that reads schemas" if schema is None else "the transformation HoistField"
        raise DataException(f"{name} files need structs with a schema, and these are {found}. Use {remedy}, or the format json")
    if not schema.fields:
        raise DataException(f"{name} files need structs with at least one field, and this struct has none")
    return schema


def struct_columns(values: pa.Array, schema: Schema, name: str) -> list[pa.Array]:
    """The fields of structs as columns with the types of ``schema``. Raises DataException for a null struct."""
    if values.null_count:
        raise DataException(f"{name} files cannot hold null values. Leave them out (behavior.on.null.values=ignore) or use the format json")
    columns: list[pa.Array] = cast_to_schema(values, schema).flatten()
    return columns


def unreadable_error(file: NonClosingFile, error: Exception, part: str = "The rest of the file") -> DataException:
    """The exception for an invalid part of a file. An error of the store is raised instead, because a later attempt may succeed."""
    if file.error is not None:
        raise file.error
    return DataException(f"{part} cannot be read: {error}")
