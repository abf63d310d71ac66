"""The commits of one topic partition: a chain of small files, each created only if it does not exist. Knows nothing of records.

Link n+1 is the commit after link n. It contains the claim, the next offset, and the files that it publishes, each with a temporary path and
its final path. The steps of a commit: (1) write the data to temporary paths; (2) create link n+1, which is the commit, and fails if another
process has created that link; (3) move each file to its path, which any process may repeat; (4) remove old links, except the last few.

A process that was presumed dead is fenced, because the chain has advanced. Its next link already exists, or is older than the newest link
and was removed. It can only move files that a commit lists. Temporary paths begin with the number of the link that took the claim, so files
of older claims are identified by their names.
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
_ATTEMPTS: Final = 5  # to read a chain that other processes are extending


@dataclass(frozen=True, slots=True)
class Link:
    """One commit. ``taken`` is the number of the link that took the commit's claim, ``writer`` is the process that wrote the commit."""

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
    """The chain in ``folder`` of ``store``, as one process uses it."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store = store
        self._links, self._temporary = join_path(folder, "links"), join_path(folder, "files")
        self._writer = uuid.uuid4().hex
        self._last: Link | None = None

    def take(self, owned: object, claimant: OffsetRow, *, adopts: str | None = None) -> OffsetRow:
        """Take over the chain as ``claimant``. Returns the row that was found. Steps: (1) finish the newest commit; (2) append a link with
        the claim; (3) remove leftovers of older claims. Raises the same exceptions as ``OffsetRow.take_over``."""
        for _ in range(_ATTEMPTS):
            newest = self._newest()
            row = (claimant if newest is None else newest.row).take_over(owned, claimant, adopts=adopts)
            if newest is not None:
                self._publish(newest)  # 1
            number = 0 if newest is None else newest.number + 1
            if self._try_append(Link(number, number, row, self._writer)):  # 2
                self._clear(number)  # 3
                return row
        raise RetriableException(f"Other processes keep committing {owned}. A later attempt may succeed.")

    def commit(self, next_offset: int, files: list[tuple[str, str]]) -> None:
        """Publish files together with the next offset. Raises FencedException if another process has taken over the chain."""
        last = self._own_link()
        self._check_not_restored(last, files)  # before a link refers to the files
        row = replace(last.row, next_offset=next_offset)
        self._append(Link(last.number + 1, last.taken, row, self._writer, tuple(files)))  # 2
        self._publish(self._own_link())  # 3
        if last.number >= _KEPT_LINKS:
            self._store.remove(self._path(last.number - _KEPT_LINKS))  # 4

    @property
    def next_offset(self) -> int | None:
        """The next offset of this process's last commit."""
        return self._own_link().row.next_offset

    def temporary_path(self, name: str) -> str:
        """A path for uncommitted data of this process."""
        return join_path(self._temporary, f"{self._own_link().taken:0{_DIGITS}d}-{self._writer}-{name}")

    def alter(self, next_offset: int | None) -> bool:
        """Set the next offset for an admin. This fences the process that has the chain. False if there is no chain."""
        newest = self._newest()
        if newest is None:
            return False
        self._publish(newest)
        self._append(Link(newest.number + 1, newest.number + 1, newest.row.alter(next_offset), self._writer))
        return True

    def forget(self) -> None:
        """Finish the newest commit and remove the chain, because this process will publish files without offsets."""
        newest = self._newest()
        if newest is not None:
            self._publish(newest)
        for file in [*self._store.files(self._links), *self._store.files(self._temporary)]:
            self._store.remove(file.path)
        self._last = Link(0, 0, OffsetRow(None, "", 0), self._writer)

    def publish(self, files: list[tuple[str, str]]) -> None:
        """Publish files without offsets. Raises FencedException if another process has removed one of them."""
        for temporary, path in files:
            if not self._store.move(temporary, path):
                raise FencedException(f"{temporary} is gone: another run of this connector has started")

    def _check_not_restored(self, last: Link, files: list[tuple[str, str]]) -> None:
        """Raise StoreException if an older state of the folder was restored since the last commit. The next link would include records that
        were lost with the newer state."""
        new = [temporary for temporary, path in files if (temporary, path) not in last.files]  # a repeated call passes old ones too
        if self._content(self._path(last.number)) == last.to_json() and all(map(self._store.file, new)):
            return
        newest = self._numbers()[-1:]
        if newest and newest[0] > last.number:
            return  # there is a newer claim, which the next step detects
        raise StoreException(f"The commits in {self._links} or their files are no longer those of this run: the folder was restored")

    # Links

    def _own_link(self) -> Link:
        if self._last is None:
            raise StoreException(f"The commits in {self._links} have not been taken over yet")
        return self._last

    def _newest(self) -> Link | None:
        for _ in range(_ATTEMPTS):
            numbers = self._numbers()
            if not numbers:
                return None
            with contextlib.suppress(FileNotFoundError):  # already removed: the chain has advanced
                return self._read(numbers[-1])
        raise RetriableException(f"Other processes keep adding commits to {self._links}. A later attempt may succeed.")

    def _numbers(self) -> list[int]:
        names = (file.path.rpartition("/")[2] for file in self._store.files(self._links))
        return sorted(int(name) for name in names if len(name) == _DIGITS and name.isdecimal())

    def _read(self, number: int) -> Link:
        path = self._path(number)
        data = self._store.read(path)
        try:
            return Link.from_json(data, number)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreException(f"{path} does not contain the offset and files of a commit: {error}") from error

    def _append(self, link: Link) -> None:
        if not self._try_append(link):
            claim = link.row.claim
            raise FencedException(f"Another process has taken over the commits in {self._links}; claim {claim} may no longer write")

    def _try_append(self, link: Link) -> bool:
        """Append ``link``. Returns whether it is now the newest. An existing link with the same number and content is from this process,
        from a call whose response was lost."""
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

    # Cleanup

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
