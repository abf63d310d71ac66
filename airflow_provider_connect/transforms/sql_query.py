"""Checks SqlTransform's statement: a projection and a filter of the table ``batch``.

Reads DuckDB's syntax tree as JSON and refuses everything that is not listed here. Knows nothing about DuckDB and records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, DataException

Node = dict[str, Any]
"""A part of a syntax tree. Any: DuckDB's JSON."""

TABLE: Final = "batch"
ROW: Final = "row of the batch"
"""The column of row numbers. It is the first column, so that a field of this name does not hide it."""

_MOST_GROWTH, _MOST_WIDTH, _MOST_EXPANSION = 64, 1000, 1024

_EMPTY_PARTS: Final = {
    "modifiers": "DISTINCT, ORDER BY and LIMIT",
    "group_expressions": "GROUP BY",
    "group_sets": "GROUP BY",
    "having": "HAVING",
    "qualify": "QUALIFY",
    "sample": "a sample",
}
"""Parts of a SELECT that would change the order of rows, or create rows without an offset."""

_OPERATORS: Final = frozenset(
    {
        *("COMPARE_IN", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_NOT", "OPERATOR_COALESCE", "OPERATOR_TRY"),
        *("ARRAY_EXTRACT", "ARRAY_SLICE", "STRUCT_EXTRACT"),
    }
)
_CLASSES: Final = frozenset(
    {"BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR", "TYPE"}
)
_TYPE_NAMES: Final = (
    "bigint binary blob bool boolean bytea char date datetime dec decimal double float float4 float8 hugeint int int1 int2 "
    "int4 int8 integer interval json list long map numeric real short signed smallint string struct text time timestamp "
    "timestamptz timestamp_ms timestamp_ns timestamp_s timestamp_us tinyint ubigint uinteger usmallint utinyint uuid "
    "varbinary varchar"
)
_TYPES: Final = frozenset({*_TYPE_NAMES.split(), "timestamp with time zone"})
FUNCTIONS: Final = {
    "operators": "+ - * / // % ^ ** & | << >> ~ @ || ->> ^@ ~~ !~~ ~~* !~~* like_escape not_like_escape ilike_escape not_ilike_escape",
    "numbers": (
        "abs acos add asin atan atan2 bit_count cbrt ceil ceiling cos cot degrees divide even exp fdiv floor fmod gcd greatest isfinite "
        "isinf isnan lcm least ln log log10 log2 mod multiply pi pow power radians round round_even sign sin sqrt subtract tan trunc xor"
    ),
    "texts and bytes": (
        "ascii base64 bit_length char_length character_length chr concat concat_ws contains decode encode ends_with from_base64 from_hex "
        "hex instr lcase left len length lower lpad ltrim md5 nfc_normalize octet_length ord overlay position prefix regexp_escape "
        "regexp_extract regexp_full_match regexp_matches regexp_replace replace reverse right rpad rtrim sha1 sha256 split_part "
        "starts_with str_split string_split strip_accents strlen strpos substr substring suffix to_base64 to_hex translate trim ucase "
        "unhex unicode upper url_decode url_encode"
    ),
    "times": (
        "century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth dayofweek "
        "dayofyear epoch epoch_ms epoch_ns epoch_us hour isodow isoyear last_day make_date make_time make_timestamp make_timestamp_ms "
        "microsecond millisecond minute month monthname now quarter second strftime strptime time_bucket timezone to_days to_hours "
        "to_microseconds to_milliseconds to_minutes to_months to_seconds to_timestamp to_weeks to_years today try_strptime week weekday "
        "weekofyear year yearweek"
    ),
    "conditions": "constant_or_null if nullif typeof",
    "lists, maps and structs": (
        "array_contains array_extract array_length array_slice cardinality element_at flatten list_avg list_concat list_contains "
        "list_count list_distinct list_element list_extract list_first list_has list_has_all list_has_any list_last list_max list_min "
        "list_position list_reverse_sort list_slice list_sort list_sum list_value map map_contains map_entries map_extract "
        "map_extract_value map_from_entries map_keys map_values row struct_extract struct_insert struct_pack"
    ),
    "JSON": (
        "json_array json_array_length json_contains json_exists json_extract json_extract_path json_extract_path_text json_extract_string "
        "json_keys json_object json_type json_valid json_value to_json"
    ),
}
"""The functions that a statement may use, by subject.

Each returns one value per row, opens nothing, and takes time in proportion to its arguments. Three kinds are not included: functions that
create large values from small ones (``repeat``, ``range``, ``printf``); ``json_merge_patch``, because its time is quadratic in an object's
keys; and lambdas.
"""
_FUNCTIONS: Final = frozenset(name for names in FUNCTIONS.values() for name in names.split())
_GROWING: Final = {"lpad": 1, "rpad": 1, "regexp_replace": 2, "replace": 2}
"""Functions whose result may be much longer than their first argument, and the argument that limits it."""
_EXPANDING: Final = {
    **dict.fromkeys(("hex", "to_hex", "base64", "to_base64", "upper", "lower", "ucase", "lcase", "nfc_normalize", "decode"), 2),
    **dict.fromkeys(("url_encode", "translate"), 3),
    "regexp_escape": 4,
    **dict.fromkeys(("to_json", "json_object", "json_array"), 6),  # a control character is \\u0001
    **dict.fromkeys(("split_part", "str_split", "string_split", "strftime"), 16),  # an entry of a list, the longest form of a time
}
_LEAST_BYTES: Final = 16
_TEXT_OF_BYTES: Final = 4  # a byte is \\xFF
"""Functions that may turn each byte of an argument into several bytes, with the number of bytes."""
_SMALL: Final = frozenset([*FUNCTIONS["numbers"].split(), *FUNCTIONS["times"].split(), "length", "strlen", "md5", "sha1", "sha256"]) - {
    *("strftime", "greatest", "least")
}
_OF_ANY_SIZE: Final = frozenset(
    ["binary", "blob", "bytea", "char", "json", "list", "map", "string", "struct", "text", "varbinary", "varchar"]
)
_SMALL_TYPES: Final = _TYPES - _OF_ANY_SIZE


@dataclass(frozen=True, slots=True)
class Output:
    """A field of the result. ``field`` is the index of the value's field that it copies; None if it is computed."""

    name: str
    field: int | None


@dataclass(slots=True)
class Plan:
    """The plan of a statement for values with known fields.

    ``tree`` is a SELECT from ``columns``. It returns the computed fields, in the order of ``outputs``, and then ``ROW``. It is None if
    nothing is computed and no row is dropped.
    """

    outputs: list[Output]
    columns: list[str]
    tree: Node | None


@dataclass(slots=True)
class Statement:
    """A checked SELECT. The results for a row need at most ``expansion`` times the bytes of the columns that the statement reads, plus
    ``row_bytes``."""

    tree: Node
    select: Node
    expansion: int
    row_bytes: int

    def plan(self, fields: Sequence[str], metadata: Collection[str]) -> Plan:
        """Plan the statement for values with ``fields``. A field hides a column of ``metadata`` of the same name.

        Raises DataException for a column that does not exist, and for two fields of the result with the same name."""
        columns: dict[str, int | None] = {name: index for index, name in enumerate(fields)}
        columns |= {name: None for name in metadata if name not in columns}
        outputs: list[Output] = []
        computed: list[Node] = []
        for name, field, expression in self._selected(columns):
            outputs.append(Output(name, field))
            if field is None and expression is not None:
                computed.append({**expression, "alias": ""})  # an alias could be taken for a column
        _check_names(outputs)
        where = self.select["where_clause"]
        used = {_column(ref, columns): None for node in (*computed, where) for ref in _references(node)}
        if not computed and where is None:
            return Plan(outputs, [], None)
        row = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": "", "column_names": [ROW]}
        select = {**self.select, "select_list": [*computed, row]}
        return Plan(outputs, list(used), {**self.tree, "statements": [{**self.tree["statements"][0], "node": select}]})

    def _selected(self, columns: dict[str, int | None]) -> Iterator[tuple[str, int | None, Node | None]]:
        """Name, field index and expression of each field of the result. Either the index or the expression is None."""
        for node in self.select["select_list"]:
            if node["class"] == "STAR":
                yield from _expanded(node, columns)
                continue
            if node["class"] != "COLUMN_REF":
                yield node["alias"], None, node
                continue
            path = _within_table(node["column_names"], columns)
            column = _column(path, columns)
            index = columns[column] if len(path) == 1 else None
            name = node["alias"] or (column if len(path) == 1 else path[-1])
            yield name, index, None if index is not None else node


def build_statement(setting: str, text: str, tree: Node) -> Statement:
    """Check a syntax tree of ``json_serialize_sql``.

    Raises ConfigException unless it is a SELECT of expressions FROM batch WHERE a condition, with allowed functions, types and syntax only.
    """
    try:
        return _checked(tree)
    except _Refusal as refusal:
        raise ConfigException.of(setting, text, str(refusal)) from None


class _Refusal(Exception):
    """The reason why a statement is not allowed."""


def _checked(tree: Node) -> Statement:
    if tree["error"]:
        raise _Refusal(f"{tree['error_message']}: give one SELECT … FROM {TABLE} WHERE …")
    if len(tree["statements"]) != 1:
        raise _Refusal(f"{len(tree['statements'])} statements: give one SELECT … FROM {TABLE} WHERE …")
    select = tree["statements"][0]["node"]
    if select["type"] != "SELECT_NODE" or select["cte_map"]["map"]:
        raise _Refusal(f"WITH, UNION and the like are not allowed: give one SELECT … FROM {TABLE} WHERE …")
    for part, words in _EMPTY_PARTS.items():
        if select[part]:
            raise _Refusal(f"{words} cannot be used, since each record keeps its own offset: only SELECT … FROM {TABLE} WHERE …")
    if select["aggregate_handling"] != "STANDARD_HANDLING":
        raise _Refusal("GROUP BY cannot be used, since each record keeps its own offset")
    _check_table(select["from_table"])
    sizes = [size for node in select["select_list"] for size in _check_selected(node)]
    if select["where_clause"] is not None:
        sizes.append(_check_expression(select["where_clause"]))
    return Statement(tree, select, max(sum(times for times, _ in sizes), 1), sum(fixed for _, fixed in sizes))


def _check_table(table: Node) -> None:
    path = table["qualified_name"]["path"] if table["type"] == "BASE_TABLE" else []
    plain = {"alias", "sample", "column_name_alias", "at_clause"}
    if [name.lower() for name in path] != [TABLE] or any(table[part] for part in plain):
        raise _Refusal(f"rows come FROM {TABLE}, alone and under this name: joins, other tables, functions and files cannot be read")


def _check_selected(node: Node) -> list[tuple[int, int]]:
    """Check an output and return the sizes of its expressions, as ``_check_expression`` does."""
    if node["class"] != "STAR":
        size = _check_expression(node)
        if node["class"] != "COLUMN_REF" and not node["alias"]:
            raise _Refusal(f"an expression{_location(node)} has no name: write … AS name")
        return [size]
    if node["columns"] or node["expr"] or node["qualified_exclude_list"] or node["relation_name"].lower() not in ("", TABLE):
        raise _Refusal(f"{_location(node).strip()}: only * with EXCLUDE, REPLACE and RENAME may stand for several columns")
    return [_check_expression(replaced["value"]) for replaced in node["replace_list"]]


def _check_expression(root: Node) -> tuple[int, int]:
    """Check an expression. Returns the factor by which all parts of the expression may exceed its columns, and the additional bytes per
    row."""
    left: list[tuple[Any, int, int]] = [(root, 1, 1)]
    times = row_bytes = 0
    while left:
        part, growth, expansion = left.pop()
        if isinstance(part, list):
            left.extend((entry, growth, expansion) for entry in part)
        elif isinstance(part, dict):
            growth *= (grown := _checked_growth(part))
            expansion = 1 if _is_small(part) else expansion * grown * _expansion(part)
            if growth > _MOST_GROWTH or expansion > _MOST_EXPANSION:
                most = _MOST_GROWTH if growth > _MOST_GROWTH else _MOST_EXPANSION
                name = part.get("function_name") or "the conversion"
                raise _Refusal(f"{name}{_location(part)} could make texts more than {most} times as long")
            times += expansion if part.get("class") in ("COLUMN_REF", "FUNCTION") else 0
            row_bytes += expansion * _own_bytes(part)
            left.extend((entry, growth, expansion) for entry in part.values())
    return times, row_bytes


def _own_bytes(node: Node) -> int:
    """The size, in bytes, of a node without its children: the size of a constant or number, or the width to which a string is padded."""
    if node.get("class") == "CONSTANT":
        return len(_constant(node) or "") + _LEAST_BYTES
    is_filled = node.get("class") == "FUNCTION" and node["function_name"].lower().endswith("pad")
    return _LEAST_BYTES + (4 * _MOST_WIDTH if is_filled else 0) if "class" in node else 0


def _expansion(node: Node) -> int:
    if node.get("class") == "FUNCTION":
        return _EXPANDING.get(node["function_name"].lower(), 1)
    return _TEXT_OF_BYTES if node.get("class") == "CAST" else 1


def _is_small(node: Node) -> bool:
    """Whether the result is small, such as a number, for any arguments."""
    if node.get("class") == "FUNCTION":
        return node["function_name"].lower() in _SMALL
    return node.get("class") == "CAST" and node["type_expr"].get("type_name", "").lower() in _SMALL_TYPES


def _checked_growth(node: Node) -> int:
    """Check one node, without its children. Returns the factor by which the node's text may be longer than its argument."""
    kind = node.get("class")
    if kind is None:
        if node.get("orders") or node.get("type") not in (None, "ORDER_MODIFIER"):
            raise _Refusal(f"{node['type']} cannot be used in an expression")
    elif kind not in _CLASSES or (kind == "OPERATOR" and node["type"] not in _OPERATORS):
        words = node["type"].replace("_", " ").lower()
        raise _Refusal(f"{words}{_location(node)} cannot be used: expressions are made of columns, constants, operators and functions")
    elif kind == "FUNCTION":
        return _checked_function(node)
    elif kind == "TYPE" and (len(node["qualified_name"]["path"]) != 1 or node["type_name"].lower() not in _TYPES):
        raise _Refusal(f"the type {node['type_name']}{_location(node)} cannot be used")
    return 1


def _checked_function(node: Node) -> int:
    name = node["function_name"].lower()
    if name not in _FUNCTIONS or len(node["qualified_name"]["path"]) != 1:
        raise _Refusal(f"the function {name}{_location(node)} cannot be used: docs/sql-transform.md lists those that can")
    if node["filter"] or node["distinct"] or node["export_state"]:
        raise _Refusal(f"{name}{_location(node)} is not an aggregate: it has no FILTER and no DISTINCT")
    limit = _GROWING.get(name)
    if limit is None or limit >= len(node["arguments"]):
        return 1
    searched, given = (_constant(node["arguments"][index]["expression"]) for index in (1, limit))
    if given is None:
        raise _Refusal(f"argument {limit + 1} of {name}{_location(node)} must be a constant, so that the length of the result has a limit")
    if name.endswith("pad"):
        if not given.isdigit() or int(given) > _MOST_WIDTH:
            raise _Refusal(f"argument {limit + 1} of {name}{_location(node)} must be a number up to {_MOST_WIDTH}")
        return 1
    if name == "replace":
        return 1 if searched and len(given) <= len(searched) else max(1, len(given))
    return 1 + len(given)


def _constant(node: Node) -> str | None:
    return str(node["literal"]["text"]) if node["class"] == "CONSTANT" else None


def _nodes(root: Node | None) -> Iterator[Node]:
    """All nodes of an expression."""
    left: list[Any] = [root]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            yield part
            left.extend(part.values())
        elif isinstance(part, list):
            left.extend(part)


def _references(root: Node | None) -> Iterator[list[str]]:
    return (node["column_names"] for node in _nodes(root) if node.get("class") == "COLUMN_REF")


def _location(node: Node) -> str:
    """The position of a node in the statement, for messages. Empty for nodes that the parser added."""
    at = int(node.get("query_location", 0))
    return f" at character {at + 1}" if at < 1 << 32 else ""


def _expanded(star: Node, columns: dict[str, int | None]) -> Iterator[tuple[str, int | None, Node | None]]:
    excluded = {_field(name, columns) for name in star["exclude_list"]}
    replaced = {_field(entry["key"], columns): entry["value"] for entry in star["replace_list"]}
    renamed = {_field(entry["key"]["column"], columns): entry["value"] for entry in star["rename_list"]}
    for name, index in columns.items():
        if index is None or name in excluded:
            continue
        if name in replaced:
            yield name, None, replaced[name]
        else:
            yield renamed.get(name, name), index, None


def _field(name: str, columns: dict[str, int | None]) -> str:
    return _column([name], {column: index for column, index in columns.items() if index is not None})


def _within_table(path: Sequence[str], columns: Collection[str]) -> Sequence[str]:
    """A reference without the table's name: the column, followed by the names of nested fields."""
    if len(path) > 1 and path[0].lower() == TABLE and any(column.lower() == path[1].lower() for column in columns):
        return path[1:]
    return path


def _column(path: Sequence[str], columns: Collection[str]) -> str:
    """The column at the start of a reference. Raises DataException unless there is exactly one."""
    name = _within_table(path, columns)[0]
    found = [column for column in columns if column.lower() == name.lower()]
    if len(found) > 1:
        raise DataException(f"SqlTransform: the fields {', '.join(found)} differ only by case, so SQL cannot distinguish them")
    if not found:
        raise DataException(f"SqlTransform: no column {name}; the columns are {', '.join(columns)}")
    return found[0]


def _check_names(outputs: Sequence[Output]) -> None:
    names = [output.name for output in outputs]
    for name in names:
        if names.count(name) > 1:
            raise DataException(f"SqlTransform: two fields of the result are called {name}: rename one by AS")
