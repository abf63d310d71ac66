"""What is put to Kafka Connect's transformations and to ours: classes, configs and records, as JSON documents.

A key or value is ``{"schema": …, "payload": …}`` as JsonConverter writes it, ``{"payload": …}`` without a schema, or None.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]  # Any: whatever JSON holds

NUMBERS = ("int8", "int16", "int32", "int64", "float32", "float64")
TARGETS = (*NUMBERS, "boolean", "string")
LOGICAL = "org.apache.kafka.connect.data."
ONE_SIDED = (
    "Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField", "ReplaceField", "SetSchemaMetadata",
    "TimestampConverter",
)  # fmt: skip
PREDICATES = ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
CLASSES = (
    *(f"{name}${side}" for name in ONE_SIDED for side in ("Key", "Value")),
    *("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey"),
    *(f"predicates.{name}" for name in PREDICATES),
)


def schema(type: str, optional: bool = False, **more: Any) -> Json:
    return {"type": {"float32": "float", "float64": "double"}.get(type, type), "optional": optional, **more}


def logical(name: str, optional: bool = False, **more: Any) -> Json:
    type = {"Timestamp": "int64", "Decimal": "bytes"}.get(name, "int32")
    parameters = {"parameters": {"scale": "2"}} if name == "Decimal" else {}
    return schema(type, optional, name=LOGICAL + name, version=1, **parameters, **more)


def struct(fields: dict[str, Json], optional: bool = False, **more: Any) -> Json:
    return schema("struct", optional, fields=[{**of_field, "field": name} for name, of_field in fields.items()], **more)


def with_schema(schema: Json, payload: Any) -> Json:
    return {"schema": schema, "payload": payload}


def plain(payload: Any) -> Json:
    return {"payload": payload}


def base64_of(*numbers: int) -> str:
    return base64.b64encode(bytes(numbers)).decode()


def row(class_name: str, config: Json, value: Json | None = None, key: Json | None = None, **more: Any) -> Json:
    given = {"kind": "source", "topic": "orders", "partition": 3, "timestamp": 1_600_000_000_123, "offset": 42, "headers": []}
    return {"class": class_name, "config": config, **given, "key": key, "value": value, **more}


def rows() -> Iterator[Json]:
    """All of them, in the order of the golden file."""
    yield from ({"class": name, "definition": True} for name in CLASSES)
    yield from _refused()
    yield from _cast()
    for name in (_cast_elsewhere, _insert_field, _replace_field, _extract_field, _flatten, _header_from, _hoist_field, _headers):
        yield from name()
    for name in (_mask_field, _set_schema_metadata, _timestamp_converter, _timestamp_strings, _routers, _value_to_key, _predicates):
        yield from name()


ROW = struct(
    {
        "id": schema("int64"),
        "name": schema("string", True),
        "note": schema("string", True, default="none"),
        "count": schema("int32", False, default=7),
        "price": logical("Decimal", True),
        "born": logical("Date", True),
        "at": logical("Timestamp", True),
        "tags": schema("array", True, items=schema("string")),
        "sizes": schema("map", True, keys=schema("string"), values=schema("int32")),
        "data": schema("bytes", True),
        "ok": schema("boolean", True),
    },
    name="shop.Order",
    version=4,
    doc="an order",
    parameters={"a": "b"},
)
FULL = {
    "id": 5, "name": "Ada", "note": "x", "count": 1, "price": base64_of(4, 210), "born": 7000, "at": 1_500_000_000_000,
    "tags": ["a", "b"], "sizes": {"s": 1}, "data": base64_of(0, 255), "ok": True,
}  # fmt: skip
NULLS: Json = {**dict.fromkeys(FULL), "id": 6, "count": 2}
MAP = {"id": 5, "name": "Ada", "note": None, "ratio": 0.5, "ok": False, "tags": ["a"], "inner": {"x": 1, "y": {"z": "deep"}}}
ORDER, ORDER_OF_NULLS = with_schema(ROW, FULL), with_schema(ROW, NULLS)


def _everywhere(name: str, config: Json, **more: Any) -> Iterator[Json]:
    """The config put to values of every kind, and to a key."""
    for value in (ORDER, ORDER_OF_NULLS, plain(MAP), None, with_schema({**ROW, "optional": True}, None), plain("text"), plain(5)):
        yield row(f"{name}$Value", config, value, **more)
    yield row(f"{name}$Value", config, with_schema(schema("string"), "text"), **more)
    yield row(f"{name}$Value", config, with_schema(schema("string", True), None), **more)
    yield row(f"{name}$Value", {**config, "replace.null.with.default": "false"}, ORDER_OF_NULLS, **more)
    yield row(f"{name}$Key", config, plain(MAP), ORDER, **more)
    yield row(f"{name}$Value", config, ORDER, with_schema(schema("int32"), 1), kind="sink", **more)


def _refused() -> Iterator[Json]:
    wrong: dict[str, list[dict[str, str]]] = {
        "Cast$Value": [
            {}, {"spec": ""}, {"spec": "int8,int16"}, {"spec": "a:int8,int8"}, {"spec": "a:b:c"}, {"spec": "a:nothing"},
            {"spec": "a:bytes"},
            {"spec": "a:array"}, {"spec": "a: int8 , b :STRING"}, {"spec": "a:"}, {"spec": "a:int8,a:int16"},
        ],
        "DropHeaders": [{}, {"headers": ""}, {"headers": "a,a"}, {"headers": "a,,b"}],
        "ExtractField$Value": [
            {}, {"field": "a", "field.syntax.version": "V3"}, {"field": "`a", "field.syntax.version": "v2"},
            {"field": "a.`b\\`", "field.syntax.version": "V2"}, {"field": ""},
        ],
        "Flatten$Value": [{"delimiter": ""}],
        "HeaderFrom$Value": [
            {}, {"fields": "a", "headers": "x,y", "operation": "move"}, {"fields": "a", "headers": "x", "operation": "take"},
            {"fields": "", "headers": "", "operation": "copy"}, {"fields": "a,a", "headers": "x,y", "operation": "copy"},
        ],
        "HoistField$Value": [{}],
        "InsertField$Value": [
            {}, {"static.field": "a"}, {"static.value": "a"}, {"topic.field": ""},
            {"replace.null.with.default": "maybe", "topic.field": "t"},
        ],
        "InsertHeader": [{}, {"header": "a"}, {"header": "", "value.literal": ""}],
        "MaskField$Value": [{}, {"fields": ""}, {"fields": "a,a"}, {"fields": "a", "replacement": ""}],
        "RegexRouter": [{}, {"regex": "(", "replacement": "x"}],
        "ReplaceField$Value": [
            {"renames": "a"}, {"renames": "a:b:c"}, {"renames": "a:"}, {"renames": ":a"}, {"exclude": "a,a"}, {"include": "a,,b"}, {},
        ],
        "SetSchemaMetadata$Value": [{}, {"schema.version": "x"}],
        "TimestampConverter$Value": [
            {}, {"target.type": "string"}, {"target.type": "date"}, {"target.type": "string", "format": "bbb"},
            {"target.type": "string", "format": "yyyy'T"}, {"target.type": "unix", "unix.precision": "hours"},
        ],
        "TimestampRouter": [{"timestamp.format": "bbb"}],
        "ValueToKey": [{}, {"fields": ""}, {"fields": "a,a"}],
        "predicates.HasHeaderKey": [{}, {"name": ""}],
        "predicates.TopicNameMatches": [{}, {"pattern": ""}, {"pattern": "("}],
    }  # fmt: skip
    for name, configs in wrong.items():
        for config in configs:
            yield {"class": name, "config": config, "validate": True}
            yield row(name, config, plain({"a": 1}))


def _cast() -> Iterator[Json]:
    values: list[tuple[Json, list[Any]]] = [
        (schema("int8"), [-1, 127]),
        (schema("int16"), [300, -129]),
        (schema("int32"), [70_000, -2_147_483_648]),
        (schema("int64"), [(1 << 40) + 200, (1 << 63) - 1]),
        (schema("float32"), [1.5, -0.1, 1e10, 3.0e38, 1e-5]),
        (schema("float64"), [-1.5, 1e20, -1e20, 123456.789, 2147483648.5, 9999999.999, 1e7, 0.001, -0.0, 1e300, 255.9]),
        (schema("boolean"), [True, False]),
        (schema("string"), ["42", "-7", "+5", "300", "1.5", " 1 ", "abc", "", "true", "TRUE", "1e3", "NaN", "-Infinity", "0x1p3", "2f",
                            "2147483648", "007", "1e400", "9223372036854775808", "٣", "1_0", ".5", "-0"]),
        (schema("bytes"), [base64_of(), base64_of(1, 2, 255)]),
        (logical("Decimal"), [base64_of(4, 210), base64_of(251), base64_of(0), base64_of(127, *[255] * 9)]),
        (logical("Date"), [0, 7000, -1]),
        (logical("Time"), [0, 45_296_789]),
        (logical("Timestamp"), [0, 86_400_000, 1_500_000_000_123, -1]),
        (schema("array", items=schema("int32")), [[1]]),
        (struct({"x": schema("int8")}), [{"x": 1}]),
    ]  # fmt: skip
    for of_field, payloads in values:
        for target in TARGETS:
            for payload in payloads:
                yield row("Cast$Value", {"spec": f"f:{target}"}, with_schema(struct({"f": of_field}), {"f": payload}))
    for payload in (5, 300, -1, 1.5, 1e20, -1e10, True, "12", "x", "1.5", None, [1], {"a": 1}, 0.1):
        for target in TARGETS:
            yield row("Cast$Value", {"spec": target}, plain(payload))


def _cast_elsewhere() -> Iterator[Json]:
    yield from _everywhere("Cast", {"spec": "id:int8,name:string,note:string,count:string,ok:int32,born:string,ratio:string"})
    yield from _everywhere("Cast", {"spec": "string"})
    yield from _everywhere("Cast", {"spec": "int32"})
    yield from _everywhere("Cast", {"spec": "missing:int32"})
    yield row("Cast$Value", {"spec": "tags:string"}, ORDER_OF_NULLS)
    for of_field in (schema("int32", True, default=300), schema("string", True, default="12"), schema("string", True, default="no")):
        for target in ("int8", "string", "float64"):
            yield row("Cast$Value", {"spec": f"f:{target}"}, with_schema(struct({"f": of_field}), {"f": None}))
            yield row(
                "Cast$Value", {"spec": target}, with_schema({**of_field, "optional": True, "name": "n", "version": 2, "doc": "d"}, None)
            )
            yield row("Cast$Value", {"spec": target}, with_schema({**of_field, "name": "n", "version": 2, "doc": "d"}, of_field["default"]))
    for name in ("Date", "Time", "Timestamp"):
        yield row("Cast$Value", {"spec": "int64"}, with_schema(logical(name), 5))
        yield row("Cast$Key", {"spec": "string"}, None, with_schema(logical(name), 5))
    yield row("Cast$Value", {"spec": "a:int8"}, plain({"a": None}))
    yield row("Cast$Value", {"spec": "a:int8"}, plain({"b": 1}))


def _insert_field() -> Iterator[Json]:
    everything = {"topic.field": "t", "partition.field": "p", "timestamp.field": "ts", "static.field": "s", "static.value": "v"}
    yield from _everywhere("InsertField", everything)
    yield from _everywhere("InsertField", {name: text if name == "static.value" else f"{text}!" for name, text in everything.items()})
    yield from _everywhere("InsertField", {"offset.field": "o?"})
    yield from _everywhere("InsertField", {"topic.field": "t?", "static.field": "a!?", "static.value": ""})
    for optional in ("?", "!"):
        config = {"partition.field": f"p{optional}", "timestamp.field": f"ts{optional}"}
        yield row("InsertField$Value", config, ORDER, partition=None, timestamp=None)
        yield row("InsertField$Value", config, plain(MAP), partition=None, timestamp=None)
    yield row("InsertField$Value", {"topic.field": "id"}, ORDER)
    yield row("InsertField$Value", {"topic.field": "id"}, plain(MAP))
    yield row("InsertField$Value", {"topic.field": "t", "offset.field": "o", "timestamp.field": "ts"}, plain({}), kind="sink")
    yield row("InsertField$Value", {"topic.field": "t", "partition.field": "t"}, ORDER)
    yield row("InsertField$Value", {"topic.field": "t"}, with_schema(struct({"a": schema("int8")}, True), {"a": 2}))


def _replace_field() -> Iterator[Json]:
    for config in (
        {"exclude": "name,tags,missing"}, {"include": "id,note,count"}, {"include": "id,name", "exclude": "name"},
        {"renames": "id:key,note:name2"}, {"include": "missing"}, {}, {"renames": "id:a,a:id", "exclude": "price"},
    ):  # fmt: skip
        yield from _everywhere("ReplaceField", config)
    two = struct({"a": schema("int8"), "b": schema("string", True)})
    for config in ({"renames": "a:b,b:a"}, {"renames": "a:b"}, {"renames": "a:b", "exclude": "b"}, {"renames": "c:b"}, {"include": "b"}):
        yield row("ReplaceField$Value", config, with_schema(two, {"a": 1, "b": "x"}))
        yield row("ReplaceField$Value", config, plain({"a": 1, "b": "x"}))
    yield row("ReplaceField$Value", {"include": "a"}, with_schema({**two, "optional": True}, {"a": 1, "b": "x"}))


def _extract_field() -> Iterator[Json]:
    for field in ("id", "note", "count", "price", "missing", "tags"):
        yield from _everywhere("ExtractField", {"field": field})
    inner = struct({"x": schema("int32", True, default=3), "a.b": schema("string")}, True)
    outer = struct({"in": inner, "in.x": schema("int8"), "w": struct({"v": schema("int8", default=9)})})
    deep = {"in": {"x": None, "a.b": "q"}, "in.x": 1, "w": {"v": 5}}
    for field in ("in.x", "in", "in.`a.b`", "`in.x`", "in.y", "nope.x", "w.v", "in.x.z", "", "in.", "`in`.x", "`a`b`"):
        for version in ("V1", "v2"):
            for value in (
                with_schema(outer, deep),
                with_schema(outer, {**deep, "in": None}),
                plain({"in": {"x": 1, "a.b": "q"}, "in.x": 8}),
            ):
                yield row("ExtractField$Value", {"field": field, "field.syntax.version": version}, value)
    yield row("ExtractField$Value", {"field": "a.b", "field.syntax.version": "V2"}, plain({"a": 5}))
    yield row("ExtractField$Value", {"field": "a.b", "field.syntax.version": "V2"}, plain({"a": None}))


def _flatten() -> Iterator[Json]:
    for config in ({}, {"delimiter": "#"}):
        yield from _everywhere("Flatten", config)
    inner = struct({"x": schema("int32"), "y": schema("string", True, default="d"), "l": schema("array", True, items=schema("int8"))}, True)
    outer = struct(
        {"a": inner, "b": struct({"c": struct({"d": logical("Date")})}), "e": schema("int8", False, default=4)}, name="n", version=1
    )
    full = {"a": {"x": 1, "y": None, "l": [1]}, "b": {"c": {"d": 3}}, "e": 1}
    for payload in (full, {**full, "a": None}):
        yield row("Flatten$Value", {}, with_schema(outer, payload))
        yield row("Flatten$Value", {"delimiter": ""}, with_schema({**outer, "optional": True}, payload))
    yield row("Flatten$Value", {}, with_schema(struct({"m": schema("map", keys=schema("string"), values=schema("int8"))}), {"m": {}}))
    clash = struct({"a": struct({"b": schema("int8")}), "a.b": schema("int8")})
    yield row("Flatten$Value", {}, with_schema(clash, {"a": {"b": 1}, "a.b": 2}))
    schemaless: list[Json] = [{"a": {"b": None, "c": 1}, "d": None, "e": 2}, {"a": [1, {"b": 2}]}, {"a": {}}, {}]
    for value in schemaless:
        yield row("Flatten$Value", {}, plain(value))


def _header_from() -> Iterator[Json]:
    for operation in ("move", "copy"):
        config = {"fields": "id,name,note", "headers": "h-id,h-name,h-name", "operation": operation}
        yield from _everywhere("HeaderFrom", config, headers=[["h-id", "before"]])
        yield from _everywhere("HeaderFrom", {"fields": "price,at,tags,data,ok", "headers": "p,a,t,d,o", "operation": operation})
        yield from _everywhere("HeaderFrom", {"fields": "missing", "headers": "m", "operation": operation})


def _hoist_field() -> Iterator[Json]:
    yield from _everywhere("HoistField", {"field": "magic"})
    yield row("HoistField$Value", {"field": ""}, plain([1, 2]))
    yield row("HoistField$Key", {"field": "k"}, plain(1), None)
    yield row("HoistField$Key", {"field": "k"}, plain(1), with_schema(schema("int32", True), None))


def _headers() -> Iterator[Json]:
    given = [["a", "1"], ["b", "2"], ["a", "3"]]
    for headers in ([], given):
        yield row("DropHeaders", {"headers": "a"}, ORDER, headers=headers)
        yield row("DropHeaders", {"headers": "b,c"}, plain(MAP), headers=headers, kind="sink")
        for literal in ("text", "5", "1.5", "true", "[1,2]", '{"a":1}', "2020-01-01", "null", "", "1.5.6", "5000000000"):
            yield row("InsertHeader", {"header": "a", "value.literal": literal}, plain(1), headers=headers)


def _mask_field() -> Iterator[Json]:
    for config in (
        {"fields": "id,name,note,count,price,born,at,tags,sizes,ok"}, {"fields": "data"}, {"fields": "missing"},
        {"fields": "inner,tags,ratio,ok"},
        {"fields": "id,name,count", "replacement": "123"}, {"fields": "id", "replacement": "abc"}, {"fields": "name", "replacement": "abc"},
        {"fields": "ok", "replacement": "1"}, {"fields": "tags", "replacement": "1"}, {"fields": "born", "replacement": "1"},
        {"fields": "price", "replacement": "3.14"}, {"fields": "price", "replacement": "x"}, {"fields": "ratio,id", "replacement": "1e3"},
    ):  # fmt: skip
        yield from _everywhere("MaskField", config)
    for type in (*NUMBERS, "string"):
        for replacement in ("300", "-1.9", "1e2", "9999999999", "0x10", "1e400"):
            value = with_schema(struct({"f": schema(type)}), {"f": "s" if type == "string" else 1})
            yield row("MaskField$Value", {"fields": "f", "replacement": replacement}, value)
    yield row("MaskField$Value", {"fields": "f"}, with_schema(struct({"f": struct({"x": schema("int8")})}), {"f": {"x": 1}}))


def _set_schema_metadata() -> Iterator[Json]:
    for config in ({"schema.name": "new.Name"}, {"schema.version": "9"}, {"schema.name": "n", "schema.version": "0"}):
        yield from _everywhere("SetSchemaMetadata", config)
    for value in (
        with_schema(schema("int32", True, doc="d", default=5), None),
        with_schema(schema("array", items=schema("int8")), [1]),
        with_schema(schema("map", keys=schema("string"), values=schema("int8")), {"a": 1}),
        with_schema(struct({"a": schema("int8")}, True), None),
    ):
        yield row("SetSchemaMetadata$Value", {"schema.name": "n", "schema.version": "2"}, value)


def _timestamp_converter() -> Iterator[Json]:
    instants: list[tuple[Json, list[Any]]] = [
        (logical("Timestamp"), [0, 1_500_000_000_123, -1, -86_400_001, -12_219_292_800_001, -62_135_596_800_000, 253_402_300_800_000]),
        (logical("Date"), [0, 17_000, -1, -141_428]),
        (logical("Time"), [0, 45_296_789]),
        (schema("int64"), [0, 1_500_000_000_123, -1_999, 9_223_372_036_854_775_807, -9_223_372_036_854_775]),
        (schema("string"), ["2017-07-14T02:40:00.123Z", "nonsense"]),
        (schema("int32"), [5]),
        (schema("float64"), [5.5]),
    ]
    pattern = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
    for of_field, payloads in instants:
        for payload in payloads:
            for target in ("string", "unix", "Date", "Time", "Timestamp"):
                config = {"target.type": target, "format": pattern}
                yield row("TimestampConverter$Value", {**config, "field": "f"}, with_schema(struct({"f": of_field}), {"f": payload}))
    for precision in ("seconds", "microseconds", "nanoseconds"):
        for payload in (0, 1_500_000_000, -1_999_999, 9_223_372_036_854_775_807, -9_223_372_036_854_775_807):
            for target in ("unix", "string", "Timestamp"):
                config = {"target.type": target, "format": pattern, "unix.precision": precision}
                yield row("TimestampConverter$Value", config, with_schema(schema("int64"), payload))
                yield row("TimestampConverter$Value", {**config, "target.type": "unix"}, with_schema(logical("Timestamp"), payload))
                yield row("TimestampConverter$Value", config, plain(payload))
    for field, target in (("at", "unix"), ("born", "string"), ("name", "unix"), ("count", "unix"), ("missing", "unix"), ("", "string")):
        yield from _everywhere("TimestampConverter", {"field": field, "target.type": target, "format": "yyyy"})
    for target in ("string", "unix", "Date"):
        for value in (plain(1_500_000_000_123), plain("2017"), plain(1.5), plain(True), plain({"a": 1}), plain(None)):
            yield row("TimestampConverter$Value", {"target.type": target, "format": "yyyy"}, value)
    at = struct({"at": logical("Timestamp", True, default=1000), "x": schema("int8", True)}, True)
    for replace in ("true", "false"):
        config = {"field": "at", "target.type": "unix", "replace.null.with.default": replace}
        yield row("TimestampConverter$Value", config, with_schema(at, {"at": None, "x": 1}))
        yield row("TimestampConverter$Value", config, with_schema(at, None))
        yield row("TimestampConverter$Value", {**config, "field": ""}, with_schema(logical("Timestamp", True, default=1000), None))
    yield row("TimestampConverter$Value", {"target.type": "unix"}, with_schema(schema("string"), "2017"))


PATTERNS = {
    "yyyy-MM-dd": [
        "2020-02-29",
        "2020-2-9",
        "2020-02-30",
        "2020-13-01",
        " 2020-02-03",
        "2020-02-03rest",
        "20-02-03",
        "2020/02/03",
        "",
        "1582-10-10",
    ],
    "yyyyMMddHHmmss": ["20200229123456", "2020022912345", "20200229 23456", "99991231235959"],
    "yy-M-d": ["20-2-9", "2020-2-9", "99-12-31", "5-1-1", "46-01-01"],
    "EEE, d MMM yyyy hh:mm:ss a": ["Sat, 29 Feb 2020 12:34:56 AM", "saturday, 1 february 2020 01:00:00 pm", "Sat, 29 Feb 2020 13:00:00 AM"],
    "EEEE MMMM u D y": ["Friday January 5 40 2021"],
    "yyyy-MM-dd HH:mm:ss.SSSSSS": ["2020-01-02 03:04:05.123456", "2020-01-02 03:04:05.5"],
    "yyyy-MM-dd'T'HH:mm:ssXXX": ["2020-01-02T03:04:05+02:00", "2020-01-02T03:04:05Z", "2020-01-02T03:04:05"],
    "yyyy-MM-dd HH:mm:ss Z": ["2020-01-02 03:04:05 -0330", "2020-01-02 03:04:05 GMT+01:00"],
    "yyyy-MM-dd HH:mm z": ["2020-01-02 03:04 UTC", "2020-01-02 03:04 GMT"],
    "k:m K h 'o''clock' ''": ["24:5 0 0 o'clock '", "1:5 11 12 o'clock '"],
    "HH:mm": ["12:30", "25:61", "-1:00", "12"],
    "G yyyy": ["AD 2020", "BC 5"],
    "DDD yyyy": ["060 2020"],
    "SSS": ["1234", "7"],
    "'at' LLL LLLL": ["at Mar March"],
}


def _timestamp_strings() -> Iterator[Json]:
    for pattern, texts in PATTERNS.items():
        for text in texts:
            yield row("TimestampConverter$Value", {"target.type": "unix", "format": pattern}, with_schema(schema("string"), text))
        for instant in (0, 1_582_979_696_007, 1_709_210_096_789, 43_200_000, -1, 4_102_444_800_000, -30_000_000_000_000):
            yield row("TimestampConverter$Value", {"target.type": "string", "format": pattern}, with_schema(logical("Timestamp"), instant))


def _routers() -> Iterator[Json]:
    for config in (
        {},
        {"topic.format": "${timestamp}.${topic}.${topic}"},
        {"timestamp.format": "yyyy.MM", "topic.format": "x-${timestamp}"},
    ):
        for timestamp in (0, 1_600_000_000_123, None):
            yield row("TimestampRouter", config, plain(1), timestamp=timestamp)
    for regex, replacement in (
        ("(.*)-(.*)", "$2.$1"), ("orders", "x"), ("ord.*", "a\\$b"), ("(o)(rders)?", "$2$1"), ("o", "x"), (".*", "y"),
        ("(?<n>o).*", "${n}"),
        ("or|orders", "z"), ("(a)b*", "$10"), ("[a-z]*", "$3"),
    ):  # fmt: skip
        for topic in ("orders", "shop-orders", "a$b"):
            yield row("RegexRouter", {"regex": regex, "replacement": replacement}, plain(1), topic=topic, kind="sink")
    yield row("Filter", {}, plain(1))


def _value_to_key() -> Iterator[Json]:
    for fields in ("id", "name,id", "note,count", "missing", "price,tags,at"):
        for value in (ORDER, ORDER_OF_NULLS, plain(MAP), None, plain("x"), with_schema(schema("string"), "x")):
            for replace in ("true", "false"):
                config = {"fields": fields, "replace.null.with.default": replace}
                yield row("ValueToKey", config, value, with_schema(schema("int8"), 1))


def _predicates() -> Iterator[Json]:
    for headers in ([], [["a", "1"]], [["b", "1"], ["a", "2"]]):
        yield row("predicates.HasHeaderKey", {"name": "a"}, plain(1), headers=headers)
    for value in (None, plain(None), plain(1), with_schema(schema("string", True), None), with_schema(schema("string"), "")):
        yield row("predicates.RecordIsTombstone", {}, value)
    for pattern in ("orders", "ord", "ord.*", "(?i)ORDERS", "[^o].*", "a|orders"):
        for topic in ("orders", "ORDERS", "reorders"):
            yield row("predicates.TopicNameMatches", {"pattern": pattern}, plain(1), topic=topic)
