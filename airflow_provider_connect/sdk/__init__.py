"""What authors of connectors, converters, transformations and predicates import. Nothing heavy is loaded by it: pyarrow waits for its use.

``sdk.testing`` holds the contract suites for a plugin's tests.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_connect.errors import (
        BackpressureException,
        ConfigException,
        ConnectException,
        DataException,
        FencedException,
        RetriableException,
        SchemaException,
    )
    from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths, add_unreachable
    from airflow_provider_connect.sdk.arrow import pa, pc
    from airflow_provider_connect.sdk.batch import Batch
    from airflow_provider_connect.sdk.config_def import (
        REQUIRED,
        Config,
        ConfigDef,
        ConfigKey,
        ConfigValue,
        Importance,
        Lambda,
        ListOf,
        NonEmptyString,
        OneOf,
        Password,
        Range,
        Recommender,
        Type,
        Validator,
        Width,
    )
    from airflow_provider_connect.sdk.config_provider import ConfigData, ConfigProvider
    from airflow_provider_connect.sdk.connector import Connector, ConnectorContext, ExactlyOnceSupport, SinkConnector, SourceConnector
    from airflow_provider_connect.sdk.converter import NULL, ColumnRun, Converter, HeaderConverter, SchemaAndValue
    from airflow_provider_connect.sdk.records import Header, Headers, SinkRecord, SourceRecord, TopicPartition
    from airflow_provider_connect.sdk.schema import (
        BOOLEAN_SCHEMA,
        BYTES_SCHEMA,
        DATE_SCHEMA,
        FLOAT32_SCHEMA,
        FLOAT64_SCHEMA,
        INT8_SCHEMA,
        INT16_SCHEMA,
        INT32_SCHEMA,
        INT64_SCHEMA,
        OPTIONAL_BOOLEAN_SCHEMA,
        OPTIONAL_BYTES_SCHEMA,
        OPTIONAL_FLOAT32_SCHEMA,
        OPTIONAL_FLOAT64_SCHEMA,
        OPTIONAL_INT8_SCHEMA,
        OPTIONAL_INT16_SCHEMA,
        OPTIONAL_INT32_SCHEMA,
        OPTIONAL_INT64_SCHEMA,
        OPTIONAL_STRING_SCHEMA,
        STRING_SCHEMA,
        TIME_SCHEMA,
        TIMESTAMP_SCHEMA,
        Field,
        Schema,
        SchemaType,
        Struct,
        decimal_schema,
    )
    from airflow_provider_connect.sdk.task import (
        ErrantRecordReporter,
        SinkTask,
        SinkTaskContext,
        SourceTask,
        SourceTaskContext,
        TransactionContext,
    )
    from airflow_provider_connect.sdk.transformation import Predicate, Transformation

__all__ = [
    "ALL_ALLOWED",
    "BOOLEAN_SCHEMA",
    "BYTES_SCHEMA",
    "DATE_SCHEMA",
    "FLOAT32_SCHEMA",
    "FLOAT64_SCHEMA",
    "INT8_SCHEMA",
    "INT16_SCHEMA",
    "INT32_SCHEMA",
    "INT64_SCHEMA",
    "NULL",
    "OPTIONAL_BOOLEAN_SCHEMA",
    "OPTIONAL_BYTES_SCHEMA",
    "OPTIONAL_FLOAT32_SCHEMA",
    "OPTIONAL_FLOAT64_SCHEMA",
    "OPTIONAL_INT8_SCHEMA",
    "OPTIONAL_INT16_SCHEMA",
    "OPTIONAL_INT32_SCHEMA",
    "OPTIONAL_INT64_SCHEMA",
    "OPTIONAL_STRING_SCHEMA",
    "REQUIRED",
    "STRING_SCHEMA",
    "TIMESTAMP_SCHEMA",
    "TIME_SCHEMA",
    "AllowedPaths",
    "BackpressureException",
    "Batch",
    "ColumnRun",
    "Config",
    "ConfigData",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigProvider",
    "ConfigValue",
    "ConnectException",
    "Connector",
    "ConnectorContext",
    "Converter",
    "DataException",
    "ErrantRecordReporter",
    "ExactlyOnceSupport",
    "FencedException",
    "Field",
    "Header",
    "HeaderConverter",
    "Headers",
    "Importance",
    "Lambda",
    "ListOf",
    "NonEmptyString",
    "OneOf",
    "Password",
    "Predicate",
    "Range",
    "Recommender",
    "RetriableException",
    "Schema",
    "SchemaAndValue",
    "SchemaException",
    "SchemaType",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Struct",
    "TopicPartition",
    "TransactionContext",
    "Transformation",
    "Type",
    "Validator",
    "Width",
    "add_unreachable",
    "decimal_schema",
    "pa",
    "pc",
]

_HOUSE = "airflow_provider_connect"
_HOMES = {
    "errors": ("BackpressureException ConfigException ConnectException DataException FencedException RetriableException SchemaException "),
    "sdk.allowed_paths": ("ALL_ALLOWED AllowedPaths add_unreachable "),
    "sdk.arrow": ("pa pc "),
    "sdk.batch": ("Batch "),
    "sdk.config_def": (
        "REQUIRED Config ConfigDef ConfigKey ConfigValue Importance "
        "Lambda ListOf NonEmptyString OneOf Password Range "
        "Recommender Type Validator Width "
    ),
    "sdk.config_provider": ("ConfigData ConfigProvider "),
    "sdk.connector": ("Connector ConnectorContext ExactlyOnceSupport SinkConnector SourceConnector "),
    "sdk.converter": ("NULL ColumnRun Converter HeaderConverter SchemaAndValue "),
    "sdk.records": ("Header Headers SinkRecord SourceRecord TopicPartition "),
    "sdk.schema": (
        "BOOLEAN_SCHEMA BYTES_SCHEMA DATE_SCHEMA FLOAT32_SCHEMA FLOAT64_SCHEMA INT8_SCHEMA "
        "INT16_SCHEMA INT32_SCHEMA INT64_SCHEMA OPTIONAL_BOOLEAN_SCHEMA OPTIONAL_BYTES_SCHEMA OPTIONAL_FLOAT32_SCHEMA "
        "OPTIONAL_FLOAT64_SCHEMA OPTIONAL_INT8_SCHEMA OPTIONAL_INT16_SCHEMA OPTIONAL_INT32_SCHEMA OPTIONAL_INT64_SCHEMA "
        "OPTIONAL_STRING_SCHEMA "
        "STRING_SCHEMA TIME_SCHEMA TIMESTAMP_SCHEMA Field Schema SchemaType "
        "Struct decimal_schema "
    ),
    "sdk.task": ("ErrantRecordReporter SinkTask SinkTaskContext SourceTask SourceTaskContext TransactionContext "),
    "sdk.transformation": ("Predicate Transformation "),
}
_HOME_OF = {name: f"{_HOUSE}.{module}" for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:  # whatever the name stands for
    """Each name loads when it is first used: the check for new data, in every Airflow task, needs few of them."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return found
