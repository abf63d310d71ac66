"""The settings of FileSystemSource, and the files of a store that they select."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from airflow_provider_connect.connectors.filesystem.formats.avro import AVRO_PACKAGES
from airflow_provider_connect.connectors.filesystem.formats.bytes_format import SEPARATOR
from airflow_provider_connect.connectors.filesystem.formats.csv import DELIMITER, HEADER
from airflow_provider_connect.connectors.filesystem.formats.file_format import FORMAT, FORMATS, TEXTS, FileFormat, codec_of, file_format
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, parse_location
from airflow_provider_connect.connectors.filesystem.stores.store import UNFINISHED, Store, StoredFile, is_hidden
from airflow_provider_connect.connectors.text_encoding import ENCODING
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, NonEmptyString, OneOf, Range, Type
from airflow_provider_connect.sdk.config_type import parse_instant

TOPIC, PREFIX, GLOB, PATTERN, MANIFEST = "topic", "file.prefix", "file.glob", "file.pattern", "file.manifest"
_DAY_MS: Final = 86_400_000
_BEING_COPIED: Final = ("._COPYING_", ".filepart")
"""The endings of names under which Hadoop's and WinSCP's copies are written, before these are renamed."""
MINIMUM_AGE, ASCENDING = "file.minimum.age.ms", "file.names.ascending"
MODIFIED_FROM, MODIFIED_TO = "file.modified.from", "file.modified.to"
FILE_COMPRESSION, AUTO = "file.compression", "auto"
CLEANUP, FINISHED_PATH, BATCH_ROWS = "cleanup.policy", "finished.path", "batch.max.rows"


class Cleanup(StrEnum):
    """The action on a file whose records are in Kafka."""

    NONE = "none"
    ARCHIVE = "archive"
    DELETE = "delete"


CONFIG_DEF: Final = ConfigDef(
    *STORE_KEYS,
    ConfigKey(TOPIC, Type.STRING, validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic to write to."),
    ConfigKey(
        FORMAT,
        Type.STRING,
        "json",
        validator=OneOf(*FORMATS),
        importance=Importance.HIGH,
        doc="Format of the files; json has a value in each line.",
    ),
    ConfigKey(
        FILE_COMPRESSION,
        Type.STRING,
        AUTO,
        validator=OneOf(AUTO, *EXTENSIONS),
        doc="Compression of files of json, csv and bytes. auto: the ending of the name (.gz, .zst, .lz4, .bz2) decides, otherwise the "
        "first bytes.",
    ),
    ConfigKey(PREFIX, Type.STRING, "", doc="Only files whose path below the URL begins with this."),
    ConfigKey(GLOB, Type.STRING, "*", doc="Only files whose path below the URL matches this glob; * also matches /."),
    ConfigKey(PATTERN, Type.STRING, None, doc="Only files whose whole path below the URL matches this regular expression."),
    ConfigKey(MANIFEST, Type.STRING, None, doc="Only files whose path is a line of this file below the URL."),
    ConfigKey(
        MINIMUM_AGE,
        Type.LONG,
        5000,
        validator=Range(at_least=0),
        doc="Files changed less than this many milliseconds ago wait for the next run: another program may still be writing to them.",
    ),
    ConfigKey(
        MODIFIED_FROM,
        Type.STRING,
        None,
        doc="Only files last changed at this time or later: a time with its zone, such as 2026-01-31T14:00:00Z. For backfills.",
    ),
    ConfigKey(MODIFIED_TO, Type.STRING, None, doc="Only files last changed before this time."),
    ConfigKey(
        ASCENDING,
        Type.BOOLEAN,
        False,
        doc="New files have names after all others: each run lists only files after the last one read. A file with a smaller name is never "
        f"read. Only with {CLEANUP}=none.",
    ),
    ConfigKey(
        CLEANUP,
        Type.STRING,
        Cleanup.NONE,
        validator=OneOf(*Cleanup),
        doc=f"What happens to a file after its records are committed: none, archive (it is moved to {FINISHED_PATH}) or delete.",
    ),
    ConfigKey(
        FINISHED_PATH,
        Type.STRING,
        "finished",
        doc="Folder below the URL for archived files. It is not read. If a name exists, a number is added.",
    ),
    ConfigKey(BATCH_ROWS, Type.INT, 10_000, validator=Range(at_least=1), doc="Maximum records of a poll."),
    ConfigKey(
        ENCODING,
        Type.STRING,
        "utf-8",
        doc="Encoding of json and csv: utf-8, utf-16, iso-8859-1 (latin-1), windows-1252 … A byte-order mark takes precedence.",
    ),
    ConfigKey(DELIMITER, Type.STRING, ",", keeps_blanks=True, doc="Separator of csv columns: one character, or \\t."),
    ConfigKey(HEADER, Type.BOOLEAN, True, doc="Whether the first line of csv has the column names. Otherwise they are f0, f1 …"),
    ConfigKey(
        SEPARATOR,
        Type.STRING,
        "\\n",
        keeps_blanks=True,
        doc="Separator of the records of bytes; \\n, \\r, \\t and \\0 are one character each.",
    ),
)


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """The parsed settings. ``modified_from`` and ``modified_to`` (exclusive) are microseconds since 1970."""

    url: str
    topic: str
    format_name: str
    compression: str
    options: Mapping[str, str]
    prefix: str
    glob: BoundedRegex
    pattern: BoundedRegex | None
    manifest: str | None
    minimum_age_ms: int
    modified_from: int | None
    modified_to: int | None
    is_ascending: bool
    cleanup: Cleanup
    finished_path: str
    batch_rows: int

    @classmethod
    def of(cls, config: Config) -> SourceSettings:
        """Parse settings. Raises ConfigException with all errors."""
        errors = [error for mistake in mistakes(config) for error in mistake.errors]
        if errors:
            raise ConfigException("\n".join(errors), errors=errors)
        return cls(
            url=_url(config),
            topic=config[TOPIC],
            format_name=config[FORMAT].lower(),
            compression=config[FILE_COMPRESSION],
            options=_options(config),
            prefix=config[PREFIX].lstrip("/"),
            glob=BoundedRegex(fnmatch.translate(config[GLOB]), GLOB),
            pattern=None if not config[PATTERN] else BoundedRegex(config[PATTERN], PATTERN),
            manifest=config[MANIFEST] or None,
            minimum_age_ms=config[MINIMUM_AGE],
            modified_from=_instant(config, MODIFIED_FROM),
            modified_to=_instant(config, MODIFIED_TO),
            is_ascending=config[ASCENDING],
            cleanup=Cleanup(config[CLEANUP]),
            finished_path=config[FINISHED_PATH].strip("/"),
            batch_rows=config[BATCH_ROWS],
        )

    def format_of(self, path: str) -> FileFormat:
        """The format with which to read the file at this path."""
        codec = codec_of(self.format_name, path) if self.compression == AUTO else self.compression
        return file_format(self.format_name, codec, self.options)

    def files(self, store: Store, now_ms: int, after: str = "") -> Iterator[StoredFile]:
        """The selected files after the path ``after``, read or unread, in the order of their paths. Lists the store once, in pages. Raises
        ConfigException for a folder that cannot be listed, if names are ascending."""
        wanted = None if self.manifest is None else _manifest(store, self.manifest)
        is_empty = True
        for file in store.files(self.prefix.rpartition("/")[0], max(after, _before(self.prefix))):
            is_empty = False
            if self.is_ascending and store.skipped.folders:  # its files would count as read
                raise next(iter(store.skipped.folders.values()))
            if not file.path.startswith(self.prefix):
                if file.path > self.prefix:
                    return
                continue
            if not (self._is_selected(file.path) and self._is_in_range(file)) or (wanted is not None and file.path not in wanted):
                continue
            if self._is_old_enough(now_ms - file.modified_ms):
                yield file
            elif self.is_ascending:  # later files also wait, because each name is passed only once
                return
        if is_empty:
            store.check_root(may_be_empty=self.cleanup is Cleanup.DELETE)

    def _is_selected(self, path: str) -> bool:
        if is_hidden(path) or UNFINISHED in path or path.endswith(_BEING_COPIED):
            return False
        if self.cleanup is Cleanup.ARCHIVE and path.startswith(f"{self.finished_path}/"):
            return False
        return self.glob.matches(path) and (self.pattern is None or self.pattern.matches(path))

    def _is_old_enough(self, age_ms: int) -> bool:
        """Whether a file is old enough to be read. A time far in the future, from a wrong clock or an archive, is ignored."""
        return age_ms >= self.minimum_age_ms or not self.minimum_age_ms or age_ms < -_DAY_MS

    def _is_in_range(self, file: StoredFile) -> bool:
        modified = file.modified_ms * 1000
        is_early = self.modified_from is not None and modified < self.modified_from
        return not is_early and (self.modified_to is None or modified < self.modified_to)


def _before(prefix: str) -> str:
    """A path before all paths with this prefix, as close as ASCII allows."""
    last = prefix[-1:]
    return f"{prefix[:-1]}{chr(ord(last) - 1)}~" if "!" < last <= "~" else prefix[:-1]


def _instant(config: Mapping[str, Any], name: str) -> int | None:
    return None if config[name] is None else parse_instant(name, config[name])


def _url(config: Config) -> str:
    """The normalized address, because another spelling of the same address must not turn all files into new files."""
    location = parse_location(config)
    folder = location.folder.rstrip("/")
    return folder or "/" if location.scheme == "file" else f"{location.scheme}://{location.host}/{folder}".rstrip("/")


def mistakes(settings: Mapping[str, Any]) -> Iterator[ConfigException]:
    """One exception for each setting to change. ``settings`` are parsed values, with None for invalid ones."""
    for name, expression in ((GLOB, fnmatch.translate(settings[GLOB] or "*")), (PATTERN, settings[PATTERN])):
        try:
            if expression:
                BoundedRegex(expression, name)
        except re.error as error:
            yield ConfigException.of(name, settings[name], f"Not a pattern: {error}")
    if settings[ASCENDING] and settings[CLEANUP] != Cleanup.NONE:
        reason = f"With {CLEANUP}={settings[CLEANUP]}, no file stays, so the order of names does not matter. Set one of the two."
        yield ConfigException.of(ASCENDING, "true", reason)
    for name in (MODIFIED_FROM, MODIFIED_TO):
        try:
            _instant(settings, name)
        except ConfigException as error:
            yield error
    finished = (settings[FINISHED_PATH] or "").strip("/")
    if settings[CLEANUP] == Cleanup.ARCHIVE and (not finished or not {"", ".", ".."}.isdisjoint(finished.split("/"))):
        yield ConfigException.of(FINISHED_PATH, settings[FINISHED_PATH], "Name a folder below the URL.")
    if settings[FORMAT] in FORMATS and settings[FORMAT] not in TEXTS and settings[FILE_COMPRESSION] != AUTO:
        reason = f"Files of the format {settings[FORMAT]} name their compression themselves. Remove the setting."
        yield ConfigException.of(FILE_COMPRESSION, settings[FILE_COMPRESSION], reason)
    if str(settings[FORMAT]).lower() == "avro":
        yield from AVRO_PACKAGES.mistakes(FORMAT, settings[FORMAT])
    if settings[FORMAT] in FORMATS:
        try:
            file_format(settings[FORMAT], None, _options(settings))
        except ConfigException as error:
            yield error


def _options(settings: Mapping[str, Any]) -> dict[str, str]:
    given = {name: settings[name] for name in (ENCODING, DELIMITER, SEPARATOR)} | {HEADER: str(settings[HEADER])}
    return {key: value for key, value in given.items() if value is not None}


def _manifest(store: Store, path: str) -> frozenset[str]:
    try:
        return frozenset(line.strip() for line in store.read(path).decode("utf-8-sig").splitlines())
    except FileNotFoundError:
        raise ConfigException.of(MANIFEST, path, "There is no such file below the URL. Create it, or set another path.") from None
    except UnicodeDecodeError as error:
        raise ConfigException.of(MANIFEST, path, f"The file is not UTF-8 text with a path in each line: {error}") from error
