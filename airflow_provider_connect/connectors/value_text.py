"""The lines of text that a column of values makes in a file: Java's ``String.valueOf``, since that is what Kafka Connect prints."""

from __future__ import annotations

import json

from airflow_provider_connect.connectors.lines import as_text
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.columns import as_data_exception, is_json, values_of
from airflow_provider_connect.sdk.java_text import NULL, in_hash_order, text_of
from airflow_provider_connect.sdk.schema import Schema


def text_column(column: pa.Array, schema: Schema | None) -> pa.Array:
    """The text of each value, an Arrow string column without nulls. Text, bytes, integers and booleans go as one column. Raises
    DataException for a value that cannot be printed."""
    kind = column.type
    if pa.types.is_string(kind):
        text = column
    elif pa.types.is_binary(kind):
        text = as_text(column)
    elif (pa.types.is_integer(kind) and not (schema is not None and schema.logical_name)) or pa.types.is_boolean(kind):
        text = column.cast(pa.string())
    elif pa.types.is_null(kind):
        text = pa.nulls(len(column), pa.string())
    elif is_json(kind):
        read = json.JSONDecoder(object_pairs_hook=in_hash_order)
        with as_data_exception():
            text = pa.array([None if v is None else text_of(read.decode(v), None) for v in column.storage.to_pylist()], type=pa.string())
    else:
        with as_data_exception():
            text = pa.array([text_of(value, schema) for value in values_of(column, schema)], type=pa.string())
    return pc.fill_null(text, NULL) if text.null_count else text
