"""A process of the run is killed between any two steps of a commit; afterwards nothing is lost or doubled that must not be."""

from pathlib import Path

import pytest

from airflow_provider_connect.dev.postgres_server import PostgresServer
from tests.conftest import WorkerSettings
from tests.e2e.faults.runs import Fault
from tests.e2e.faults.scenes import SinkScene, SourceScene
from tests.e2e.faults.steps import each_step_once
from tests.e2e.faults.table_scenes import TableSinkScene, TableSourceScene


def named(faults: list[tuple[str, Fault]]) -> list[object]:
    return [pytest.param(guarantee, fault, id=f"{guarantee}: {fault}") for guarantee, fault in faults]


@pytest.mark.parametrize(("guarantee", "fault"), named(list(each_step_once("source"))))
def test_source(guarantee: str, fault: Fault, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    check(SourceScene.make(tmp_path, worker_settings(), guarantee), guarantee, fault)


@pytest.mark.parametrize(("guarantee", "fault"), named(list(each_step_once("sink"))))
def test_sink(guarantee: str, fault: Fault, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    check(SinkScene.make(tmp_path, worker_settings(), guarantee), guarantee, fault)


@pytest.mark.parametrize(("guarantee", "fault"), named(list(each_step_once("table sink"))))
def test_table_sink(guarantee: str, fault: Fault, tmp_path: Path, worker_settings: WorkerSettings, postgres: PostgresServer) -> None:
    check(TableSinkScene.make(tmp_path, worker_settings(), postgres.url()), guarantee, fault)


def test_table_source(tmp_path: Path, worker_settings: WorkerSettings, postgres: PostgresServer) -> None:
    guarantee, fault = list(each_step_once("table source"))[-2]  # its transaction; all are those of any source
    check(TableSourceScene.make(tmp_path, worker_settings(), postgres.url()), guarantee, fault)


def check(scene: SourceScene | SinkScene | TableSourceScene | TableSinkScene, guarantee: str, fault: Fault) -> None:
    first = scene.runs.submit(fault)
    first.wait()
    assert first.struck, first.output()[-4000:]
    scene.runs.until_done()
    verdict = scene.verdict()
    print(f"{guarantee}: {fault}: {verdict}")
    assert verdict.holds_for(guarantee), verdict
