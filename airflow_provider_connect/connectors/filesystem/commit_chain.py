"""The commits of one topic partition: a chain of small files, each created only where there is none. Knows nothing of records.

Link number n+1 is the commit that follows link n. It holds the claim, the next offset, and the files that it publishes: each has a
temporary path, and the path that readers know. A commit is 1 the data under temporary paths 2 link n+1, which fails where another
process has created it: THE commit 3 each file moved to its path, which any process may repeat 4 links before the last few removed.

A process that was thought dead finds that its next link exists, or lies below the newest, since the chain went on and old links were
removed: it is fenced. What it still moves is what a commit lists, or is gone. Temporary paths begin with the number of the link that took
the claim, so files of older claims are known by their names, whatever claims they were.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_connect.connectors.filesystem.stores.store import Store, join_path
from airflow_provider_connect.errors import FencedException, RetriableException, StoreException
from airflow_provider_connect.sdk.offset_row import OffsetRow

_KEPT_LINKS: Final = 3
_DIGITS: Final = 20
_ATTEMPTS: Final = 5  # to read a chain that goes on meanwhile


@dataclass(frozen=True, slots=True)
class Link:
    """One commit. ``taken`` is the number of the link that took its claim, ``writer`` the process that wrote it."""

    number: int
    taken: int
    row: OffsetRow
    writer: str = ""
    files: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> bytes:
        row = self.row
        values = {"claim": row.claim, "claim_epoch": row.claim_epoch, "next_offset": row.next_offset, "topic_id": row.topic_id}
        values["taken"] = self.taken
        return json.dumps({**values, "writer": self.writer, "files": self.files}, ensure_ascii=False).encode()

    @classmethod
    def from_json(cls, data: bytes, number: int) -> Link:
        values = json.loads(data)
        next_offset = None if values["next_offset"] is None else int(values["next_offset"])
        row = OffsetRow(next_offset, str(values["claim"]), int(values["claim_epoch"]), str(values["topic_id"]))
        files = tuple((str(temporary), str(path)) for temporary, path in values["files"])
        return cls(number, int(values["taken"]), row, str(values["writer"]), files)


class CommitChain:
    """The chain in ``folder`` of ``store``, in the hands of one process."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._links, self._temporary = join_path(folder, "links"), join_path(folder, "files")
        self._writer = uuid.uuid4().hex
        self._last: Link | None = None

    def take(self, owned: object, claimant: OffsetRow, *, adopts: str | None = None) -> OffsetRow:
        """Become the one that commits, as ``claimant``; the row found. 1 finish the newest commit 2 append a link with the claim 3 remove
        what older claims have left. Raises as ``OffsetRow.taken``."""
        for _ in range(_ATTEMPTS):
            newest = self._newest()
            row = (claimant if newest is None else newest.row).taken(owned, claimant, adopts=adopts)
            if newest is not None:
                self._publish(newest)  # 1
            number = 0 if newest is None else newest.number + 1
            if self._try_append(Link(number, number, row, self._writer)):  # 2
                self._clear(number)  # 3
                return row
        raise RetriableException(f"Other processes go on to commit {owned}. A later try may succeed.")

    def commit(self, next_offset: int, files: list[tuple[str, str]]) -> None:
        """Publish files under their paths together with the next offset. Raises FencedException where another process has the chain."""
        last = self._taken()
        self._check_not_restored(last, files)  # before anything refers to them
        row = replace(last.row, next_offset=next_offset)
        self._append(Link(last.number + 1, last.taken, row, self._writer, tuple(files)))  # 2
        self._publish(self._taken())  # 3
        if last.number >= _KEPT_LINKS:
            self._store.remove(self._path(last.number - _KEPT_LINKS))  # 4

    @property
    def next_offset(self) -> int | None:
        """As this process has left it."""
        return self._taken().row.next_offset

    def temporary_path(self, name: str) -> str:
        """A path for data that is not committed: of this process alone."""
        return join_path(self._temporary, f"{self._taken().taken:0{_DIGITS}d}-{self._writer}-{name}")

    def alter(self, next_offset: int | None) -> bool:
        """Set the next offset on behalf of an admin; a process that has the chain is fenced. False: there is no chain."""
        newest = self._newest()
        if newest is None:
            return False
        self._publish(newest)
        self._append(Link(newest.number + 1, newest.number + 1, newest.row.altered(next_offset), self._writer))
        return True

    def forget(self) -> None:
        """Finish the newest commit and remove the chain: from here on this process publishes, and keeps no offsets here."""
        newest = self._newest()
        if newest is not None:
            self._publish(newest)
        for file in [*self._store.files(self._links), *self._store.files(self._temporary)]:
            self._store.remove(file.path)
        self._last = Link(0, 0, OffsetRow(None, "", 0), self._writer)

    def publish(self, files: list[tuple[str, str]]) -> None:
        """Without offsets. Raises FencedException where another process has removed one of them."""
        for temporary, path in files:
            if not self._store.move(temporary, path):
                raise FencedException(f"{temporary} is gone: another run of this connector has begun anew")

    def _check_not_restored(self, last: Link, files: list[tuple[str, str]]) -> None:
        """Raise StoreException where others have put an older state of the folder in place since the last commit: a link behind that one
        would say that records are there which went with the newer state."""
        new = [temporary for temporary, path in files if (temporary, path) not in last.files]  # those are of a call that comes again
        if self._content(self._path(last.number)) == last.to_json() and all(map(self._store.file, new)):
            return
        newest = self._numbers()[-1:]
        if newest and newest[0] > last.number:
            return  # a newer claim, which the next step finds
        raise StoreException(f"The commits in {self._links} or their files are not those of this run any more: the folder was restored")

    # Links

    def _taken(self) -> Link:
        if self._last is None:
            raise StoreException(f"The commits in {self._links} are not taken over yet")
        return self._last

    def _newest(self) -> Link | None:
        for _ in range(_ATTEMPTS):
            numbers = self._numbers()
            if not numbers:
                return None
            with contextlib.suppress(FileNotFoundError):  # removed since: the chain has gone on
                return self._read(numbers[-1])
        raise RetriableException(f"The commits in {self._links} go on while they are read. A later try may succeed.")

    def _numbers(self) -> list[int]:
        names = (file.path.rpartition("/")[2] for file in self._store.files(self._links))
        return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdecimal())

    def _read(self, number: int) -> Link:
        path = self._path(number)
        data = self._store.read(path)
        try:
            return Link.from_json(data, number)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreException(f"{path} does not hold the offset and the files of a commit: {error}") from error

    def _append(self, link: Link) -> None:
        if not self._try_append(link):
            claim = link.row.claim
            raise FencedException(f"Another process has taken over the commits in {self._links}, claim {claim} may no longer write")

    def _try_append(self, link: Link) -> bool:
        """Whether ``link`` is now the newest. Where one of its number exists with the same content, this process has created it by a call
        whose answer was lost."""
        path, data = self._path(link.number), link.to_json()
        if not self._store.create(path, data) and self._content(path) != data:
            return False
        if self._numbers()[-1:] != [link.number]:
            return False
        self._last = link
        return True

    def _content(self, path: str) -> bytes | None:
        try:
            return self._store.read(path)
        except FileNotFoundError:
            return None

    def _publish(self, link: Link) -> None:
        for temporary, path in link.files:
            self._store.move(temporary, path)

    # What is not needed any more

    def _clear(self, taken: int) -> None:
        for file in [*self._store.files(self._temporary)]:
            number = file.path.rpartition("/")[2].partition("-")[0]
            if number.isdecimal() and int(number) < taken:
                self._store.remove(file.path)
        for file in [*self._store.files(self._links)]:
            name = file.path.rpartition("/")[2]
            if not name.isdecimal() or int(name) <= taken - _KEPT_LINKS:
                self._store.remove(file.path)

    def _path(self, number: int) -> str:
        return join_path(self._links, f"{number:0{_DIGITS}d}")
