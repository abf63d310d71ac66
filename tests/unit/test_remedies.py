"""Remedies in messages, carried out without servers: the fault raises the message, the remedy that it names is applied, the fault is gone.

``test_advice`` checks that what any message names is there.
"""

from __future__ import annotations

import datetime
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pytest

from airflow_provider_connect.codecs.avro.avro_type import parse_avro
from airflow_provider_connect.codecs.avro.connect_schemas import AvroRules, avro_schema_text, connect_schema
from airflow_provider_connect.codecs.json.connect_schemas import JsonSchemaRules, json_schema_text
from airflow_provider_connect.codecs.json.values import JsonRules
from airflow_provider_connect.codecs.protobuf.schemas import ProtobufRules, proto_text
from airflow_provider_connect.connectors.filesystem.formats.contract import check_struct
from airflow_provider_connect.connectors.filesystem.partitioners.time_path import TimePath
from airflow_provider_connect.connectors.jdbc.catalog.column import TIMESTAMPS, Column, ColumnKind, TableName
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.dialects.postgresql import Postgresql
from airflow_provider_connect.connectors.jdbc.sink.layout import build_layout
from airflow_provider_connect.connectors.jdbc.sink.rounded_numbers import RoundedNumbers
from airflow_provider_connect.connectors.jdbc.sink.settings import CONFIG_DEF as JDBC_SINK
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings
from airflow_provider_connect.connectors.jdbc.sink.target import TargetTable, accepts, changes
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.connectors.lake.unwritten_fields import UnwrittenFields
from airflow_provider_connect.connectors.logs.settings import CONFIG_DEF as LOGS
from airflow_provider_connect.connectors.logs.settings import LineSettings
from airflow_provider_connect.data.columns import column_of
from airflow_provider_connect.data.schema import (
    BOOLEAN_SCHEMA,
    BYTES_SCHEMA,
    DATE_SCHEMA,
    FLOAT64_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    TIME_SCHEMA,
    TIMESTAMP_SCHEMA,
    Schema,
    decimal_schema,
)
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.kafka_client.settings import librdkafka_config
from airflow_provider_connect.rest.access import Access
from airflow_provider_connect.rest.server import RestListener, create_access
from airflow_provider_connect.runtime.config.client_settings import ClientKind, client_config, refused_overrides
from airflow_provider_connect.runtime.config.config_providers import resolve
from airflow_provider_connect.runtime.config.dag_settings import check_definition, dag_settings
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.config.rules import refuse, refused_end
from airflow_provider_connect.runtime.model.connector_settings import text_errors
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import group_errors, refusal_of_topics
from airflow_provider_connect.runtime.worker.delivery.kafka_reader import BATCH_BYTES, FORCED_SETTINGS, READER_SETTINGS
from airflow_provider_connect.runtime.worker.delivery.producer_queue import _Headers
from airflow_provider_connect.runtime.worker.delivery.raw_batch import HEADERS_TYPE
from airflow_provider_connect.runtime.worker.task.memory_limit import REMEDY
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from airflow_provider_connect.sdk.functions.source import source
from airflow_provider_connect.sdk.testing import run

TABLE: Final = TableName("orders")
Step = tuple[str, Mapping[str, str]]
"""A transformation and its settings."""


def batch(value: Any, schema: Schema | None) -> Batch:
    return KafkaBatch("t", column_of([value], schema), value_schema=schema, kafka_partition=0, first_offset=0, next_offset=1)


def after(given: Batch, *steps: Step) -> Batch:
    for name, settings in steps:
        plugin = PluginCatalog().named(f"org.apache.kafka.connect.transforms.{name}") or PluginCatalog().named(name)
        transformation: Any = plugin[-1].load()()
        transformation.configure(transformation.config_def.parse(settings))
        given = transformation.apply_batch(given)
    return given


def schema_after(value: Any, schema: Schema | None, *steps: Step) -> Schema:
    found = after(batch(value, schema), *steps).value_schema
    assert found is not None
    return found


def struct(**fields: Schema) -> Schema:
    return Schema.struct(fields)


def sql(columns: str) -> Step:
    return "SqlTransform", {"sql": f"SELECT * REPLACE ({columns}) FROM batch"}


FLAT: Final[Step] = ("Flatten$Value", {"delimiter": "_"})
NESTED: Final = struct(f=struct(a=STRING_SCHEMA))
SAME_NAMES: Final = struct(x=Schema.struct({"a": STRING_SCHEMA}, name="N"), y=Schema.struct({"b": STRING_SCHEMA}, name="N"))
SAME_VALUES: Final = {"x": {"a": "1"}, "y": {"b": "2"}}
OUTER: Final = Schema.struct({"x": Schema.struct({"a": STRING_SCHEMA}, name="N")}, name="N")
LONGS: Final = struct(f=Schema.map(INT32_SCHEMA, INT32_SCHEMA))
PG: Final = Postgresql()


def sink(**settings: str) -> SinkSettings:
    given = {"connection.url": "jdbc:sqlite:/x.db", **{name.replace("_", "."): value for name, value in settings.items()}}
    return SinkSettings.of(JDBC_SINK.parse(given))


def created(value: Any, schema: Schema, *steps: Step, **settings: str) -> list[str]:
    """The statements that create a table for a record."""
    given = sink(auto_create="true", **settings)
    return changes(build_layout(given, after(batch(value, schema), *steps), str), None, TABLE, given, PG)


def fitted(columns: Mapping[str, Column], schema: Schema = NESTED, *, unique: Sequence[str] = (), **settings: str) -> list[str]:
    """The statements that make a record fit a table."""
    given = sink(**settings)
    table = TargetTable(TABLE, columns, (frozenset(unique),) if unique else ())
    return changes(build_layout(given, batch(None, schema.as_optional()), str), table, TABLE, given, PG)


def column(kind: ColumnKind, name: str = "f", **more: Any) -> Column:
    is_short = kind is ColumnKind.DECIMAL
    return Column(name, kind, kind.value, precision=10 if is_short else None, scale=2 if is_short else None, **more)


def overrides(**worker: str) -> None:
    settings = WorkerSettings.of({name.replace("_", "."): value for name, value in worker.items()})
    refused = refused_overrides(settings, {"producer.override.bootstrap.servers": "other:9092"})
    if refused:
        raise ConnectException(" ".join(refused.values()))


def group(**config: str) -> None:
    errors = group_errors(WorkerSettings.of({}), {name.replace("_", "."): value for name, value in config.items()})
    if errors:
        raise ConnectException(" ".join(errors))


HOST: Final = "${env:HOST}"
OPEN: Final = {"config.providers.access.default": "allow"}
RULES: Final = {**OPEN, "config.providers.env.access.others": ".*"}
"""With a rule, the default no longer applies."""


def resolved(variable: str, worker: Mapping[str, str] = MappingProxyType({}), key: str = "connection.url", **more: str) -> dict[str, str]:
    env = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"HOST": "db.example.org", "A*B": "db.example.org", "SHORT": "db"}.items():
            patch.setenv(name, value)
        found = resolve({key: variable}, WorkerSettings.of({**env, **worker, **more}).config_providers("orders"))
    assert "$" not in found[key]
    return found


def bounded(**settings: str) -> None:
    given = {"connection.url": "jdbc:sqlite:/x.db", "mode": "bulk", "topic.prefix": "t.", **settings}
    SourceSettings.of(JdbcSourceConnector.config_def.parse(given), ALL_ALLOWED)


def access(listener: str, anonymous: str = "false") -> Access:
    worker = {"listeners": listener, "rest.anonymous.access": anonymous}
    return create_access(worker, RestListener.of(worker))


UNION: Final = json.dumps([{"type": "record", "name": "N", "namespace": space, "fields": []} for space in ("a", "b")])


def rows_read(rows: Sequence[Mapping[str, Any]], **arguments: Any) -> object:
    def rows_of_function() -> Iterator[Mapping[str, Any]]:
        yield from rows

    return run(source(**arguments)(rows_of_function)(), {"topic": "t"})


def java(config: Mapping[str, str]) -> Mapping[str, str]:
    """The config, unless it is refused."""
    refuse(config)
    if reason := refused_end("io.debezium.connector.postgresql.PostgresConnector", config):
        raise ConnectException(reason)
    return config


def tombstone() -> Batch:
    key = struct(id=INT32_SCHEMA)
    return KafkaBatch("t", pa.nulls(1), key=column_of([{"id": 1}], key), key_schema=key, kafka_partition=0, first_offset=0, next_offset=1)


def lines(**settings: str) -> LineSettings:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return LineSettings.of(LOGS.parse({"paths": "/x/*.log", "topic": "t", **given}))


def statement(text: str, schema: Schema = NESTED) -> Schema:
    return schema_after({"f": {"a": "x"}}, schema, ("SqlTransform", {"sql": text}))


@dataclass(frozen=True, slots=True)
class Case:
    """``advice`` is a part of the message of ``fault``."""

    name: str
    advice: str
    fault: Callable[[], object]
    remedied: Callable[[], object]

    def __str__(self) -> str:
        return self.name


CASES: Final = [
    Case(
        "a struct for a column",
        "Flatten the value (transformation Flatten), or leave the field out (fields.whitelist)",
        lambda: created({"f": {"a": "x"}}, NESTED),
        lambda: created({"f": {"a": "x"}}, NESTED, FLAT),
    ),
    Case(
        "a map for a column",
        "Make the field text (transformation SqlTransform, CAST(… AS VARCHAR)), or leave the field out (fields.whitelist)",
        lambda: created({"f": {1: 2}}, LONGS),
        lambda: created({"f": {1: 2}}, LONGS, sql("CAST(f AS VARCHAR) AS f")),
    ),
    Case(
        "a map left out",
        "leave the field out (fields.whitelist)",
        lambda: created({"f": {1: 2}, "g": 1}, struct(f=LONGS.fields[0].schema, g=INT32_SCHEMA)),
        lambda: created({"f": {1: 2}, "g": 1}, struct(f=LONGS.fields[0].schema, g=INT32_SCHEMA), fields_whitelist="g"),
    ),
    Case(
        "a map in the key",
        "or name other fields in pk.fields",
        lambda: created({"f": {1: 2}, "g": 1}, struct(f=LONGS.fields[0].schema, g=INT32_SCHEMA), pk_mode="record_value", pk_fields="f"),
        lambda: created({"g": 1}, struct(g=INT32_SCHEMA), pk_mode="record_value", pk_fields="g"),
    ),
    Case(
        "no table",
        "or set auto.create to true",
        lambda: changes(build_layout(sink(), batch({"g": 1}, struct(g=INT32_SCHEMA)), str), None, TABLE, sink(), PG),
        lambda: created({"g": 1}, struct(g=INT32_SCHEMA)),
    ),
    Case(
        "no column",
        "or set auto.evolve to true",
        lambda: fitted({"g": column(ColumnKind.INT32, "g")}, struct(f=INT32_SCHEMA.as_optional())),
        lambda: fitted({"g": column(ColumnKind.INT32, "g")}, struct(f=INT32_SCHEMA.as_optional()), auto_evolve="true"),
    ),
    Case(
        "no column for a required field",
        "give it a default in the source",
        lambda: fitted({}, struct(f=INT32_SCHEMA), auto_evolve="true"),
        lambda: fitted({}, struct(f=INT32_SCHEMA.with_default(0)), auto_evolve="true"),
    ),
    Case(
        "a column without a field",
        "Give the column a default, make it nullable, or drop it",
        lambda: fitted({"g": column(ColumnKind.INT32, "g", is_nullable=False)}, struct(f=INT32_SCHEMA.as_optional()), auto_evolve="true"),
        lambda: [
            fitted({"g": column(ColumnKind.INT32, "g", **change)}, struct(f=INT32_SCHEMA.as_optional()), auto_evolve="true")
            for change in ({"is_nullable": False, "default": "0"}, {"is_nullable": True})
        ],
    ),
    Case(
        "no unique index for an upsert",
        "which upsert needs. Create one.",
        lambda: fitted(
            {"f": column(ColumnKind.INT32)}, struct(f=INT32_SCHEMA), insert_mode="upsert", pk_mode="record_value", pk_fields="f"
        ),
        lambda: fitted(
            {"f": column(ColumnKind.INT32)},
            struct(f=INT32_SCHEMA),
            unique=["f"],
            insert_mode="upsert",
            pk_mode="record_value",
            pk_fields="f",
        ),
    ),
    Case(
        "records without a value",
        "Set delete.enabled to true to delete the rows of their keys",
        lambda: build_layout(sink(pk_mode="record_key"), tombstone(), str),
        lambda: build_layout(sink(pk_mode="record_key", delete_enabled="true"), tombstone(), str),
    ),
    Case(
        "columnar files of values without a schema",
        "Use a converter that reads schemas, or the format json",
        lambda: check_struct(None, "CSV"),
        lambda: check_struct(NESTED, "CSV"),
    ),
    Case(
        "columnar files of texts",
        "Use the transformation HoistField, or the format json",
        lambda: check_struct(STRING_SCHEMA, "CSV"),
        lambda: check_struct(schema_after("x", STRING_SCHEMA, ("HoistField$Value", {"field": "f"})), "CSV"),
    ),
    Case(
        "two schemas of one name in Protobuf",
        "flatten the value (transformation Flatten, delimiter=_)",
        lambda: proto_text(SAME_NAMES),
        lambda: proto_text(schema_after(SAME_VALUES, SAME_NAMES, FLAT)),
    ),
    Case(
        "two schemas of one name in Avro",
        "flatten the value (transformation Flatten, delimiter=_)",
        lambda: avro_schema_text(SAME_NAMES),
        lambda: avro_schema_text(schema_after(SAME_VALUES, SAME_NAMES, FLAT)),
    ),
    Case(
        "the name of the whole value within it, in Avro",
        "flatten the value (transformation Flatten, delimiter=_)",
        lambda: avro_schema_text(OUTER),
        lambda: avro_schema_text(schema_after({"x": {"a": "1"}}, OUTER, FLAT)),
    ),
    Case(
        "a name that Protobuf cannot have",
        "set scrub.invalid.names=true",
        lambda: proto_text(struct(**{"a-b": STRING_SCHEMA})),
        lambda: proto_text(struct(**{"a-b": STRING_SCHEMA}), ProtobufRules(scrubs_names=True)),
    ),
    Case(
        "a list as a record of Protobuf",
        "Put it into a struct, as with HoistField",
        lambda: proto_text(Schema.array(STRING_SCHEMA)),
        lambda: proto_text(schema_after(["x"], Schema.array(STRING_SCHEMA), ("HoistField$Value", {"field": "f"}))),
    ),
    Case(
        "a map with numbers as keys in JSON",
        "cast the map (transformation SqlTransform)",
        lambda: json_schema_text(LONGS, JsonSchemaRules(JsonRules())),
        lambda: json_schema_text(
            schema_after({"f": {1: 2}}, LONGS, sql("CAST(f AS MAP(VARCHAR, INTEGER)) AS f")), JsonSchemaRules(JsonRules())
        ),
    ),
    Case(
        "a URL of jTDS",
        "with encrypt=true;trustServerCertificate=true",
        *(
            (lambda url=url: parse_url(url))
            for url in (
                "jdbc:jtds:sqlserver://host:1433/name;ssl=require",
                "jdbc:sqlserver://host:1433;databaseName=name;encrypt=true;trustServerCertificate=true",
            )
        ),
    ),
    *(
        Case(f"the URL {url}", advice, lambda url=url: parse_url(url), lambda good=good: parse_url(good))  # type: ignore[misc]
        for url, advice, good in [
            (
                "jdbc:sqlserver://host:1433;databaseName=name;encrypt=true",
                "Set it to true",
                "jdbc:sqlserver://host:1433;databaseName=name;encrypt=true;trustservercertificate=true",
            ),
            (
                "jdbc:sqlserver://host\\a;databaseName=x",
                "Write the port",
                "jdbc:sqlserver://host:1433;databaseName=name;encrypt=true;trustServerCertificate=true",
            ),
            ("jdbc:aws-wrapper:postgresql://db/shop", "Write the URL without aws-wrapper:", "jdbc:postgresql://db/shop"),
            (
                "jdbc:mysql://db/x?trustStore=/x",
                "serverSslCert=…&ssl_cert=…&ssl_key=…",
                "jdbc:mysql://db/x?serverSslCert=/a&ssl_cert=/b&ssl_key=/c",
            ),
            (
                "jdbc:postgresql://db/x?trustStore=/x",
                "sslrootcert=…&sslcert=…&sslkey=…",
                "jdbc:postgresql://db/x?sslrootcert=/a&sslcert=/b&sslkey=/c",
            ),
            ("jdbc:mysql:replication://a,b/x", "Name one host: jdbc:mysql://host:port/database", "jdbc:mysql://a/x"),
            ("postgresql://u:p@ss@h/d", "%40 is an at sign", "postgresql://u:p%40ss@h/d"),
            ("jdbc:postgresql://h/d?password=a&b", "write %26 for &", "jdbc:postgresql://h/d?password=a%26b"),
            ("jdbc:oracle:thin:host", "jdbc:oracle:thin:@//host:1521/service", "jdbc:oracle:thin:@//host:1521/service"),
            ("jdbc:oracle:thin:@TNS", "or jdbc:oracle:thin:@host:1521:SID", "jdbc:oracle:thin:@host:1521:SID"),
            ("jdbc:sqlite::memory:", "jdbc:sqlite:/path/to/file.db", "jdbc:sqlite:/path/to/file.db"),
        ]
    ),
    Case(
        "text in a path of times",
        "Put text into quotes: 'year'=YYYY.",
        lambda: TimePath("path.format", "year=YYYY"),
        lambda: TimePath("path.format", "'year'=YYYY"),
    ),
    Case(
        "a client of another cluster",
        "ask for the worker setting connector.client.config.override.policy=All",
        overrides,
        lambda: overrides(connector_client_config_override_policy="All"),
    ),
    Case(
        "a group that no client can name",
        "Set consumer.override.group.id, or choose another name.",
        lambda: group(name="bücher"),
        lambda: group(**{"name": "bücher", "consumer_override_group_id": "books"}),
    ),
    *(
        Case(f"a variable, {name}", advice, lambda given=given: resolved(*given), lambda given=given, rule=rule: resolved(*given, **rule))  # type: ignore[misc]
        for name, advice, given, rule in [
            ("no rule", "(config.providers.access.default=allow", (HOST,), {"config.providers.access.default": "allow"}),
            (
                "no rule of this connector",
                "config.providers.env.access.orders=HOST",
                (HOST, RULES),
                {"config.providers.env.access.orders": "HOST"},
            ),
            (
                "a name with a star",
                r"config.providers.env.access.orders=A\*B",
                ("${env:A*B}", RULES),
                {"config.providers.env.access.orders": r"A\*B"},
            ),
            ("in a topic", "config.providers.env.public.keys=HOST", (HOST, OPEN, "topics"), {"config.providers.env.public.keys": "HOST"}),
            ("in a topic, all", "(config.providers.env.secret=false", (HOST, OPEN, "topics"), {"config.providers.env.secret": "false"}),
            (
                "a short value",
                "config.providers.env.public.keys=SHORT",
                ("${env:SHORT}", {"config.providers.env.access.orders": ".*"}),
                {"config.providers.env.public.keys": "SHORT"},
            ),
        ]
    ),
    Case(
        "rows of a mode without order",
        "remove it and bound the rows in a query",
        lambda: bounded(**{"rows.from": "5"}),
        lambda: bounded(query="SELECT * FROM orders WHERE id >= 5", **{"topic.prefix": "orders"}),
    ),
    *(
        Case("a server that is open to all", advice, lambda: access("http://0.0.0.0:8083"), lambda more=more: access(**more))  # type: ignore[misc]
        for advice, more in [
            ("listen on 127.0.0.1", {"listener": "http://127.0.0.1:8083"}),
            ("or set rest.anonymous.access=true", {"listener": "http://0.0.0.0:8083", "anonymous": "true"}),
        ]
    ),
    Case(
        "a deadline without a notifier",
        "name notifiers in airflow.on.deadline",
        lambda: dag_settings("orders", {"airflow.deadline.silence": "1h"}),
        lambda: dag_settings("orders", {"airflow.deadline.silence": "1h", "airflow.on.deadline": "shop"}),
    ),
    Case(
        "a notifier without a deadline",
        "set one of airflow.deadline.duration",
        lambda: dag_settings("orders", {"airflow.on.deadline": "shop"}),
        lambda: dag_settings("orders", {"airflow.deadline.duration": "1h", "airflow.on.deadline": "shop"}),
    ),
    Case(
        "the length of a run that ends",
        "it has no effect without airflow.schedule=@continuous or airflow.run.idle.timeout: set one of them too",
        lambda: dag_settings("orders", {"airflow.run.max.duration": "1h"}),
        lambda: [
            dag_settings("orders", {"airflow.run.max.duration": "1h", **more})
            for more in ({"airflow.schedule": "@continuous"}, {"airflow.run.idle.timeout": "1m"})
        ],
    ),
    Case(
        "the interval of asset events of a run that ends",
        "set airflow.schedule=@continuous too",
        lambda: dag_settings("orders", {"airflow.asset.interval": "1m"}),
        lambda: dag_settings("orders", {"airflow.asset.interval": "1m", "airflow.schedule": "@continuous"}),
    ),
    Case(
        "a schedule in a shared application",
        "omit it, or write @continuous",
        lambda: dag_settings("orders", {"airflow.application": "shop", "airflow.schedule": "@daily"}),
        lambda: [dag_settings("orders", {"airflow.application": "shop", **more}) for more in ({}, {"airflow.schedule": "@continuous"})],
    ),
    Case(
        "a lag of a source",
        "limit airflow.deadline.silence",
        lambda: check_definition("orders", {"connector.class": "FileStreamSource", "airflow.deadline.lag": "5"}),
        lambda: check_definition("orders", {"connector.class": "FileStreamSource", "airflow.deadline.silence": "1h"}),
    ),
    Case(
        "a Java trust store",
        "(ssl.truststore.type=PEM)",
        lambda: librdkafka_config({"ssl.truststore.location": "/x.jks"}, ClientKind.ADMIN),
        lambda: librdkafka_config({"ssl.truststore.location": "/x.pem", "ssl.truststore.type": "PEM"}, ClientKind.ADMIN),
    ),
    Case(
        "two branches of one name in Avro",
        "set enhanced.avro.schema.support=true",
        lambda: connect_schema(parse_avro(UNION)),
        lambda: connect_schema(parse_avro(UNION), AvroRules(keeps_enums=True)),
    ),
    Case(
        "rows of a function with another type",
        "set its type with schema=",
        lambda: rows_read([{"f": 1}, {"f": "x"}]),
        lambda: rows_read([{"f": 1}, {"f": "x"}], schema=pa.schema([("f", pa.string())])),
    ),
    Case(
        "rows of a function without a cursor's value",
        "or set on_null_cursor to 'skip' or 'deliver'",
        lambda: rows_read([{"f": None, "g": 1}], cursor="f"),
        lambda: [rows_read([{"f": None, "g": 1}], cursor="f", on_null_cursor=word) for word in ("skip", "deliver")],
    ),
    Case(
        "a cursor of times and other texts",
        "declare the field as a string with schema=",
        lambda: rows_read([{"f": "2026-01-01"}, {"f": "a"}], cursor="f"),
        lambda: rows_read([{"f": "2026-01-01"}, {"f": "a"}], cursor="f", schema=pa.schema([("f", pa.string())])),
    ),
    *(
        Case(f"{name} of a Java connector", advice, lambda wrong=wrong: java(wrong), lambda right=right: [java(each) for each in right])  # type: ignore[misc]
        for name, advice, wrong, right in [
            (
                "the history",
                "remove this key, or set io.debezium.storage.kafka.history.KafkaSchemaHistory",
                {"schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory"},
                [{"schema.history.internal": "io.debezium.storage.kafka.history.KafkaSchemaHistory"}, {}],
            ),
            (
                "the channel of signals",
                "set it to source or kafka",
                {"signal.enabled.channels": "file"},
                [{"signal.enabled.channels": "source"}, {"signal.enabled.channels": "kafka", "airflow.schedule": "@continuous"}],
            ),
            (
                "the last poll",
                "set it to poll, or remove airflow.java.poll.timeout",
                {"airflow.java.poll.timeout": "5s", "transaction.boundary": "interval"},
                [{"airflow.java.poll.timeout": "5s", "transaction.boundary": "poll"}, {"transaction.boundary": "interval"}],
            ),
            ("the end", "set airflow.schedule=@continuous", {"signal.enabled.channels": "kafka"}, [{"airflow.schedule": "@continuous"}]),
        ]
    ),
    Case(
        "times in lines of text",
        "Text has no fields. Set timestamp.pattern instead.",
        lambda: lines(timestamp_field="time"),
        lambda: lines(timestamp_pattern=r"^(\S+)"),
    ),
    Case(
        "times without a group",
        r"Put the time into a group: ^(\S+)",
        lambda: lines(timestamp_pattern=r"^\S+"),
        lambda: lines(timestamp_pattern=r"^(\S+)"),
    ),
    Case(
        "a pattern without names",
        r"such as (?P<level>\w+) (?P<text>.*).",
        lambda: lines(line_format="pattern", line_pattern=r"(\w+) (.*)"),
        lambda: lines(line_format="pattern", line_pattern=r"(?P<level>\w+) (?P<text>.*)"),
    ),
    Case(
        "an expression in SQL without a name",
        "write … AS name",
        lambda: statement("SELECT upper(f.a) FROM batch"),
        lambda: statement("SELECT upper(f.a) AS a FROM batch"),
    ),
    Case(
        "two columns of one name in SQL",
        "rename one by AS",
        lambda: statement("SELECT f.a AS a, upper(f.a) AS a FROM batch"),
        lambda: statement("SELECT f.a AS a, upper(f.a) AS b FROM batch"),
    ),
    Case(
        "a type that records do not have",
        "CAST it",
        lambda: statement("SELECT CAST('1 day' AS INTERVAL) AS a FROM batch"),
        lambda: statement("SELECT CAST(CAST('1 day' AS INTERVAL) AS VARCHAR) AS a FROM batch"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_advice_removes_the_fault(case: Case) -> None:
    with pytest.raises(ConnectException, match=re.escape(case.advice)):
        case.fault()
    case.remedied()


@pytest.mark.parametrize(("worker", "is_advised"), [({}, True), (RULES, False)])
def test_the_default_of_access_is_advised_only_where_it_applies(worker: Mapping[str, str], is_advised: bool) -> None:
    with pytest.raises(ConnectException) as refused:
        resolved(HOST, worker)
    assert ("config.providers.access.default=allow" in refused.value.message) is is_advised


@pytest.mark.parametrize(
    ("table", "mode", "advice", "more"),
    [
        ("texts", {"mode": "bulk"}, "Name the column in columns.as.text", {"columns.as.text": "n"}),
        ("nulls", {"mode": "incrementing"}, "or set validate.non.null to false", {"validate.non.null": "false"}),
        ("nulls,others", {"mode": "incrementing", "validate.non.null": "false"}, "by table.exclude", {"table.exclude": "others"}),
        ("twice", {"mode": "incrementing"}, "or use mode timestamp+incrementing", {"mode": "timestamp+incrementing"}),
    ],
)
def test_a_table_is_read_after_the_advice(
    table: str, mode: Mapping[str, str], advice: str, more: Mapping[str, str], tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        database.executescript(
            "CREATE TABLE texts (n decimal(9, 2)); INSERT INTO texts VALUES ('abc'); CREATE TABLE nulls (id int);"
            "CREATE TABLE others (a int);"
            "CREATE TABLE twice (id int NOT NULL, at timestamp NOT NULL); INSERT INTO twice VALUES (1, '2026-01-01'), (1, '2026-01-02');"
        )
    columns = {} if mode["mode"] == "bulk" else {"incrementing.column.name": "id"}
    config = {"connection.url": f"jdbc:sqlite:{tmp_path}/x.db", "topic.prefix": "t.", "table.include": table, **columns, **mode}
    with pytest.raises(ConnectException, match=re.escape(advice)):
        run(JdbcSourceConnector(), config)
    run(JdbcSourceConnector(), {**config, **more, **({"timestamp.column.name": "at"} if table == "twice" else {})})


# What fits a column of another type

SAMPLES: Final[Mapping[str, tuple[Schema, Any]]] = {
    "int32": (INT32_SCHEMA, 1),
    "int64": (INT64_SCHEMA, 1),
    "float64": (FLOAT64_SCHEMA, 1.5),
    "boolean": (BOOLEAN_SCHEMA, True),
    "string": (STRING_SCHEMA, "1"),
    "bytes": (BYTES_SCHEMA, b"1"),
    "decimal": (decimal_schema(2), Decimal("1.25")),
    "date": (DATE_SCHEMA, datetime.date(2026, 1, 31)),
    "time": (TIME_SCHEMA, datetime.time(14)),
    "timestamp": (TIMESTAMP_SCHEMA, datetime.datetime(2026, 1, 31, 14, tzinfo=datetime.UTC)),
}
CASTS: Final = [("Cast$Value", {"spec": f"f:{type}"}) for type in ("int64", "float64", "boolean", "string")]
CONVERSIONS: Final = [("TimestampConverter$Value", {"field": "f", "target.type": type}) for type in ("unix", "Date", "Time", "Timestamp")]
TO_TEXT: Final[Step] = ("TimestampConverter$Value", {"field": "f", "target.type": "string", "format": "yyyy-MM-dd"})
TIME_KINDS: Final = (ColumnKind.DATE, ColumnKind.TIME, *TIMESTAMPS)


def steps_of(advice: str, kind: ColumnKind) -> list[list[Step]]:
    """What a user may do who follows the advice. A number as text is no time."""
    if "Cast and TimestampConverter" in advice:
        return [[("Cast$Value", {"spec": "f:int64"}), conversion] for conversion in CONVERSIONS]
    if "TimestampConverter" in advice:
        return [[each] for each in (*CONVERSIONS, *([TO_TEXT] if kind not in TIME_KINDS else []))]
    return [[each] for each in CASTS if kind not in TIME_KINDS]


NO_WAY: Final[Mapping[ColumnKind, Set[str]]] = {
    ColumnKind.BYTES: SAMPLES.keys() - {"bytes"},
    ColumnKind.BOOLEAN: {"bytes", "date", "time", "timestamp"},
    **dict.fromkeys(TIME_KINDS, frozenset({"boolean", "bytes"})),
    **dict.fromkeys((ColumnKind.STRING, ColumnKind.OTHER), frozenset[str]()),
}
"""The fields that no transformation makes fit; for other columns bytes."""


@pytest.mark.parametrize("kind", ColumnKind)
def test_a_field_fits_a_column_of_another_type_after_the_transformation_that_is_named(kind: ColumnKind) -> None:
    there, left_out = column(kind), set()
    for name, (schema, value) in SAMPLES.items():
        if is_accepted(there, schema):
            continue
        with pytest.raises(ConnectException, match="accepts no values of type") as refused:
            fitted({"f": there}, struct(f=schema))
        advice = refused.value.message
        if "leave the field out" in advice:
            left_out.add(name)
        else:
            assert any(fits(there, schema, value, steps) for steps in steps_of(advice, kind)), f"{name}: {advice}"
    assert left_out == NO_WAY.get(kind, {"bytes"})


def is_accepted(there: Column, schema: Schema) -> bool:
    return accepts(there, schema, reads_numbers=PG.casts_texts)


def fits(there: Column, schema: Schema, value: Any, steps: Sequence[Step]) -> bool:
    try:
        found = schema_after({"f": value}, struct(f=schema), *steps).field("f")
    except ConnectException:
        return False
    return found is not None and is_accepted(there, found.schema)


# What is rounded, and what is not written

ROUND: Final[Step] = sql("CAST(f AS DECIMAL(10, 2)) AS f")


@pytest.mark.parametrize(
    ("field", "kind", "advice", "step"),
    [
        ((decimal_schema(4), Decimal("1.2345")), ColumnKind.DECIMAL, "or set auto.evolve=true. To round on purpose, round", ROUND),
        (
            (FLOAT64_SCHEMA, 1.2345),
            ColumnKind.DECIMAL,
            "more digits. To round on purpose, round the field (transformation SqlTransform, ",
            ROUND,
        ),
        ((decimal_schema(2), Decimal("12345678901234567.89")), ColumnKind.FLOAT64, "cast the field to float64 (transformation Cast)", None),
        ((FLOAT64_SCHEMA, 0.1), ColumnKind.FLOAT32, "set auto.evolve=true. To round on purpose, cast the field to float32", None),
        (
            (INT64_SCHEMA, (1 << 53) + 1),
            ColumnKind.FLOAT64,
            "make the column an integer of 64 bits. To round on purpose, cast the field",
            None,
        ),
    ],
)
def test_a_number_that_is_rounded_as_advised_is_not_rounded_by_the_database(
    field: tuple[Schema, Any], kind: ColumnKind, advice: str, step: Step | None, caplog: pytest.LogCaptureFixture
) -> None:
    schema, value = field
    table = TargetTable(TABLE, {"f": column(kind)})
    given = batch({"f": value}, struct(f=schema))
    numbers = RoundedNumbers("sink")
    numbers.add(table, rows_of(given), rounds_decimals=True)
    assert numbers.values == 1
    assert advice in caplog.text
    numbers.add(table, rows_of(after(given, step or ("Cast$Value", {"spec": f"f:{kind}"}))), rounds_decimals=True)
    assert numbers.values == 1
    if "auto.evolve" in advice:
        assert fitted({"f": column(kind)}, struct(f=schema), auto_evolve="true") != []


def rows_of(given: Batch) -> pa.Table:
    assert given.value is not None
    return pa.Table.from_struct_array(given.value)


@pytest.mark.parametrize(
    ("path", "advice", "renamed"),
    [
        ("a", "transformation ReplaceField$Value, renames", ("ReplaceField$Value", {"renames": "a:c"})),
        ("a.b", "transformation SqlTransform, struct_pack", sql("struct_pack(c := a.b) AS a")),
    ],
)
def test_a_field_that_is_renamed_as_advised_is_written(path: str, advice: str, renamed: Step, caplog: pytest.LogCaptureFixture) -> None:
    inner = struct(a=struct(b=STRING_SCHEMA)) if "." in path else struct(a=STRING_SCHEMA)
    given = batch({"a": {"b": "x"} if "." in path else "x"}, inner)
    columns = pa.schema([("a", pa.struct([("c", pa.string())]))] if "." in path else [("c", pa.string())])
    fields = UnwrittenFields("sink", "evolve")
    fields.add("notes", rows_of(given), columns)
    assert (fields.values, f"values of field {path} are not written" in caplog.text, advice in caplog.text) == (1, True, True)
    fields.add("notes", rows_of(after(given, renamed)), columns)
    assert fields.values == 1


@pytest.mark.parametrize(("prefix", "table", "is_named"), [("a b.", "orders", True), ("connect-", "status", False)])
def test_renaming_a_topic_is_advised_only_where_it_helps(prefix: str, table: str, is_named: bool) -> None:
    """The worker's own topics are refused before transformations."""
    config = {"connection.url": "jdbc:sqlite:/x.db", "mode": "bulk", "topic.prefix": prefix, "table.include": table}
    router = {**config, "transforms": "r", "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter"}
    [error] = topic_errors(config)
    assert ("RegexRouter can rename" in error) is is_named
    assert (topic_errors(router) == []) is is_named


def topic_errors(config: Mapping[str, str]) -> list[str]:
    connector = JdbcSourceConnector()
    connector.refusal_of_topic = refusal_of_topics(WorkerSettings.of({}), config)
    return [error for value in connector.validate(config) if value.name in ("topic.prefix", "table.include") for error in value.errors]


def test_the_settings_for_smaller_batches_of_a_sink_are_those_of_its_reader() -> None:
    """A batch holds what has arrived in the reader's queue. Of batches that expand, one answer of the broker may be too much: of two names
    of the setting for its size, the client takes the later one."""
    queue, answer = re.findall(r"consumer\.override\.([a-z.]+)", REMEDY)
    given = {queue: "500", answer: "2000"}
    config = {**READER_SETTINGS, **client_config(WorkerSettings.of({}), "consumer", given), **FORCED_SETTINGS}
    assert (READER_SETTINGS[queue], config[queue], config[answer]) == (str(BATCH_BYTES >> 10), "500", 2000)
    assert answer not in READER_SETTINGS
    names = list(config)
    assert names.index(answer) > names.index("fetch.message.max.bytes")


def test_a_header_that_no_setting_can_name_is_renamed_at_its_origin() -> None:
    """A setting, such as that of DropHeaders, holds no zero byte."""
    name = "a\0b"
    assert text_errors({"transforms.drop.headers": name}) != {}
    with pytest.raises(ConnectException, match="rename that header where the record comes from"):
        _Headers(pa.array([[{"key": name, "value": b"x"}]], HEADERS_TYPE))
