"""The committed state of a data file, in a commit file next to it. Knows nothing of the data file's content, or of the right to write to
the file.

The commit file of ``out.txt`` is ``.out.txt.offsets.«claim order»-«scope»``. It has ``claim``, ``length``, ``inode``, ``offsets`` and the
ids of their topics, in JSON. It is written under a temporary name, fsynced and renamed. Links are never followed: another user of the
folder cannot redirect a commit. Altered offsets keep the order and get a revision suffix (``….1``), which makes them newer. Claims of two
scopes may have the same order, so a hash of the scope is part of the name.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import FencedException, RetriableException, StoreException
from airflow_provider_connect.sdk.allowed_paths import AllowedFolder
from airflow_provider_connect.sdk.offset_row import scope_of

LOCK_SECONDS: Final = 2.0  # a process that ends releases its locks immediately
CLAIM_LOCK_SECONDS: Final = 30.0  # another task of the claim may wait for an older process, and then copy the file


@dataclass(frozen=True, slots=True)
class CommittedState:
    """The state that one claim has committed. Within a ``scope``, the state with the higher ``order`` is newer. If the orders are equal,
    the state with the higher ``revision`` is newer."""

    claim: str
    order: int
    length: int
    revision: int = 0
    inode: int | None = None
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    connectors: Mapping[str, str] = field(default_factory=dict)  # by topic: the connector that owns the offsets of the topic's partitions

    @property
    def scope(self) -> str:
        return scope_of(self.claim)

    @property
    def rank(self) -> tuple[int, int]:
        return self.order, self.revision

    @property
    def suffix(self) -> str:
        """The ending of file names that belong to the claim alone."""
        return f"{self.order:020d}-{_hash_of(self.scope)}"

    def to_json(self) -> str:
        nested: dict[str, dict[str, int]] = {}
        for partition, offset in sorted(self.offsets.items()):
            nested.setdefault(partition.topic, {})[str(partition.partition)] = offset
        values = {"claim": self.claim, "length": self.length, "inode": self.inode, "offsets": nested, "topic_ids": dict(self.topic_ids)}
        return json.dumps({**values, "connectors": dict(self.connectors)} if self.connectors else values)

    @classmethod
    def from_json(cls, text: str, order: int, revision: int) -> CommittedState:
        values = json.loads(text)
        offsets = {TopicPartition(t, int(p)): int(n) for t, by_number in values["offsets"].items() for p, n in by_number.items()}
        known = values.get("topic_ids", {}), values.get("connectors", {})
        return cls(str(values["claim"]), order, int(values["length"]), revision, values.get("inode"), offsets, *known)


class CommitFiles:
    """The commit files of one data file."""

    def __init__(self, folder: AllowedFolder, name: str) -> None:
        """The data file is ``name`` in ``folder``."""
        self.folder, self._name = folder, name
        beside, suffix = rf"\.{re.escape(self._name)}", r"\d{20}-[0-9a-f]{16}"
        self._pattern = re.compile(rf"{beside}\.offsets\.({suffix})(?:\.(\d+))?")
        self._leftovers = re.compile(rf"{beside}\.(?:offsets\.({suffix})(?:\.\d+)?\.tmp-\d+|lock\.({suffix}))")

    def read(self) -> list[CommittedState]:
        """All states, oldest first. Raises StoreException for an unreadable state, because it may be the newest."""
        found = []
        for name in self.folder.names():
            match = self._pattern.fullmatch(name)
            if match is not None:
                with contextlib.suppress(FileNotFoundError):  # a newer claim has just removed the file
                    found.append(self._load(name, int(match[1].partition("-")[0]), int(match[2] or 0)))
        return sorted(found, key=lambda committed: committed.rank)

    def write(self, committed: CommittedState) -> None:
        """Write the state durably."""
        name = self._file_name(committed)
        temporary = f"{name}.tmp-{os.getpid()}"
        with os.fdopen(self._create(temporary), "w", encoding="utf-8") as file:
            file.write(committed.to_json())
            file.flush()
            os.fsync(file.fileno())
        try:
            self.folder.replace(temporary, name)
        except FileNotFoundError as error:
            raise FencedException(f"A newer claim has removed the files of claim {committed.claim} before its commit") from error
        self.folder.sync()

    def remove(self, committed: CommittedState) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.folder.remove(self._file_name(committed))

    def clear_before(self, claim: CommittedState) -> None:
        """Remove the lock files and unfinished commit files of older claims of the same scope."""
        for name in self.folder.names():
            match = self._leftovers.fullmatch(name)
            order, _, scope = (match[1] or match[2]).partition("-") if match is not None else ("", "", "")
            if scope == _hash_of(claim.scope) and int(order) < claim.order:
                with contextlib.suppress(FileNotFoundError):
                    self.folder.remove(name)

    @contextlib.contextmanager
    def lock(self, kind: int, *names: str, seconds: float | None = None) -> Iterator[None]:
        """Hold a lock file during the block. Raises RetriableException if another process holds it for ``seconds``. None:
        ``LOCK_SECONDS``."""
        name, seconds = ".".join(["", self._name, "lock", *names]), LOCK_SECONDS if seconds is None else seconds
        descriptor = self.folder.open(name, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if not try_lock(descriptor, kind, seconds=seconds):
                path = os.path.join(self.folder.path, name)
                raise RetriableException(f"{path} has been locked by another process for {seconds:g} s. A later attempt may succeed.")
            yield
        finally:
            os.close(descriptor)

    def _load(self, name: str, order: int, revision: int) -> CommittedState:
        path = os.path.join(self.folder.path, name)
        with os.fdopen(self.folder.open(name, os.O_RDONLY), encoding="utf-8") as file:
            text = file.read()
        try:
            return CommittedState.from_json(text, order, revision)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise StoreException(f"{path} does not contain a committed length with offsets: {error}") from error

    def _create(self, name: str) -> int:
        """Create a file of this process. A leftover file of a process with the same id is removed, and never written to."""
        with contextlib.suppress(FileNotFoundError):
            self.folder.remove(name)
        return self.folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)

    def _file_name(self, committed: CommittedState) -> str:
        revision = f".{committed.revision}" if committed.revision else ""
        return f".{self._name}.offsets.{committed.suffix}{revision}"


def _hash_of(scope: str) -> str:
    return hashlib.sha256(scope.encode()).hexdigest()[:16]


def try_lock(descriptor: int, kind: int, *, seconds: float | None = None, poll_seconds: float = 0.05) -> bool:
    """Lock an open file; False if the lock is not free within ``seconds``."""
    deadline = time.monotonic() + (LOCK_SECONDS if seconds is None else seconds)
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(poll_seconds)
        else:
            return True


def newest_state(found: list[CommittedState], scope: str | None = None) -> CommittedState | None:
    """The newest state of ``scope``. If the scope has no state, the newest state of all. ``found`` is sorted, oldest first."""
    own = [committed for committed in found if committed.scope == scope]
    kept = own or found
    return kept[-1] if kept else None
