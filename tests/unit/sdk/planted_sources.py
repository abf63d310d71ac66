"""Small sources with a mistake each, and beside each its right sibling. All read the lines of five files, a source partition each."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.sdk import Config, ConfigDef, ConfigKey, SourceConnector, SourceRecord, SourceTask

FILES = ("a", "b", "c", "d", "e")
WRITTEN = ("a", "c", "d", "e")  # one stays empty
PAGE = 3
Offset = Callable[[Mapping[str, object]], Mapping[str, object] | None]


class RowsTask(SourceTask):
    """Reads its files one after another, a page of lines a ``poll``."""

    def start(self, config: Config) -> None:
        self.config = config
        self.folder = Path(config["folder"])
        self.files = [name for name in config.originals["files"].split(",") if name]
        self.at = {name: self.resumed(self.context.offset(self.partition(name), {})) for name in self.files}

    def partition(self, name: str) -> dict[str, Any]:
        return {"file": name}

    def resumed(self, offset: Mapping[str, Any]) -> int:
        return int(offset.get("line", 0))

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines()[self.at[name] :][:PAGE] if path.exists() else []

    def record(self, name: str, line: str) -> SourceRecord:
        self.at[name] += 1
        return SourceRecord(self.partition(name), {"line": self.at[name]}, "t", line, value_schema=STRING_SCHEMA)

    def poll(self) -> Sequence[SourceRecord] | None:
        for name in self.files:
            lines = self.lines(name)
            if lines:
                return [self.record(name, line) for line in lines]
        return None


class RowsSource(SourceConnector):
    config_def = ConfigDef(ConfigKey("folder"))
    task_class = RowsTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self.config.originals, "files": ",".join(FILES[n::max_tasks])} for n in range(max_tasks)]

    def shares(self, size: int, overlap: int = 0) -> list[Mapping[str, str]]:
        starts = range(0, len(FILES), size)
        return [{**self.config.originals, "files": ",".join(FILES[n : n + size + overlap])} for n in starts]


def source(task: type[SourceTask]) -> type[RowsSource]:
    return type(task.__name__ + "Source", (RowsSource,), {"task_class": task})


# Shares


class LosesAShare(RowsSource):
    """Five files for three tasks: the size of a share is rounded down."""

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return self.shares(len(FILES) // max_tasks)[:max_tasks]


class HasAllShares(RowsSource):
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return self.shares(-(-len(FILES) // max_tasks))


class SharesOverlap(RowsSource):
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return self.shares(-(-len(FILES) // max_tasks), overlap=1)


class AConfigForEachFile(RowsSource):
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return self.shares(1)


class SharesInAnyOrder(RowsSource):
    """Each plan has another order, as that of a set of texts may be."""

    plans = itertools.count()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        shares, turn = [*super().task_configs(max_tasks)], next(self.plans) % max_tasks
        return shares[turn:] + shares[:turn]


# Offsets


class OffsetsOfTheTask(RowsTask):
    """Keeps its offsets under its share, and not under what it reads."""

    def partition(self, name: str) -> dict[str, Any]:
        return {"share": self.config.originals["files"], "file": name}


class OneCounterForAllFiles(RowsTask):
    count = 0

    def record(self, name: str, line: str) -> SourceRecord:
        self.count += 1
        return super().record(name, line).replace(source_offset={"line": self.count})


class SkipsOneUponResume(RowsTask):
    def resumed(self, offset: Mapping[str, Any]) -> int:
        return super().resumed(offset) + 1 if offset else 0


class RepeatsOneUponResume(RowsTask):
    def resumed(self, offset: Mapping[str, Any]) -> int:
        return super().resumed(offset) - 1 if offset else 0


class NumbersAsKeys(RowsTask):
    def resumed(self, offset: Mapping[Any, Any]) -> int:
        return int(offset.get(1, offset.get("1", 0)))

    def record(self, name: str, line: str) -> SourceRecord:
        offset: Any = {1: self.at[name] + 1}
        return super().record(name, line).replace(source_offset=offset)


class TextsAsKeys(NumbersAsKeys):
    def record(self, name: str, line: str) -> SourceRecord:
        return super().record(name, line).replace(source_offset={"1": self.at[name]})


class NoOffsets(RowsTask):
    def record(self, name: str, line: str) -> SourceRecord:
        return super().record(name, line).replace(source_offset=None)


class NoPartitions(RowsTask):
    def record(self, name: str, line: str) -> SourceRecord:
        return super().record(name, line).replace(source_partition=None)


class OneOffsetThatChanges(RowsTask):
    """All records of a file hold the same dictionary."""

    def start(self, config: Config) -> None:
        super().start(config)
        self.offsets: dict[str, dict[str, int]] = {name: {} for name in FILES}

    def record(self, name: str, line: str) -> SourceRecord:
        record = super().record(name, line)
        self.offsets[name]["line"] = self.at[name]
        return record.replace(source_offset=self.offsets[name])


class AnOffsetEach(OneOffsetThatChanges):
    def record(self, name: str, line: str) -> SourceRecord:
        record = super().record(name, line)
        return record.replace(source_offset=dict(self.offsets[name]))


class TheEndOfThePage(RowsTask):
    """Each record of a page has the offset after the page."""

    def poll(self) -> Sequence[SourceRecord] | None:
        records = super().poll()
        return records and [record.replace(source_offset=records[-1].source_offset) for record in records]


class OnlyTheLastHasIt(RowsTask):
    def poll(self) -> Sequence[SourceRecord] | None:
        records = super().poll()
        return records and [*(record.replace(source_offset=None) for record in records[:-1]), records[-1]]


# Polls


class EndsWithRetriable(RowsTask):
    def poll(self) -> Sequence[SourceRecord]:
        records = super().poll()
        if records is None:
            raise RetriableException("there is nothing more")
        return records


class FailsNowAndThen(RowsTask):
    """Its server refuses every other request."""

    requests = 0

    def poll(self) -> Sequence[SourceRecord] | None:
        self.requests += 1
        if self.requests % 2:
            raise RetriableException("503 Service Unavailable")
        return super().poll()


class ForgetsWhatFailed(FailsNowAndThen):
    """Goes on behind the page whose request failed."""

    def poll(self) -> Sequence[SourceRecord] | None:
        records = RowsTask.poll(self)
        self.requests += 1
        if self.requests % 2:
            raise RetriableException("503 Service Unavailable")
        return records


class EndsAtAnEmptyFile(RowsTask):
    def poll(self) -> Sequence[SourceRecord] | None:
        while self.files:
            lines = self.lines(self.files[0])
            if lines:
                return [self.record(self.files[0], line) for line in lines]
            del self.files[0]
            if self.files and not self.lines(self.files[0]):
                return None
        return None


class PassesAnEmptyFile(RowsTask):
    def poll(self) -> Sequence[SourceRecord] | None:
        while self.files:
            lines = self.lines(self.files[0])
            if lines:
                return [self.record(self.files[0], line) for line in lines]
            del self.files[0]
        return None


class WaitsForLong(RowsTask):
    """Waits for new lines at the end, whatever ``stop`` asks: for longer than a busy machine may take to ask for it."""

    seconds = 60.0

    def start(self, config: Config) -> None:
        super().start(config)
        self.stopped = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        records = super().poll()
        if records is None:
            self.wait()
        return records

    def wait(self) -> None:
        threading.Event().wait(self.seconds)

    def stop(self) -> None:
        self.stopped.set()


class WaitsUntilStopped(WaitsForLong):
    seconds = 0.01

    def wait(self) -> None:
        self.stopped.wait(self.seconds)


class StopsOnce(RowsTask):
    def start(self, config: Config) -> None:
        super().start(config)
        self.connection: threading.Event | None = threading.Event()

    def stop(self) -> None:
        assert self.connection is not None
        self.connection.set()
        self.connection = None


class StopsTwice(StopsOnce):
    def stop(self) -> None:
        if self.connection is not None:
            super().stop()


# The check for new data


def lines_of(config: Mapping[str, str], name: str) -> int:
    path = Path(config["folder"]) / name
    return len(path.read_text().splitlines()) if path.exists() else 0


class SeesNewData(RowsSource):
    def has_new_data(self, config: Mapping[str, str], offsets: Offset) -> bool:
        return any(lines_of(config, name) > int(str((offsets({"file": name}) or {}).get("line", 0))) for name in FILES)


class MissesNewData(RowsSource):
    """A file that it knows is taken for read."""

    def has_new_data(self, config: Mapping[str, str], offsets: Offset) -> bool:
        return any(lines_of(config, name) and offsets({"file": name}) is None for name in FILES)


class AlwaysSeesNewData(RowsSource):
    def has_new_data(self, config: Mapping[str, str], offsets: Offset) -> bool:
        return any(lines_of(config, name) for name in FILES)


PLANTED: Sequence[tuple[str, type[RowsSource], type[RowsSource]]] = (
    ("several_tasks_read_everything_once", LosesAShare, HasAllShares),
    ("several_tasks_read_everything_once", SharesOverlap, HasAllShares),
    ("task_configs_are_strings_and_at_most_max_tasks", AConfigForEachFile, HasAllShares),
    ("same_config_gives_same_task_configs", SharesInAnyOrder, RowsSource),
    ("offsets_hold_for_another_number_of_tasks", source(OffsetsOfTheTask), RowsSource),
    ("any_offset_resumes_with_the_next_record", source(OneCounterForAllFiles), RowsSource),
    ("any_offset_resumes_with_the_next_record", source(SkipsOneUponResume), RowsSource),
    ("new_records_follow_the_last_offset", source(RepeatsOneUponResume), RowsSource),
    ("partitions_and_offsets_are_json_objects", source(NumbersAsKeys), source(TextsAsKeys)),
    ("partitions_and_offsets_are_json_objects", source(NoOffsets), source(OnlyTheLastHasIt)),
    ("every_record_has_a_source_partition", source(NoPartitions), RowsSource),
    ("any_offset_resumes_with_the_next_record", source(OneOffsetThatChanges), source(AnOffsetEach)),
    ("any_offset_resumes_with_the_next_record", source(TheEndOfThePage), source(OnlyTheLastHasIt)),
    ("everything_written_is_read", source(EndsWithRetriable), source(FailsNowAndThen)),
    ("everything_written_is_read", source(ForgetsWhatFailed), source(FailsNowAndThen)),
    ("everything_written_is_read", source(EndsAtAnEmptyFile), source(PassesAnEmptyFile)),
    ("stop_from_another_thread_ends_a_poll", source(WaitsForLong), source(WaitsUntilStopped)),
    ("stop_may_be_called_twice", source(StopsOnce), source(StopsTwice)),
    ("new_data_is_detected", MissesNewData, SeesNewData),
    ("new_data_is_detected", AlwaysSeesNewData, SeesNewData),
)
"""The test of the suite that finds the mistake, the wrong source, the right one."""
