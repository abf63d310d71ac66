"""The contract suites on plugins that are right, and what the suites do themselves. Mistakes stand in ``test_planted_mistakes``."""

import json
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.errors import FencedException, TaskException
from airflow_provider_connect.sdk import (
    Batch,
    Config,
    ConfigDef,
    ConfigKey,
    NonEmptyString,
    SinkConnector,
    SinkRecord,
    SinkTask,
    SourceConnector,
    SourceRecord,
    SourceTask,
    TopicPartition,
)
from airflow_provider_connect.sdk.testing import MemorySinkContext, MemorySourceContext, SinkConnectorSuite, SourceConnectorSuite

STUCK_SECONDS = 0.5

# A source: the lines of two files, one source partition each, in the record form


class LinesTask(SourceTask):
    def start(self, config: Config) -> None:
        self.folder, self.stopped = Path(config["folder"]), threading.Event()
        self.at = {name: self.context.offset({"file": name}, {"line": 0})["line"] for name in ("a", "b")}

    def poll(self) -> Sequence[SourceRecord] | None:
        records = []
        for name in self.at:
            path = self.folder / name
            lines = path.read_text().splitlines() if path.exists() else []
            for line in lines[self.at[name] : self.at[name] + 3]:
                self.at[name] += 1
                records.append(SourceRecord({"file": name}, {"line": self.at[name]}, "t", line, value_schema=STRING_SCHEMA))
        return records or None

    def stop(self) -> None:
        self.stopped.set()


class LinesSource(SourceConnector):
    config_def = ConfigDef(ConfigKey("folder", validator=NonEmptyString()))
    task_class = LinesTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [self.config]

    def has_new_data(self, config: Mapping[str, str], offsets: Callable[[Mapping[str, object]], Mapping[str, object] | None]) -> bool:
        for name in ("a", "b"):
            path = Path(config["folder"]) / name
            if path.exists() and len(path.read_text().splitlines()) > int(str((offsets({"file": name}) or {}).get("line", 0))):
                return True
        return False


class TestLinesSource(SourceConnectorSuite):
    connector_class = LinesSource

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder, self.written = tmp_path, 0

    def config(self) -> dict[str, str]:
        return {"folder": str(self.folder)}

    def write_to_source(self, count: int) -> None:
        for _ in range(count):
            with (self.folder / "ab"[self.written % 2]).open("a") as file:
                file.write(f"line {self.written}\n")
            self.written += 1


def suite_of(task_class: type[SourceTask], folder: Path, **changes: Any) -> TestLinesSource:
    suite = TestLinesSource()
    made = type("Wrong", (LinesSource,), {"task_class": task_class, **changes})
    suite.connector_class = cast(type[LinesSource], made)  # type: ignore[misc]
    suite.folder, suite.written = folder, 0
    return suite


def test_numbers_in_task_configs_are_texts_as_in_a_run(tmp_path: Path) -> None:
    suite = suite_of(LinesTask, tmp_path, task_configs=lambda self, max_tasks: [{**self.config, "share": 0, "all": True}])
    suite.test_task_configs_are_strings_and_at_most_max_tasks()
    assert (suite.task_configs()[0]["share"], suite.task_configs()[0]["all"]) == ("0", "true")


@pytest.mark.parametrize("wrong", [None, {"share": "0"}, [{"share": None}], [5]])
def test_task_configs_that_are_no_list_of_texts_are_found(wrong: object, tmp_path: Path) -> None:
    suite = suite_of(LinesTask, tmp_path, task_configs=lambda self, max_tasks: wrong)
    with pytest.raises(TaskException, match=r"task_configs of .*Wrong"):
        suite.test_task_configs_are_strings_and_at_most_max_tasks()


class StuckTask(LinesTask):
    def poll(self) -> Sequence[SourceRecord] | None:
        threading.Event().wait(STUCK_SECONDS)
        return None


def test_poll_that_does_not_return_is_found(tmp_path: Path) -> None:
    suite = suite_of(StuckTask, tmp_path)
    suite.poll_limit_seconds = 0.1  # type: ignore[misc]
    with pytest.raises(AssertionError, match="poll continued after stop"):
        suite.test_stop_from_another_thread_ends_a_poll()
    with pytest.raises(AssertionError, match="poll took too long"):
        suite.test_empty_source_delivers_nothing()


def test_source_that_cannot_resume_skips_by_name(tmp_path: Path) -> None:
    suite = suite_of(LinesTask, tmp_path)
    suite.can_resume = False  # type: ignore[misc]
    with pytest.raises(pytest.skip.Exception, match="does not resume"):
        suite.test_new_records_follow_the_last_offset()


class WaitingTask(LinesTask):
    """Answers with nothing now and then, and ends its poll with an error when stopped."""

    def poll(self) -> Sequence[SourceRecord] | Batch | None:  # type: ignore[override]  # LinesTask narrows it
        self.turns = getattr(self, "turns", 0) + 1
        if self.stopped.is_set():
            raise OSError("closed")
        if self.turns % 2:
            return []
        records = super().poll()
        return records and Batch.from_source_records(records[:1])[0] if records and len(records) == 1 else records


class WaitingSource(LinesSource):
    task_class = WaitingTask


class TestWaitingSource(TestLinesSource):
    connector_class = WaitingSource


# A sink: one JSON file that holds values, next offsets and claim


class JsonFile:
    """The destination; replaced whole."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def read(self) -> dict[str, Any]:
        return json.loads(self.path.read_text()) if self.path.exists() else {"claim": 0, "values": [], "next": {}}

    def write(self, content: dict[str, Any]) -> None:
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(content))
        os.replace(draft, self.path)


class JsonTask(SinkTask):
    def start(self, config: Config) -> None:
        self.file = JsonFile(config["file"])
        self.pending: list[Any] = []

    def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        content = self._content()
        self.file.write({**content, "claim": self.context.claim_epoch})
        return {partition: content["next"][str(partition)] for partition in partitions if str(partition) in content["next"]}

    def put_records(self, records: list[SinkRecord]) -> None:
        self.pending += [record.value for record in records]

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        content = self._content()
        positions = {**content["next"], **{str(partition): offset for partition, offset in offsets.items()}}
        self.file.write({**content, "values": content["values"] + self.pending, "next": positions})
        self.pending = []
        return offsets

    def close(self, partitions: Collection[TopicPartition]) -> None:
        self.pending = []

    def _content(self) -> dict[str, Any]:
        content = self.file.read()
        if content["claim"] > self.context.claim_epoch:
            raise FencedException(f"claim {content['claim']} is newer than {self.context.claim_epoch}")
        return content


class JsonSink(SinkConnector):
    config_def = ConfigDef(ConfigKey("file"))
    task_class = JsonTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [dict(self.config)]

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        file = JsonFile(config["file"])
        content = file.read()
        for partition, offset in offsets.items():
            content["next"].pop(str(partition), None)
            if offset is not None:
                content["next"][str(partition)] = offset
        file.write(content)
        return True


class TestJsonSink(SinkConnectorSuite):
    connector_class = JsonSink
    exactly_once = True

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.file = str(tmp_path / "out.json")

    def config(self) -> dict[str, str]:
        return {"file": self.file}

    def delivered(self) -> list[Any]:
        values: list[Any] = JsonFile(self.file).read()["values"]
        return values


class AppendingTask(JsonTask):
    """At least once: writes at ``flush`` and knows no offsets."""

    def open(self, partitions: Collection[TopicPartition]) -> None:  # type: ignore[override]
        return None

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        content = self.file.read()
        self.file.write({**content, "values": content["values"] + self.pending})
        self.pending = []

    pre_commit = SinkTask.pre_commit


class AppendingSink(JsonSink):
    task_class = AppendingTask


class TestAppendingSink(TestJsonSink):
    connector_class = AppendingSink
    exactly_once = False


def test_tasks_that_define_nothing_report_it() -> None:
    batch = Batch("t")
    for call in (
        lambda: SourceTask().poll(),
        lambda: SourceTask().start(Config({}, {})),
        lambda: SinkTask().start(Config({}, {})),
        lambda: SinkTask().put(batch),
        lambda: SourceConnector().task_configs(1),
    ):
        with pytest.raises(NotImplementedError):
            call()
    SourceTask().commit()
    SinkTask().flush({})
    assert SinkTask().open([]) is None


def test_contexts_note_what_they_are_asked_for() -> None:
    partition = TopicPartition("t", 0)
    sink = MemorySinkContext({}, [partition])
    sink.offset(partition, 5)
    sink.timeout(100)
    sink.pause([partition])
    sink.request_commit()
    assert (sink.rewinds, sink.timeouts_ms, sink.paused, sink.commit_requests) == ({partition: 5}, [100], {partition}, 1)
    sink.resume([partition])
    assert not sink.paused
    source = MemorySourceContext({}, {'{"f": 1}': {"n": 2}})
    assert source.offsets([{"f": 1}, {"f": 2}]) == [{"n": 2}, None]
    assert source.offset({"f": 2}) is None
    assert not source.stopping()
    source.stop_requested.set()
    assert source.stopping()
