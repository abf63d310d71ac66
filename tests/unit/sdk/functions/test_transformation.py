"""Transformations from functions: the contract suite for each form, and what stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pandas  # type: ignore[import-untyped]
import polars
import pytest

from airflow_provider_connect.data.columns import json_column, values_of
from airflow_provider_connect.data.schema import INT32_SCHEMA, STRING_SCHEMA, Struct
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk import Batch, Schema, SourceRecord, pa, pc, transformation
from airflow_provider_connect.sdk.functions.transformation import MOST_KEPT, FunctionTransformation
from airflow_provider_connect.sdk.testing import TransformationSuite


@transformation
def masked(order: dict[str, Any], field: str, least: int = 0) -> dict[str, Any] | None:
    """Hides a field, and drops small orders."""
    return {**order, field: "***"} if order["amount"] >= least else None


@transformation
def doubled(orders: pa.Table) -> pa.Table:
    return orders.set_column(orders.column_names.index("amount"), "amount", pc.multiply(orders["amount"], pa.scalar(2, pa.int32())))


@transformation
def not_small(orders: pa.Table, least: int) -> Any:
    return pc.greater_equal(orders["amount"], least)


@transformation
def big(least: int) -> pc.Expression:
    return pc.field("amount") >= least


@transformation
def with_total() -> dict[str, pc.Expression]:
    return {"total": pc.field("amount") * 2, "name": pc.utf8_upper(pc.field("name"))}


@transformation
def in_polars(orders: polars.DataFrame) -> polars.DataFrame:
    return orders.with_columns(polars.col("name").str.to_uppercase())


@transformation
def in_polars_with_a_field(orders: polars.DataFrame) -> polars.DataFrame:
    return orders.with_columns(seen=True)


@transformation
def in_pandas(orders: pandas.DataFrame) -> pandas.DataFrame:
    return orders.assign(seen=True)


@transformation
def as_batch(batch: Batch) -> Batch:
    return batch.replace(topic="other")


EACH: list[tuple[type[FunctionTransformation], dict[str, str]]] = [
    (masked, {"field": "name", "least": "2"}),
    (doubled, {}),
    (not_small, {"least": "2"}),
    (big, {"least": "2"}),
    (with_total, {}),
    (in_polars, {}),
    (as_batch, {}),
]
ORDER = Schema.struct({"amount": INT32_SCHEMA, "name": STRING_SCHEMA.as_optional()})


def order(amount: int, name: str | None) -> Struct:
    return Struct(ORDER, {"amount": amount, "name": name})


def configured(plugin: type[FunctionTransformation], config: dict[str, str]) -> FunctionTransformation:
    created = plugin()
    created.configure(plugin.config_def.parse(config))
    return created


@pytest.mark.parametrize(("plugin", "config"), EACH, ids=lambda value: getattr(value, "__name__", ""))
class TestEachForm(TransformationSuite):
    @pytest.fixture(autouse=True)
    def kind(self, plugin: type[FunctionTransformation], config: dict[str, str]) -> None:
        self.plugin, self.settings = plugin, config

    def transformation(self) -> FunctionTransformation:
        return configured(self.plugin, self.settings)

    def records(self) -> Sequence[SourceRecord]:
        return [
            SourceRecord({}, {}, "t", order(amount, name), "k", value_schema=ORDER, key_schema=STRING_SCHEMA)
            for amount, name in ((1, "a"), (2, "b"), (3, "c"))
        ]


def batch_of(*rows: Any) -> Batch:
    type = pa.struct([pa.field("amount", pa.int32(), nullable=False), pa.field("name", pa.string())])
    return Batch.of("t", value=pa.array(rows, type=type), key=pa.array(range(len(rows))), source_partition={"s": 1}, source_offset={"n": 9})


ROWS = ({"amount": 1, "name": "a"}, None, {"amount": 3, "name": None})
CHANGED: dict[str, tuple[list[Any], list[int]]] = {
    "masked": ([None, {"amount": 3, "name": "***"}], [1, 2]),
    "doubled": ([{"amount": 2, "name": "a"}, None, {"amount": 6, "name": None}], [0, 1, 2]),
    "not_small": ([None, {"amount": 3, "name": None}], [1, 2]),
    "big": ([None, {"amount": 3, "name": None}], [1, 2]),
    "with_total": ([{"amount": 1, "name": "A", "total": 2}, None, {"amount": 3, "name": None, "total": 6}], [0, 1, 2]),
    "in_polars": ([{"amount": 1, "name": "A"}, None, {"amount": 3, "name": None}], [0, 1, 2]),
}


@pytest.mark.parametrize(("plugin", "config"), EACH[:-1], ids=lambda value: getattr(value, "__name__", ""))
def test_null_values_stay_and_keys_go_with_their_values(plugin: type[FunctionTransformation], config: dict[str, str]) -> None:
    found = configured(plugin, config).apply_batch(batch_of(*ROWS))
    assert isinstance(found, Batch)
    assert found.value is not None
    assert found.key is not None
    assert (found.value.to_pylist(), found.key.to_pylist()) == CHANGED[plugin.__name__]
    assert found.source_offset == {"n": 9}
    assert found.value_schema is not None
    assert found.value_schema.optional
    amount = found.value_schema.field("amount")
    assert amount is not None
    assert amount.schema.type == "int32"
    nulls = configured(plugin, config).apply_batch(batch_of(None, None))
    assert isinstance(nulls, Batch)
    assert len(nulls) == 2


@pytest.mark.parametrize(("plugin", "config"), [EACH[0], EACH[3], EACH[4]], ids=lambda value: getattr(value, "__name__", ""))
def test_objects_without_a_schema_stay_so(plugin: type[FunctionTransformation], config: dict[str, str]) -> None:
    batch = Batch(
        "t", json_column(['{"amount":1,"name":"a"}', None, '{"amount":3,"name":null}']), source_partition={"s": 1}, source_offset={"n": 9}
    )
    found = configured(plugin, config).apply_batch(batch)
    assert isinstance(found, Batch)
    assert found.value_schema is None
    assert values_of(found.value, None) == CHANGED[plugin.__name__][0]


def test_text_is_one_value() -> None:
    @transformation
    def upper(text: str) -> str:
        return text.upper()

    @transformation
    def upper_column() -> dict[str, pc.Expression]:
        return {"value": pc.utf8_upper(pc.field("value"))}

    for plugin in (upper, upper_column):
        found = configured(plugin, {}).apply_batch(
            Batch.of("t", value=pa.array(["a", "b"]), source_partition={"s": 1}, source_offset={"n": 1})
        )
        assert isinstance(found, Batch)
        assert found.value is not None
        assert (found.value.to_pylist(), found.value_schema) == (["A", "B"], STRING_SCHEMA)


def test_a_value_that_fails_is_named() -> None:
    @transformation
    def picky(order: dict[str, Any]) -> dict[str, Any]:
        if order["amount"] > 1:
            raise DataException("too much")
        return order

    with pytest.raises(DataException) as caught:
        configured(picky, {}).apply_batch(batch_of(*ROWS))
    assert caught.value.record == 2


def test_a_table_of_another_length_and_a_field_that_is_missing_are_refused() -> None:
    @transformation
    def shorter(orders: pa.Table) -> pa.Table:
        return orders.slice(1)

    @transformation
    def unknown() -> pc.Expression:
        return pc.field("nothing") > 1

    with pytest.raises(DataException, match="must return 3 rows, as it gets, not 2"):
        configured(shorter, {}).apply_batch(batch_of(*ROWS))
    with pytest.raises(DataException, match="nothing"):
        configured(unknown, {}).apply_batch(batch_of(*ROWS))


def test_an_object_gains_no_keys_of_others() -> None:
    @transformation
    def doubled_in_place() -> dict[str, pc.Expression]:
        return {"amount": pc.field("amount") * 2}

    batch = Batch("t", json_column(['{"amount":1,"a":1}', '{"amount":2,"b":null}']))
    found = configured(doubled_in_place, {}).apply_batch(batch)
    assert isinstance(found, Batch)
    assert values_of(found.value, None) == [{"amount": 2, "a": 1}, {"amount": 4, "b": None}]
    mixed = Batch("t", json_column(['{"amount":1}', '{"amount":"x"}']))
    with pytest.raises(DataException, match="cannot be columns"):
        configured(doubled_in_place, {}).apply_batch(mixed)


PRICE = pa.struct([("amount", pa.float64()), ("at", pa.struct([("day", pa.float64())]))])


def price(amount: float | None) -> dict[str, Any]:
    return {"amount": amount, "at": {"day": amount}}


def in_turn(plugin: type[FunctionTransformation], *batches: list[Any]) -> list[pa.DataType]:
    """The types of the values of batches that one transformation returns."""
    changing = configured(plugin, {})
    found = [changing.apply_batch(Batch.of("t", pa.array(rows, PRICE))) for rows in batches]
    return [batch.value.type for batch in found if isinstance(batch, Batch) and batch.value is not None and len(batch)]


def test_dropped_rows_and_nulls_do_not_change_the_fields_of_later_rows() -> None:
    @transformation
    def text(row: dict[str, Any]) -> dict[str, Any] | None:
        return None if row["amount"] is None else {"amount": str(row["amount"]), "at": {"day": str(row["at"]["day"])}}

    @transformation
    def cents(row: dict[str, Any]) -> dict[str, Any]:
        return price(None) if row["amount"] is None else {"amount": round(100 * row["amount"]), "at": {"day": 1}}

    texts = pa.struct([("amount", pa.string()), ("at", pa.struct([("day", pa.string())]))])
    assert in_turn(text, [price(1.5)], [price(None)], [price(2.5)]) == [texts] * 2
    assert in_turn(text, [price(None)], [price(None), None], [price(2.5)])[-1] == texts
    numbers = pa.struct([("amount", pa.int64()), ("at", pa.struct([("day", pa.int64())]))])
    assert in_turn(cents, [price(1.5)], [price(None)], [price(2.5)]) == [numbers] * 3
    assert in_turn(cents, [price(None)], [price(2.5)]) == [PRICE, numbers]  # nulls alone have the types that came in


@transformation
def with_extra(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "extra": row.get("note")}


def fields_in_turn(*batches: Batch) -> list[list[str]]:
    changing = configured(with_extra, {})
    found = [changing.apply_batch(batch) for batch in batches]
    return [[f.name for f in b.value_schema.fields] for b in found if isinstance(b, Batch) and b.value_schema is not None]


def noted(topic: str, note: str | None) -> Batch:
    return Batch.of(topic, pa.table({"id": [1], "note": pa.array([note], pa.string())}))


def test_batches_of_other_topics_and_types_in_between_change_no_fields() -> None:
    other = Batch.of("b", pa.table({"k": [1.5]}))
    found = fields_in_turn(noted("a", "x"), other, noted("a", None), noted("b", None), noted("b", "x"), other, noted("b", None))
    whole = ["id", "note", "extra"]
    assert found == [whole, ["k"], whole, ["id", "note"], whole, ["k"], whole]


def test_the_types_that_are_kept_are_bounded_and_the_oldest_goes_first() -> None:
    batches = [noted(f"t{number}", "x") for number in range(MOST_KEPT)]
    whole = ["id", "note", "extra"]
    assert fields_in_turn(*batches, noted("t0", None))[-1] == whole  # is now the newest
    found = fields_in_turn(*batches, noted("t0", None), noted("more", "x"), noted("t0", None), noted("t1", None))
    assert found[-2:] == [whole, ["id", "note"]]


def test_the_suite_names_the_fields_that_differ() -> None:
    class Drifting(FunctionTransformation):
        def apply(self, record: Any) -> Any:
            changed = Schema.struct({"amount": STRING_SCHEMA, "name": STRING_SCHEMA.as_optional()})
            return record.replace(value=Struct(changed, {"amount": "1", "name": record.value.get("name")}), value_schema=changed)

        def apply_batch(self, batch: Batch) -> Batch:
            return batch

    class Suite(TransformationSuite):
        def transformation(self) -> Any:
            return Drifting()

        def records(self) -> Sequence[SourceRecord]:
            return [SourceRecord({}, {}, "t", order(1, "a"), value_schema=ORDER)]

    with pytest.raises(AssertionError) as caught:
        Suite().test_source_batches_change_like_records()
    assert str(caught.value).splitlines() == [
        "apply_batch and apply differ:",
        "record 0: value_schema.amount is INT32 from apply_batch, STRING from apply",
        "record 0: value.amount is 1 from apply_batch, '1' from apply",
    ]


MANY_TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "beyond 2**53": (pa.int64(), 2**53 + 1),
    "small": (pa.int8(), 5),
    "unsigned": (pa.uint32(), 2**32 - 1),
    "float": (pa.float32(), 0.5),
    "boolean": (pa.bool_(), True),
    "text": (pa.string(), "a"),
    "bytes": (pa.binary(), b"a"),
    "date": (pa.date32(), date(2026, 1, 31)),
    "timestamp": (pa.timestamp("ms", "UTC"), datetime(9000, 1, 1, 12, tzinfo=UTC)),
    "time": (pa.time32("ms"), time(1, 2, 3)),
    "decimal": (pa.decimal128(20, 2), Decimal("1.50")),
    "list": (pa.list_(pa.int64()), [2**53 + 1, None]),
    "struct": (pa.struct([("a", pa.int64())]), {"a": 2**53 + 1}),
}


@pytest.mark.parametrize("connector", [in_pandas, in_polars_with_a_field])
@pytest.mark.parametrize("nulls", [0, 1])
def test_frames_keep_the_types_and_values_of_all_columns(connector: type[FunctionTransformation], nulls: int) -> None:
    """Beside a null too, which NumPy has no integers and booleans for."""
    given = pa.table({name: pa.array([value] + [None] * nulls, type) for name, (type, value) in MANY_TYPES.items()})
    whole = Batch.of("t", given)
    changed = configured(connector, {}).apply_batch(whole)
    assert isinstance(changed, Batch)
    assert changed.value is not None
    assert whole.value is not None
    assert changed.value_schema is not None
    assert whole.value_schema is not None
    kinds = {field.name: field.schema.type for field in changed.value_schema.fields}
    assert kinds == {**{field.name: field.schema.type for field in whole.value_schema.fields}, "seen": kinds["seen"]}
    assert [{**row, "seen": True} for row in whole.value.to_pylist()] == changed.value.to_pylist()
