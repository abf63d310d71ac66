"""Oracle, accessed with SQLAlchemy and ``oracledb``. Not tested against a server.

URLs: ``thin:@//host:port/service``, ``thin:@host:port:SID``, ``thin:user/password@…`` and connect descriptors with one address.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import quote

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind
from airflow_provider_connect.connectors.jdbc.dialects.dialect import Dialect, ErrorWords, RowSql, Savepoint, Selected, UnknownFormError
from airflow_provider_connect.connectors.jdbc.dialects.url_options import UrlOptions, words
from airflow_provider_connect.data.schema import DATE, DECIMAL, TIMESTAMP, Schema, SchemaType


@dataclass(frozen=True)
class Oracle(Dialect):
    """Oracle's driver drops time zones and digits of times, so SQL expressions return both. An empty text is null."""

    name: str = "oracle"

    title = "Oracle"
    is_tested = False
    extra = "oracle"
    driver = "oracledb"
    port = 1521
    options = UrlOptions(accepted=words("service_name"))
    error_words = ErrorWords(
        "ORA-01017|ORA-2800[01]",
        "ORA-125(?:05|14)|DPY-600[13]",
        "ORA-12(?:170|516|519|520|528|541|537|547|571)|DPY-(?:6005|4011)",
        "ORA-(?:00028|01012|0103[34]|01089|0109[02]|0311[34]|03135)|DPY-(?:1001|4011)",
        "ORA-000(?:54|60)|ORA-08177|ORA-01555",
    )
    longest_name = 128
    in_bytes = True
    types: ClassVar[Mapping[str, str]] = {
        SchemaType.INT8: "NUMBER(3,0)",
        SchemaType.INT16: "NUMBER(5,0)",
        SchemaType.INT32: "NUMBER(10,0)",
        SchemaType.INT64: "NUMBER(19,0)",
        SchemaType.FLOAT32: "BINARY_FLOAT",
        SchemaType.FLOAT64: "BINARY_DOUBLE",
        SchemaType.BOOLEAN: "NUMBER(1,0)",
        SchemaType.STRING: "CLOB",
        SchemaType.BYTES: "BLOB",
        DECIMAL: "NUMBER(38,{scale})",
        DATE: "DATE",
        TIMESTAMP: "TIMESTAMP(3)",
    }
    key_types: ClassVar[Mapping[str, str]] = {SchemaType.STRING: "VARCHAR2(255 CHAR)", SchemaType.BYTES: "RAW(255)"}
    has_negative_scales = True
    reads_empty_as_null = True
    text_prefix = "N"
    bytes_literal = "HEXTORAW('{}')"
    types_time_literals = True
    clock_query = "SELECT ROUND((CAST(SYS_EXTRACT_UTC(SYSTIMESTAMP) AS DATE) - DATE '1970-01-01') * 86400) * 1000000 AS now FROM dual"
    casts_timestamps = True
    savepoint = Savepoint(release=None)

    def common_form(self, rest: str) -> str:
        return rest if rest.startswith("//") else _common_form(rest)

    def _unquoted(self, identifier: str) -> str:
        return identifier.upper()

    def change_type(self, column: str, type: str, nullability: str, rest: str) -> str:
        return f"MODIFY {column} {type}"

    def selected(self, column: Column, schema: Schema, zero_dates: str | None) -> Selected:
        operand = self.quoted(column.name)
        if column.kind is ColumnKind.TIMESTAMP_TZ:
            operand = f"SYS_EXTRACT_UTC({operand})"
        elif column.kind is ColumnKind.OTHER:
            operand = f"TO_CHAR({operand})"
        return Selected(operand, schema)

    def timestamp_operand(self, column: str, *, has_zone: bool) -> str:
        operand = f"SYS_EXTRACT_UTC({column})" if has_zone else column
        return f"CAST({operand} AS TIMESTAMP(6))"

    def upsert(self, row: RowSql, keys: Sequence[str]) -> str:
        return row.merge(keys, source=" FROM dual")


# --- URL ------------------------------------------------------------------------------------------------------------------------------

_FORM: Final = "jdbc:oracle:thin:@//host:1521/service or jdbc:oracle:thin:@host:1521:SID"
_NO_TLS: Final = (
    "Only the protocol TCP is known to the dialect here, not TLS (TCPS). Name the listener's port for TCP, or use Java's JDBC connector "
    "(confluentinc/kafka-connect-jdbc of Confluent Hub, docs/java-connectors.md)."
)
_LOGIN: Final = re.compile(r"(?:([^/@]*)(?:/([^@]*))?)?@(.*)", re.DOTALL)
_SERVICE: Final = re.compile(
    r"(?://)?(\[[0-9A-Fa-f:]++\]|[\w.-]++)(?::(\d++))?/([\w.$#-]++)(?::(?:dedicated|shared|pooled))?", re.IGNORECASE
)
_SID: Final = re.compile(r"(?://)?(\[[0-9A-Fa-f:]++\]|[\w.-]++):(\d++):([\w.$#-]++)")
_PART: Final = re.compile(r"\(\s*(HOST|PORT|PROTOCOL|SERVICE_NAME|SID)\s*=\s*([^()\s]++)\s*\)", re.IGNORECASE)


def _common_form(rest: str) -> str:
    driver, colon, text = rest.partition(":")
    if not colon or driver.lower() not in ("thin", "oci", "oci8"):
        raise UnknownFormError(f"Write {_FORM}")
    match = _LOGIN.fullmatch(text)
    if match is None:
        raise UnknownFormError(f"There must be an @ before the host. Write {_FORM}")
    user, password, address = match[1], match[2], match[3]
    login = "" if not user else f"{quote(user, safe='')}{'' if password is None else ':' + quote(password, safe='')}@"
    return f"//{login}{_address(address.strip())}"


def _address(text: str) -> str:
    if text.startswith("("):
        return _of_descriptor(text)
    if text.lower().startswith("tcps:"):
        raise UnknownFormError(f"{_NO_TLS} Write {_FORM}")
    text, mark, options = text.removeprefix("tcp:").partition("?")
    if mark:
        names = ", ".join(part.partition("=")[0] for part in options.split("&") if re.fullmatch(r"[A-Za-z][\w.-]*+=.*", part, re.DOTALL))
        raise UnknownFormError(f"No option is known after Oracle's address{f', so not {names}' if names else ''}. Write {_FORM}")
    sid = _SID.fullmatch(text)
    if sid is not None:
        return f"{sid[1]}:{sid[2]}/{sid[3]}"
    service = _SERVICE.fullmatch(text)
    if service is None:
        raise UnknownFormError(f"Names of tnsnames.ora and options are not read here. Write {_FORM}")
    return f"{service[1]}:{service[2] or 1521}/?service_name={service[3]}"


def _of_descriptor(text: str) -> str:
    parts = [(name.upper(), value) for name, value in _PART.findall(text)]
    found = dict(parts)
    if len(found) < len(parts) or "HOST" not in found or not found.keys() & {"SERVICE_NAME", "SID"}:
        raise UnknownFormError(f"A connect descriptor must have one address and a SERVICE_NAME or SID. Write {_FORM}")
    if found.get("PROTOCOL", "tcp").lower() != "tcp":
        raise UnknownFormError(f"{_NO_TLS} Write {_FORM}")
    name = f"?service_name={found['SERVICE_NAME']}" if "SERVICE_NAME" in found else found["SID"]
    return f"{found['HOST']}:{found.get('PORT', '1521')}/{name}"
