"""The settings of LogSource, and their parsed form for its task."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.connectors.logs import container_lines, formats
from airflow_provider_connect.connectors.logs.container_lines import CRI, DOCKER, ContainerLines
from airflow_provider_connect.connectors.logs.files import PATHS, NameFilter, PathPattern
from airflow_provider_connect.connectors.logs.formats import LineFormat, LineTime, PatternFormat
from airflow_provider_connect.connectors.logs.lines import Encoding, Entries
from airflow_provider_connect.connectors.logs.reader import Limits
from airflow_provider_connect.connectors.text_encoding import ENCODING
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, ListOf, NonEmptyString, OneOf, Range, Type

TOPIC, INCLUDE, EXCLUDE, START, FOLLOW, POLL_MS = "topic", "names.pattern", "exclude.pattern", "start.from", "follow", "poll.interval.ms"
KEEPS_MS, LINE_BYTES, PIECE_BYTES = "missing.retention.ms", "line.max.bytes", "batch.max.bytes"
ENTRY_START, ENTRY_LINES, COMPLETE_MS = "multiline.start.pattern", "multiline.max.lines", "line.timeout.ms"
FORMAT, PATTERN, FIELDS, DELIMITER, TYPES = "line.format", "line.pattern", "csv.fields", "csv.delimiter", "line.types"
TIME_FIELD, TIME_PATTERN, TIME_FORM, TIME_ZONE = "timestamp.field", "timestamp.pattern", "timestamp.format", "timestamp.timezone"
HEADER: Final = "path.header"
BEGINNING, END = "beginning", "end"
SHARE: Final = "log.share"
"""The setting in a task's config with its number and the number of tasks: ``0/2``."""

CONFIG_DEF = ConfigDef(
    ConfigKey(
        PATHS,
        Type.LIST,
        importance=Importance.HIGH,
        doc="Absolute paths of the files to read, separated by commas. Names and folders may have <code>*</code>, <code>?</code> and "
        "<code>[…]</code>; a folder <code>**</code> matches any depth. Rotated files in the same folder are read too",
    ),
    ConfigKey(TOPIC, Type.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic to write to"),
    ConfigKey(INCLUDE, Type.STRING, None, doc="Regular expression that the whole name of a file must also match"),
    ConfigKey(EXCLUDE, Type.STRING, None, doc="Files whose whole name matches this regular expression are not read"),
    ConfigKey(
        START,
        Type.STRING,
        BEGINNING,
        validator=OneOf(BEGINNING, END),
        doc="Start of files that exist when their entry of <code>paths</code> is read for the first time. Later files are read from the "
        "beginning.",
    ),
    ConfigKey(
        FOLLOW,
        Type.BOOLEAN,
        default=False,
        doc="Whether a task waits for new lines, as an agent, instead of ending at the files' sizes at its start",
    ),
    ConfigKey(
        POLL_MS,
        Type.INT,
        500,
        validator=Range(at_least=10),
        doc="How often folders are listed with <code>follow</code>; up to ten times less often if listing takes more than 1 % of a core",
    ),
    ConfigKey(ENCODING, Type.STRING, "utf-8", doc="The encoding of the files"),
    ConfigKey(
        LINE_BYTES,
        Type.INT,
        1 << 20,
        validator=Range(at_least=16, at_most=64 << 20),
        doc="Maximum length of a line. A longer line is an error (<code>errors.tolerance</code>)",
    ),
    ConfigKey(ENTRY_START, Type.STRING, None, doc="Regular expression found in each line that begins an entry of several lines"),
    ConfigKey(ENTRY_LINES, Type.INT, 500, validator=Range(at_least=1), doc="Maximum lines of an entry. The rest is a separate entry"),
    ConfigKey(
        COMPLETE_MS,
        Type.LONG,
        5000,
        validator=Range(at_least=0),
        doc="When a file has not changed for this long, its last entry of several lines is complete, and so is the last line of a "
        "rotated file",
    ),
    ConfigKey(
        FORMAT,
        Type.STRING,
        "text",
        validator=OneOf("text", "json", "logfmt", "csv", "common", "combined", CRI, DOCKER, "pattern"),
        doc="Format of a line. <code>common</code> and <code>combined</code> are formats of web servers; <code>cri</code> and "
        "<code>docker</code> are those of containers, whose divided lines are joined; <code>pattern</code> is <code>line.pattern</code>",
    ),
    ConfigKey(PATTERN, Type.STRING, None, doc="A regular expression whose named groups, <code>(?P&lt;name&gt;…)</code>, are the fields"),
    ConfigKey(FIELDS, Type.LIST, "", validator=ListOf(unique=True), doc="The fields of a line of CSV"),
    ConfigKey(DELIMITER, Type.STRING, ",", keeps_blanks=True, doc="The character between fields of CSV; <code>\\t</code> is a tab"),
    ConfigKey(
        TYPES,
        Type.LIST,
        "",
        doc="Types of fields of <code>csv</code> and <code>pattern</code> other than text, such as <code>status:integer</code>; also "
        "<code>number</code> and <code>boolean</code>. Empty and <code>-</code> are null",
    ),
    ConfigKey(TIME_FIELD, Type.STRING, None, doc="The field with the time of a line, which becomes the record's timestamp"),
    ConfigKey(TIME_PATTERN, Type.STRING, None, doc="A regular expression whose first group is the time in the text of a line"),
    ConfigKey(
        TIME_FORM,
        Type.STRING,
        formats.ISO,
        doc="How times are written: <code>iso</code>, <code>epoch</code>, <code>epoch_ms</code>, or a format such as "
        "<code>%d/%b/%Y:%H:%M:%S %z</code>. A time without a year (<code>%b %d %H:%M:%S</code>) is within the last twelve months",
    ),
    ConfigKey(TIME_ZONE, Type.STRING, "UTC", doc="Time zone of times without one, for example <code>Europe/Paris</code>"),
    ConfigKey(HEADER, Type.STRING, None, doc="Name of a header for the path of the file"),
    ConfigKey(
        KEEPS_MS,
        Type.LONG,
        86_400_000,
        validator=Range(at_least=0),
        doc="How long the position of a missing file is kept; for the last 1,000 of a folder",
    ),
    ConfigKey(
        PIECE_BYTES, Type.INT, 4 << 20, validator=Range(at_least=64, at_most=256 << 20), importance=Importance.LOW, doc="Bytes of a batch"
    ),
)


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The parsed settings of files."""

    patterns: list[PathPattern]
    included: BoundedRegex | None
    excluded: BoundedRegex | None
    share: tuple[int, int]

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> LogSettings:
        """Raises ConfigException."""
        if not config[PATHS]:
            raise ConfigException.of(PATHS, "", "Set the path of a file, or a pattern of paths.")
        number, _, count = str(config.get(SHARE, "0/1")).partition("/")
        patterns = [PathPattern.of(path) for path in config[PATHS]]
        return cls(patterns, _expression(config, INCLUDE), _expression(config, EXCLUDE), (int(number), int(count)))

    def names(self, patterns: list[PathPattern]) -> NameFilter:
        return NameFilter([pattern.names for pattern in patterns], self.included, self.excluded)


@dataclass(frozen=True, slots=True)
class LineSettings:
    """The parsed settings that control how bytes become records."""

    encoding: Encoding
    limits: Limits
    entries: Entries | ContainerLines | None
    format: LineFormat
    time: LineTime | None

    @classmethod
    def of(cls, config: Config | Mapping[str, Any]) -> LineSettings:
        """Raises ConfigException. Imports polars if there are patterns."""
        encoding, entries = Encoding.of(config[ENCODING]), _entries(config)
        if isinstance(entries, ContainerLines) and encoding.width > 1:
            raise ConfigException.of(ENCODING, config[ENCODING], f"Lines of format {entries.format} are UTF-8.")
        form, time = _format(config), _time(config)
        if isinstance(form, PatternFormat) and time is not None and time.field is not None and f"<{time.field}>" not in form.pattern:
            raise ConfigException.of(TIME_FIELD, time.field, f"Lines of format {form.name} have no such field.")
        if form.name == "text" and time is not None and time.field is not None:
            raise ConfigException.of(TIME_FIELD, time.field, f"Text has no fields. Set {TIME_PATTERN} instead.")
        return cls(encoding, Limits(config[LINE_BYTES], config[PIECE_BYTES]), entries, form, time)


def has_open_entries(config: Mapping[str, Any]) -> bool:
    """Whether an entry may have several lines, so that the last one of a file may be incomplete."""
    return config[ENTRY_START] is not None or config[FORMAT] in (CRI, DOCKER)


def _entries(config: Mapping[str, Any]) -> Entries | ContainerLines | None:
    start = config[ENTRY_START]
    if config[FORMAT] in (CRI, DOCKER):
        if start is not None:
            raise ConfigException.of(ENTRY_START, start, f"Lines of format {config[FORMAT]} are joined by their parts only.")
        return ContainerLines(config[FORMAT], config[LINE_BYTES])
    if start is None:
        return None
    formats.group_names(ENTRY_START, start)
    return Entries(start, config[ENTRY_LINES], config[LINE_BYTES])


def _format(config: Mapping[str, Any]) -> LineFormat:
    name = config[FORMAT]
    plain: Mapping[str, LineFormat] = {each.name: each for each in (formats.TextFormat(), formats.JsonFormat(), formats.LogfmtFormat())}
    if name in plain:
        return plain[name]
    if name in (CRI, DOCKER):
        return PatternFormat(name, container_lines.PATTERN)
    if name in ("common", "combined"):
        return PatternFormat(name, formats.COMMON if name == "common" else formats.COMBINED, formats.WEB_TYPES)
    if name == "csv":
        fields, delimiter = config[FIELDS], config[DELIMITER].replace("\\t", "\t")
        if not fields or not all(re.fullmatch(r"[A-Za-z]\w*(?<!_)", each, re.ASCII) for each in fields):
            raise ConfigException.of(FIELDS, ",".join(fields), "Name the fields of CSV, each with letters, digits and inner underscores.")
        if len(delimiter) != 1 or delimiter in '"\n\r':
            raise ConfigException.of(DELIMITER, delimiter, "Set one character other than a quotation mark or a line end.")
        return PatternFormat(name, formats.csv_pattern(fields, delimiter), _types(config, fields), is_quoted=True)
    groups = [] if config[PATTERN] is None else formats.group_names(PATTERN, config[PATTERN])
    named = [group for group in groups if not group.isdigit()]
    if not named or formats.LINE in named:
        raise ConfigException.of(PATTERN, config[PATTERN], "Set an expression with named groups, such as (?P<level>\\w+) (?P<text>.*).")
    return PatternFormat(name, config[PATTERN], _types(config, named))


def _types(config: Mapping[str, Any], fields: list[str]) -> dict[str, str]:
    types = dict(each.partition(":")[::2] for each in config[TYPES])
    for name, kind in types.items():
        if name not in fields or kind not in formats.TYPES:
            known = ", ".join(formats.TYPES)
            raise ConfigException.of(TYPES, f"{name}:{kind}", f"Name a field of the line and its type, one of {known}.")
    return types


def _time(config: Mapping[str, Any]) -> LineTime | None:
    field, pattern, form = config[TIME_FIELD], config[TIME_PATTERN], config[TIME_FORM]
    if field is None and pattern is None:
        forms = {"common": formats.WEB_TIME, "combined": formats.WEB_TIME, CRI: formats.ISO, DOCKER: formats.ISO}
        return LineTime("time", None, forms[config[FORMAT]], "UTC") if config[FORMAT] in forms else None
    if field is not None:
        formats.check_field_name(TIME_FIELD, field)
    if pattern is not None and not formats.group_names(TIME_PATTERN, pattern):
        raise ConfigException.of(TIME_PATTERN, pattern[:200], "Put the time into a group: ^(\\S+)")
    time = LineTime(field, pattern, form, config[TIME_ZONE])
    formats.check_time_format(time, TIME_FORM, TIME_ZONE)
    return time


def _expression(config: Mapping[str, Any], key: str) -> BoundedRegex | None:
    given = config[key]
    try:
        return None if given is None else BoundedRegex(given, key)
    except re.error as error:
        raise ConfigException.of(key, given[:200], f"Not a regular expression: {error}") from error
