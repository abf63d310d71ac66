"""FileSystemSource: reads the records of files in a folder, a bucket or a cluster into a topic."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from types import MappingProxyType
from typing import Any, ClassVar

from airflow_provider_connect.connectors.filesystem.source.progress import Progress, check_offset, count_tasks
from airflow_provider_connect.connectors.filesystem.source.settings import (
    CLEANUP,
    CONFIG_DEF,
    GLOB,
    MANIFEST,
    MODIFIED_FROM,
    MODIFIED_TO,
    PATTERN,
    PREFIX,
    Cleanup,
    SourceSettings,
    mistakes,
)
from airflow_provider_connect.connectors.filesystem.source.task import COUNT, NUMBER, FileSystemSourceTask
from airflow_provider_connect.connectors.filesystem.stores.location import check_location, open_store
from airflow_provider_connect.connectors.filesystem.stores.store import PROBE_FILE
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import Config, ConfigValue, add_errors
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, OffsetReader, SourceConnector
from airflow_provider_connect.sdk.task import SourceTask


class FileSystemSourceConnector(SourceConnector):
    """Reads the records of new files into a topic. Files are distributed among the tasks. Large files are distributed in splits."""

    aliases = ("FileSystemSource", "FileSystemSourceConnector")
    task_class: ClassVar[type[SourceTask]] = FileSystemSourceTask
    config_def = CONFIG_DEF
    range_settings: ClassVar[tuple[str, ...]] = (MODIFIED_FROM, MODIFIED_TO, PREFIX, GLOB, PATTERN, MANIFEST)
    backfill_settings: ClassVar[Mapping[str, str]] = MappingProxyType({CLEANUP: Cleanup.NONE})

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """As many tasks as there is work for, but at least one. A connector without tasks would be planned again in each scheduled run.
        Each task lists the files itself, starting at its position."""
        settings = SourceSettings.of(self.config)
        progress = Progress(settings, self.context.offset)
        with closing(open_store(self.config, self.allowed_paths)) as store:
            count = count_tasks(progress, settings.files(store, _now_ms(), progress.after), max_tasks)
        return [{**self.config.originals, NUMBER: str(number), COUNT: str(max(count, 1))} for number in range(max(count, 1))]

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks only the settings, because this process may have no access to the store. ``check`` contacts the store."""
        found = super().validate(config)
        add_errors(found, list(mistakes({value.name: value.value for value in found})))
        if not any(value.errors for value in found):
            try:
                check_location(self.config_def.parse(config), self.allowed_paths)
            except ConfigException as error:
                add_errors(found, [error])
        return found

    def check(self, config: Mapping[str, str]) -> None:
        """Checks that the store accepts the credentials, and that its root exists."""
        parsed = self.config_def.parse(config)
        settings = SourceSettings.of(parsed)
        with closing(open_store(parsed, self.allowed_paths)) as store:
            with suppress(FileNotFoundError):  # the file need not exist; a missing root raises another exception
                store.read(settings.manifest or PROBE_FILE)
            if next(settings.files(store, _now_ms()), None) is None:
                self._report_missing(settings, store.skipped.text)

    def output_topics(self, config: Mapping[str, str]) -> Sequence[str]:
        return [SourceSettings.of(self.config_def.parse(config)).topic]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool:
        """Whether a file is unread, or read and not cleaned up. Lists files up to the first such file. Also true if a folder cannot be
        listed, because a run would report this."""
        settings = SourceSettings.of(config)
        progress = Progress(settings, offsets)
        with closing(open_store(config, self.allowed_paths)) as store:
            file = None
            for file in settings.files(store, _now_ms(), progress.after):
                if progress.is_waiting(file):
                    return True
            skipped = store.skipped
        if file is None and not progress.after:
            self._report_missing(settings, skipped.text)
        return bool(skipped.folders)

    def _report_missing(self, settings: SourceSettings, skipped: str) -> None:
        """Report that no file is selected. Does nothing if files are removed after they are read, because it is then normal that no file is
        left."""
        if settings.cleanup is Cleanup.NONE:
            self.missing = ". ".join(
                filter(None, (skipped, "There is no file yet that its settings choose: nothing is read until there is"))
            )

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:  # Any: JSON from a user, checked here
        for partition, offset in offsets.items() if isinstance(offsets, Mapping) else offsets:
            check_offset(partition, offset)
        return True


def _now_ms() -> int:
    return int(time.time() * 1000)
