"""The suite that every transformation must pass, over those that cut batches, change headers or read more than one side."""

from collections.abc import Sequence

from airflow_provider_connect.data.records import Headers, SourceRecord
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema, Struct
from airflow_provider_connect.sdk.testing import TransformationSuite
from airflow_provider_connect.sdk.transformations import Transformation
from airflow_provider_connect.transforms.cast import CastValue
from airflow_provider_connect.transforms.fields import InsertFieldValue
from airflow_provider_connect.transforms.headers import DropHeaders, HeaderFromValue
from airflow_provider_connect.transforms.routing import TimestampRouter
from airflow_provider_connect.transforms.sql import SqlTransform
from airflow_provider_connect.transforms.structs import ValueToKey

ROW = Schema.struct({"id": INT64_SCHEMA, "name": STRING_SCHEMA.as_optional()}, optional=True)
DAY_MS = 86_400_000


def records() -> list[SourceRecord]:
    """Rows with their headers over three days; schemaless maps behind them."""
    rows = [Struct(ROW, {"id": number, "name": None if number % 2 else f"n{number}"}) for number in range(5)]
    made = [SourceRecord(None, None, "orders", row, value_schema=ROW, timestamp=number * DAY_MS // 2) for number, row in enumerate(rows)]
    made += [SourceRecord(None, None, "orders", {"id": number, "name": "x"}, timestamp=number) for number in range(2)]
    return [
        record.replace(headers=Headers().add("a", f"{number}", STRING_SCHEMA).add("b", "x")) if number % 2 else record
        for number, record in enumerate(made)
    ]


def configured(transformation: Transformation, **config: str) -> Transformation:
    settings = {name.replace("_", "."): text for name, text in config.items()}
    transformation.configure(transformation.config_def.parse(settings))
    return transformation


class OnRecords(TransformationSuite):
    def records(self) -> Sequence[SourceRecord]:
        return records()


class TestInsertField(OnRecords):
    def transformation(self) -> Transformation:
        return configured(InsertFieldValue(), topic_field="t", timestamp_field="at")

    def records(self) -> Sequence[SourceRecord]:
        nothing = SourceRecord(None, None, "orders", None, value_schema=ROW, timestamp=5)
        return [nothing, *records()[:2], nothing, nothing, records()[2]]


class TestCast(OnRecords):
    def transformation(self) -> Transformation:
        return configured(CastValue(), spec="id:string")


class TestHeaderFrom(OnRecords):
    def transformation(self) -> Transformation:
        return configured(HeaderFromValue(), fields="name", headers="a", operation="move")


class TestDropHeaders(OnRecords):
    def transformation(self) -> Transformation:
        return configured(DropHeaders(), headers="b")


class TestTimestampRouter(OnRecords):
    def transformation(self) -> Transformation:
        return configured(TimestampRouter())


class TestValueToKey(OnRecords):
    def transformation(self) -> Transformation:
        return configured(ValueToKey(), fields="name,id")


class TestSqlTransform(OnRecords):
    def transformation(self) -> Transformation:
        return configured(SqlTransform(), sql="SELECT id * 2 AS twice, name, _topic FROM batch WHERE id <> 3")

    def records(self) -> Sequence[SourceRecord]:
        """A statement names the columns of one kind of value: rows, and nulls between them."""
        rows, nothing = records()[:5], SourceRecord(None, None, "orders", None, value_schema=ROW, timestamp=5)
        return [nothing, *rows[:2], nothing, *rows[2:]]
