"""The plugins that this package brings, under Kafka Connect's names: a table, so that finding them reads nothing."""

from __future__ import annotations

from airflow_provider_connect.isolation.plugin_kinds import Declared, PluginKind

_HOUSE = "airflow_provider_connect"
_KAFKA = "org.apache.kafka.connect"
_NUMBERS = ("BooleanConverter", "DoubleConverter", "FloatConverter", "IntegerConverter", "LongConverter", "ShortConverter")

_CONNECTORS = (
    (PluginKind.SINK, "connectors.file", "file", ("FileStreamSinkConnector",)),
    (PluginKind.SOURCE, "connectors.file", "file", ("FileStreamSourceConnector",)),
)
_TRANSFORMS = (
    (PluginKind.TRANSFORMATION, "transforms.filter", "transforms", ("Filter",)),
    (PluginKind.TRANSFORMATION, "transforms.regex_router", "transforms", ("RegexRouter",)),
    (PluginKind.PREDICATE, "transforms.predicates", "transforms.predicates", ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")),
)
_CONVERTERS = (
    ("converters.json", "json", ("JsonConverter",)),
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
    return [
        Declared(kind, f"{_KAFKA}.{package}.{name}", f"{_HOUSE}.{module}:{name.replace('$', '.')}", version)
        for kind, module, package, names in table
        for name in names
    ]
