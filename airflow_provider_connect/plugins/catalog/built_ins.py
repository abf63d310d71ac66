"""The plugins that this package brings, under the names that configs of Kafka Connect have: a table, so that finding them reads nothing."""

from __future__ import annotations

from airflow_provider_connect.plugins.catalog.plugin_kinds import Declared, PluginKind

_HOUSE = "airflow_provider_connect"
_KAFKA = "org.apache.kafka.connect"
_NUMBERS = ("BooleanConverter", "DoubleConverter", "FloatConverter", "IntegerConverter", "LongConverter", "ShortConverter")

_CONNECTORS = (
    (PluginKind.SINK, "connectors.file", "file", ("FileStreamSinkConnector",)),
    (PluginKind.SOURCE, "connectors.file", "file", ("FileStreamSourceConnector",)),
)
_JDBC = (
    (PluginKind.SINK, "connectors.jdbc.sink.connector:JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSinkConnector"),
    (PluginKind.SOURCE, "connectors.jdbc.source.connector:JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector"),
)
_TRANSFORMS = (
    (PluginKind.TRANSFORMATION, "transforms.cast", "transforms", ("Cast$Key", "Cast$Value")),
    (PluginKind.TRANSFORMATION, "transforms.headers", "transforms", ("DropHeaders",)),
    (PluginKind.TRANSFORMATION, "transforms.structs", "transforms", ("ExtractField$Key", "ExtractField$Value")),
    (PluginKind.TRANSFORMATION, "transforms.predicates", "transforms", ("Filter",)),
    (PluginKind.TRANSFORMATION, "transforms.structs", "transforms", ("Flatten$Key", "Flatten$Value")),
    (PluginKind.TRANSFORMATION, "transforms.headers", "transforms", ("HeaderFrom$Key", "HeaderFrom$Value")),
    (PluginKind.TRANSFORMATION, "transforms.structs", "transforms", ("HoistField$Key", "HoistField$Value")),
    (PluginKind.TRANSFORMATION, "transforms.fields", "transforms", ("InsertField$Key", "InsertField$Value")),
    (PluginKind.TRANSFORMATION, "transforms.headers", "transforms", ("InsertHeader",)),
    (PluginKind.TRANSFORMATION, "transforms.fields", "transforms", ("MaskField$Key", "MaskField$Value")),
    (PluginKind.TRANSFORMATION, "transforms.routing", "transforms", ("RegexRouter",)),
    (PluginKind.TRANSFORMATION, "transforms.fields", "transforms", ("ReplaceField$Key", "ReplaceField$Value")),
    (PluginKind.TRANSFORMATION, "transforms.structs", "transforms", ("SetSchemaMetadata$Key", "SetSchemaMetadata$Value")),
    (PluginKind.TRANSFORMATION, "transforms.timestamp_converter", "transforms", ("TimestampConverter$Key", "TimestampConverter$Value")),
    (PluginKind.TRANSFORMATION, "transforms.routing", "transforms", ("TimestampRouter",)),
    (PluginKind.TRANSFORMATION, "transforms.structs", "transforms", ("ValueToKey",)),
    (PluginKind.PREDICATE, "transforms.predicates", "transforms.predicates", ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")),
)
_CONVERTERS = (
    ("converters.json.converter", "json", ("JsonConverter",)),
    ("converters.string", "storage", ("StringConverter",)),
    ("converters.bytes", "converters", ("ByteArrayConverter",)),
    ("converters.numbers", "converters", _NUMBERS),
)


def built_ins(version: str) -> list[Declared]:
    """All of them, as ``version``."""
    table = [
        *_CONNECTORS,
        *_TRANSFORMS,
        *((kind, *row) for kind in (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER) for row in _CONVERTERS),
        (PluginKind.HEADER_CONVERTER, "converters.header", "storage", ("SimpleHeaderConverter",)),
    ]
    databases = [
        Declared(kind, f"io.confluent.connect.jdbc.{reference.partition(':')[2]}", f"{_HOUSE}.{reference}", version, frozenset({name}))
        for kind, reference, name in _JDBC
    ]
    return databases + [
        Declared(kind, f"{_KAFKA}.{package}.{name}", f"{_HOUSE}.{module}:{name.replace('$', '')}", version)
        for kind, module, package, names in table
        for name in names
    ]
