"""Plugins that were written against old names of the sdk load and run, and warn with the new names."""

import importlib
import re
import sqlite3
import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from airflow_provider_connect import sdk
from airflow_provider_connect.converters.plain import SimpleHeaderConverter, StringConverter
from airflow_provider_connect.errors import ConfigException, DataException, FencedException
from airflow_provider_connect.model.connector_settings import Guarantee
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.sdk import (
    BOOLEAN_SCHEMA,
    INT8_SCHEMA,
    STRING_SCHEMA,
    Batch,
    Config,
    ConfigDef,
    ConfigKey,
    Converter,
    OffsetRow,
    SchemaAndValue,
    SinkConnector,
    SinkRecord,
    SinkTask,
    Struct,
    TopicPartition,
    TransactionalSink,
)
from airflow_provider_connect.sdk.testing import MemorySinkContext, run
from airflow_provider_connect.worker.delivery.raw_batch import RawBatch
from airflow_provider_connect.worker.errors.tolerance import STRICT, Tolerance
from airflow_provider_connect.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.worker.pipeline.stages import Converters
from airflow_provider_connect.worker.task.contexts import TaskSinkContext

KINDS = ("INT8", "INT16", "INT32", "INT64", "FLOAT32", "FLOAT64", "BOOLEAN", "STRING", "BYTES")
MODULE_NAMES = ("Lambda", "OffsetOf", "add_unreachable", *(f"OPTIONAL_{kind}_SCHEMA" for kind in KINDS))


@pytest.mark.parametrize("name", MODULE_NAMES)
def test_an_old_name_of_the_module_warns_and_is_no_public_name(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"^{name} of airflow_provider_connect.sdk is deprecated, use ") as caught:
        assert getattr(sdk, name) is not None
    assert caught[0].filename == __file__
    assert name not in sdk.__all__


def test_a_renamed_function_is_the_same_one() -> None:
    with pytest.warns(DeprecationWarning, match="add_unreachable of airflow_provider_connect.sdk is deprecated, use add_path_errors$"):
        assert sdk.add_unreachable is sdk.add_path_errors  # type: ignore[attr-defined]


def test_optional_schemas_are_those_of_the_required_ones() -> None:
    with pytest.warns(DeprecationWarning, match=r"use STRING_SCHEMA\.as_optional\(\)"):
        from airflow_provider_connect.sdk import OPTIONAL_STRING_SCHEMA  # type: ignore[attr-defined]
    assert OPTIONAL_STRING_SCHEMA is STRING_SCHEMA.as_optional()
    assert OPTIONAL_STRING_SCHEMA.optional
    assert OPTIONAL_STRING_SCHEMA != STRING_SCHEMA


def test_a_schema_has_one_optional_twin() -> None:
    optional = INT8_SCHEMA.as_optional()
    assert optional.as_optional() is optional
    assert INT8_SCHEMA.as_optional() is optional
    assert optional.as_required() == INT8_SCHEMA
    assert BOOLEAN_SCHEMA.as_optional() != optional
    assert hash(INT8_SCHEMA) == hash(optional.as_required())


def test_lambda_is_its_function() -> None:
    def check(name: str, value: object) -> None:
        if value == "x":
            raise ConfigException.of(name, "x", "no")

    with pytest.warns(DeprecationWarning, match="use the function itself"):
        validator = sdk.Lambda(check, "anything but x")  # type: ignore[attr-defined]
    definition = ConfigDef(ConfigKey("k", validator=validator))
    assert definition.validate({"k": "x"})[0].errors == ["Invalid value x for configuration k: no"]
    assert definition.validate({"k": "y"})[0].errors == []


def test_other_names_are_still_missing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(AttributeError, match="has no attribute 'OPTIONAL_UUID_SCHEMA'"):
            _ = sdk.OPTIONAL_UUID_SCHEMA  # type: ignore[attr-defined]


def test_names_of_submodules_are_old_names_too() -> None:
    """Authors import the sdk alone; some have reached below it all the same."""
    names = {"schema": "OPTIONAL_BYTES_SCHEMA", "config_def": "Lambda", "connector": "OffsetOf", "allowed_paths": "add_unreachable"}
    for module, name in names.items():
        with pytest.warns(DeprecationWarning, match=name):
            assert getattr(importlib.import_module(f"airflow_provider_connect.sdk.{module}"), name) is not None


# Attributes


def batch_of(*values: str) -> Batch:
    records = [SinkRecord("t", 0, offset, value=value, value_schema=STRING_SCHEMA) for offset, value in enumerate(values)]
    return Batch.from_sink_records(records)[0]


def test_a_sink_task_of_old_names_declares_its_columns() -> None:
    with pytest.warns(DeprecationWarning, match=r"OldTask defines reads, which is deprecated: define required_columns$") as caught:

        class OldTask(SinkTask):
            reads: ClassVar[frozenset[str]] = frozenset({"key"})

    assert caught[0].filename == __file__
    assert OldTask.required_columns == frozenset({"key"})
    assert SinkTask.required_columns == frozenset({"key", "headers", "timestamp"})


def test_an_old_attribute_can_be_set() -> None:
    task: Any = SinkTask()
    with pytest.warns(DeprecationWarning, match=r"SinkTask\.reads is deprecated, use required_columns"):
        task.reads = frozenset({"key"})
    assert task.required_columns == frozenset({"key"})


def test_a_mixin_of_old_names_counts_too() -> None:
    class ValuesAlone:
        reads: ClassVar[frozenset[str]] = frozenset()

    with pytest.warns(DeprecationWarning, match="ValuesAlone defines reads"):

        class Mixed(ValuesAlone, SinkTask):
            pass

    assert Mixed.required_columns == frozenset()


def test_new_names_count_beside_old_ones() -> None:
    with pytest.warns(DeprecationWarning, match="define required_columns"):

        class Old(SinkTask):
            reads: ClassVar[frozenset[str]] = frozenset()

    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class New(Old):
            required_columns: ClassVar[frozenset[str]] = frozenset({"key"})

        class Both(SinkTask):
            """Runs with an older and a newer sdk."""

            reads: ClassVar[frozenset[str]] = frozenset()
            required_columns: ClassVar[frozenset[str]] = frozenset({"headers"})

    assert New.required_columns == frozenset({"key"})
    assert Both.required_columns == frozenset({"headers"})


def test_a_transactional_sink_of_old_names_declares_its_columns() -> None:
    with pytest.warns(DeprecationWarning, match="OldSink defines reads"):

        class OldSink(TransactionalSink):
            reads: ClassVar[frozenset[str]] = frozenset()

    assert OldSink.task_class.required_columns == frozenset()
    assert TransactionalSink.required_columns == SinkTask.required_columns


def test_a_converter_of_old_names_is_called_once_and_its_super_too() -> None:
    calls: list[str] = []
    with pytest.warns(DeprecationWarning, match="OldConverter defines unreadable, which is deprecated: define find_invalid_rows"):

        class OldConverter(Converter):
            def unreadable(self, topic: str, column: pa.Array) -> Mapping[int, Exception]:
                calls.append(topic)
                return {**super().unreadable(topic, column), 0: DataException("x")}  # type: ignore[misc]

            def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
                return SchemaAndValue(STRING_SCHEMA.as_optional(), data and data.decode())

    errors = Tolerance(replace(STRICT, tolerates_all=True))
    pipeline = SinkPipeline(Converters(OldConverter(), OldConverter(), SimpleHeaderConverter()), errors=errors)
    raw = RawBatch(TopicPartition("t", 0), 5, 7, pa.array([b"a", b"b"], pa.binary()))
    with pytest.warns(DeprecationWarning, match="OldConverter.unreadable is deprecated"):  # by its super()
        [batch] = pipeline.batches(raw)
    assert batch.value is not None
    assert (calls, batch.value.to_pylist()) == (["t"], ["b"])


def test_a_converter_is_found_under_its_old_method_too() -> None:
    converter: Any = StringConverter()
    with pytest.warns(DeprecationWarning, match=r"StringConverter\.unreadable is deprecated, use find_invalid_rows"):
        assert converter.unreadable("t", pa.array([b"a"])) == {}


def test_contexts_answer_to_old_names() -> None:
    contexts: list[Any] = [TaskSinkContext({}, Claim(7, "s"), guarantee=Guarantee.EXACTLY_ONCE), MemorySinkContext({}, [], claim_epoch=7)]
    for context in contexts:
        with pytest.warns(DeprecationWarning, match="claim_order is deprecated, use claim_epoch"):
            assert context.claim_order == 7
        with pytest.warns(DeprecationWarning, match="moved_by_others is deprecated, use has_external_commits"):
            assert context.moved_by_others is False


def test_rows_of_offsets_answer_to_old_names() -> None:
    with pytest.warns(DeprecationWarning, match="Argument claim_order of OffsetRow.__init__ is deprecated, use claim_epoch"):
        row: Any = OffsetRow(next_offset=5, claim="s:3", claim_order=3)  # type: ignore[call-arg]
    assert row == OffsetRow(5, "s:3", 3)
    with pytest.warns(DeprecationWarning, match=r"OffsetRow\.claim_order is deprecated"):
        assert row.claim_order == 3


class Put(SinkTask):
    contexts: ClassVar[list[tuple[int, bool]]] = []

    def start(self, config: Config) -> None:
        context: Any = self.context
        self.contexts.append((context.claim_order, context.moved_by_others))

    def put(self, batch: Batch) -> None:
        """Take it."""

    def stop(self) -> None:
        """Nothing is open."""


class PutConnector(SinkConnector):
    task_class = Put

    def task_configs(self, max_tasks: int) -> list[Config]:
        return [self.config] * max_tasks


def test_a_run_in_an_authors_test_takes_the_old_argument() -> None:
    Put.contexts.clear()
    with pytest.warns(DeprecationWarning, match="is deprecated") as caught:
        done = run(PutConnector(), {}, batches=[batch_of("a", "b")], claim_order=2)  # type: ignore[call-overload]
    assert done.offsets == {TopicPartition("t", 0): 2}
    assert Put.contexts == [(2, False)]
    assert {str(warning.message).partition(" is deprecated")[0] for warning in caught} == {
        "Argument claim_order of run",
        "MemorySinkContext.claim_order",
        "MemorySinkContext.moved_by_others",
    }


OLD_PLUGIN = """
import sqlite3

from airflow_provider_connect.sdk import (
    OPTIONAL_STRING_SCHEMA, Batch, ConfigDef, ConfigException, ConfigKey, FencedException, Lambda, OffsetOf, Schema, SinkConnector,
    SinkTask, add_unreachable,
)

VALUE = Schema.struct({"text": OPTIONAL_STRING_SCHEMA})


def check(name, value):
    if not str(value).endswith(".db"):
        raise ConfigException.of(name, value, "a database is called ….db")


class OldTask(SinkTask):
    reads = frozenset()

    def start(self, config):
        self.database = sqlite3.connect(config["path"])
        self.database.execute("CREATE TABLE IF NOT EXISTS state (claim INTEGER, next INTEGER)")
        self.database.execute("CREATE TABLE IF NOT EXISTS records (text TEXT)")

    def open(self, partitions):
        newest, self.next = self.database.execute("SELECT max(claim), max(next) FROM state").fetchone()
        if newest is not None and newest > self.context.claim_order:
            raise FencedException("newer")
        assert self.context.moved_by_others is False
        return {} if self.next is None else dict.fromkeys(partitions, self.next)

    def put(self, batch):
        assert batch.key is None
        self.database.executemany("INSERT INTO records VALUES (?)", [(value["text"],) for value in batch.value.to_pylist()])

    def pre_commit(self, offsets):
        self.database.execute("INSERT INTO state VALUES (?, ?)", [self.context.claim_order, max(offsets.values())])
        self.database.commit()
        return offsets

    def stop(self):
        self.database.close()


class OldSink(SinkConnector):
    task_class = OldTask
    config_def = ConfigDef(ConfigKey("path", validator=Lambda(check, "a database")))

    def validate(self, config):
        values = super().validate(config)
        add_unreachable(values, "path", self.allowed_paths)
        return values

    def task_configs(self, max_tasks):
        return [self.config] * max_tasks
"""


def test_a_whole_plugin_of_old_names_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_of_old_names.py").write_text(OLD_PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    old_run: Any = run
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plugin: Any = importlib.import_module("plugin_of_old_names")
        config = {"path": str(tmp_path / "old.db")}
        values = [Struct(plugin.VALUE, {"text": text}) for text in "abc"]
        [whole] = Batch.from_sink_records([SinkRecord("t", 0, n, value=each, value_schema=plugin.VALUE) for n, each in enumerate(values)])
        begun = old_run(plugin.OldSink(), config, batches=[whole.slice(0, 2)], exactly_once=True, claim_order=1)
        after = old_run(plugin.OldSink(), config, batches=[whole], exactly_once=True, claim_order=2)
        with pytest.raises(FencedException):
            old_run(plugin.OldSink(), config, batches=[whole], exactly_once=True, claim_order=1)
        [path] = plugin.OldSink().validate({"path": "/etc/passwd"})
    assert [done.offsets for done in (begun, after)] == [{TopicPartition("t", 0): 2}, {TopicPartition("t", 0): 3}]
    with closing(sqlite3.connect(config["path"])) as database:
        assert [text for (text,) in database.execute("SELECT text FROM records")] == ["a", "b", "c"]
    assert "a database is called" in path.errors[0]
    warned = {str(warning.message) for warning in caught if warning.category is DeprecationWarning}
    for old in ("OPTIONAL_STRING_SCHEMA", "Lambda", "OffsetOf", "add_unreachable", "reads", "claim_order", "moved_by_others"):
        assert [message for message in warned if re.search(rf"\b{old}\b", message)], old
