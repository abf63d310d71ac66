"""Schedules and DAGs as Airflow itself takes them, before a config is taken."""

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_provider_connect.dag_files import dag_checks
from airflow_provider_connect.dag_files.connector_files import file_text, refusals
from airflow_provider_connect.dag_files.dag_checks import dag_check, shortest_interval
from airflow_provider_connect.runtime.config.dag_settings import SCHEDULE, DagLimits, default_schedule

CHECK = dag_check(DagLimits())


@pytest.mark.parametrize(
    ("schedule", "seconds"),
    [
        ("*/5 * * * *", 300.0),
        ("* * * * * */15", 15.0),
        ("@daily", 86_400.0),
        ("0,1 0 1 1 *", 60.0),
        ("0,5,10,15,20,25,30,35,40,45,50,51 * * * *", 60.0),
        ("0 0-20/2,21 * * *", 3600.0),
        ("59 23,0 1 * *", 82_800.0),
        ("30 4 * * *", 86_400.0),
        ("* * * * * *", 1.0),
        ("@once", None),
        ("@continuous", None),
        (default_schedule("orders"), 300.0),
    ],
)
def test_the_shortest_time_between_two_runs(schedule: str, seconds: float | None) -> None:
    assert shortest_interval(schedule) == seconds


@pytest.mark.parametrize("schedule", ["61 * * * *", "0 0 30 2 *", "a b c d e", "@fortnightly", "0-59/0 * * * *"])
def test_a_schedule_that_airflow_does_not_take_or_that_never_comes_is_refused_on_its_key(schedule: str) -> None:
    errors = CHECK("orders", {SCHEDULE: schedule})
    assert list(errors) == [SCHEDULE]
    assert errors[SCHEDULE][0].startswith(f"Invalid value {schedule} for configuration airflow.schedule: Airflow takes no such schedule")


@pytest.mark.parametrize(("schedule", "apart"), [("* * * * * *", "1s"), ("0,5 0 1 1 * 0,5", "5s")])
def test_a_schedule_below_the_workers_floor_names_the_floor(schedule: str, apart: str) -> None:
    (error,) = CHECK("orders", {SCHEDULE: schedule})[SCHEDULE]
    assert f"runs would be {apart} apart, and the worker setting airflow.min.schedule.interval is 10s" in error


def test_what_no_rule_foresees_is_seen_when_the_dag_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.dag_files.connector_dag._task_arguments", lambda *_: {"retries": "many"})
    (error,) = CHECK("orders", {"airflow.description": "made anew"})["name"]
    assert "Airflow can make no DAG of connector orders" in error
    assert refusals("orders", {"airflow.description": "made anew"}, CHECK) == [error]


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What DAGs were made of as a trial; none is really made."""
    marks: list[str] = []

    def found_trouble(mark: str) -> str:
        marks.append(mark)
        return "refused" if "bad" in mark else ""

    monkeypatch.setattr(dag_checks, "_trial_error", found_trouble)
    return marks


@pytest.mark.parametrize("description", ["good, tried once", "bad, tried once"])
def test_a_dag_is_tried_once_for_all_connectors_with_the_same_keys(tried: list[str], description: str) -> None:
    errors = [CHECK("orders", {"airflow.description": description}) for _ in range(3)]
    assert errors == [errors[0]] * 3
    assert bool(errors[0]) is description.startswith("bad")
    assert CHECK("returns", {"airflow.description": description}).keys() == errors[0].keys()
    assert len(tried) == 1


def test_of_the_outcomes_of_trials_those_asked_for_last_are_kept(tried: list[str]) -> None:
    def outcome(description: str) -> None:
        assert not CHECK("orders", {"airflow.description": description})

    outcome("asked for all the time")
    outcome("asked for once")
    for number in range(dag_checks._KEPT - 1):
        outcome(f"one of many: {number}")
        outcome("asked for all the time")
    assert len(tried) == dag_checks._KEPT + 1
    outcome("asked for all the time")
    assert len(tried) == dag_checks._KEPT + 1
    outcome("asked for once")
    assert len(tried) == dag_checks._KEPT + 2


def test_threads_share_the_outcomes_of_trials(tried: list[str]) -> None:
    descriptions = [f"of threads: {number % 50}" for number in range(2000)]
    with ThreadPoolExecutor(8) as threads:
        assert not any(threads.map(lambda description: CHECK("orders", {"airflow.description": description}), descriptions))
    assert len(set(tried)) == 50
    assert len(tried) <= 8 * 50  # threads that ask at the same time may all try


def test_long_texts_are_not_kept_when_they_have_been_checked() -> None:
    def megabytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

    assert not CHECK("orders", {"airflow.doc": "\U0001f600" * 49_000})
    before = megabytes()
    for number in range(80):
        assert not CHECK("orders", {"airflow.doc": str(number) + "\U0001f600" * 49_000})
        if number % 10 == 9:
            gc.collect()  # a DAG has cycles, and what is garbage is not kept
    assert megabytes() - before < 25


def test_one_bad_mark_in_a_file_leaves_the_other_connectors(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Also where the bundle of an older version wrote the file, or a newer one knows more keys."""
    folder = tmp_path_factory.mktemp("bundle")
    marks: dict[str, dict[str, str]] = {f"good-{number}": {} for number in range(48)}
    bad = {"bad": {"airflow.pool": "p" * 300}, "worse": {"airflow.tags": "t" * 101}, "cron": {"airflow.schedule": "61 * * * *"}}
    (folder / "connectors_000.py").write_text(file_text(marks | bad))
    bag = DagBag(folder, bundle_path=folder, bundle_name="connectors")
    assert {f"connect.{name}" for name in marks} <= bag.dags.keys()
    assert not {"connect.bad", "connect.worse"} & bag.dags.keys()
