"""The loop of a source that stays, over a real file: FileStreamSource, its signal and its renewal; a list takes the place of Kafka."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector
from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.runtime.worker.delivery.encoded_batch import EncodedBatch
from airflow_provider_connect.runtime.worker.delivery.source_delivery import SourceOffset
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters
from airflow_provider_connect.runtime.worker.task import renewal
from airflow_provider_connect.runtime.worker.task.renewal import Renewal
from airflow_provider_connect.runtime.worker.task.run_progress import RunProgress
from airflow_provider_connect.runtime.worker.task.source_loop import SourceLoop
from airflow_provider_connect.runtime.worker.task.stop_signal import StopEvent, StopReason
from airflow_provider_connect.sdk import AllowedPaths, Config, OffsetReader, SourceTask
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from airflow_provider_connect.sdk.testing.contexts import MemorySourceContext, partition_key
from tests.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class Delivery:
    """Commits records and offsets into memory."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.offsets: dict[str, dict[str, Any]] = {}
        self._open: list[tuple[list[str], Sequence[SourceOffset]]] = []
        self.commits = 0

    def deliver(self, batches: Sequence[EncodedBatch], offsets: Sequence[SourceOffset]) -> None:
        texts = [value.decode() for batch in batches if batch.value is not None for value in batch.value.to_pylist()]
        self._open.append((texts, offsets))

    def is_due(self) -> bool:
        return False

    def commit(self, closing: Sequence[Any] = ()) -> bool:
        for texts, offsets in self._open:
            self.offsets.update((partition_key(partition), dict(offset)) for partition, offset in offsets)
            self.lines += texts
            self.commits += 1
        was_open = bool(self._open)
        self._open.clear()
        return was_open

    def abort(self) -> None:
        self._open.clear()


class CountedSource(FileStreamSourceConnector):
    checks = 0

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        self.checks += 1
        return super().has_new_data(config, offsets)


class Staying:
    """A loop over a file, in a thread."""

    def __init__(self, path: Path) -> None:
        self.path, self.delivery, self.metrics = path, Delivery(), TaskMetrics(is_source=True)
        self.connector = CountedSource()
        self.connector.allowed_paths = AllowedPaths((str(path.parent),))
        self.config = {"file": str(path), "topic": "t"}
        self.stop = StopEvent()
        reason: Any = SimpleNamespace(reason=lambda: StopReason.ASKED_TO_END if self.stop.is_closed() else None)
        offsets: Any = lambda: SimpleNamespace(get=lambda partition: self.delivery.offsets.get(partition_key(partition)))  # noqa: E731
        self.renewal = Renewal(
            "c-0",
            self.connector,
            self.config,
            offsets=offsets,
            create_task=lambda _: self.task(),
            stop=reason,
            records=lambda: self.metrics.records_in,
            offsets_written=lambda: self.delivery.commits,
        )
        converter = StringConverter()
        converter.configure({}, is_key=False)
        topics: Any = SimpleNamespace(prepare=lambda _: None, note=lambda _: None)
        progress = RunProgress(
            self.metrics, None, topics=topics, active_topics=topics, batch_log_entry=lambda _ranges, _stay: [], copy_offsets=lambda: None
        )
        pipeline = SourcePipeline(Converters(converter, converter, RAW_HEADERS))
        self.loop = SourceLoop(self.task(), pipeline, self.delivery, progress, reason, renew=self.renewal)
        self.result: list[StopReason | None] = []
        self.thread = threading.Thread(target=lambda: self.result.append(self.loop.run()))

    def task(self) -> SourceTask:
        task = self.connector.task_class()
        task.allowed_paths = self.connector.allowed_paths
        task.initialize(MemorySourceContext(self.config, self.delivery.offsets))
        task.start(self.connector.task_config(self.config))
        return task

    def append(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def wait_for(self, lines: Sequence[str]) -> None:
        wait_until(lambda: self.delivery.lines == lines, lambda: f"{lines}, but {self.delivery.lines}")


@pytest.fixture
def staying(tmp_path: Path) -> Iterator[Staying]:
    run = Staying(tmp_path / "lines.txt")
    run.thread.start()
    yield run
    run.stop.request()
    run.thread.join(HANG_SECONDS)
    run.renewal.close()
    assert run.result == [StopReason.ASKED_TO_END]


@pytest.fixture
def without_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the signal ends a wait."""
    monkeypatch.setattr(renewal, "SIGNAL_CHECK_SECONDS", 10 * HANG_SECONDS)


@pytest.mark.usefixtures("without_checks")
def test_lines_are_delivered_once_as_the_file_appears_grows_is_truncated_and_replaced(staying: Staying) -> None:
    staying.append("one\ntw")
    staying.wait_for(["one"])
    staying.append("o\n")
    staying.wait_for(["one", "two"])
    staying.path.write_text("")
    staying.append("3\n")
    staying.wait_for(["one", "two", "3"])
    staying.append("a longer line\n")
    staying.wait_for(["one", "two", "3", "a longer line"])
    new = staying.path.with_name("new.txt")
    new.write_text("")
    new.replace(staying.path)
    staying.append("4\n")
    staying.wait_for(["one", "two", "3", "a longer line", "4"])
    for number in range(100):
        staying.append(f"{number}\n")
    staying.wait_for(["one", "two", "3", "a longer line", "4", *map(str, range(100))])


def test_a_source_at_rest_checks_twice_a_second(staying: Staying) -> None:
    staying.append("one\n")
    staying.wait_for(["one"])
    time.sleep(0.1)  # until the signal of this line has been received
    before = staying.connector.checks
    time.sleep(1.2)
    assert staying.connector.checks - before <= 3
