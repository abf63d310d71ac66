"""``bytes``: raw values, each followed by a separator. Values are not escaped, so they must not contain the separator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from airflow_provider_connect.connectors.filesystem.formats.content import NONE
from airflow_provider_connect.connectors.filesystem.formats.contract import NonClosingFile, Piece, Split, check_codec, unreadable_error
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS, TextWriter, byte_splits, read_texts
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.columns import is_json
from airflow_provider_connect.data.schema import BYTES_SCHEMA, Schema
from airflow_provider_connect.errors import ConfigException, DataException

SEPARATOR: Final = "format.bytearray.separator"


class RawBytes:
    """Bytes and texts. By default, ``format.bytearray.separator`` is a line feed; ``\\\\n`` in it means a line feed."""

    def __init__(self, codec: str | None, options: Mapping[str, str]) -> None:
        self._codec = check_codec(codec, [*EXTENSIONS], NONE)
        self._read_codec = None if codec is None else self._codec
        text = options.get(SEPARATOR, "\n")
        self._separator = text.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t").replace("\\0", "\0").encode()
        if not self._separator:
            raise ConfigException.of(SEPARATOR, text, "It separates records: set at least one character.")

    @property
    def extension(self) -> str:
        return f".bin{EXTENSIONS[self._codec]}"

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        types = pa.types
        is_logical = schema is not None and schema.logical_name is not None
        if is_logical or not (types.is_binary(arrow_type) or types.is_string(arrow_type) or is_json(arrow_type)):
            raise DataException(f"Files of bytes contain bytes or text, and these values are {arrow_type}. Use ByteArrayConverter")

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> BytesWriter:
        self.accepts(schema, arrow_type)
        return BytesWriter(file, self._codec, self._separator)

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        kept = NonClosingFile(file)
        try:
            for texts in read_texts(kept, self._read_codec, self._separator, split):
                yield texts if isinstance(texts, DataException) else (texts, BYTES_SCHEMA)
        except (pa.ArrowException, OSError) as error:
            yield unreadable_error(kept, error)

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        return byte_splits(file, size, wanted_bytes if len(self._separator) == 1 else size, self._read_codec)


class BytesWriter(TextWriter):
    """Writes raw values. Raises DataException for null, and for a value that contains the separator, because it would be read as two
    values."""

    def __init__(self, file: BinaryIO, codec: str, separator: bytes) -> None:
        super().__init__(file, codec, separator)
        self._divider = separator

    def write(self, values: pa.Array) -> None:
        data = (values.storage if is_json(values.type) else values).cast(pa.binary())
        if data.null_count:
            raise DataException("Files of bytes cannot hold null values. Leave them out (behavior.on.null.values=ignore)")
        if pc.any(pc.match_substring(data, self._divider)).as_py():
            row = pc.index(pc.match_substring(data, self._divider), True).as_py()
            raise DataException(f"Value {row} contains the separator {self._divider!r} of the file. Set another one: {SEPARATOR}")
        self.write_texts(data)
