"""The text of log lines as columns: formats, and the time in a line. Knows nothing of files.

polars evaluates a config's patterns, in time that is linear in the length of the text.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.connectors.time_zone import time_zone
from airflow_provider_connect.data.arrow import pa, pl
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.schema import STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import check_expression

LONGEST_PATTERN: Final = 2000
TYPES: Final = ("string", "integer", "number", "boolean")
COMMON: Final = (
    r'^(?P<host>\S+) (?P<ident>\S+) (?P<user>\S+) \[(?P<time>[^\]]+)\] "(?P<request>(?:[^"\\]|\\.)*)" (?P<status>\d{3}|-) (?P<size>\d+|-)'
)
COMBINED: Final = COMMON + r' "(?P<referer>(?:[^"\\]|\\.)*)" "(?P<agent>(?:[^"\\]|\\.)*)"'
WEB_TIME: Final = "%d/%b/%Y:%H:%M:%S %z"
WEB_TYPES: Final = {"status": "integer", "size": "integer"}
LINE: Final = "line_"  # a group around a pattern, null if the pattern does not match
_PAIR: Final = r'[^\s="]+(?:=(?:"(?:[^"\\]|\\.)*"|[^\s"]*))?'
_ESCAPES: Final = {"\\\\": "\\", '\\"': '"', "\\n": "\n", "\\r": "\r", "\\t": "\t"}
_FIELD_NAME: Final = re.compile(r"[\w.@-]+")


@dataclass(slots=True)
class Parsed:
    """Parsed lines. ``value`` has the type of ``schema`` (None: JSON text). ``errors`` are the indexes of lines in another format.
    ``blank`` are the indexes of empty lines, which are not records. ``time`` is the text of each line's time."""

    value: pa.Array
    schema: Schema | None
    errors: Sequence[int] = ()
    blank: Sequence[int] = ()
    time: pl.Series | None = None


@dataclass(frozen=True, slots=True)
class TextFormat:
    """A line is its text."""

    name = "text"

    def parse(self, lines: pa.Array, time: str | None) -> Parsed:
        return Parsed(lines, STRING_SCHEMA)


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """A line is a JSON object or array, kept as written."""

    name = "json"

    def parse(self, lines: pa.Array, time: str | None) -> Parsed:
        text = pl.Series(lines)
        is_document = text.str.contains(r"^\s*[\[{]") & text.str.json_path_match("$").is_not_null()
        path = None if time is None else "$" + "".join(f"['{part}']" for part in time.split("."))
        value = pa.ExtensionArray.from_storage(pa.json_(), lines)
        found = None if path is None else text.set(~is_document.fill_null(value=False), None).str.json_path_match(path)
        return Parsed(value, None, _rows(~is_document.fill_null(value=False)), _blank(text), found)


@dataclass(frozen=True, slots=True)
class LogfmtFormat:
    """A line has words ``key=value`` or ``key``, and becomes a map. Values may be in quotation marks. If a key occurs several times, its
    last value is used."""

    name = "logfmt"

    def parse(self, lines: pa.Array, time: str | None) -> Parsed:
        text = pl.Series("line", lines)
        rest = text.str.replace_all(_PAIR, "").str.strip_chars()
        words = pl.DataFrame({"row": pl.arange(len(text), eager=True), "word": text.str.extract_all(_PAIR)}).explode("word").drop_nulls()
        value = pl.col("word").str.extract(r"^[^=]+=(?s)(.*)$")
        quoted = value.str.starts_with('"')
        plain = value.str.strip_prefix('"').str.strip_suffix('"').str.replace_many(list(_ESCAPES), list(_ESCAPES.values()))
        pairs = words.select("row", key=pl.col("word").str.extract(r"^([^=]+)"), value=pl.when(quoted).then(plain).otherwise(value))
        pairs = pairs.unique(["row", "key"], keep="last", maintain_order=True)
        counts = pl.DataFrame({"row": pl.arange(len(text), eager=True)}).join(pairs.group_by("row").len(), on="row", how="left")
        ends = [0, *counts.sort("row")["len"].fill_null(0).cum_sum()] if len(text) else [0]
        entries = pa.MapArray.from_arrays(pa.array(ends, pa.int32()), _strings(pairs["key"]), _strings(pairs["value"]))
        found = None if time is None else _values_by_row(pairs.filter(pl.col("key") == time), len(text))
        return Parsed(entries, _MAP, _rows(rest.fill_null("x") != ""), _blank(text), found)


@dataclass(frozen=True, slots=True)
class PatternFormat:
    """A line becomes a struct of the named groups of ``pattern``. Fields are texts, or values of ``types``, for which ``-`` is null."""

    name: str
    pattern: str
    types: Mapping[str, str] = field(default_factory=dict)
    is_quoted: bool = False  # CSV: group ``name`` in quotation marks, or ``name_`` without them

    def parse(self, lines: pa.Array, time: str | None) -> Parsed:
        text = pl.Series(lines)
        found = text.str.extract_groups(f"(?P<{LINE}>{self.pattern})").struct.unnest()
        names = [name for name in found.columns if name != LINE and not name.isdigit()]
        if self.is_quoted:
            names = [name for name in names if not name.endswith("_")]
            found = found.select(
                LINE, *(pl.col(name).str.replace_all('""', '"', literal=True).fill_null(pl.col(f"{name}_")) for name in names)
            )
        typed = found.select(names).with_columns(_cast_column(name, kind) for name, kind in self.types.items())
        is_bad = found[LINE].is_null()
        for name in self.types:
            is_bad = is_bad | (typed[name].is_null() & found[name].is_not_null() & ~found[name].is_in(["-", ""]))
        value = typed.to_struct("line").to_arrow()
        fields = [pa.field(each.name, pa.type_for_alias(_ARROW[self.types.get(each.name, "string")])) for each in value.type]
        value = value.cast(pa.struct(fields))
        schema = schema_of(pa.field("line", value.type, nullable=False))
        return Parsed(value, schema, _rows(is_bad), _blank(text), None if time is None else found[time])


LineFormat = TextFormat | JsonFormat | LogfmtFormat | PatternFormat


@dataclass(frozen=True, slots=True)
class LineTime:
    """Reads the time of a line. The time is in the ``field`` of the line's format, or in the match of ``pattern``. Other attributes are the
    time's format, and the zone of times without a zone. A time without a year, as in syslog, is in the last twelve months, and at most one
    day ahead of ``clock`` (in seconds)."""

    field: str | None
    pattern: str | None
    form: str
    zone: str
    clock: Callable[[], float] = time.time

    def of(self, lines: pa.Array, parsed: Parsed) -> pa.Array:
        """Milliseconds since 1970 (int64). Null for a line without a valid time."""
        text = parsed.time if self.pattern is None else pl.Series(lines).str.extract(self.pattern)
        if text is None:
            return pa.nulls(len(lines), pa.int64())
        return self.parse(text.cast(pl.String)).to_arrow().cast(pa.int64())

    def parse(self, text: pl.Series) -> pl.Series:
        if self.form in _UNITS:
            return (text.cast(pl.Float64, strict=False) * _UNITS[self.form]).cast(pl.Int64, strict=False)
        if self.form == ISO:
            instants = self._read_iso(text)
            has_other_form = instants.null_count() > text.null_count()
            return instants.fill_null(self._read_iso(_extended_form(text))) if has_other_form else instants
        if _has(self.form, _YEARS):
            return self._read(text, self.form)
        latest = datetime.datetime.fromtimestamp(self.clock(), datetime.UTC) + datetime.timedelta(days=1)
        this, before = (self._read(f"{year} " + text, f"%Y {self.form}") for year in (latest.year, latest.year - 1))
        return this.zip_with((this <= int(latest.timestamp() * 1000)).fill_null(value=False), before)

    def _read_iso(self, text: pl.Series) -> pl.Series:
        """Parse times of ISO 8601's extended form."""
        text = text.str.replace(",", ".", literal=True).str.replace(r"^(\d{4}-\d\d-\d\d)[ T]", "${1}T").str.replace(r"Z$", "+00:00")
        zoned = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%:z", strict=False, time_unit="ms")
        local = text.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f", strict=False, time_unit="ms")
        return zoned.dt.timestamp("ms").fill_null(self._instant(local))

    def _read(self, text: pl.Series, form: str) -> pl.Series:
        """Parse times with a year. As in Python, ``%f`` means digits after a point or comma. In polars, ``%f`` is a number of
        nanoseconds."""
        form = form.replace(".%f", "%.f")
        forms = [form.replace("%f", digits) for digits in ("%3f", "%6f", "%9f")] if "%f" in form else [form]
        instants = pl.Series([None], dtype=pl.Int64).extend_constant(None, len(text) - 1) if len(text) else pl.Series([], dtype=pl.Int64)
        for each in forms:
            found = text.str.to_datetime(each, strict=False, time_unit="ms")
            instants = instants.fill_null(found.dt.timestamp("ms") if _has(form, _ZONES) else self._instant(found))
        return instants

    def _instant(self, local: pl.Series) -> pl.Series:
        return local.dt.replace_time_zone(self.zone, ambiguous="earliest", non_existent="null").dt.timestamp("ms")


ISO: Final = "iso"
_UNITS: Final = {"epoch": 1000.0, "epoch_ms": 1.0}
_YEARS: Final = ("%Y", "%y", "%G", "%g", "%F", "%D", "%x", "%v", "%c", "%+", "%s")
_ZONES: Final = ("%z", "%:z", "%::z", "%#z", "%+", "%s")


def _has(form: str, directives: Sequence[str]) -> bool:
    return any(each in form.replace("%%", "") for each in directives)


def _extended_form(text: pl.Series) -> pl.Series:
    """Rarer forms of times in ISO 8601's extended form: the basic form, a time without seconds, an offset in hours, UTC in other
    letters."""
    text = text.str.to_uppercase().str.replace(r" ?(UTC|GMT)$", "Z")
    text = text.str.replace(r"^(\d{4})(\d\d)(\d\d)([T ]\d\d)(\d\d)", "${1}-${2}-${3}${4}:${5}")
    text = text.str.replace(r"^(.{10}[T ]\d\d:\d\d)(\d\d)", "${1}:${2}").str.replace(r"^(.{10}[T ]\d\d:\d\d)([^:]|$)", "${1}:00${2}")
    return text.str.replace(r"(:\d\d(?:[.,]\d+)? ?[+-]\d\d)$", "${1}:00")


def csv_pattern(fields: Sequence[str], delimiter: str) -> str:
    """A pattern for a line of CSV. Each field has no quotation marks, or is in quotation marks, within which quotation marks are
    doubled."""
    mark = re.escape(delimiter)
    return "^" + mark.join(f'(?:"(?P<{name}>(?:[^"]|"")*)"|(?P<{name}_>[^"{mark}]*))' for name in fields) + "$"


def group_names(key: str, pattern: str) -> list[str]:
    """The names of a pattern's groups, or the numbers of unnamed groups. Raises ConfigException for an invalid or too long pattern."""
    if len(pattern) > LONGEST_PATTERN:
        raise ConfigException.of(key, f"{pattern[:100]}…", f"A pattern may have at most {LONGEST_PATTERN} characters.")
    try:
        check_expression(pattern)
        found = pl.Series([""]).str.extract_groups(pattern)
    except (re.error, pl.exceptions.PolarsError) as error:
        raise ConfigException.of(key, pattern[:200], f"Not a pattern: {error}") from error
    return [each.name for each in found.dtype.fields]  # type: ignore[attr-defined]  # a struct


def check_time_format(time: LineTime, form_key: str, zone_key: str) -> None:
    """Raise ConfigException for a format that polars cannot parse, and for an unknown time zone."""
    time_zone(zone_key, time.zone)
    try:
        time.parse(pl.Series(["2026-01-02 03:04:05"]))
        if time.form != ISO and time.form not in _UNITS:
            _check_has_date(time, form_key)
    except pl.exceptions.PolarsError as error:
        raise ConfigException.of(form_key, time.form[:100], f"Not a valid time format: {error}") from error


def _check_has_date(line_time: LineTime, form_key: str) -> None:
    """Raise ConfigException unless two formatted days are parsed as different days."""
    noon = datetime.datetime.fromtimestamp(line_time.clock(), datetime.UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    days = pl.Series([noon - datetime.timedelta(days=40), noon - datetime.timedelta(days=1)])
    written = days.dt.strftime(line_time.form.replace("%f", "%6f"))
    first, last = line_time.parse(written)
    # in days, because daylight saving time may change in between
    if first is None or last is None or round((last - first) / 86_400_000) != 39:
        raise ConfigException.of(form_key, line_time.form[:100], "The format needs day and month, such as %b %d %H:%M:%S.")


def check_field_name(key: str, name: str) -> None:
    """Raise ConfigException for an invalid field name."""
    if _FIELD_NAME.fullmatch(name) is None:
        raise ConfigException.of(key, name[:100], "A field name has letters, digits, dots, hyphens and underscores.")


_MAP: Final = Schema.map(STRING_SCHEMA, STRING_SCHEMA.as_optional())
_ARROW: Final = {"string": "string", "integer": "int64", "number": "float64", "boolean": "bool"}


def _cast_column(name: str, kind: str) -> pl.Expr:
    if kind == "boolean":
        lower = pl.col(name).str.to_lowercase()
        return pl.when(lower == "true").then(True).when(lower == "false").then(False).alias(name)
    return pl.col(name).cast(pl.Int64 if kind == "integer" else pl.Float64 if kind == "number" else pl.String, strict=False)


def _values_by_row(pairs: pl.DataFrame, count: int) -> pl.Series:
    """The values by row. Null for rows without a value."""
    rows = pl.DataFrame({"row": pl.arange(count, eager=True)})
    return rows.join(pairs, on="row", how="left", maintain_order="left")["value"]


def _strings(series: pl.Series) -> pa.Array:
    return series.to_arrow().cast(pa.string())


def _rows(mask: pl.Series) -> list[int]:
    return mask.arg_true().to_list()


def _blank(text: pl.Series) -> list[int]:
    return _rows(text.fill_null("x").str.strip_chars() == "")
