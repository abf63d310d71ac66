"""Base of transformations that change one side of a record, its key or its value."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Literal, TypeVar

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import as_data_exception, column_of, json_column, values_of
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Importance, Type, class_name_of
from airflow_provider_connect.sdk.transformations import Transformation

Before = TypeVar("Before")
After = TypeVar("After")

Changes = TypeVar("Changes", bound="OneSide")

Side = Literal["key", "value"]

PACKAGE: Final = "org.apache.kafka.connect.transforms"
REPLACE_NULL: Final = ConfigKey(
    "replace.null.with.default",
    Type.BOOLEAN,
    True,
    doc="Whether to replace fields that have a default value and that are null to the default value. "
    "When set to true, the default value is used, otherwise null is used.",
    importance=Importance.MEDIUM,
)


class OneSide(Transformation):
    """Changes the key or the value. Define ``with_schema`` (for columns) and ``without_schema`` (for single values), or ``change`` for
    both."""

    side: ClassVar[Side]
    passes_null: ClassVar[bool] = True
    """Whether records with null on this side stay unchanged, with their schema."""
    fills_null: bool = True
    """Whether a null field is read as its default (``replace.null.with.default``)."""

    def configure(self, config: Config) -> None:
        self.fills_null = bool(config.get(REPLACE_NULL.name, True))

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        """The changed batch. ``column`` has the values of this side. It has nulls only if ``passes_null`` is false."""
        raise NotImplementedError

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        """The changed batch. ``values`` are this side's schemaless values. They include None only if ``passes_null`` is false."""
        raise NotImplementedError

    def apply_batch(self, batch: Batch) -> Batch | list[Batch]:
        if not batch.num_records:
            return batch
        column = self._column_of(batch)
        if not self.passes_null or not column.null_count:
            return self._change_from(batch)
        if column.null_count == len(column):
            return batch
        pieces = [(start, batch.slice(start, length), is_null) for start, length, is_null in runs_of(column.is_null())]
        return [piece if is_null else self._change_from(piece, start) for start, piece, is_null in pieces]

    def replace_column(self, batch: Batch, column: pa.Array, schema: Schema | None, **more: Any) -> Batch:  # Any: attributes of the batch
        """The batch with another column and schema on this side."""
        return batch.replace(**{self.side: column, f"{self.side}_schema": schema}, **more)

    def replace_values(self, batch: Batch, values: list[Any], **more: Any) -> Batch:
        """The batch with other schemaless values on this side."""
        return self.replace_column(batch, schemaless_column(values), None, **more)

    def change(self, batch: Batch) -> Batch:
        """The changed batch. ``batch`` has records; this side has nulls only if ``passes_null`` is false."""
        schema, column = getattr(batch, f"{self.side}_schema"), self._column_of(batch)
        if schema is None:
            return self.without_schema(batch, values_of(column, None))
        return self.with_schema(batch, column, schema)

    def _change_from(self, batch: Batch, start: int = 0) -> Batch:
        """Change the records from index ``start`` of a batch. A DataException has the record's index in the whole batch."""
        with self.translate_errors(start):
            return self.change(batch)

    @contextmanager
    def translate_errors(self, start: int = 0) -> Iterator[None]:
        """Translate errors in the block to DataException. ``start`` is added to a DataException's record index."""
        try:
            yield
        except DataException as error:
            if error.record is not None:
                error.record += start
            raise
        except (pa.ArrowException, ArithmeticError, RecursionError, ValueError) as error:
            raise DataException(f"{class_name_of(type(self))} cannot be applied: {error}") from error

    def _column_of(self, batch: Batch) -> pa.Array:
        column, schema = getattr(batch, self.side), getattr(batch, f"{self.side}_schema")
        if column is not None:
            return column
        return pa.nulls(batch.num_records, pa.null() if schema is None else arrow_type(schema))


def create_key_and_value(changes: type[Changes]) -> tuple[type[Changes], type[Changes]]:
    """Create the plugins for keys and for values, which Connect names ``…$Key`` and ``…$Value``."""
    key, value = (
        type(
            f"{changes.__name__}{side}",
            (changes,),
            {
                "__doc__": changes.__doc__,
                "__module__": changes.__module__,
                "class_name": f"{PACKAGE}.{changes.__name__}${side}",
                "side": side.lower(),
            },
        )
        for side in ("Key", "Value")
    )
    return key, value


def schemaless_column(values: list[Any]) -> pa.Array:
    """A column of schemaless values. They come from such a column, so the keys of maps are strings.

    Bytes inside maps become base64 text, as Connect's JsonConverter writes them.
    """
    if {type(value) for value in values if value is not None} == {dict}:
        with as_data_exception():
            return json_column(None if value is None else _AS_JSON(value) for value in values)
    return column_of(values, None)


def _base64_text(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"JSON has no form for a {type(value).__name__}")


_AS_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_base64_text).encode


def one_by_one(change: Callable[[Before], After], values: Iterable[Before]) -> list[After]:
    """The result of ``change`` for each value. The value's index is added to a DataException."""
    changed = []
    for record, value in enumerate(values):
        try:
            changed.append(change(value))
        except DataException as error:
            error.record = record
            raise
    return changed


def runs_of(column: pa.Array) -> Iterator[tuple[int, int, Any]]:  # Any: a value of the column
    """Start, length and value of each run of equal values, in order."""
    encoded = pc.run_end_encode(column)
    start = 0
    for end, value in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        yield start, end - start, value
        start = end
