"""FileSystemSink: writes records to files in a folder, an object store, SFTP or HDFS.

With exactly once, each topic partition has a chain of commits in the store itself (``commit_chain``). Commits happen at the framework's
interval and publish the finished files. At the end of a run, all files are finished; in a run that stays, also after five minutes.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import ClassVar

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.formats.file_format import FORMAT
from airflow_provider_connect.connectors.filesystem.owner_file import STATE, Owner, OwnerFiles
from airflow_provider_connect.connectors.filesystem.partition_files import PartitionFiles
from airflow_provider_connect.connectors.filesystem.settings import (
    CONFIG_DEF,
    NULL_VALUES,
    TOPICS_DIR,
    SinkSettings,
    contradictions,
    format_of,
    unused_settings,
)
from airflow_provider_connect.connectors.filesystem.stores.location import (
    HDFS_URL,
    S3_BUCKET,
    URL,
    check_location,
    check_writable,
    dataset_at,
    names_have_last_offset,
    open_store,
    parse_location,
)
from airflow_provider_connect.connectors.filesystem.stores.store import PROBE_FILE, Store, join_path, path_part
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigValue, add_errors
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.offset_row import ADOPT, OffsetRow, scope_of
from airflow_provider_connect.sdk.task import SinkTask

log = logging.getLogger(__name__)
_MAX_FINISHED_FILES = 100  # with more finished files, a commit is requested


class FileSystemSinkTask(SinkTask):
    """Writes the files of its topic partitions. ``put`` writes to temporary files. ``pre_commit`` ends files that are due, or all files at
    the end of a run, and commits."""

    required_columns: ClassVar[frozenset[str]] = frozenset({"timestamp"})

    def start(self, config: Config) -> None:
        """Raises ConfigException for settings that contradict each other, and for a store that cannot be opened."""
        self._settings = SinkSettings.of(config, has_last_offset=names_have_last_offset(config))
        self._format = format_of(config)
        self._config = config
        self._store: Store | None = open_store(config, self.allowed_paths)
        self._files: dict[TopicPartition, PartitionFiles] = {}
        self._topics: dict[str, Schema | None] = {}  # topics that were written, for lineage

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """With exactly once, take over the chains of commits and return their offsets. Otherwise, remove existing chains."""
        found: dict[TopicPartition, int] = {}
        self._claim_file_names(partitions)
        for partition in partitions:
            files = self._files[partition] = self._partition_files(partition)
            if not self.context.exactly_once:
                files.chain.forget()
                continue
            row = files.chain.take(partition, OffsetRow.of_task(self.context, partition.topic), adopts=self.context.config.get(ADOPT))
            if row.next_offset is not None:
                found[partition] = row.next_offset
        return found if self.context.exactly_once else None

    def holds_records(self, partition: TopicPartition, offset: int | None) -> bool:
        name_prefix = self._settings.names.name_prefix(partition)
        found = self._owners().files([name_prefix], self._folders([partition]))
        numbers = (re.match(r"\d++", path.rpartition("/")[2].removeprefix(name_prefix)) for path in found)
        return any(int(number[0]) >= (offset or 0) for number in numbers if number is not None)

    def _claim_file_names(self, partitions: Collection[TopicPartition]) -> None:
        """Record this connector as the owner of the partitions' file names. Raises ConfigException if a partition has another owner."""
        name, scope, ids = self.context.config.get("name", ""), scope_of(self.context.claim), self.context.topic_ids
        self._owners().take(
            {partition: Owner(name, scope, ids.get(partition.topic, "")) for partition in partitions},
            self._settings.names.name_prefix,
            self._folders(partitions),
        )

    def _owners(self) -> OwnerFiles:
        assert self._store is not None
        return OwnerFiles(self._store, self._config[TOPICS_DIR].strip("/"))

    def _folders(self, partitions: Collection[TopicPartition]) -> list[str]:
        """The folders that may contain files of the partitions."""
        folder = self._config[TOPICS_DIR].strip("/")
        topics = [""] if self.context.config.get("transforms") else sorted({path_part(partition.topic) for partition in partitions})
        return [join_path(folder, topic) for topic in topics]

    def put(self, batch: Batch) -> None:
        if not batch.num_records:
            return
        batch = self._without_nulls(batch)
        if batch.num_records:
            self._files[batch.topic_partition].write(batch)
            self._topics[batch.topic] = batch.value_schema
        if sum(len(files.finished) for files in self._files.values()) >= _MAX_FINISHED_FILES:
            self.context.request_commit()

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        committed: dict[TopicPartition, int] = {}
        for partition, offset in offsets.items():
            files = self._files[partition]
            if self.context.stopping() or files.rotation.is_due():
                files.end()
            committed[partition] = offset if files.first_open_offset is None else min(offset, files.first_open_offset)
            self._commit(files, committed[partition])
        return committed

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.pre_commit(offsets)

    def close(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            files = self._files.pop(partition, None)
            if files is not None:
                files.discard()

    def datasets(self) -> Iterable[Dataset]:
        """The folder of each topic."""
        folder = self._config[TOPICS_DIR].strip("/")
        return [dataset_at(self._config, join_path(folder, path_part(topic)), schema) for topic, schema in self._topics.items()]

    def stop(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def _partition_files(self, partition: TopicPartition) -> PartitionFiles:
        assert self._store is not None
        settings = self._settings
        return PartitionFiles(
            partition,
            self._store,
            CommitChain(self._store, state_folder(self._config, partition)),
            self._format,
            settings.partitioner,
            settings.rotation(stays=self.context.stays),
            settings.names,
            settings.compatibility,
            settings.max_open_files,
        )

    def _without_nulls(self, batch: Batch) -> Batch:
        """The batch without null values. Raises DataException for null values unless they are to be ignored."""
        nulls = batch.num_records if batch.value is None else batch.value.null_count
        if not nulls:
            return batch
        if not self._settings.ignores_nulls:
            index = 0 if batch.value is None else pc.index(batch.value.is_null(), pa.scalar(value=True)).as_py()
            location = f"The record at offset {batch.kafka_offset_at(index)} of {batch.topic_partition}"
            raise DataException(f"{location} has no value. Set {NULL_VALUES} to ignore to leave such records out")
        return batch.slice(0, 0) if batch.value is None else batch.filter(batch.value.is_valid())

    def _commit(self, files: PartitionFiles, offset: int) -> None:
        if not self.context.exactly_once:
            files.chain.publish(files.finished)
        elif files.finished or files.chain.next_offset != offset:
            files.chain.commit(offset, files.finished)
        files.finished.clear()


class FileSystemSinkConnector(SinkConnector):
    """Writes the records of topics to files, whose names contain topic, partition and first offset.

    Each task handles a share of the topics' partitions. With exactly once, files, offsets and claim are committed together in the store.
    """

    aliases = ("FileSystemSink", "FileSystemSinkConnector")
    task_class: ClassVar[type[SinkTask]] = FileSystemSinkTask
    location_settings: ClassVar[tuple[str, ...]] = (
        TOPICS_DIR,
        URL,
        S3_BUCKET,
        HDFS_URL,
    )  # because file names have topic, partition and first offset
    config_def = CONFIG_DEF

    def start(self, config: Config) -> None:
        super().start(config)
        SinkSettings.of(config)
        format_of(config)
        check_location(config, self.allowed_paths)
        ignored = unused_settings(config)
        if ignored:
            log.warning("These settings have no effect: %s", ", ".join(ignored))

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Also checks for contradictory settings, and paths of the host. Does not contact the store."""
        values = super().validate(config)
        if any(value.errors for value in values):
            return values
        parsed = self.config_def.parse(config)
        add_errors(values, contradictions(parsed))
        for check, setting in ((partial(format_of, parsed), FORMAT), (partial(check_location, parsed, self.allowed_paths), URL)):
            try:
                check()
            except ConfigException as error:
                add_errors(values, [error], setting)
        return values

    def check(self, config: Mapping[str, str]) -> None:
        parsed = self.config_def.parse(config)
        check_location(parsed, self.allowed_paths)
        if parse_location(parsed).scheme == "file":
            check_writable(parsed, self.allowed_paths)

    def check_fully(self, config: Mapping[str, str]) -> None:
        """Also checks that a remote store accepts the credentials, and that the bucket exists."""
        self.check(config)
        parsed = self.config_def.parse(config)
        if parse_location(parsed).scheme != "file":
            with closing(open_store(parsed, self.allowed_paths)) as store, suppress(FileNotFoundError):
                store.read(PROBE_FILE)  # a missing bucket raises another exception

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Sets the offsets of partitions with commits in the store. This fences a task that is still writing."""
        parsed = self.task_config(config)
        store = open_store(parsed, self.allowed_paths)
        try:
            for partition, offset in offsets.items():
                CommitChain(store, state_folder(parsed, partition)).alter(offset)
        finally:
            store.close()
        return True


def state_folder(config: Config, partition: TopicPartition) -> str:
    """The folder of a topic partition's commits. No other connector writes there."""
    name = config.originals.get("name", "")
    return join_path(config[TOPICS_DIR].strip("/"), STATE, path_part(name), path_part(partition.topic), str(partition.partition))
