"""Transformations that change one side of a record, its key or its value: the pattern that most of them follow."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Literal, TypeVar

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.columns import column_of, json_column, values_of
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
    """Define ``with_schema`` for columns and ``without_schema`` for maps and the like, which have no columns; or ``changed`` for both."""

    side: ClassVar[Side]
    passes_null: ClassVar[bool] = True
    """Whether records without key (value) go on as they are, with the schema they have."""
    fills_null: bool = True
    """Whether a field that is null reads as its default: ``replace.null.with.default``."""

    def configure(self, config: Config) -> None:
        self.fills_null = bool(config.get(REPLACE_NULL.name, True))

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        """The batch as it goes on. ``column`` has nulls only if not ``passes_null``."""
        raise NotImplementedError

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        """The batch as it goes on, made from its schemaless values one by one; None among them as above."""
        raise NotImplementedError

    def apply_batch(self, batch: Batch) -> Batch | list[Batch]:
        if not batch.num_records:
            return batch
        column = self._column_of(batch)
        if not self.passes_null or not column.null_count:
            return self._tried(batch)
        if column.null_count == len(column):
            return batch
        pieces = [(start, batch.slice(start, length), is_null) for start, length, is_null in runs_of(column.is_null())]
        return [piece if is_null else self._tried(piece, start) for start, piece, is_null in pieces]

    def replaced(self, batch: Batch, column: pa.Array, schema: Schema | None, **more: Any) -> Batch:  # Any: attributes of the batch
        """The batch with another column on this side."""
        return batch.replace(**{self.side: column, f"{self.side}_schema": schema}, **more)

    def replaced_values(self, batch: Batch, values: list[Any], **more: Any) -> Batch:
        """The batch with other schemaless values on this side."""
        return self.replaced(batch, schemaless_column(values), None, **more)

    def changed(self, batch: Batch) -> Batch:
        """The batch as it goes on. It has records; nulls among them as above."""
        schema, column = getattr(batch, f"{self.side}_schema"), self._column_of(batch)
        if schema is None:
            return self.without_schema(batch, values_of(column, None))
        return self.with_schema(batch, column, schema)

    def _tried(self, batch: Batch, start: int = 0) -> Batch:
        """What becomes of records ``start`` and following, which an error counts its record from."""
        with self.refusing(start):
            return self.changed(batch)

    @contextmanager
    def refusing(self, start: int = 0) -> Iterator[None]:
        """Around the change of records ``start`` and following: what it raises for values is a DataException that counts from there."""
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


def of_key_and_value(changes: type[Changes]) -> tuple[type[Changes], type[Changes]]:
    """The plugin for keys and the one for values, ``…$Key`` and ``…$Value`` by Connect's names."""
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
    """The column of values without a schema that come from such a column: maps have text as keys, and bytes in them become base64 text, as
    Connect's JsonConverter writes them."""
    if {type(value) for value in values if value is not None} == {dict}:
        return json_column(None if value is None else _AS_JSON(value) for value in values)
    return column_of(values, None)


def _base64_text(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"JSON has no form for a {type(value).__name__}")


_AS_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_base64_text).encode


def one_by_one(change: Callable[[Before], After], values: Iterable[Before]) -> list[After]:
    """What ``change`` makes of each. Its DataException goes on with the number of the value, from 0 on."""
    changed = []
    for record, value in enumerate(values):
        try:
            changed.append(change(value))
        except DataException as error:
            error.record = record
            raise
    return changed


def runs_of(column: pa.Array) -> Iterator[tuple[int, int, Any]]:  # Any: a value of the column
    """Start, length and value of each run, in order."""
    encoded = pc.run_end_encode(column)
    start = 0
    for end, value in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        yield start, end - start, value
        start = end
