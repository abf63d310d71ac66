"""The contract of any connector, and of a source connector."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from airflow_provider_connect.data.records import SourceRecord
from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.connector import Connector, SourceConnector
from airflow_provider_connect.sdk.task import SourceTask
from airflow_provider_connect.sdk.testing.calls import offsets_after, polls, start_task
from airflow_provider_connect.sdk.testing.contexts import MemorySourceContext, Offsets, partition_key
from airflow_provider_connect.sdk.testing.runs import plan


class ConnectorSuite:
    """The contract of source and sink connectors."""

    connector_class: ClassVar[type[Connector]]
    allowed_paths: ClassVar[AllowedPaths] = ALL_ALLOWED
    """The files of the host that the connector and its tasks may open."""

    def connector(self) -> Any:  # of ``connector_class``, which subclasses narrow
        """A new instance, as the framework creates it."""
        connector = self.connector_class()
        connector.allowed_paths = self.allowed_paths
        return connector

    def config(self) -> dict[str, str]:
        """A valid config. Called several times in a test; must return the same each time."""
        raise NotImplementedError

    def task_configs(self, max_tasks: int = 1) -> list[dict[str, str]]:
        """The task configs of a new connector that is started with ``config``."""
        return plan(self.connector(), self.config(), max_tasks, self.allowed_paths)

    def test_config_is_valid(self) -> None:
        assert not [error for value in self.connector().validate(self.config()) for error in value.errors]

    def test_missing_required_keys_are_reported(self) -> None:
        for key in self.connector_class.config_def.keys.values():
            if key.is_required:
                config = {name: text for name, text in self.config().items() if name not in (key.name, key.alias)}
                found = {value.name: value.errors for value in self.connector().validate(config)}
                assert f'Missing required configuration "{key.name}" which has no default value.' in found[key.name]

    def test_task_configs_are_strings_and_at_most_max_tasks(self) -> None:
        for max_tasks in (1, 2, 7):
            configs = self.task_configs(max_tasks)
            assert len(configs) <= max_tasks
            assert all(isinstance(text, str) for config in configs for pair in config.items() for text in pair)

    def test_same_config_gives_same_task_configs(self) -> None:
        assert self.task_configs(3) == self.task_configs(3)


class SourceConnectorSuite(ConnectorSuite):
    """The contract of a source connector. Define ``connector_class``, ``config`` and ``write_to_source``.

    The source must be empty when a test begins.
    """

    connector_class: ClassVar[type[SourceConnector]]
    most_tasks: ClassVar[int] = 3
    """The number of tasks in tests with several tasks."""
    can_resume: ClassVar[bool] = True
    """Whether tasks resume from a committed offset. Otherwise tests of resuming are skipped."""
    poll_limit_seconds: ClassVar[float] = 30.0
    """The longest time of a ``poll``, and of its continuation after ``stop``."""

    def write_to_source(self, count: int) -> None:
        """Add ``count`` records that differ from all earlier ones."""
        raise NotImplementedError

    def tasks(self, offsets: Offsets | None = None, max_tasks: int = 1) -> list[SourceTask]:
        """Started tasks of one connector."""
        connector = self.connector()
        return [
            start_task(connector, config, MemorySourceContext(config, offsets), self.allowed_paths)
            for config in self.task_configs(max_tasks)
        ]

    def read_all(self, offsets: Offsets | None = None, max_tasks: int = 1) -> list[SourceRecord]:
        """All records of a run that starts at ``offsets``."""
        tasks = self.tasks(offsets, max_tasks)
        try:
            return [record for task in tasks for records in polls(task, self.poll_limit_seconds) for record in records]
        finally:
            for task in tasks:
                task.stop()

    def test_empty_source_delivers_nothing(self) -> None:
        assert self.read_all() == [], "the source is empty"

    def test_everything_written_is_read(self) -> None:
        self.write_to_source(25)
        assert len(self.read_all()) == 25, "the number of records differs from the 25 that were written"

    def test_several_tasks_read_everything_once(self) -> None:
        """Any number of tasks together read what one task reads."""
        self.write_to_source(25)
        alone = sorted(map(_content, self.read_all()))
        for max_tasks in (2, self.most_tasks):
            assert sorted(map(_content, self.read_all(max_tasks=max_tasks))) == alone, f"{max_tasks} tasks"

    def test_offsets_hold_for_another_number_of_tasks(self) -> None:
        """``tasks.max`` may change between runs."""
        self._need_resume()
        self.write_to_source(12)
        offsets = _offsets_after(self.read_all(max_tasks=self.most_tasks))
        assert self.read_all(offsets) == [], "records were read again"
        self.write_to_source(5)
        assert len(self.read_all(offsets, max_tasks=2)) == 5, "the number of records differs from the 5 new ones"

    def test_partitions_and_offsets_are_json_objects(self) -> None:
        self.write_to_source(5)
        records = self.read_all()
        assert any(record.source_offset is not None for record in records), "no record has an offset"
        for record in records:
            for position in (record.source_partition, record.source_offset):
                if position is not None:
                    assert json.loads(json.dumps(position)) == position, f"{position} changes in JSON"
                    assert all(isinstance(key, str) for key in position)

    def test_every_record_has_a_source_partition(self) -> None:
        self.write_to_source(5)
        assert all(record.source_partition is not None for record in self.read_all())

    def test_any_offset_resumes_with_the_next_record(self) -> None:
        self._need_resume()
        self.write_to_source(20)
        whole = self.read_all()
        for position in range(len(whole)):
            if whole[position].source_offset is None:
                continue
            rest = self.read_all(_offsets_after(whole[: position + 1]))
            assert _by_partition(rest) == _by_partition(whole[position + 1 :]), f"resumed after record {position}"

    def test_new_records_follow_the_last_offset(self) -> None:
        self._need_resume()
        self.write_to_source(7)
        offsets = _offsets_after(self.read_all())
        assert self.read_all(offsets) == [], "records were read again"
        self.write_to_source(6)
        later = self.read_all(offsets)
        assert len(later) == 6, "the number of records differs from the 6 new ones"
        assert self.read_all(_offsets_after(later, offsets)) == [], "records were read again"

    def test_new_data_is_detected(self) -> None:
        connector, config = self.connector(), self.config()

        def answer(offsets: Offsets) -> bool | None:
            found: bool | None = connector.check_for_new_data(config, lambda partition: offsets.get(partition_key(partition)))
            return found

        self.write_to_source(20)
        assert answer({}) in (True, None)
        if self.can_resume:
            offsets = _offsets_after(self.read_all())
            assert answer(offsets) in (False, None)
            self.write_to_source(1)
            assert answer(offsets) in (True, None)

    def test_stop_from_another_thread_ends_a_poll(self) -> None:
        self.write_to_source(3)
        for task in self.tasks():
            stopped = threading.Event()
            reader = threading.Thread(target=_poll_until, args=(task, stopped), daemon=True)
            reader.start()
            time.sleep(0.05)
            stopped.set()
            task.stop()
            reader.join(self.poll_limit_seconds)
            assert not reader.is_alive(), "poll continued after stop"

    def test_stop_may_be_called_twice(self) -> None:
        for task in self.tasks():
            task.stop()
            task.stop()

    def _need_resume(self) -> None:
        if not self.can_resume:
            pytest.skip("the connector does not resume")


def _poll_until(task: SourceTask, stopped: threading.Event) -> None:
    try:
        while not stopped.is_set():
            with contextlib.suppress(RetriableException):
                if task.poll() is None:
                    return
            time.sleep(0.001)
    except Exception:
        if not stopped.is_set():  # after stop, a running poll may raise anything
            raise


def _offsets_after(records: Iterable[SourceRecord], before: Offsets | None = None) -> Offsets:
    return {**(before or {}), **offsets_after(records)}


def _content(record: SourceRecord) -> str:
    return repr((record.topic, record.key, record.value))


def _by_partition(records: Iterable[SourceRecord]) -> dict[str, list[tuple[str, Any, Any]]]:
    found: dict[str, list[tuple[str, Any, Any]]] = {}
    for record in records:
        found.setdefault(partition_key(record.source_partition), []).append((record.topic, record.key, record.value))
    return found
