"""The settings of FileSystemSink, and the checks for contradictions. Names are the same as in the sinks for S3, HDFS, GCS and Azure."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.filesystem.formats.contract import COMPRESSION, FileFormat
from airflow_provider_connect.connectors.filesystem.formats.file_format import FORMAT, file_format
from airflow_provider_connect.connectors.filesystem.partition_files import FileNames
from airflow_provider_connect.connectors.filesystem.partitioners.partitioner import (
    DefaultPartitioner,
    FieldPartitioner,
    Partitioner,
    TimePartitioner,
)
from airflow_provider_connect.connectors.filesystem.partitioners.rotation import NO_LIMIT, Rotation
from airflow_provider_connect.connectors.filesystem.partitioners.time_path import TimePath
from airflow_provider_connect.connectors.filesystem.partitioners.timestamps import Extractor, Timestamps
from airflow_provider_connect.connectors.filesystem.schema_change import Compatibility
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS
from airflow_provider_connect.connectors.time_zone import check_time_zone
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, OneOf, Range, Type

TOPICS_DIR = "topics.dir"
FLUSH_SIZE, ROTATE_BYTES = "flush.size", "rotate.bytes"
ROTATE_MS, ROTATE_SCHEDULE_MS = "rotate.interval.ms", "rotate.schedule.interval.ms"
OPEN_MS: Final = 300_000
"""In a run that stays, how long files are open if rotate.schedule.interval.ms is not set."""
PARTITIONER, FIELDS, PATH_FORMAT = "partitioner.class", "partition.field.name", "path.format"
DURATION_MS, TIME_ZONE, LOCALE = "partition.duration.ms", "timezone", "locale"
EXTRACTOR, TIMESTAMP_FIELD = "timestamp.extractor", "timestamp.field"
NULL_VALUES, COMPATIBILITY = "behavior.on.null.values", "schema.compatibility"
DELIMITER, DIGITS, MAX_OPEN_FILES = "file.delim", "filename.offset.zero.pad.width", "max.open.files.per.partition"

DEFAULT, FIELD, TIME, DAILY, HOURLY = (
    "DefaultPartitioner",
    "FieldPartitioner",
    "TimeBasedPartitioner",
    "DailyPartitioner",
    "HourlyPartitioner",
)
_DAY, _HOUR = "'year'=YYYY/'month'=MM/'day'=dd", "'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH"
_PERIODS: Final[Mapping[str, tuple[int, str]]] = {DAILY: (86_400_000, _DAY), HOURLY: (3_600_000, _HOUR)}
_TEXT_CODEC_KEYS: Final = ("s3.compression.type", "gcs.compression.type", "az.compression.type")
_CODECS: Final[Mapping[str, Sequence[str]]] = {
    **dict.fromkeys(("json", "csv", "bytes"), _TEXT_CODEC_KEYS),
    "parquet": ("parquet.codec",),
    "avro": ("avro.codec",),
}
"""The settings of the well-known sinks that name a codec, by format."""
_FOREIGN_PREFIXES: Final = (
    *("avro.", "az.", "azblob.", "behavior.on.", "confluent.", "connect.meta.data", "directory.delim", "enhanced.avro."),
    *("format.bytearray.", "gcs.", "hadoop.", "hdfs.", "headers.format.class", "hive.", "keys.format.class", "logs.dir", "parquet."),
    *("retry.backoff.ms", "s3.", "schema.cache.size", "schemas.cache.config", "shutdown.timeout.ms", "storage.class", "store.url"),
)
_UNSUPPORTED: Final = {
    "store.kafka.keys": "Keys are not written to files, values alone.",
    "store.kafka.headers": "Headers are not written to files, values alone.",
    "s3.sse.customer.key": "Files are not encrypted with a key of the customer. Set an encryption for the whole bucket.",
    "s3.ssea.name": "Files are not encrypted on request. Set an encryption for the whole bucket.",
    "hdfs.authentication.kerberos": "Kerberos is not supported.",
}
"""Settings that are refused, because their effect is not available."""
_OTHER_CREDENTIALS: Final = (
    (
        "gcs.credentials.path",
        "gcs.credentials.json",
        "No file of the host is read. Set gcs.credentials.json to its content, such as ${dir:/secrets:key.json}. Remove this setting.",
    ),
    (
        "s3.credentials.provider.class",
        "aws.access.key.id",
        "No role is assumed, and keys of the host are never used. Set aws.access.key.id and aws.secret.access.key. Remove this setting.",
    ),
)
"""Settings for credentials that are not supported, each with the setting to use instead."""
_EXTRACTORS: Final = tuple(each.value for each in Extractor)


def _simple(name: Any) -> str:
    """The last part of a Java class name, or the name."""
    return str(name or "").rpartition(".")[2].rpartition("$")[2]


def format_name(given: str) -> str:
    """The format's name: ``json`` for ``json`` and ``io.confluent.connect.s3.format.json.JsonFormat``."""
    name = _simple(given).removesuffix("Format").lower()
    return {"bytearray": "bytes"}.get(name, name)


class _ClassName:
    """A validator: the value is one of some classes, by simple or full name."""

    def __init__(self, *values: str) -> None:
        self.values = values

    def __call__(self, name: str, value: Any) -> None:
        if _simple(value).removesuffix("TimestampExtractor") not in self.values:
            raise ConfigException.of(name, value, f"Not a supported class. Use one of these: {', '.join(self.values)}.")


def _folder(name: str, value: Any) -> None:
    if not {".", ".."}.isdisjoint((value or "").split("/")) or "\0" in (value or ""):
        raise ConfigException.of(name, value, "The path must not have the parts . or .., nor NUL characters. Remove them.")


CONFIG_DEF = ConfigDef(
    *STORE_KEYS,
    ConfigKey(
        TOPICS_DIR,
        default="topics",
        validator=_folder,
        importance=Importance.HIGH,
        doc="Folder of the data, below that of url. State is in its folder _connect.",
    ),
    ConfigKey(
        FORMAT,
        default="json",
        alias="format.class",
        importance=Importance.HIGH,
        doc="Format of the files: json (a line for each record), csv, parquet, avro, orc or bytes; or a class name such as "
        "io.confluent.connect.s3.format.parquet.ParquetFormat.",
    ),
    ConfigKey(
        COMPRESSION,
        default=None,
        doc="Codec of the files. Default: that of the format.",
    ),
    ConfigKey(
        FLUSH_SIZE,
        Type.INT,
        NO_LIMIT,
        importance=Importance.HIGH,
        doc="The open files of a topic partition end after this many of its records. -1: no limit.",
    ),
    ConfigKey(ROTATE_BYTES, Type.LONG, NO_LIMIT, doc="They end after about this many bytes. -1: no limit."),
    ConfigKey(
        ROTATE_MS,
        Type.LONG,
        NO_LIMIT,
        importance=Importance.HIGH,
        doc="They end before a record whose time (timestamp.extractor) is this many milliseconds later than that of the first. -1: no "
        "limit.",
    ),
    ConfigKey(
        ROTATE_SCHEDULE_MS,
        Type.LONG,
        NO_LIMIT,
        doc="They end at each multiple of this many milliseconds since midnight in timezone, and at midnight. -1: no limit.",
    ),
    ConfigKey(
        PARTITIONER,
        default=DEFAULT,
        validator=_ClassName(DEFAULT, FIELD, TIME, DAILY, HOURLY),
        importance=Importance.HIGH,
        doc="How records are divided into folders, by a simple or full class name: DefaultPartitioner (partition=«number»), "
        "FieldPartitioner (partition.field.name), TimeBasedPartitioner (path.format), DailyPartitioner, HourlyPartitioner.",
    ),
    ConfigKey(FIELDS, Type.LIST, [], doc="Fields of FieldPartitioner; nested names are separated by dots."),
    ConfigKey(DURATION_MS, Type.LONG, NO_LIMIT, doc="The length of the periods of TimeBasedPartitioner."),
    ConfigKey(PATH_FORMAT, default="", doc="The folder of a period: 'year'=YYYY/'month'=MM/'day'=dd, with the letters of Java's dates."),
    ConfigKey(LOCALE, default="en", doc="Language of path.format. Only English is supported."),
    ConfigKey(TIME_ZONE, default="UTC", validator=check_time_zone, doc="The time zone of periods and schedules."),
    ConfigKey(
        EXTRACTOR,
        default=Extractor.WALL_CLOCK.value,
        validator=_ClassName(*_EXTRACTORS),
        doc="The time of a record: Wallclock, Record (its timestamp in Kafka) or RecordField.",
    ),
    ConfigKey(
        TIMESTAMP_FIELD,
        default="timestamp",
        doc="The field for RecordField: a number of milliseconds, a timestamp, a date, or ISO 8601 text with or without a time.",
    ),
    ConfigKey(
        NULL_VALUES,
        default="fail",
        validator=OneOf("fail", "ignore"),
        doc="What happens to a record without a value: fail (bad record), or ignore (left out).",
    ),
    ConfigKey(
        COMPATIBILITY,
        default=Compatibility.NONE.value,
        validator=OneOf(*Compatibility, case_sensitive=False),
        doc="Effect of a change of the values' schema. NONE: the files end. BACKWARD, FULL: they end at a newer version, and older "
        "values are projected to it. FORWARD: they end at an older version, and newer values are projected to it.",
    ),
    ConfigKey(DELIMITER, default="+", validator=_folder, importance=Importance.LOW, doc="Separator of the parts of a file's name."),
    ConfigKey(
        DIGITS,
        Type.INT,
        10,
        validator=Range(at_least=0, at_most=20),
        importance=Importance.LOW,
        doc="Number of digits of offsets in names, padded with zeros.",
    ),
    ConfigKey(
        MAX_OPEN_FILES,
        Type.INT,
        50,
        validator=Range(at_least=1, at_most=1000),
        doc="The open files of a topic partition end when there are more than this: each takes memory.",
    ),
)


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """The parsed settings that determine how records become files."""

    names: FileNames
    timestamps: Timestamps
    zone: ZoneInfo
    partitioner: Partitioner
    compatibility: Compatibility
    max_open_files: int
    ignores_nulls: bool
    limits: Mapping[str, int]

    @classmethod
    def of(cls, config: Config, *, has_last_offset: bool = False) -> SinkSettings:
        """Parse settings. Raises ConfigException for contradictory settings, with one text per mistake."""
        mistakes = [mistake.message for mistake in contradictions(config)]
        if mistakes:
            raise ConfigException("\n".join(mistakes), errors=mistakes)
        extractor = _simple(config[EXTRACTOR]).removesuffix("TimestampExtractor")
        timestamps = Timestamps(Extractor(extractor), config[TIMESTAMP_FIELD])
        zone = ZoneInfo(config[TIME_ZONE])
        return cls(
            FileNames(config[TOPICS_DIR].strip("/"), config[DELIMITER], config[DIGITS], has_last_offset),
            timestamps,
            zone,
            _partitioner(config, timestamps, zone),
            Compatibility(config[COMPATIBILITY].upper()),
            config[MAX_OPEN_FILES],
            config[NULL_VALUES] == "ignore",
            {
                "max_records": config[FLUSH_SIZE],
                "max_bytes": config[ROTATE_BYTES],
                "interval_ms": config[ROTATE_MS],
                "schedule_ms": config[ROTATE_SCHEDULE_MS],
            },
        )

    def rotation(self, *, stays: bool = False) -> Rotation:
        """The limits of one topic partition's files. In a run that ``stays``, files end although the run does not."""
        return Rotation(self.timestamps, _wall_clock_ms, self.zone, **self.limits, open_ms=OPEN_MS if stays else NO_LIMIT)


def format_of(config: Config) -> FileFormat:
    """The format of the files. Raises ConfigException for an unknown format or codec, and for wrong settings of the format."""
    name = format_name(config[FORMAT])
    given = (config.originals[key] for key in _CODECS.get(name, ()) if key in config.originals)
    codec = config[COMPRESSION] or next(given, None)
    return file_format(name, codec, config.originals)


def unused_settings(config: Config) -> list[str]:
    """The settings of the well-known sinks in the config that have no effect here, or not with this format."""
    read = {*CONFIG_DEF.keys, *_CODECS.get(format_name(config[FORMAT]), ()), "format.class"}
    return sorted(key for key in config.originals if key.startswith(_FOREIGN_PREFIXES) and key not in read)


def _wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def contradictions(config: Config) -> Iterator[ConfigException]:
    """One exception for each setting that contradicts others, or that this sink does not support."""
    for key, reason in _UNSUPPORTED.items():
        given = config.originals.get(key, "false")
        if given.lower() not in ("", "false"):
            yield ConfigException.of(key, "[hidden]" if key.endswith("customer.key") else given, f"{reason} Remove this setting.")
    for key, instead, reason in _OTHER_CREDENTIALS:
        if config.originals.get(key) and not config.originals.get(instead):
            yield ConfigException.of(key, config.originals[key], reason)
    partitioner = _simple(config[PARTITIONER])
    if partitioner == FIELD and not config[FIELDS]:
        yield ConfigException.of(FIELDS, "", f"{FIELD} needs the names of one or more fields.")
    if partitioner == TIME and config[DURATION_MS] <= 0:
        yield ConfigException.of(
            DURATION_MS, str(config[DURATION_MS]), f"{TIME} needs the length of its periods in milliseconds: 3600000 for an hour."
        )
    if partitioner == TIME and not config[PATH_FORMAT]:
        yield ConfigException.of(PATH_FORMAT, "", f"{TIME} needs the folder of a period, such as {_HOUR}.")
    if partitioner in (TIME, DAILY, HOURLY):
        try:
            TimePath(PATH_FORMAT, _path_format(config), config[LOCALE])
        except ConfigException as error:
            yield ConfigException.of(PATH_FORMAT, config[PATH_FORMAT], error.message.rpartition(f"{PATH_FORMAT}: ")[2])


def _partitioner(config: Config, timestamps: Timestamps, zone: ZoneInfo) -> Partitioner:
    name = _simple(config[PARTITIONER])
    if name == DEFAULT:
        return DefaultPartitioner()
    if name == FIELD:
        return FieldPartitioner(tuple(config[FIELDS]))
    duration = _PERIODS[name][0] if name in _PERIODS else config[DURATION_MS]
    path = TimePath(PATH_FORMAT, _path_format(config), config[LOCALE])
    return TimePartitioner(timestamps, path, duration, zone, _wall_clock_ms)


def _path_format(config: Mapping[str, Any]) -> str:
    """The path format. DailyPartitioner and HourlyPartitioner have separate defaults."""
    default = _PERIODS.get(_simple(config[PARTITIONER]), (0, ""))[1]
    return str(config[PATH_FORMAT] or default)
