"""What a format of files offers: a writer of columns, a reader of columns, and splits of a file that several tasks can read.

Knows no store: a file is an open binary file, which stays the caller's and is left open.
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
"""How much of a file is read at once, about."""
FORMAT: Final = "format"
COMPRESSION: Final = "compression"
"""The settings that name a format and a codec."""

BROKEN: Final = (DataException, OSError, EOFError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError)
"""What libraries raise, beside Arrow's exceptions, for files that are not what they should be."""

Piece: TypeAlias = "tuple[pa.Array, Schema | None] | DataException"
"""Some values and their schema; or a record, or the rest of a file, that cannot be read: the exception is returned, not raised."""


@dataclass(frozen=True, slots=True, order=True)
class Split:
    """A part of a file, from ``begin`` up to and without ``end``: bytes of text, row groups of Parquet, stripes of ORC."""

    begin: int
    end: int

    def __str__(self) -> str:
        return f"{self.begin}-{self.end}"


class FileWriter(Protocol):
    """Writes values to one file. ``close`` ends what is in the file; the file itself is the caller's to close."""

    @property
    def bytes_written(self) -> int:
        """How many bytes the file has, about: values that wait in memory count with their size there."""
        ...

    def write(self, values: pa.Array) -> None:
        """Add values of the type that the writer was opened for. Raises DataException for values that the format cannot hold."""
        ...

    def close(self) -> None: ...


class FileFormat(Protocol):
    """A format with its compression and options."""

    @property
    def extension(self) -> str:
        """How names of its files end, with the point: ``.json.gz``."""
        ...

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        """Raise DataException if values of this schema and type cannot be written."""

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> FileWriter:
        """Begin a file. Raises DataException as ``accepts`` does."""
        ...

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        """The values of a seekable file, or of one split of it: the same pieces at each call. Errors of the file system are raised."""
        ...

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        """Parts of a file of ``size`` bytes that can be read on their own, of ``wanted_bytes`` each, about. The same for the same file."""
        ...


class CountingFile(io.RawIOBase):
    """Passes bytes on to a file and counts them. It can be closed without the file."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        self.count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        view = memoryview(data)  # type: ignore[arg-type]  # what the library hands over is a buffer
        if not self._file.closed:  # it was discarded, and the library writes its end when it lets go of it
            self._file.write(view)
        self.count += view.nbytes
        return view.nbytes


class NonClosingFile(io.RawIOBase):
    """A file from its beginning, for a library that closes what it has read. ``error`` is what a read has raised: a library may hide it."""

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
            return bytes(self._file.read(size) if size >= 0 else self._file.read())  # some stores return buffers of their own
        except Exception as error:
            self.error = error
            raise

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        """It is read again, and its file is the caller's."""


def group_splits(file: BinaryIO, wanted_bytes: int, read_sizes: Callable[[NonClosingFile], list[int]]) -> list[Split]:
    """The groups of a file, neighbours together up to ``wanted_bytes``; at least one split. ``read_sizes`` returns their bytes."""
    kept = NonClosingFile(file)
    try:
        sizes = read_sizes(kept)
    except (pa.ArrowException, *BROKEN) as error:
        unreadable_error(kept, error)  # raises what the store has raised
        return [Split(0, 1)]  # its reader reports what is wrong
    found, begin, total = [], 0, 0
    for number, size in enumerate(sizes):
        if total and total + size > wanted_bytes:
            found.append(Split(begin, number))
            begin, total = number, 0
        total += size
    return [*found, Split(begin, max(len(sizes), 1))]


def check_codec(codec: str | None, codecs: Sequence[str], default: str) -> str:
    """The name of a codec in lower case. Raises ConfigException with those that there are."""
    name = (codec or default).lower()
    if name not in codecs:
        raise ConfigException.of(COMPRESSION, codec, f"Files of this format have one of these: {', '.join(codecs)}.")
    return name


def check_struct(schema: Schema | None, name: str) -> Schema:
    """The schema of values that become columns of a file. Raises DataException."""
    if schema is None or schema.type is not SchemaType.STRUCT:
        found = "values without a schema" if schema is None else f"values of type {schema.type.name}"
        raise DataException(
            f"{name} files hold structs with a schema, and these are {found}. Use a converter that reads schemas, or HoistField, or the "
            "format json"
        )
    if not schema.fields:
        raise DataException(f"{name} files hold structs with at least one field, and this struct has none")
    return schema


def struct_columns(values: pa.Array, schema: Schema, name: str) -> list[pa.Array]:
    """The fields of structs as columns of the types of ``schema``. Raises DataException for a null among the structs."""
    if values.null_count:
        raise DataException(f"{name} files hold no null values. Leave them out (behavior.on.null.values=ignore), or use the format json")
    columns: list[pa.Array] = cast_to_schema(values, schema).flatten()
    return columns


def unreadable_error(file: NonClosingFile, error: Exception, part: str = "The rest of the file") -> DataException:
    """The exception for what of a file is not of its format. An error of the store is raised instead: a later try may succeed."""
    if file.error is not None:
        raise file.error
    return DataException(f"{part} cannot be read: {error}")
