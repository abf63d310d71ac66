"""A text file to which one claim at a time may append. Its data and the offsets of its records are committed together.

Knows nothing of records. The commit is the rename of the claim's commit file (``commit_files``), after the data is fsynced. The state of
the highest claim is valid. Data after its ``length`` was never committed.

A writer locks the data file itself while it runs. A new claim may find the file locked, because a stopped process keeps its locks. The new
claim then copies the committed part to a new file, and renames the new file over the old file. The old writer then writes to a file without
a name. Readers ignore the old writer's commits, because they are from an older claim. A writer that finds a newer claim, or another file
under the name, is fenced.

A process may stop at any point, and continue after a newer claim has started and ended. So each destructive step (truncation, rename) is
taken under a lock that the newer claim would have needed, after another check for newer claims. Only a process that stops during such a
copy blocks other processes. Those fail and are retried.

Two more files are next to the data file: ``.out.txt.lock`` and ``.out.txt.lock.«claim order»-«scope»``. The first is locked while a process
copies the file or alters offsets. The second is for tasks that share the file.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from airflow_provider_connect.connectors.commit_files import CLAIM_LOCK_SECONDS, CommitFiles, CommittedState, newest_state, try_lock
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, FencedException, RetriableException, StoreException
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder
from airflow_provider_connect.sdk.offset_row import OffsetRow

log = logging.getLogger(__name__)

_COPY_BYTES: Final = 8 << 20


class TransactionalFile:
    """The file, as one claim writes it.

    ``is_shared``: several tasks of the claim append to the file. Each task buffers its lines until it commits, and then writes them after
    the other tasks' committed lines, under a lock of their claim. A single task writes immediately. ``connector``, ``topic_ids`` and
    ``adopts`` determine which offsets of the file are valid (``OffsetRow.take_over``).
    """

    def __init__(
        self,
        folder: AllowedFolder,
        name: str,
        claim: str,
        order: int,
        *,
        is_shared: bool = False,
        connector: str = "",
        topic_ids: Mapping[str, str] = MappingProxyType({}),
        adopts: str | None = None,
    ) -> None:
        self._folder, self._name = folder, name
        self._path = os.path.join(folder.path, name)
        self._is_shared = is_shared
        self._commit_files = CommitFiles(folder, name)
        self._topic_ids, self._adopts = topic_ids, adopts
        self._connector = connector
        self._committed = CommittedState(claim, order, 0, topic_ids=topic_ids)
        self._descriptor = -1
        self._position = 0
        self._buffered: list[memoryview] = []

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes that were appended to a shared file, but are not written yet."""
        return sum(len(piece) for piece in self._buffered)

    def take_over(self, *, keep_all: bool = False) -> dict[TopicPartition, int]:
        """Take over the file for this claim. Returns its committed offsets. ``keep_all``: the file is not truncated, because a process that
        keeps no state has appended lines after the committed lines.

        Steps: (1) adopt the newest committed state under this claim, which fences older claims; (2) lock the file, or a copy of its
        committed part; (3) check that no newer claim was made meanwhile; (4) truncate uncommitted data; (5) remove the leftovers of older
        claims. Raises FencedException if a newer claim exists, StoreException if committed data is missing. A second call restarts from the
        committed state.
        """
        self.close()
        if self._is_shared:
            with self._commit_files.lock(fcntl.LOCK_EX, self._committed.suffix, seconds=CLAIM_LOCK_SECONDS):
                self._take_over(keep_all=keep_all)
        else:
            self._take_over(keep_all=keep_all)
        return dict(self._committed.offsets)

    def append(self, pieces: list[memoryview]) -> None:
        """Append pieces. They are not durable before ``commit``. After an OSError, the same pieces may be passed again."""
        if self._is_shared:
            self._buffered += pieces
        else:
            if self._position == self._committed.length and self._inode() != os.fstat(self._descriptor).st_ino:
                self._continue_in_new_file()
            self._check_unchanged()
            self._position = write_all(self._descriptor, pieces, self._position)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit the appended data together with ``offsets``. Offsets of other partitions are unchanged. Raises FencedException for a newer
        claim, or if the file was removed.

        Steps: (1) fsync the data; (2) check that no newer claim exists, and that the file was not removed; (3) fsync and rename the commit
        file, which is the commit. Data in a file that was moved counts as delivered. The next data goes to a new file.
        """
        if self._is_shared:
            with self._commit_files.lock(fcntl.LOCK_EX, self._committed.suffix, seconds=CLAIM_LOCK_SECONDS):
                self._write_buffered()
                self._commit(offsets)
            self._buffered.clear()
        elif self._position != self._committed.length or not offsets.items() <= self._committed.offsets.items():
            self._commit(offsets)

    def close(self) -> None:
        """Close the file. The next claim that takes over the file truncates uncommitted data."""
        self._buffered.clear()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _continue_in_new_file(self) -> None:
        """Leave a moved file, and take over the file that the path names now, with all that it contains. If another task of this claim has
        already taken it over, join that task. Raises FencedException for a newer claim, and for altered offsets."""
        moved, self._descriptor = self._descriptor, -1
        try:
            self._take_over(keep_all=False, is_moved=True)
        except BaseException:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = moved  # a later call finds it as before, and is refused again
            raise
        os.close(moved)

    def _take_over(self, *, keep_all: bool, is_moved: bool = False) -> None:
        found = self._commit_files.read()
        truth = newest_state(found, self._committed.scope)
        is_ours = truth is not None and (truth.claim, truth.order) == (self._committed.claim, self._committed.order)
        if is_moved and not (is_ours and truth is not None and truth.revision == self._committed.revision):
            raise FencedException(f"Claim {self._committed.claim} may no longer write to {self._path}")
        if is_moved and truth is not None:
            self._check_not_restored(truth)
        if truth is not None:
            truth = self._claimed_state(truth)
        self._committed = self._adopt(truth, is_ours=is_ours, keep_all=keep_all and not is_ours, is_moved=is_moved)
        if self._is_shared and is_ours and self._committed.inode == self._inode():
            self._descriptor = self._join_file()
        else:
            self._commit_files.write(replace(self._committed, inode=None) if self._is_shared else self._committed)  # 1
            self._descriptor = self._lock_file(is_ours=is_ours)  # 2
            self._check_no_newer_claim()  # 3
            os.ftruncate(self._descriptor, self._committed.length)  # 4
            if self._is_shared:
                self._grant_group_access()
        for committed in found:  # 5
            if (committed.scope, committed.rank) != (self._committed.scope, self._committed.rank):
                self._commit_files.remove(committed)
        self._commit_files.clear_before(self._committed)
        self._position = self._committed.length
        if not self._is_shared:
            self._position = write_all(self._descriptor, self._missing_line_end(), self._position)

    def _claimed_state(self, truth: CommittedState) -> CommittedState:
        """The committed state with the offsets that are valid for this task, and the ids of the topics. Raises the same exceptions as
        ``OffsetRow.take_over``."""
        own = self._committed
        OffsetRow(None, truth.claim, truth.order).take_over(self._path, OffsetRow(None, own.claim, own.order))
        offsets = dict[TopicPartition, int]()
        for partition, offset in truth.offsets.items():
            self._reject_foreign_offsets(partition.topic, truth.connectors.get(partition.topic, self._connector))
            row = OffsetRow(offset, truth.claim, truth.order, truth.topic_ids.get(partition.topic, ""))
            claimant = OffsetRow(None, own.claim, own.order, self._topic_ids.get(partition.topic, ""))
            taken = row.take_over(f"{partition} in {self._path}", claimant, adopts=self._adopts)
            if taken.next_offset is not None:
                offsets[partition] = taken.next_offset
        return replace(truth, offsets=offsets, topic_ids={**truth.topic_ids, **self._topic_ids})

    def _reject_foreign_offsets(self, topic: str, connector: str) -> None:
        """Raise ConfigException for another connector's offsets of a topic that this connector reads."""
        if topic in self._topic_ids and connector != self._connector:
            raise ConfigException(
                f"{self._path} holds offsets of topic {topic} that belong to connector {connector}. Give this connector another file; "
                f"or remove the files .{self._name}.offsets.* next to it: then this connector appends all records of the topic"
            )

    def _adopt(self, truth: CommittedState | None, *, is_ours: bool, keep_all: bool, is_moved: bool) -> CommittedState:
        """The state from which to continue: the committed state. If there was no commit, or the file was replaced, the current file."""
        own = self._committed
        try:
            status = self._folder.stat(self._name)
            size, inode = status.st_size, status.st_ino
        except FileNotFoundError:
            size, inode = 0, -1
        if truth is None:
            return replace(own, length=size, inode=None if inode < 0 else inode)
        adopted = replace(truth, claim=own.claim, order=own.order, revision=truth.revision if is_ours else 0)
        if size >= truth.length:
            return replace(adopted, length=size) if keep_all or (is_moved and inode != truth.inode) else adopted
        if truth.inode in (None, inode) and inode >= 0:
            raise StoreException(
                f"{self._path} has {size} bytes, but {truth.length} bytes were committed: another process has truncated it. "
                "Restore the lost part, or move the file away: then a new file is started at the committed offsets"
            )
        log.warning(
            "%s is not the file to which %d bytes were committed: it was moved or replaced, appending to its end", self._path, truth.length
        )
        return replace(adopted, length=size, inode=None)

    # The lock

    def _lock_file(self, *, is_ours: bool) -> int:
        """The descriptor of the file, or of a copy of its committed part, locked until it is closed."""
        while True:
            descriptor = self._folder.open(self._name, os.O_RDWR | os.O_CREAT, 0o666)
            if not try_lock(descriptor, fcntl.LOCK_EX):
                break
            with self._commit_files.lock(fcntl.LOCK_SH):  # wait for a copy in progress: after that, the copy is renamed or abandoned
                pass
            if os.fstat(descriptor).st_ino == self._inode():
                return descriptor
            os.close(descriptor)
        os.close(descriptor)
        if is_ours:
            text = f"{self._path} is being written by another process of the same claim, {self._committed.claim}"
            raise RetriableException(text)
        return self._lock_copy()

    def _lock_copy(self) -> int:
        """Replace the file with a copy of its committed bytes, which this process has locked. Only one process copies at a time."""
        with self._commit_files.lock(fcntl.LOCK_EX):
            self._check_no_newer_claim()
            source = self._folder.open(self._name, os.O_RDWR | os.O_CREAT, 0o666)
            if try_lock(source, fcntl.LOCK_EX, seconds=0):
                return source
            log.warning("%s is locked by a process that does not end: continuing with a copy of the committed part", self._path)
            self._remove_unfinished_copies()
            temporary = f"{self._copy_prefix}{os.getpid()}"
            copy = self._folder.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
            fcntl.flock(copy, fcntl.LOCK_EX)
            try:
                self._copy(source, copy)
                self._check_no_newer_claim()
                self._folder.replace(temporary, self._name)
            except BaseException:
                os.close(copy)
                self._folder.remove(temporary)
                raise
            finally:
                os.close(source)
            self._folder.sync()
            return copy

    @property
    def _copy_prefix(self) -> str:
        return f".{self._name}.copy-"

    def _remove_unfinished_copies(self) -> None:
        """Remove the unfinished copies of killed processes."""
        for name in self._folder.names():
            if name.startswith(self._copy_prefix):
                self._folder.remove(name)

    def _copy(self, source: int, copy: int) -> None:
        os.fchmod(copy, os.fstat(source).st_mode & 0o7777)
        position, length = 0, self._committed.length
        while position < length:
            piece = os.pread(source, min(_COPY_BYTES, length - position), position)
            if not piece:
                raise StoreException(f"{self._path} ends at byte {position}, but {length} bytes were committed: another process cut it")
            position = write_all(copy, [memoryview(piece)], position)
        os.fsync(copy)

    def _grant_group_access(self) -> None:
        """Let the other tasks of this claim join. The commit file contains the inode that is ready. Other claims can no longer lock this
        inode."""
        self._committed = replace(self._committed, inode=os.fstat(self._descriptor).st_ino)
        self._commit_files.write(self._committed)
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def _join_file(self) -> int:
        """The descriptor of the file that another task of this claim has taken over."""
        descriptor = self._folder.open(self._name, os.O_RDWR)
        if not try_lock(descriptor, fcntl.LOCK_SH):
            os.close(descriptor)
            raise RetriableException(f"{self._path} is being taken over by another process. A later attempt may succeed.")
        return descriptor

    # The commit

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._check_unchanged()
        os.fsync(self._descriptor)  # 1
        self._check_no_newer_claim()  # 2
        status = os.fstat(self._descriptor)
        if status.st_nlink == 0:
            self._check_no_newer_claim()  # which has replaced the file by a copy
            raise FencedException(f"{self._path} was removed or replaced while claim {self._committed.claim} was writing to it")
        merged = {**self._committed.offsets, **offsets}
        own = dict.fromkeys((partition.topic for partition in offsets), self._connector) if self._connector else {}
        connectors = {**self._committed.connectors, **own}
        committed = replace(self._committed, length=self._position, inode=status.st_ino, offsets=merged, connectors=connectors)
        self._commit_files.write(committed)  # 3
        self._committed = committed

    def _write_buffered(self) -> None:
        """Write the buffered lines after the lines that tasks of this claim have committed. Leftovers of a killed task are overwritten. The
        length in the committed state is that of the file with its inode: no other file is written to."""
        mine = (self._committed.claim, self._committed.order)
        own = [committed for committed in self._commit_files.read() if (committed.claim, committed.order) == mine]
        if own and own[-1].rank == self._committed.rank:
            self._check_not_restored(own[-1])
            self._committed = own[-1]
        if not self._committed.inode == os.fstat(self._descriptor).st_ino == self._inode():
            self._continue_in_new_file()
        size = os.fstat(self._descriptor).st_size
        if size < self._committed.length:
            raise StoreException(
                f"{self._path} has {size} bytes, but {self._committed.length} bytes were committed: another process has truncated it"
            )
        pieces = [*self._missing_line_end(), *self._buffered] if self._buffered else []
        self._position = write_all(self._descriptor, pieces, self._committed.length)
        os.ftruncate(self._descriptor, self._position)

    def _missing_line_end(self) -> list[memoryview]:
        """A line feed if the committed data ends within a line. Without it, the next line would be joined to that line."""
        length = self._committed.length
        return [memoryview(b"\n")] if length and os.pread(self._descriptor, 1, length - 1) != b"\n" else []

    def _check_unchanged(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size != self._position:
            raise StoreException(
                f"{self._path} has {size} bytes, but this task has written {self._position}: another process writes to it or truncates it"
            )

    def _check_no_newer_claim(self) -> None:
        newest = newest_state([found for found in self._commit_files.read() if found.scope == self._committed.scope])
        if newest is not None and newest.rank > self._committed.rank:
            text = f"{self._path} belongs to the newer claim {newest.claim}; claim {self._committed.claim} may no longer write"
            raise FencedException(text)
        if newest is not None and newest.rank == self._committed.rank:
            self._check_not_restored(newest)

    def _check_not_restored(self, state: CommittedState) -> None:
        """Raise FencedException if the offsets of this claim's state are older than those that it has committed. Other tasks of the claim
        only increase them, except for a topic that was created again."""
        for partition, offset in self._committed.offsets.items():
            topic = partition.topic
            is_same_topic = state.topic_ids.get(topic) == self._committed.topic_ids.get(topic)
            if is_same_topic and state.offsets.get(partition, -1) < offset:
                raise FencedException(
                    f"{self._path} was restored from an older copy: its offset of {partition} is {state.offsets.get(partition)}, "
                    f"and claim {self._committed.claim} had committed {offset}"
                )

    def _inode(self) -> int:
        """The inode of the path. -1 if there is no file."""
        try:
            return self._folder.stat(self._name).st_ino
        except FileNotFoundError:
            return -1


def write_all(descriptor: int, pieces: list[memoryview], position: int) -> int:
    """Write ``pieces`` from byte ``position`` on. Returns the position after them."""
    for piece in pieces:
        rest = piece
        while len(rest):
            written = os.pwrite(descriptor, rest, position)
            rest, position = rest[written:], position + written
    return position


def alter_offsets(folder: AllowedFolder, name: str, changes: Mapping[TopicPartition, int | None]) -> None:
    """Change the committed offsets of a file. None removes an offset. A process that is currently writing to the file is fenced."""
    commit_files = CommitFiles(folder, name)
    with commit_files.lock(fcntl.LOCK_EX):
        newest = newest_state(commit_files.read())
        if newest is None:
            return
        offsets = {partition: offset for partition, offset in {**newest.offsets, **changes}.items() if offset is not None}
        commit_files.write(replace(newest, revision=newest.revision + 1, offsets=offsets))
        commit_files.remove(newest)


def forget_commits(folder: AllowedFolder, name: str) -> None:
    """Remove all committed states, because the process that appends next does not update them."""
    commit_files = CommitFiles(folder, name)
    for committed in commit_files.read():
        commit_files.remove(committed)
