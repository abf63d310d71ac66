"""Base of the converters with a schema registry: schemas and their ids, subjects, and the five bytes before each value.

A record is a zero byte, the schema id in four bytes, and the value in the converter's format.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from airflow_provider_connect.codecs.record_bytes import Cursor, Pieces, join_pieces, spread
from airflow_provider_connect.converters.registry.registry import Registry, SchemaText
from airflow_provider_connect.converters.registry.settings import (
    AUTO_REGISTER,
    CACHE_SIZE,
    NO_FALLBACK,
    NORMALIZE,
    USE_LATEST,
    client_settings,
    strategy_of,
)
from airflow_provider_connect.converters.schema_cache import SchemaCache
from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.columns import cast_to_schema, is_json
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException, DataException, SchemaException
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.converter import ColumnRun, Converter, interleaved_runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER_BYTES: Final = 5
_NULL, _BROKEN = -1, -2
_SHORT: Final = f"The record is shorter than the {HEADER_BYTES} bytes of a schema id. Check who writes the topic."
_OTHER: Final = "The record does not start with the zero byte of a schema registry's format. Check who writes the topic."
Parsed = TypeVar("Parsed")


@dataclass(frozen=True, slots=True)
class WriterSchema(Generic[Parsed]):
    """A schema of records: its id, its parsed form in the converter's format, and the Connect schema."""

    number: int
    parsed: Parsed
    schema: Schema


class RegistryConverter(Converter, Generic[Parsed]):
    """A converter whose schemas are in a registry. Null is a tombstone in both directions.

    Each schema id in a column is requested once. All records with the same id are read as one column, even if they are not consecutive.
    """

    kind: ClassVar[str]
    """The registry's name of the format."""
    settings: Config

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        self.is_key = is_key
        self.settings = self.config_def.parse(config)
        self.registry = Registry(client_settings(self.settings, self.allowed_paths))
        most = self.settings[CACHE_SIZE]
        self._reader = SchemaCache[WriterSchema[Parsed]](self._new_reader, most)
        self._writer = SchemaCache[WriterSchema[Parsed]](self._new_writer, most)

    # What a format defines

    @abstractmethod
    def parse(self, text: SchemaText, version: int | None, part: int | str = 0) -> tuple[Parsed, Schema]:
        """Parse a schema of the registry to the format's form and to a Connect schema. ``version`` is used for schemas without a version.

        ``part`` selects a type if the format's schemas have several types. When reading, ``part`` is the bits above the id in a result of
        ``ids``. When writing, it is the name that ``schema_text`` returned.
        """

    def ids(self, column: pa.Array) -> tuple[NDArray[np.int64], dict[str, NDArray[np.int64]]]:
        """The schema id of each record, and broken rows by reason. The lower 32 bits are the id; the bits above are specific to the format.

        -1 means null, -2 means a record without an id.
        """
        found = schema_ids(column)
        return found.ids, found.broken

    @abstractmethod
    def schema_text(self, schema: Schema) -> tuple[str, str]:
        """The text to register for a Connect schema, and the name of its record. The name is empty if the schema is not a record."""

    @abstractmethod
    def decode(self, reader: WriterSchema[Parsed], column: pa.Array) -> pa.Array:
        """Decode records to a column of the reader's schema. ``column`` has no nulls, and its records have their headers."""

    @abstractmethod
    def encode(self, writer: WriterSchema[Parsed], schema: Schema, column: pa.Array) -> pa.Array:
        """Encode the values of a column without nulls, without record headers."""

    # Reading

    def find_invalid_rows(self, topic: str, column: pa.Array) -> dict[int, Exception]:
        """The records without a schema id, and the records whose schema the registry refuses. Requests each id once."""
        ids, broken = self.ids(column)
        found: dict[int, Exception] = {row: DataException(reason) for reason, rows in broken.items() for row in rows.tolist()}
        for number in np.unique(ids[ids > _NULL]).tolist():
            try:
                self._reader(topic, number)
            except DataException as error:
                found |= {row: DataException(error.message) for row in np.flatnonzero(ids == number).tolist()}
            except ConnectException:  # the registry is unavailable, or refuses the credentials: no record is at fault
                return found
        return found

    def to_connect_column(self, topic: str, column: pa.Array) -> list[ColumnRun]:
        if not len(column):
            return []
        ids, broken = self.ids(column)
        for reason, rows in broken.items():
            error = DataException(reason)
            error.record = int(rows[0])
            raise error
        columns: dict[int, tuple[Schema | None, pa.Array]] = {}
        for number in np.unique(ids).tolist():
            rows = np.flatnonzero(ids == number)
            columns[number] = self._read(topic, number, column if len(rows) == len(column) else column.take(pa.array(rows)), rows)
        return interleaved_runs(ids, columns)

    def _read(self, topic: str, number: int, column: pa.Array, rows: NDArray[np.int64]) -> tuple[Schema | None, pa.Array]:
        if number == _NULL:
            return None, pa.nulls(len(column))
        try:
            reader = self._reader(topic, number)
            return reader.schema, self.decode(reader, column)
        except DataException as error:
            if error.record is not None:
                error.record = int(rows[error.record])
            raise

    def _new_reader(self, topic: str, number: int) -> WriterSchema[Parsed]:
        part, number = number >> 32, number & 0xFFFFFFFF
        text = self.registry.schema(number)
        if text.kind != self.kind:
            raise DataException(f"Schema {number} of topic {topic} has the type {text.kind}, but {type(self).__name__} reads {self.kind}")
        subject = self._subject(topic, "") if strategy_of(self.settings, is_key=self.is_key) == "TopicNameStrategy" else None
        version = None if subject is None else self.registry.version(subject, number)
        try:
            return WriterSchema(number, *self.parse(text, version, part))
        except SchemaException as error:
            raise DataException(f"Schema {number} of topic {topic} cannot be read: {error}") from error

    # Writing

    def from_connect_column(self, topic: str, schema: Schema | None, column: pa.Array) -> pa.Array:
        if not len(column) or pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.binary())
        if schema is None:
            if is_json(column.type):
                raise DataException(f"{type(self).__name__} needs values with a schema, but those of topic {topic} have none")
            schema = schema_of(pa.field("value", column.type, nullable=True))
        column = cast_to_schema(column, schema)
        is_valid = column.is_valid().to_numpy(zero_copy_only=False)
        if column.null_count and not schema.optional and schema.default is None:
            raise DataException(f"Found null for a value of topic {topic} whose schema is not optional")
        dense = column.drop_null() if column.null_count else column
        if not len(dense):
            return pa.nulls(len(column), pa.binary())
        writer = self._writer(topic, schema)
        header = Pieces.repeated(b"\0" + writer.number.to_bytes(4, "big"), len(dense))
        return spread(join_pieces([header, Pieces.of(self.encode(writer, schema, dense))]).column(), is_valid)

    def _new_writer(self, topic: str, schema: Schema) -> WriterSchema[Parsed]:
        text, name = self.schema_text(schema)
        subject = self._subject(topic, name)
        own = SchemaText(self.kind, text, {})
        if self.settings[USE_LATEST]:
            number, latest = self.registry.latest(subject)
            if self.settings[NO_FALLBACK] and latest.text != text and not self.registry.is_compatible(subject, own):
                raise DataException(
                    f"The schema of the records of topic {topic} is not compatible with the latest of subject {subject}. "
                    f"Register it, or set {NO_FALLBACK}=false to write with the latest."
                )
            return WriterSchema(number, *self.parse(latest, None, name))
        ask = self.registry.register if self.settings[AUTO_REGISTER] else self.registry.number
        parsed = self.parse(own, None, name)
        return WriterSchema(ask(subject, own, normalize=self.settings[NORMALIZE]), *parsed)

    def _subject(self, topic: str, name: str) -> str:
        strategy = strategy_of(self.settings, is_key=self.is_key)
        if strategy == "TopicNameStrategy":
            return f"{topic}-{'key' if self.is_key else 'value'}"
        if not name:
            raise DataException(f"{strategy} needs the name of a record, but the values of topic {topic} are not named records")
        return name if strategy == "RecordNameStrategy" else f"{topic}-{name}"


@dataclass(slots=True)
class SchemaIds:
    """The schema id of each record (-1: null, -2: no id), and the reasons why rows have no id.

    ``rows`` are the records that have an id. ``behind`` is a cursor positioned after their ids.
    """

    ids: NDArray[np.int64]
    broken: dict[str, NDArray[np.int64]]
    behind: Cursor
    rows: NDArray[np.int64]

    def refuse(self, rows: NDArray[np.int64], reason: str) -> None:
        """Mark ``rows`` as broken for ``reason``, because their bytes after the id are invalid."""
        self.ids[rows] = _BROKEN
        self.broken[reason] = rows


def schema_ids(column: pa.Array) -> SchemaIds:
    """The schema ids of a binary column."""
    ids = np.full(len(column), _NULL, np.int64)
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    cursor = Cursor.of(pc.fill_null(column, b"") if column.null_count else column).part(rows)
    is_short = cursor.ends - cursor.at < HEADER_BYTES
    is_other = ~is_short & (cursor.data[cursor.at] != 0)
    broken = {reason: rows[where] for reason, where in ((_SHORT, is_short), (_OTHER, is_other)) if where.any()}
    has_id = ~(is_short | is_other)
    part = cursor.part(has_id)
    part.skip(1)
    ids[rows[has_id]] = part.numbers(">u4")
    ids[rows[~has_id]] = _BROKEN
    return SchemaIds(ids, broken, part, rows[has_id])
