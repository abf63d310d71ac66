"""The files of one topic partition between two commits: open files, when they end, and finished files.

All open files of the partition end together, so that one offset separates their records from later ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.formats.contract import FileFormat, FileWriter
from airflow_provider_connect.connectors.filesystem.partitioners.partitioner import Partitioner, Share, count_up_to_folders, split_by_folder
from airflow_provider_connect.connectors.filesystem.partitioners.rotation import Rotation
from airflow_provider_connect.connectors.filesystem.schema_change import Compatibility, project
from airflow_provider_connect.connectors.filesystem.stores.store import NewFile, Store, join_path, path_part
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.batch import Batch


@dataclass(frozen=True, slots=True)
class FileNames:
    """``«folder»/«topic»/«folder of the partitioner»/«topic»+«partition»+«first offset».«extension»``. The name has the original topic in
    Kafka. The folder has the topic after transformations. Each name belongs to one partition."""

    folder: str
    delimiter: str = "+"
    digits: int = 10
    has_last_offset: bool = False

    def path(self, folder: str, partition: TopicPartition, offsets: tuple[int, int], extension: str) -> str:
        shown = offsets if self.has_last_offset else offsets[:1]
        numbers = self.delimiter.join(f"{offset:0{self.digits}d}" for offset in shown)
        return join_path(self.folder, folder, f"{self.name_prefix(partition)}{numbers}{extension}")

    def name_prefix(self, partition: TopicPartition) -> str:
        """The prefix that only this partition's file names have."""
        return f"{partition.topic}{self.delimiter}{partition.partition}{self.delimiter}"


@dataclass(slots=True)
class _OpenFile:
    temporary: str
    file: NewFile
    writer: FileWriter
    offsets: tuple[int, int]


@dataclass(slots=True)
class PartitionFiles:
    """The files of one topic partition. ``first_open_offset`` is the first offset in open files, or None if no file is open. ``finished``
    has the temporary path and the final path of each file to publish."""

    partition: TopicPartition
    store: Store
    chain: CommitChain
    format: FileFormat
    partitioner: Partitioner
    rotation: Rotation
    names: FileNames
    compatibility: Compatibility
    max_open_files: int
    finished: list[tuple[str, str]] = field(default_factory=list)
    first_open_offset: int | None = None
    _open: dict[str, _OpenFile] = field(default_factory=dict)
    _kind: tuple[Schema | None, pa.DataType] | None = None  # the type of values in open files
    _written_offsets: list[pa.Array] = field(default_factory=list)  # offsets of a failed batch that were written
    _file_count: int = 0

    def write(self, batch: Batch) -> None:
        """Write a batch with a value column. After DataException or RetriableException, the batch may be passed again, also in parts.
        Records that were written are skipped. ConnectException means that an open file is unusable."""
        first = batch.kafka_offset_at(0)
        self._written_offsets = [each for each in self._written_offsets if pc.max(each).as_py() >= first]
        if self._written_offsets:
            batch = batch.filter(pc.invert(pc.is_in(batch.kafka_offsets, pa.concat_arrays(self._written_offsets))))
        taken: list[pa.Array] = []
        try:
            for piece, folders in self._pieces(batch):
                for share in split_by_folder(piece, folders):
                    self._write_share(share)
                    taken.append(share.batch.kafka_offsets)
        except (DataException, RetriableException):
            self._written_offsets += taken
            raise

    def end(self) -> None:
        """Finish all open files. Raises ConnectException if that fails. The files are then lost, and the next run writes their records
        again."""
        for folder, each in self._open.items():
            with _fail_file(each.temporary):
                with self.store.translate_errors(each.temporary):
                    each.writer.close()
                each.file.close()
            self.finished.append((each.temporary, self.names.path(folder, self.partition, each.offsets, self.format.extension)))
        self._open.clear()
        self.first_open_offset = None
        self.rotation.reset()

    def discard(self) -> None:
        """Discard uncommitted files. Never raises."""
        for each in self._open.values():
            each.file.discard()
        self._open.clear()
        self._written_offsets.clear()
        self.finished.clear()
        self.first_open_offset = None
        self.rotation.reset()

    def _pieces(self, batch: Batch) -> Iterator[tuple[Batch, pa.DictionaryArray]]:
        """The batch in pieces that fit into the open files, with the folders of their records. Between pieces, full files are ended."""
        batch = self._fit_open_files(batch)
        if not batch.num_records:
            return
        folders = self.partitioner.folders(batch)
        while batch.num_records:
            count = self._room(batch, folders)
            if count == 0:
                self.end()
                count = self._room(batch, folders)
            piece, batch = batch.slice(0, count), batch.slice(count)
            if self.first_open_offset is None:
                self.first_open_offset = piece.first_offset if piece.first_offset is not None else piece.kafka_offset_at(0)
            yield piece, folders.slice(0, count)
            folders = folders.slice(count)
            self.rotation.add(piece)
            if self.rotation.is_full(sum(each.writer.bytes_written for each in self._open.values())):
                self.end()

    def _room(self, batch: Batch, folders: pa.DictionaryArray) -> int:
        """The number of records that fit. Each record may need a new folder, and so a new file."""
        return min(self.rotation.room(batch), count_up_to_folders(folders, self._open, self.max_open_files))

    def _fit_open_files(self, batch: Batch) -> Batch:
        """The batch in the schema of the open files. If the batch does not fit into the files, they are ended."""
        assert batch.value is not None
        schema, kind = batch.value_schema, (batch.value_schema, batch.value.type)
        if self._kind == kind:
            return batch
        current = None if self._kind is None else self._kind[0]
        if schema is not None and current is not None and self.compatibility.keeps(current, schema):
            return batch.replace(value=project(batch.value, schema, current), value_schema=current)
        self.format.accepts(*kind)
        self.end()
        self._kind = kind
        return batch

    def _write_share(self, share: Share) -> None:
        batch, folder = share.batch, join_path(path_part(share.batch.topic), share.folder)
        first, last = batch.kafka_offset_at(0), batch.kafka_offset_at(batch.num_records - 1)
        each = self._open.get(folder)
        if each is None:
            each = self._open[folder] = self._open_new_file(first)
        with _fail_file(each.temporary), self.store.translate_errors(each.temporary):
            each.writer.write(batch.value)
        each.offsets = each.offsets[0], last

    def _open_new_file(self, first: int) -> _OpenFile:
        self._file_count += 1
        temporary = self.chain.temporary_path(f"{self._file_count}-{first}{self.format.extension}")
        file = self.store.new_file(temporary)
        assert self._kind is not None
        return _OpenFile(temporary, file, self.format.writer(file.stream, *self._kind), (first, first))


@contextlib.contextmanager
def _fail_file(path: str) -> Iterator[None]:
    """Raise ConnectException for a failed write to an open file, which is then unusable."""
    try:
        yield
    except RetriableException as error:
        raise ConnectException(f"{path} could not be written ({error}). The next run continues from the last commit.") from error
