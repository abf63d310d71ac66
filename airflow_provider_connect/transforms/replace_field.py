"""ReplaceField: fields left out, chosen, renamed."""

from __future__ import annotations

from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.arrow import pa
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Lambda, Type, java_text
from airflow_provider_connect.sdk.java_text import in_hash_order
from airflow_provider_connect.sdk.schema import Schema
from airflow_provider_connect.transforms.name_lists import Names
from airflow_provider_connect.transforms.one_by_one import one_by_one
from airflow_provider_connect.transforms.one_side import PACKAGE, REPLACE_NULL, OneSide, require_map
from airflow_provider_connect.transforms.struct_columns import child, require_struct, schema_like, struct_column

EXCLUDE, INCLUDE, RENAMES = "exclude", "include", "renames"

_PURPOSE: Final = "field replacement"


def _parse_renames(mappings: list[str]) -> dict[str, str]:
    renames = {}
    for mapping in mappings:
        parts = mapping.split(":")
        while parts and not parts[-1]:  # what Java's split leaves out
            parts.pop()
        if len(parts) != 2:
            raise ConfigException.of(RENAMES, java_text(mappings), f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


def _check_renames(_name: str, value: Any) -> None:
    _parse_renames(value or [])


class ReplaceField(OneSide):
    """``exclude`` goes before ``include``; both know fields by the names they had."""

    config_def = ConfigDef(
        ConfigKey(
            EXCLUDE,
            Type.LIST,
            [],
            validator=Names(may_be_empty=True),
            doc="Fields to exclude. This takes precedence over the fields to include.",
        ),
        ConfigKey(
            INCLUDE,
            Type.LIST,
            [],
            validator=Names(may_be_empty=True),
            doc="Fields to include. If specified, only these fields will be used.",
        ),
        ConfigKey(
            RENAMES,
            Type.LIST,
            [],
            validator=Lambda(_check_renames, "list of colon-delimited pairs, e.g. <code>foo:bar,abc:xyz</code>"),
            doc="Field rename mappings.",
        ),
        REPLACE_NULL,
    )

    def configure(self, config: Config) -> None:
        super().configure(config)
        self._exclude, self._include = set(config[EXCLUDE]), set(config[INCLUDE])
        self._renames = _parse_renames(config[RENAMES])
        self._names_before = {after: before for before, after in self._renames.items()}

    def with_schema(self, batch: Batch, column: pa.Array, schema: Schema) -> Batch:
        require_struct(column, schema, _PURPOSE)
        kept = [(self._renames.get(field.name, field.name), field.schema) for field in schema.fields if self._keeps(field.name)]
        after = schema_like(schema, kept)
        columns = [self._column_before(column, schema, field.name) for field in after.fields]
        return self.replaced(batch, struct_column(after, columns, column), after)

    def without_schema(self, batch: Batch, values: list[Any]) -> Batch:
        return self.replaced_values(batch, one_by_one(self._replaced, values))

    def _replaced(self, value: Any) -> dict[str, Any]:
        entries = require_map(value, _PURPOSE).items()
        return in_hash_order((self._renames.get(name, name), entry) for name, entry in entries if self._keeps(name))

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _column_before(self, column: pa.Array, schema: Schema, name: str) -> pa.Array:
        before = self._names_before.get(name, name)
        field = schema.field(before)
        if field is None:  # another field has the name that this one was to be renamed to
            raise DataException(f"{before} is not a valid field name")
        return child(column, field, fill=self.fills_null)


class ReplaceFieldKey(ReplaceField):
    """Of keys."""

    class_name = f"{PACKAGE}.ReplaceField$Key"
    side = "key"


class ReplaceFieldValue(ReplaceField):
    """Of values."""

    class_name = f"{PACKAGE}.ReplaceField$Value"
    side = "value"
