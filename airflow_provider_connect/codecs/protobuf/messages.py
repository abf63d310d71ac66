"""Protobuf's messages as values, from the text of a schema. Knows nothing of records and Connect's schemas.

protoc parses the text in a separate process, because the text comes from a registry that the config's author chose.
"""

from __future__ import annotations

import base64
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from airflow_provider_connect.data.expansion import check_fields
from airflow_provider_connect.errors import ConnectException, SchemaException

_MOST_TEXT: Final = 4 << 20  # characters of a schema and its references
_MOST_CHARACTERS: Final = 8 << 20  # of the names of all fields, and of the symbols of their enums
_SYMBOL: Final = 50  # characters added for each symbol, which is a parameter of each field
_MOST_LEVELS: Final = 100  # of nested messages, as in google.protobuf
_SECONDS: Final = 60
_SHOWN: Final = 1000  # characters of protoc's message
_ROOT: Final = "connect-schema.proto"
_PATH: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}/){0,30}[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_PROTOC: Final = (
    "import sys; sys.path.insert(0, sys.argv[1]); from grpc_tools import _protoc_compiler as protoc; "
    "sys.exit(protoc.run_main([each.encode() for each in sys.argv[1:]]))"
)
_KNOWN: Final = (
    *(f"google.protobuf.{name}_pb2" for name in ("any", "api", "descriptor", "duration", "empty", "field_mask", "source_context")),
    *(f"google.protobuf.{name}_pb2" for name in ("struct", "timestamp", "type", "wrappers")),
    *(f"google.type.{name}_pb2" for name in ("calendar_period", "color", "date", "datetime", "dayofweek", "expr", "fraction", "interval")),
    *(f"google.type.{name}_pb2" for name in ("latlng", "money", "month", "phone_number", "postal_address", "quaternion", "timeofday")),
    *(f"confluent_kafka.schema_registry.confluent.{name}_pb2" for name in ("meta", "type.decimal", "type.variant")),
)
"""The files that a schema may import without a reference."""
_WORDS: Final = "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32 enum"
_KINDS: Final = dict(enumerate((*_WORDS.split(), "sfixed32", "sfixed64", "sint32", "sint64"), 1))
"""Kinds by Protobuf's type numbers."""


@dataclass(frozen=True, slots=True)
class ProtoEnum:
    """An enum: its symbols with their numbers, in order. ``is_closed``: a number without a symbol is treated as an unknown field."""

    name: str
    full_name: str
    numbers: tuple[tuple[str, int], ...]
    is_closed: bool


@dataclass(frozen=True, slots=True, eq=False)
class ProtoField:
    """A field. ``kind`` is the name of a scalar type, ``enum`` or ``message``."""

    name: str
    number: int
    kind: str
    is_repeated: bool
    is_packed: bool
    has_presence: bool
    """Whether a record shows if the field was set. Without presence, the default is not written."""
    is_optional: bool
    """Whether the field has the keyword ``optional``."""
    is_proto2: bool
    default: Any
    parameters: Mapping[str, str]
    """The parameters in ``confluent.field_meta``."""
    oneof: str | None
    enum: ProtoEnum | None
    message: ProtoMessage | None

    @property
    def is_map(self) -> bool:
        """Whether the entries have the name and fields of a map's entries. The keyword ``map`` is not required."""
        message = self.message
        if message is None or not self.is_repeated or not message.name.endswith("Entry"):
            return False
        return [(field.name, field.is_repeated) for field in message.fields] == [("key", False), ("value", False)]


@dataclass(frozen=True, slots=True, eq=False)
class ProtoMessage:
    """A message: its fields in order, and its oneofs. ``descriptor`` is google.protobuf's descriptor."""

    name: str
    full_name: str
    fields: tuple[ProtoField, ...]
    oneofs: tuple[str, ...]
    descriptor: Any


@dataclass(frozen=True, slots=True, eq=False)
class ProtoFile:
    """The messages of one file by their indexes: the index of a message in the file, of a message nested in it, and so on."""

    _descriptors: Mapping[tuple[int, ...], Any]

    def indexes(self, full_name: str) -> tuple[int, ...] | None:
        """The indexes of a message. None if it is not in this file."""
        return next((indexes for indexes, each in self._descriptors.items() if each.full_name == full_name), None)

    def message(self, indexes: tuple[int, ...]) -> ProtoMessage:
        """The message with these indexes. Raises SchemaException if there is no such message, or if Connect has no type for it."""
        descriptor = self._descriptors.get(indexes)
        if descriptor is None:
            raise SchemaException(f"The schema has no message with the indexes {list(indexes[:10])}")
        return _Builder().message(descriptor, ())


def parse_proto(text: str, references: Mapping[str, str]) -> ProtoFile:
    """Parse the file ``text``, which may import files of ``references`` by name, and well-known files.

    A text may also be a FileDescriptorProto in base64. Raises SchemaException if protoc or google.protobuf refuses a text."""
    decode_error = import_module("google.protobuf.message").DecodeError
    try:
        found = _compiled({**references, _ROOT: text})
        pool = import_module("google.protobuf.descriptor_pool").DescriptorPool()
        for file in found.file:
            pool.Add(file)
        root = pool.FindFileByName(_ROOT)
        names = [each.name for each in found.file[-1].message_type]
        return ProtoFile(_indexed([root.message_types_by_name[name] for name in names], ()))
    except (decode_error, KeyError, TypeError, ValueError) as error:  # also for half a character, and for text that only protoc accepts
        raise SchemaException(f"google.protobuf refuses the schema: {str(error)[:_SHOWN]}") from None


def _indexed(descriptors: Any, above: tuple[int, ...]) -> dict[tuple[int, ...], Any]:
    found = {}
    for number, each in enumerate(descriptors):
        found[(*above, number)] = each
        found |= _indexed(each.nested_types, (*above, number))
    return found


def _compiled(texts: Mapping[str, str]) -> Any:
    """A FileDescriptorSet whose last file is the root's."""
    if sum(map(len, texts.values())) > _MOST_TEXT:
        raise SchemaException(f"The schema and those that it refers to have more than {_MOST_TEXT} characters")
    files = import_module("google.protobuf.descriptor_pb2")
    with tempfile.TemporaryDirectory(prefix="connect-protobuf-") as folder:
        sources, given = Path(folder, "sources"), dict(_known_files())
        for name, text in texts.items():
            if not _PATH.fullmatch(name):
                raise SchemaException(f"The schema refers to {name!r:.200}, which is no name of a Protobuf file")
            if (serialized := _serialized(text, files)) is not None:
                serialized.name = name
                given = {other: file for other, file in given.items() if not _symbols(file) & _symbols(serialized)} | {name: serialized}
                continue
            try:
                (sources / name).parent.mkdir(parents=True, exist_ok=True)
                (sources / name).write_text(text, encoding="utf-8")
            except OSError as error:
                raise SchemaException(f"The names of the schema's references cannot be used together: {error.strerror}") from None
        sources.mkdir(exist_ok=True)
        Path(folder, "known").write_bytes(files.FileDescriptorSet(file=given.values()).SerializeToString())
        options = ["--proto_path=sources", "--descriptor_set_in=known", "--include_imports", "--descriptor_set_out=found"]
        _run_protoc(folder, [*options, _ROOT])
        return files.FileDescriptorSet.FromString(Path(folder, "found").read_bytes())


def _serialized(text: str, files: Any) -> Any:
    """The file that a text has in base64. None for other text."""
    try:
        return files.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except Exception:  # each kind of fault has a different exception
        return None


def _symbols(file: Any) -> set[str]:
    """The full names of a file's messages."""
    return {f"{file.package}.{each.name}" for each in file.message_type}


def _run_protoc(folder: str, arguments: list[str]) -> None:
    spec = importlib.util.find_spec("grpc_tools")
    if spec is None or spec.origin is None:
        raise ConnectException("grpc_tools has no folder: install grpcio-tools")
    command = [sys.executable, "-I", "-S", "-c", _PROTOC, str(Path(spec.origin).parents[1]), *arguments]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise SchemaException(f"protoc did not read the schema within {_SECONDS} seconds") from None
    if done.returncode:
        lines = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith(("W0", "WARNING: All log"))]
        reason = "; ".join(lines).replace("sources/", "").replace(f"{_ROOT}:", "line ")
        raise SchemaException(f"protoc refuses the schema: {reason[:_SHOWN] or f'it ended with {done.returncode}'}")


@cache
def _known_files() -> Mapping[str, Any]:
    files, found = import_module("google.protobuf.descriptor_pb2"), {}
    for name in _KNOWN:
        descriptor = import_module(name).DESCRIPTOR
        found[descriptor.name] = files.FileDescriptorProto.FromString(descriptor.serialized_pb)
    return found


@dataclass(slots=True)
class _Builder:
    built: dict[str, tuple[ProtoMessage, int, int]] = field(default_factory=dict)
    """Each message, with the number of its fields and the characters of the fields' names, including inner fields."""
    enums: dict[str, tuple[ProtoEnum, int]] = field(default_factory=dict)

    def message(self, descriptor: Any, above: tuple[str, ...]) -> ProtoMessage:
        return self._counted(descriptor, above)[0]

    def _enum(self, descriptor: Any) -> tuple[ProtoEnum | None, int]:
        if descriptor is None:
            return None, 0
        name = descriptor.full_name
        if name not in self.enums:
            numbers = tuple((each.name, each.number) for each in descriptor.values)
            found = ProtoEnum(descriptor.name, name, numbers, descriptor.is_closed)
            self.enums[name] = found, sum(len(symbol) + _SYMBOL for symbol, _ in numbers) + len(name)
        return self.enums[name]

    def _counted(self, descriptor: Any, above: tuple[str, ...]) -> tuple[ProtoMessage, int, int]:
        name = descriptor.full_name
        if name in above:
            raise SchemaException(f"The message {name} holds itself, and columns have no such type")
        if len(above) >= _MOST_LEVELS:
            raise SchemaException(f"Messages have more than {_MOST_LEVELS} levels")
        if name not in self.built:
            copy = import_module("google.protobuf.descriptor_pb2").DescriptorProto()
            descriptor.CopyToProto(copy)
            is_proto2 = _is_proto2(descriptor.file)
            fields, count, characters = list[ProtoField](), 0, len(name)
            for proto, each in zip(copy.field, descriptor.fields, strict=True):
                inner, more, names = (None, 1, 0) if each.message_type is None else self._counted(each.message_type, (*above, name))
                enum, symbols = self._enum(each.enum_type)
                count += more
                characters += len(each.name) + names + symbols
                check_fields(count, f"The message {name}")
                if characters > _MOST_CHARACTERS:
                    raise SchemaException(f"The names of the message {name[:200]} with those of its messages and enums are too long")
                fields.append(_field(proto, each, inner, enum, is_proto2=is_proto2))
            used = {each.oneof for each in fields}
            oneofs = tuple(each.name for each in descriptor.oneofs if each.name in used)
            self.built[name] = ProtoMessage(descriptor.name, name, tuple(fields), oneofs, descriptor), count + 1, characters
        return self.built[name]


@cache
def _meta() -> Any:
    return import_module("confluent_kafka.schema_registry.confluent.meta_pb2").field_meta


def _is_proto2(file: Any) -> bool:
    copy = import_module("google.protobuf.descriptor_pb2").FileDescriptorProto()
    file.CopyToProto(copy)
    return copy.syntax in ("", "proto2")


def _field(proto: Any, field: Any, message: ProtoMessage | None, enum: ProtoEnum | None, *, is_proto2: bool) -> ProtoField:
    kind = _KINDS[field.type]
    if kind == "group":
        raise SchemaException(f"The field {field.full_name} is a group, which Connect has no type for")
    oneof = field.containing_oneof if not proto.proto3_optional else None
    return ProtoField(
        name=field.name,
        number=field.number,
        kind=kind,
        is_repeated=field.is_repeated,
        is_packed=field.is_packed,
        has_presence=field.has_presence,
        is_optional=proto.proto3_optional or (is_proto2 and oneof is None and not field.is_repeated and not field.is_required),
        is_proto2=is_proto2,
        default=_signed(kind, field.default_value),
        parameters=dict(proto.options.Extensions[_meta()].params),
        oneof=None if oneof is None else oneof.name,
        enum=enum,
        message=message,
    )


def _signed(kind: str, default: Any) -> Any:
    """The default as a signed number, because Connect's INT64 is Java's long."""
    return default - (1 << 64) if kind in ("uint64", "fixed64") and default >= 1 << 63 else default
