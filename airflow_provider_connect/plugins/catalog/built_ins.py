"""The plugins of this package, under the names of Kafka Connect's configs: a table, so that finding them reads nothing."""

from __future__ import annotations

from airflow_provider_connect.plugins.catalog.plugin_kinds import Declared, PluginKind

_HOUSE = "airflow_provider_connect"
_KAFKA = "org.apache.kafka.connect"
_NUMBERS = ("BooleanConverter", "DoubleConverter", "FloatConverter", "IntegerConverter", "LongConverter", "ShortConverter")

_JDBC = (
    (PluginKind.SINK, "connectors.jdbc.sink.connector:JdbcSinkConnector", "io.aiven.connect.jdbc.JdbcSinkConnector"),
    (PluginKind.SOURCE, "connectors.jdbc.source.connector:JdbcSourceConnector", "io.aiven.connect.jdbc.JdbcSourceConnector"),
)
_SMTS = {
    "transforms.cast": "Cast$Key Cast$Value",
    "transforms.fields": "InsertField$Key InsertField$Value MaskField$Key MaskField$Value ReplaceField$Key ReplaceField$Value",
    "transforms.headers": "DropHeaders HeaderFrom$Key HeaderFrom$Value InsertHeader",
    "transforms.predicates": "Filter",
    "transforms.routing": "RegexRouter TimestampRouter",
    "transforms.structs": "ExtractField$Key ExtractField$Value Flatten$Key Flatten$Value HoistField$Key HoistField$Value "
    "SetSchemaMetadata$Key SetSchemaMetadata$Value ValueToKey",
    "transforms.timestamp_converter": "TimestampConverter$Key TimestampConverter$Value",
}
"""Single message transformations, by their module."""
_CONVERTERS = (
    ("converters.json.converter", "json", ("JsonConverter",)),
    ("converters.string", "storage", ("StringConverter",)),
    ("converters.bytes", "converters", ("ByteArrayConverter",)),
    ("converters.numbers", "converters", _NUMBERS),
)


def built_ins(version: str) -> list[Declared]:
    """All of them, as ``version``."""
    table = [
        (PluginKind.SINK, "connectors.file", "file", ("FileStreamSinkConnector",)),
        (PluginKind.SOURCE, "connectors.file", "file", ("FileStreamSourceConnector",)),
        *((PluginKind.TRANSFORMATION, module, "transforms", names.split()) for module, names in _SMTS.items()),
        (PluginKind.PREDICATE, "transforms.predicates", "transforms.predicates", ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")),
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
