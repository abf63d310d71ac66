"""Mistakes that authors make: the suites find each, and find nothing in the right plugin beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from airflow_provider_connect.sdk.testing import SinkConnectorSuite, SourceConnectorSuite
from tests.unit.sdk import planted_sinks, planted_sources
from tests.unit.sdk.planted_sinks import REFUSED, Refuses, Reports, Store, StoreSink, sink
from tests.unit.sdk.planted_sources import WRITTEN, RowsSource

Suite = SourceConnectorSuite | SinkConnectorSuite


class RowsSuite(SourceConnectorSuite):
    def __init__(self, connector: type[RowsSource], folder: Path) -> None:
        cast(Any, self).connector_class = connector
        self.folder, self.written = folder, 0

    def config(self) -> dict[str, str]:
        return {"folder": str(self.folder)}

    def write_to_source(self, count: int) -> None:
        for _ in range(count):
            with (self.folder / WRITTEN[self.written % len(WRITTEN)]).open("a") as file:
                file.write(f"line {self.written}\n")
            self.written += 1


class StoreSuite(SinkConnectorSuite):
    def __init__(self, connector: type[StoreSink], folder: Path) -> None:
        cast(Any, self).connector_class = connector
        cast(Any, self).exactly_once = connector.exactly_once
        task = connector.task_class
        names_refused = issubclass(task, Refuses | Reports | planted_sinks.ReportsAndWrites)
        names_refused |= task in (planted_sinks.LeavesOutInSilence, planted_sinks.TakesWhatComesBefore)
        cast(Any, self).refused_values = (REFUSED, REFUSED) if names_refused else ()
        self.file = str(folder / "out.json")

    def config(self) -> dict[str, str]:
        return {"file": self.file}

    def delivered(self) -> list[Any]:
        rows: list[Any] = Store(self.file).read()["rows"]
        return rows


def suites(
    suite: Callable[[Any, Path], Suite], planted: Any
) -> Iterator[Any]:  # parameters of pytest: the test that finds it, the wrong one and the right one
    for test, wrong, right in planted:
        yield pytest.param(suite, f"test_{test}", wrong, right, id=wrong.__name__)


PLANTED = [*suites(RowsSuite, planted_sources.PLANTED), *suites(StoreSuite, planted_sinks.PLANTED)]


def failure(suite: Suite, test: str) -> BaseException | None:
    try:
        getattr(suite, test)()
    except pytest.skip.Exception:
        return None
    except (Exception, pytest.fail.Exception) as error:
        return error
    return None


@pytest.mark.parametrize(("suite", "test", "wrong", "right"), PLANTED)
def test_a_mistake_is_found(suite: Callable[[Any, Path], Suite], test: str, wrong: type, right: type, tmp_path: Path) -> None:
    tested = suite(wrong, tmp_path)
    cast(Any, tested).poll_limit_seconds = 0.5  # less than the wrong one waits
    assert failure(tested, test) is not None


RIGHT = {param.values[3].__name__: pytest.param(param.values[0], param.values[3], id=param.values[3].__name__) for param in PLANTED}


@pytest.mark.parametrize(("suite", "right"), RIGHT.values())
def test_nothing_is_found_in_a_right_plugin(suite: Callable[[Any, Path], Suite], right: type, tmp_path: Path) -> None:
    found = {}
    for test in dir(suite):
        if test.startswith("test_"):
            folder = tmp_path / test
            folder.mkdir()
            found[test] = failure(suite(right, folder), test)
    assert len(found) >= 15
    assert {test: error for test, error in found.items() if error is not None} == {}


def test_there_are_twenty_mistakes_of_each_kind() -> None:
    assert len(planted_sources.PLANTED) >= 20
    assert len(planted_sinks.PLANTED) >= 20


def test_the_suite_of_a_sink_has_values_that_are_refused() -> None:
    """Else the test about them is skipped, and finds nothing."""
    assert StoreSuite(sink(Refuses), Path()).refused_values
