"""FileSystemSource on folders: which files are read, by which task, from where; what happens to them afterwards; what offsets remain."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.connectors.filesystem.source import progress, task
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.filesystem.source.settings import SourceSettings
from airflow_provider_connect.connectors.filesystem.source.task import FileSystemSourceTask, archive
from airflow_provider_connect.connectors.filesystem.stores.local_store import LocalStore
from airflow_provider_connect.connectors.filesystem.stores.location import open_store
from airflow_provider_connect.connectors.filesystem.stores.store import StoredFile
from airflow_provider_connect.data.columns import values_of
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedFolder, AllowedPaths
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.testing.contexts import MemoryConnectorContext, MemorySourceContext, Offsets, partition_key


class Crash(BaseException):
    """The end of a process."""


def batches_of(polled: Any) -> list[Batch]:
    return [] if polled is None else [batch for batch in polled if isinstance(batch, Batch)]


def values_of_batch(batch: Batch) -> list[Any]:
    assert batch.value is not None
    return (
        values_of(batch.value, None)
        if batch.value_schema is None
        else [value.as_dict() for value in values_of(batch.value, batch.value_schema)]
    )


class Folder:
    """A folder, what runs have committed of it, and where the next run is killed: ``before`` or ``after`` commit number ``kill``, within
    the clean-up behind it (``cleaning``), or nowhere."""

    def __init__(self, path: Path, **more: str) -> None:
        self.path = path
        self.offsets: Offsets = {}
        self.committed: list[Any] = []
        self.written: list[Any] = []
        self.skipped: list[DataException] = []
        self.config = {"url": str(path), "topic": "t", "file.minimum.age.ms": "0", "batch.max.rows": "3"}
        self.config |= {key.replace("_", "."): value for key, value in more.items()}

    def add(self, name: str, count: int = 5) -> Path:
        new = [{"n": len(self.written) + number} for number in range(count)]
        self.written += new
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(each) + "\n" for each in new).encode()
        file.write_bytes(gzip.compress(lines) if name.endswith(".gz") else lines)
        return file

    def connector(self) -> FileSystemSourceConnector:
        connector = FileSystemSourceConnector()
        connector.allowed_paths = ALL_ALLOWED
        connector.initialize(MemoryConnectorContext(offsets=self.offsets))
        connector.start(connector.config_def.parse(self.config))
        return connector

    def tasks(self, most: int = 1) -> list[FileSystemSourceTask]:
        connector = self.connector()
        return [self.task(config) for config in connector.task_configs(most)]

    def task(self, config: Mapping[str, str]) -> FileSystemSourceTask:
        created = FileSystemSourceTask()
        created.allowed_paths = ALL_ALLOWED
        created.initialize(MemorySourceContext(config, dict(self.offsets)))
        created.start(FileSystemSourceConnector.task_config(config))
        return created

    def run(self, tasks: int = 1, *, kill: int = 0, when: str = "", polls_a_commit: int = 1) -> list[Any]:
        """The records of one run; each task is done before the next begins."""
        before = len(self.committed)
        commits = 0
        for each in self.tasks(tasks):
            open_batches: list[Batch] = []
            count, is_done = 0, False
            while not is_done:
                try:
                    polled = each.poll()
                except DataException as error:
                    self.skipped.append(error)
                    continue
                is_done = polled is None
                open_batches += (
                    [] if polled is None else [polled] if isinstance(polled, Batch) else [b for b in polled if isinstance(b, Batch)]
                )
                count += 1
                if is_done or count % polls_a_commit == 0:
                    commits += 1
                    self._commit(each, open_batches, when if commits == kill else "")
                    open_batches = []
            each.stop()
        return self.committed[before:]

    def _commit(self, each: FileSystemSourceTask, batches: list[Batch], when: str) -> None:
        """1 records and offsets, as one transaction 2 the task's commit."""
        if when == "before":
            raise Crash
        for batch in batches:
            self.committed += values_of_batch(batch)
            key = partition_key(batch.source_partition)
            self.offsets[key] = json.loads(json.dumps(batch.last_offset))
            if not batch.last_offset:
                del self.offsets[key]
        if when == "after":
            raise Crash
        clean = each._clean
        if when == "cleaning":
            each._clean = lambda file: (_ for _ in ()).throw(Crash)  # type: ignore[method-assign]
        elif when == "cleaned":

            def clean_and_die(file: StoredFile) -> None:
                clean(file)
                raise Crash

            each._clean = clean_and_die  # type: ignore[method-assign]
        each.commit()

    def has_new_data(self) -> bool:
        return FileSystemSourceConnector.has_new_data(
            self.connector(), self.connector().config, lambda partition: self.offsets.get(partition_key(partition))
        )

    def names(self) -> list[str]:
        return sorted(str(file.relative_to(self.path)) for file in self.path.rglob("*") if file.is_file())


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def numbers(records: list[Any]) -> list[int]:
    return [record["n"] for record in records]


# Which files


def test_new_files_come_with_the_next_run(folder: Folder) -> None:
    folder.add("a/1.json")
    folder.add("b.json.gz")
    assert numbers(folder.run()) == list(range(10))
    assert folder.run() == []
    folder.add("a/2.json")
    assert folder.has_new_data()
    assert numbers(folder.run()) == list(range(10, 15))
    assert not folder.has_new_data()


def test_compressed_files_are_read_whatever_their_names(folder: Folder) -> None:
    folder.add("a.json.gz").rename(folder.path / "a.JSON.GZ")
    folder.add("b.json.gz").rename(folder.path / "b.json")
    folder.add("c.json.gz").rename(folder.path / "c")
    folder.add("d.json").rename(folder.path / "d.gz")
    assert numbers(folder.run()) == list(range(15))
    assert "File d.gz, after record 0: The rest of the file cannot be read: it is not valid gzip" in str(folder.skipped)
    folder.config |= {"file.compression": "none", "file.glob": "d.gz"}
    (folder.path / "d.gz").touch()
    assert numbers(folder.run()) == list(range(15, 20))


def test_another_way_to_write_the_same_folder_makes_no_file_new(folder: Folder) -> None:
    folder.add("a.json")
    folder.run()
    for url in (f"{folder.path}/", f"file://{folder.path}"):
        folder.config["url"] = url
        assert folder.run() == []


def test_a_file_that_was_replaced_is_a_new_one(folder: Folder) -> None:
    folder.add("a.json")
    folder.run()
    folder.add("a.json", 7)
    assert numbers(folder.run()) == list(range(5, 12))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("file.prefix", "in/ye"),
        ("file.glob", "in/*s.json"),
        ("file.pattern", "in/y[a-z]{2}\\.json"),
        ("file.manifest", "lists/today"),
    ],
)
def test_files_are_chosen_by(folder: Folder, key: str, value: str) -> None:
    for name in ("in/no.json", "in/yes.json", "out/yet.json", "in/.hidden/yes.json", "in/_temporary/yes.json", "in/yes.json.tmp"):
        folder.add(name, 1)
    (folder.path / "lists").mkdir()
    (folder.path / "lists/today").write_text("in/yes.json\nin/not-yet.json\n")
    folder.config[key] = value
    chosen = numbers(folder.run())
    assert chosen == ([1] if key != "file.prefix" else [1, 5])


def test_young_files_wait(folder: Folder) -> None:
    folder.config["file.minimum.age.ms"] = "60000"
    old = folder.add("old.json", 1)
    os.utime(old, (time.time() - 61, time.time() - 61))
    folder.add("young.json", 1)
    assert numbers(folder.run()) == [0]


@pytest.mark.parametrize(
    ("age", "ahead", "count"), [("0", 3600, 5), ("5000", 3600, 0), ("5000", 90_000, 5)], ids=["no age", "an hour ahead", "a day ahead"]
)
def test_a_time_in_the_future_holds_a_file_up_for_a_day_at_most(folder: Folder, age: str, ahead: int, count: int) -> None:
    """Of a clock that is ahead, or of an archive: with ascending names such a file would hold up all behind it."""
    folder.config |= {"file.minimum.age.ms": age, "file.names.ascending": "true"}
    os.utime(folder.add("a.json"), (time.time() + ahead,) * 2)
    assert folder.has_new_data() is bool(count)
    assert len(folder.run()) == count


def test_files_are_bounded_by_the_time_of_their_change(folder: Folder) -> None:
    for number, day in enumerate(("2026-01-29T23:59:59.999", "2026-01-30T00:00:00", "2026-01-30T23:59:59", "2026-01-31T00:00:00")):
        changed = datetime.fromisoformat(f"{day}+00:00").timestamp()
        os.utime(folder.add(f"{number}.json", 1), (changed, changed))
    folder.config |= {"file.modified.from": "2026-01-30T01:00:00+01:00", "file.modified.to": "2026-01-31T00:00:00Z"}
    assert numbers(folder.run()) == [1, 2]
    assert not folder.has_new_data()
    del folder.config["file.modified.from"]
    assert numbers(folder.run()) == [0]


def test_a_million_files_are_one_listing_in_pages(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The listing is a stream: nothing is kept of files that are finished."""
    count, listed = 1_000_000, []

    def files(self: LocalStore, under: str = "", after: str = "") -> Any:
        listed.append((under, after))
        for number in range(count):
            name = f"{number:07d}.json"
            if name > after:
                yield StoredFile(name, 1, 1)

    monkeypatch.setattr(LocalStore, "files", files)
    folder.config["file.names.ascending"] = "true"
    folder.offsets[partition_key({"url": str(folder.path)})] = {"after": "0999997.json"}
    connector = folder.connector()
    began = time.thread_time()
    assert len(connector.task_configs(4)) == 2
    assert listed == [("", "0999997.json")]
    assert time.thread_time() - began < 10


NAMES = [
    *("a", "z/!", "z/- 1", "z/-", "z/orders", "z/orders-2025~x", "z/orders-2025\N{SNOWMAN}", "z/orders-2026", "z/orders-2026-1"),
    *("z/orders-2026/x", "z/orders-2027", "z/\N{SNOWMAN}", "z/\N{SNOWMAN}1", "z/\ue000x", "zz", "~"),
]
PREFIXES = ["", "a", "z", "z/", "z/!", "z/-", "z/orders", "z/orders-2026", "z/orders-2026/", "z/\N{SNOWMAN}", "z/\ue000", "~"]


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("after", ["", "z/orders-2026"])
def test_a_prefix_leaves_out_no_file_that_begins_with_it(folder: Folder, prefix: str, after: str) -> None:
    for name in NAMES:
        folder.path.joinpath(f"{name}.json").parent.mkdir(exist_ok=True)
        folder.add(f"{name}.json", 1)
    folder.config["file.prefix"] = prefix
    config = folder.connector().config
    store = open_store(config, ALL_ALLOWED)
    found = [file.path for file in SourceSettings.of(config).files(store, time.time_ns(), after)]
    assert found == sorted(path for name in NAMES if (path := f"{name}.json").startswith(prefix) and path > after)


def test_a_listing_begins_at_the_prefix(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket with a million objects before those that are meant has a thousand pages of them."""
    begins, real = [], LocalStore.files

    def files(self: LocalStore, under: str = "", after: str = "") -> Any:
        begins.append((under, after))
        return real(self, under, after)

    monkeypatch.setattr(LocalStore, "files", files)
    folder.config["file.prefix"] = "z/orders-2026"
    for name in ("z/orders-2025-12-31", "z/orders-2026-01-01"):
        folder.add(f"{name}.json", 1)
    assert numbers(folder.run()) == [1]
    assert {under for under, _ in begins} == {"z"}
    assert all("z/orders-2025-12-31.json" < after < "z/orders-2026" for _, after in begins)


# Offsets


def test_a_run_goes_on_within_a_file(folder: Folder) -> None:
    folder.add("a.json", 10)
    with pytest.raises(Crash):
        folder.run(kill=2, when="after")
    assert numbers(folder.committed) == list(range(6))
    [offset] = folder.offsets.values()
    assert offset["rows"] == 6
    assert numbers(folder.run()) == [6, 7, 8, 9]


def test_ascending_names_leave_one_offset(folder: Folder) -> None:
    folder.config["file.names.ascending"] = "true"
    for number in range(12):
        folder.add(f"{number:03d}.json", 1)
    folder.run(3)
    assert len(folder.offsets) == 12
    folder.add("013.json", 1)
    assert numbers(folder.run(3)) == [12]
    assert folder.offsets[partition_key({"url": str(folder.path)})] == {"after": "011.json"}
    assert len(folder.offsets) == 2
    folder.add("000-late.json", 1)
    assert folder.run() == []


def test_a_name_is_not_passed_while_a_file_before_it_waits(folder: Folder) -> None:
    folder.config |= {"file.names.ascending": "true", "file.minimum.age.ms": "60000"}
    for name, age in (("1.json", 100), ("2.json", 0), ("3.json", 100)):
        file = folder.add(name, 1)
        os.utime(file, (time.time() - age, time.time() - age))
    folder.run()
    folder.run()
    os.utime(folder.path / "2.json", (time.time() - 100, time.time() - 100))
    assert numbers(folder.run()) == [1, 2]
    assert folder.run() == []


@pytest.mark.parametrize("policy", ["archive", "delete"])
def test_files_that_are_cleaned_up_leave_no_offset_of_their_own(folder: Folder, policy: str) -> None:
    folder.config["cleanup.policy"] = policy
    for number in range(20):
        folder.add(f"{number:02d}.json", 4)
    folder.run(4)
    assert numbers(sorted(folder.committed, key=str)) == numbers(sorted(folder.written, key=str))
    assert folder.names() == ([f"finished/{number:02d}.json" for number in range(20)] if policy == "archive" else [])
    assert {frozenset(json.loads(key)) for key in folder.offsets} == {frozenset({"url", "cleaner"})}
    assert max(len(offset["finished"]) for offset in folder.offsets.values()) <= 2
    assert not folder.has_new_data()
    folder.add("00.json", 1)
    assert numbers(folder.run()) == [80]


def test_an_archive_keeps_files_of_one_name(folder: Folder) -> None:
    """A file that comes each day under one name: each day's stays in the archive, also where the process is killed within a move."""
    folder.config["cleanup.policy"] = "archive"
    for kill in (0, 1, 0):
        file = folder.add("in/orders.json.gz")
        if kill:  # behind the link, before the other name is removed
            os.link(file, folder.path / "finished/in/orders-1.json.gz")
        folder.run()
    archived = ["finished/in/orders-1.json.gz", "finished/in/orders-2.json.gz", "finished/in/orders.json.gz"]
    assert folder.names() == archived
    lines = [gzip.decompress((folder.path / name).read_bytes()).splitlines() for name in archived]
    assert [json.loads(each[0])["n"] for each in lines] == [5, 10, 0]


@pytest.mark.parametrize(("name", "expected"), [("a", "a-1"), ("b.c/a.b.csv", "b.c/a.b-1.csv"), (".x", ".x-1"), ("a.zst", "a-1.zst")])
def test_numbers_stand_before_extensions(folder: Folder, name: str, expected: str) -> None:
    store = open_store(folder.connector().config, ALL_ALLOWED)
    for _ in range(2):
        assert store.create(name, b"x")
        archive(store, name, "done")
    assert sorted(file.path for file in store.files()) == sorted([f"done/{name}", f"done/{expected}"])


def test_an_archive_without_hard_links_replaces_no_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    store = open_store(folder.connector().config, ALL_ALLOWED)
    for text in (b"0", b"1"):
        assert store.create("a.json", text)
        with monkeypatch.context() as patch:
            patch.setattr(os, "link", refuse)
            archive(store, "a.json", "done")
    assert {file.path: store.read(file.path) for file in store.files()} == {"done/a.json": b"0", "done/a-1.json": b"1"}


# Kills


@pytest.mark.parametrize("policy", ["archive", "delete"])
def test_a_file_that_was_replaced_after_it_was_read_is_not_cleaned_up(folder: Folder, policy: str) -> None:
    """In the time between the end of the file and the commit, and after a crash before the clean-up."""
    folder.config["cleanup.policy"] = policy
    for kill in ("", "cleaning"):
        file = folder.add("a.json", 3)
        [each] = folder.tasks()
        first = batches_of(each.poll())
        assert each.poll() is None
        replacement = folder.add("b.part", 4)
        replacement.rename(file)
        if kill:
            with pytest.raises(Crash):
                folder._commit(each, first, kill)
        else:
            folder._commit(each, first, "")
        each.stop()
        assert file.read_text().count("\n") == 4
        folder.run()
        folder.run()
        archived = ["finished/a-1.json", "finished/a.json"] if kill else ["finished/a.json"]
        assert folder.names() == (archived if policy == "archive" else [])
    assert folder.committed == folder.written


@pytest.mark.parametrize("when", ["before", "after", "cleaning", "cleaned"])
@pytest.mark.parametrize("policy", ["none", "archive", "delete"])
@pytest.mark.parametrize("polls_a_commit", [1, 3])
def test_a_kill_at_any_commit_loses_and_doubles_nothing(tmp_path: Path, policy: str, when: str, polls_a_commit: int) -> None:
    killed = 0
    for kill in range(1, 13):
        path = tmp_path / str(kill)
        path.mkdir()
        folder = Folder(path, cleanup_policy=policy)
        for name in ("1.json", "2.json", "3.json.gz"):
            folder.add(name, 5)
        try:
            folder.run(2, kill=kill, when=when, polls_a_commit=polls_a_commit)
        except Crash:
            killed += 1
        folder.run(3, polls_a_commit=polls_a_commit)
        folder.run()
        assert sorted(numbers(folder.committed)) == list(range(15)), f"commit {kill}"
        assert not folder.has_new_data()
        left = {"none": 3, "archive": 3, "delete": 0}[policy]
        assert len(folder.names()) == left
        assert policy != "archive" or all(name.startswith("finished/") for name in folder.names())
    assert killed >= (0 if policy == "none" and when.startswith("clean") else 3 if polls_a_commit == 1 else 2)


def test_what_a_killed_task_has_left_is_kept_while_the_next_run_is_killed_too(folder: Folder) -> None:
    """The second run commits an offset of its own for the same task before it has cleaned up after the first."""
    folder.config["cleanup.policy"] = "delete"
    folder.add("b.json", 2)
    with pytest.raises(Crash):
        folder.run(kill=2, when="cleaning")
    folder.add("a.json", 2)
    with pytest.raises(Crash):
        folder.run(kill=1, when="after")
    folder.run()
    assert sorted(numbers(folder.committed)) == [0, 1, 2, 3]
    assert folder.names() == []


# Splits


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (progress, task):
        monkeypatch.setattr(module, "SPLIT_BYTES", 200)


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize("policy", ["none", "archive"])
def test_several_tasks_read_a_large_file_in_splits(folder: Folder, policy: str) -> None:
    folder.config["cleanup.policy"] = policy
    folder.add("large.json", 100)
    assert len(folder.tasks(4)) == 4
    assert sorted(numbers(folder.run(4))) == list(range(100))
    assert len(folder.offsets) == 5
    assert folder.has_new_data()  # the splits are still to be folded
    assert folder.run(1) == []
    assert len(folder.offsets) == 1
    assert not folder.has_new_data()
    assert folder.names() == (["finished/large.json"] if policy == "archive" else ["large.json"])


@pytest.mark.usefixtures("small_splits")
@pytest.mark.parametrize("kill", range(1, 12))
def test_a_file_that_was_begun_in_splits_is_gone_on_with_by_one_task(folder: Folder, kill: int) -> None:
    folder.add("large.json", 100)
    with pytest.raises(Crash):
        folder.run(3, kill=kill, when="after")
    folder.run(1)
    folder.run(2)
    assert sorted(numbers(folder.committed)) == list(range(100))


@pytest.mark.usefixtures("small_splits")
def test_a_file_that_was_begun_whole_stays_whole(folder: Folder) -> None:
    folder.add("large.json", 100)
    with pytest.raises(Crash):
        folder.run(1, kill=2, when="after")
    folder.run(4)
    assert numbers(folder.committed) == list(range(100))


@pytest.mark.usefixtures("small_splits")
def test_row_groups_of_parquet_are_splits(folder: Folder) -> None:
    pq.write_table(pa.table({"n": range(1000)}), folder.path / "a.parquet", row_group_size=100)
    folder.config |= {"format": "parquet", "batch.max.rows": "1000"}
    assert sorted(numbers(folder.run(3))) == list(range(1000))
    assert len(folder.offsets) == 10


# What goes wrong


def test_a_broken_line_is_named_and_the_others_are_read(folder: Folder) -> None:
    folder.config["errors.tolerance"] = "all"
    folder.add("a.json", 2)
    (folder.path / "b.json").write_text('{"n":7}\nno json\n{"n":8}\n')
    assert numbers(folder.run()) == [0, 1, 7, 8]
    [error] = folder.skipped
    assert "File b.json, after record 2: The line b'no json' is not one JSON value" in str(error)
    assert not folder.has_new_data()


def test_the_rest_of_a_broken_file_is_passed_over(folder: Folder) -> None:
    file = folder.add("a.json.gz", 50_000)
    file.write_bytes(file.read_bytes()[:-1000])
    folder.config |= {"batch.max.rows": "100000", "errors.tolerance": "all"}
    assert len(folder.run()) == 49533
    [error] = folder.skipped
    assert "File a.json.gz, after record 49533: The rest of the file cannot be read" in str(error)
    assert not folder.has_new_data()


@pytest.mark.parametrize("policy", ["none", "archive"])
def test_a_file_whose_error_fails_the_task_costs_no_other(folder: Folder, policy: str) -> None:
    """airbytehq/airbyte 32589, streamthoughts/kafka-connect-file-pulse 232: one broken file held up all files after it."""
    folder.config["cleanup.policy"] = policy
    for name in ("a", "c", "e"):
        folder.add(f"{name}.json", 2)
    broken = [folder.path / f"{name}.json" for name in ("b", "d")]
    for file in broken:
        file.write_text('{"n":7}\nno json\n{"n":8}\n')
    assert numbers(folder.run()) == [0, 1, 7, 8, 2, 3, 7, 8, 4, 5]
    [error] = folder.skipped
    assert re.search(r"2 files could not be read:\nFile b\.json, after record 2.*\nFile d\.json, after record 2", error.message)
    assert folder.has_new_data()
    folder.skipped.clear()
    broken[1].unlink()
    folder.add("f.json", 1)
    assert numbers(folder.run()) == [6]
    [error] = folder.skipped
    assert error.message.startswith("File b.json, after record 2: The line b'no json'")


def test_with_ascending_names_an_error_fails_the_task_before_later_files(folder: Folder) -> None:
    folder.config["file.names.ascending"] = "true"
    (folder.path / "a.json").write_text("no json\n")
    folder.add("b.json")
    [each] = folder.tasks()
    with pytest.raises(DataException, match="no json"):
        each.poll()
    each.stop()


def test_where_a_broken_line_ends_the_run_it_comes_again(folder: Folder) -> None:
    (folder.path / "b.json").write_text('{"n":7}\nno json\n{"n":8}\n')
    for _ in range(2):
        [each] = folder.tasks()
        first = each.poll()
        assert isinstance(first, list)
        with pytest.raises(DataException, match="no json"):
            each.poll()
        each.stop()


def test_a_file_that_is_gone_is_left_out(folder: Folder) -> None:
    folder.add("a.json")
    folder.add("b.json")
    [each] = folder.tasks()
    polled = each.poll()
    assert isinstance(polled, list)
    (folder.path / "b.json").unlink()
    while polled is not None:
        polled = each.poll()


@pytest.fixture
def world_readable() -> Iterator[Folder]:
    """A folder that another user can list, while this process has the rights of that user."""
    path = Path(tempfile.mkdtemp())
    path.chmod(0o755)
    yield Folder(path)
    os.seteuid(USER)
    shutil.rmtree(path)


USER, NOBODY = os.geteuid(), 65534


def test_a_file_that_the_user_may_not_read_costs_no_other(world_readable: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = world_readable
    folder.add("a.json")
    folder.run()  # imports what the other user may not read
    denied, large = folder.add("b.json"), folder.add("c.json")
    folder.add("d.json")
    for file in (denied, large):
        file.chmod(0)
    if USER == 0:
        os.seteuid(NOBODY)
    with pytest.raises(ConfigException, match=r"2 files could not be read:\n.*b\.json: Permission denied.*\n.*c\.json: Permission denied"):
        folder.run()
    assert folder.committed == [*folder.written[:5], *folder.written[15:]]
    assert folder.has_new_data()
    os.seteuid(USER)
    denied.chmod(0o644)
    if USER == 0:
        os.seteuid(NOBODY)
    monkeypatch.setattr(progress, "SPLIT_BYTES", 1)  # the search for splits opens the file too
    with pytest.raises(ConfigException, match=r"cannot use \S*c\.json: Permission denied"):
        folder.run()
    assert folder.committed[10:] == folder.written[5:10]


def test_a_folder_that_the_user_may_not_list_costs_no_other(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """nextcloud/server 29514, navidrome/navidrome 328, IrosTheBeggar/mStream 209: a scan ended at lost+found, or at hidden snapshots."""
    allowed, refused = AllowedFolder.names, {"lost+found", ".snapshots", "b/.snapshots"}

    def names(self: AllowedFolder) -> list[str]:
        if self.path.removeprefix(f"{folder.path}/") in refused:
            raise PermissionError(errno.EACCES, "Permission denied")
        return allowed(self)

    monkeypatch.setattr(AllowedFolder, "names", names)
    for name in ("a.json", "b/a.json", "x/a.json", "y/y/a.json", "z.json"):
        folder.add(name, 1)
    for name in (*refused, "x/deep"):
        (folder.path / name).mkdir()
    assert sorted(numbers(folder.run(2))) == [0, 1, 2, 3, 4]
    assert not folder.has_new_data()
    refused |= {"x", "y/y"}
    folder.add("zz.json", 1)
    assert folder.has_new_data()
    with pytest.raises(ConfigException, match=r"2 files could not be read:\n.*/x: Permission denied.*\n.*/y/y: Permission denied"):
        folder.run()
    assert sorted(numbers(folder.committed)) == [0, 1, 2, 3, 4, 5]
    assert folder.has_new_data()
    folder.config["file.names.ascending"] = "true"  # a later file must not mark the folder's files as read
    with pytest.raises(ConfigException, match=r"/x: Permission denied"):
        folder.run()
    refused |= {str(folder.path)}
    with pytest.raises(ConfigException, match="Permission denied"):
        folder.tasks()


def test_a_store_that_cannot_be_reached_for_a_while_loses_and_doubles_nothing(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        folder.add(f"{number}.json")
    opened, fails = LocalStore.open, iter([False, True, False, True, True, False, False])

    def open_or_fail(store: LocalStore, path: str) -> Any:
        if next(fails, False):
            raise RetriableException("away")
        return opened(store, path)

    monkeypatch.setattr(LocalStore, "open", open_or_fail)
    [each] = folder.tasks()
    records: list[Any] = []
    errors = 0
    while True:
        try:
            polled = each.poll()
        except RetriableException:
            errors += 1
            continue
        if polled is None:
            break
        records += [value for batch in batches_of(polled) for value in values_of_batch(batch)]
    assert (errors, numbers(records)) == (3, list(range(20)))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("format", "xml", "Expected|json"),
        ("file.pattern", "(", "Not a pattern"),
        ("cleanup.policy", "burn", "none"),
        ("file.compression", "xz", "auto, none, gzip"),
        ("file.modified.from", "2026-01-30T00:00:00", "a time with its zone"),
        ("file.modified.to", "today", "a time with its zone"),
        ("encoding", "base64", "Not an encoding of text"),
        ("csv.delimiter", ";;", "one ASCII character"),
        ("url", "ftp://host/x", "url"),
    ],
)
def test_a_wrong_setting_is_named(folder: Folder, key: str, value: str, message: str) -> None:
    folder.config |= {"format": "csv", key: value}
    connector = FileSystemSourceConnector()
    connector.allowed_paths = ALL_ALLOWED
    [(name, error)] = [(each.name, error) for each in connector.validate(folder.config) for error in each.errors]
    assert name == key
    assert any(part in error for part in message.split("|"))


@pytest.mark.parametrize(
    ("key", "value"), [("finished.path", "../x"), ("finished.path", ""), ("file.names.ascending", "true"), ("file.compression", "gzip")]
)
def test_settings_that_do_not_go_together_are_named(folder: Folder, key: str, value: str) -> None:
    folder.config |= {"cleanup.policy": "archive", "format": "parquet", key: value}
    connector = FileSystemSourceConnector()
    connector.allowed_paths = ALL_ALLOWED
    assert [each.name for each in connector.validate(folder.config) if each.errors] == [key]
    with pytest.raises(ConfigException, match=key):
        folder.connector().task_configs(1)


def test_a_folder_outside_of_what_is_allowed_is_refused(folder: Folder) -> None:
    connector = FileSystemSourceConnector()
    connector.allowed_paths = AllowedPaths((str(folder.path / "inner"),))
    assert [each.name for each in connector.validate(folder.config) if each.errors] == ["url"]
    with pytest.raises(ConfigException, match="url"):
        connector.check(folder.config)


def test_a_folder_that_is_missing_is_named_before_a_run(folder: Folder) -> None:
    folder.config["url"] += "/missing"
    with pytest.raises(ConfigException, match=r"url: .*There is no folder"):
        folder.connector().check(folder.config)


def test_a_folder_that_vanishes_fails_what_reads_it_by_name(folder: Folder) -> None:
    """An empty folder has nothing new; one that is gone is a mount that is away or a wrong setting, and no end of the files."""
    folder.add("a.json")
    folder.run()
    gone = folder.path.rename(folder.path.with_name("gone"))
    for use in (folder.has_new_data, folder.tasks, lambda: folder.task(folder.config).poll()):
        with pytest.raises(ConfigException, match=r"url: There is no folder .*Create it, or set another path"):
            use()
    gone.rename(folder.path)
    assert not folder.has_new_data()


def test_a_name_that_is_no_text_holds_up_no_other_file(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    folder.add("a.json", 1)
    for name in (b"\xff.json", b"\xfe/x.json"):
        path = os.path.join(os.fsencode(folder.path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"1\n")
    assert numbers(folder.run()) == [0]
    assert not folder.has_new_data()
    [warning] = [each.getMessage() for each in caplog.records]
    assert r"2 files, '\\udcfe' the first of them, are not read" in warning


@pytest.mark.parametrize(
    ("partition", "offset"),
    [
        ({"file": "x"}, {"rows": 1}),
        ({"url": "x", "other": 1}, {"rows": 1}),
        ({"url": "x", "file": "y"}, {"rows": -1}),
        ({"url": "x", "file": "y"}, {"position": 1}),
        ({"url": "x"}, {"after": 7}),
    ],
)
def test_offsets_of_another_form_are_refused(folder: Folder, partition: dict[str, object], offset: dict[str, object]) -> None:
    with pytest.raises(ConnectException, match=r"must be|must have"):
        folder.connector().alter_offsets(folder.config, [(partition, offset)])


def test_offsets_of_its_own_form_are_taken(folder: Folder) -> None:
    folder.add("a.json", 4)
    folder.run()
    pairs = [(json.loads(key), offset) for key, offset in folder.offsets.items()]
    assert folder.connector().alter_offsets(folder.config, [*pairs, ({"url": "x"}, {"after": "y"}), ({"whatever": 1}, None)])
