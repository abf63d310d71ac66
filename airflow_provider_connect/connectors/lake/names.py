"""A table's names for fields of records, at any depth. They may be aliases, or differ in case. Knows nothing of table formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.errors import DataException


@dataclass(frozen=True, slots=True)
class Names:
    """The field names of a struct in a table. ``own`` maps each name that records may use, in lower case if ``ignores_case``, to the
    table's name. ``within`` has the names inside a struct, a list's elements or a map's values, by the table's name of the field."""

    ignores_case: bool
    own: Mapping[str, str] = field(default_factory=dict)
    within: Mapping[str, Names] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """The table's name for a field, or the given name if the table has no such field."""
        return self.own.get(name.lower() if self.ignores_case else name, name)

    def of_path(self, path: str) -> str:
        """The table's path for a dotted path of fields. Column names may contain dots themselves."""
        if path.lower() in self.own or "." not in path:
            return self.of(path)
        first, _, rest = path.partition(".")
        return f"{self.of(first)}.{self.below(self.of(first)).of_path(rest)}"

    def below(self, name: str) -> Names:
        """The names inside the field that has this name in the table."""
        return self.within.get(name) or Names(self.ignores_case)


def names_of(fields: Iterable[pa.Field], *, ignores_case: bool) -> Names:
    """The names of a table's columns, or of a struct's fields, without aliases."""
    fields = list(fields)
    own = {each.name.lower() if ignores_case else each.name: each.name for each in fields}
    return Names(ignores_case, own, {each.name: names_of(_inner(each.type), ignores_case=ignores_case) for each in fields})


def _inner(type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(type):
        return list(type)
    if pa.types.is_map(type):
        return _inner(type.item_type)
    return _inner(type.value_type) if pa.types.is_list(type) or pa.types.is_large_list(type) else []


def rename_fields(rows: pa.Table, names: Names) -> pa.Table:
    """``rows`` with the table's names. Does not copy values. Raises DataException if two fields have the same name in the table."""
    fields = _rename_fields(list(rows.schema), names, "")
    columns = [
        column if column.type.equals(each.type) else pa.chunked_array([chunk.view(each.type) for chunk in column.chunks], each.type)
        for column, each in zip(rows.columns, fields, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields)) if columns else rows


def _rename_fields(fields: list[pa.Field], names: Names, path: str) -> list[pa.Field]:
    found: dict[str, pa.Field] = {}
    for each in fields:
        name = names.of(each.name)
        key = name.lower() if names.ignores_case else name
        if key in found:
            other = fields[list(found).index(key)].name
            raise DataException(f"The fields {path}{other} and {path}{each.name} of a record are the same column of the table: rename one")
        found[key] = each.with_name(name).with_type(_rename_type(each.type, names.below(name), f"{path}{each.name}."))
    return list(found.values())


def _rename_type(type: pa.DataType, names: Names, path: str) -> pa.DataType:
    """The type with the table's names, except in a map's keys."""
    if pa.types.is_struct(type):
        return pa.struct(_rename_fields(list(type), names, path))
    if pa.types.is_map(type):
        return pa.map_(type.key_field, type.item_field.with_type(_rename_type(type.item_type, names, path)))
    if pa.types.is_list(type):
        return pa.list_(type.value_field.with_type(_rename_type(type.value_type, names, path)))
    return type
