"""The contract of a sink for objects without a schema. JsonConverter reads them with ``schemas.enable=false``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import pytest

from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.schema import Schema, SchemaType, Struct
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing.calls import SinkCalls

_READ_SO: Final = (
    "Objects without a schema (value_schema None) are JSON text in Arrow, and to_pylist returns that text; use "
    "values_of(batch.value, batch.value_schema), which returns dicts"
)


class ObjectTests:
    """A part of ``SinkConnectorSuite``, which defines the other methods."""

    value_schema: ClassVar[Schema | None]
    needs_schema: ClassVar[bool] = False
    """Whether the destination refuses objects without a schema. The test of these objects is then skipped."""

    def values(self, first: int, count: int) -> list[Any]:
        raise NotImplementedError

    def delivered(self) -> list[Any]:
        raise NotImplementedError

    def batch(self, first: int, count: int) -> Batch:
        raise NotImplementedError

    def _opened(self) -> SinkCalls:
        raise NotImplementedError

    def test_objects_without_a_schema_arrive_like_structs(self) -> None:
        """A connector that cannot write them raises DataException or another ConnectException, or declares ``needs_schema``."""
        if self.needs_schema or self.value_schema is None or self.value_schema.type is not SchemaType.STRUCT:
            pytest.skip("the suite's values are not structs, or the connector needs their schema")
        try:
            objects = column_of(map(_plain, self.values(0, 3)), None)
        except DataException as error:
            pytest.skip(f"the suite's values cannot be written without a schema: {error}")
        calls = self._opened()
        try:
            calls.put(self.batch(0, 3).replace(value=objects, value_schema=None))
            calls.commit()
        except ConnectException as error:
            pytest.skip(f"the connector refuses objects without a schema: {error}")
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}. {_READ_SO}") from error
        finally:
            calls.task.close(calls.partitions)
            calls.task.stop()
        assert self.delivered() == self.values(0, 3), _READ_SO


def _plain(value: Any) -> Any:
    """``value`` without a schema: structs become dicts."""
    if isinstance(value, Struct):
        return {field.name: _plain(value[field.name]) for field in value.schema.fields}
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
