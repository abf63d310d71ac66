"""Which file makes the DAG of which connector, and what is in it."""

import ast
from collections import Counter
from functools import partial

import pytest

from airflow_provider_connect.dag_files.connector_files import (
    PER_FILE,
    application_marks,
    applications_text,
    file_for,
    file_text,
    file_texts,
    mark_of,
    names_in,
    refusals,
    steering_keys,
    stored_connectors,
)
from airflow_provider_connect.runtime.config.dag_settings import DagLimits, steering_errors

CONFIG = {"connector.class": "FileStreamSource", "file": "/in.txt", "db.password": "canary", "tasks.max": "4"}
CHECK = partial(steering_errors, limits=DagLimits())
NAMES = [f"connector-{number}" for number in range(1000)]


def test_what_steers_the_dag_is_kept_and_nothing_else() -> None:
    config = {**CONFIG, "airflow.tags": "a,b", "tasks.per.application": "2", "key.converter.plugin.version": "1"}
    assert steering_keys(config, None) == {"airflow.tags": "a,b", "tasks.per.application": "2"}


def test_the_workers_schedule_holds_where_the_config_names_none() -> None:
    assert steering_keys(CONFIG, "5m") == {"airflow.schedule": "5m"}
    assert steering_keys({**CONFIG, "airflow.schedule": "none"}, "5m") == {"airflow.schedule": "none"}


def test_a_connector_of_which_no_dag_can_be_made_is_left_out_alone_and_each_reason_is_named() -> None:
    bad = {**CONFIG, "airflow.retries": "few", "airflow.colour": "red", "airflow.owner": "me"}
    assert [text.split(":")[0] for text in refusals("bad", bad, CHECK)] == [
        "Unknown configuration airflow.colour",
        "Invalid value few for configuration airflow.retries",
    ]
    assert stored_connectors({"bad": bad, "good": {**CONFIG, "airflow.owner": "me"}}, None, CHECK) == {"good": {"airflow.owner": "me"}}


def test_connectors_of_dag_files_and_names_that_no_record_key_holds_are_not_there() -> None:
    configs = {"file": {**CONFIG, "airflow.defined.in": "dags/file.py"}, "long" * 100: CONFIG, "x" * 9000: CONFIG, "a\nb": CONFIG}
    assert stored_connectors({**configs, "b": CONFIG, "a": CONFIG}, None, CHECK) == {"a": {}, "b": {}, "long" * 100: {}}
    assert ["8000" in text for text in refusals("x" * 9000, CONFIG, CHECK)] == [True]


@pytest.mark.parametrize(("connectors", "files"), [(1, 1), (PER_FILE, 1), (PER_FILE + 1, 2), (4 * PER_FILE, 4), (1000, 32)])
def test_files_double_with_the_connectors(connectors: int, files: int) -> None:
    held = Counter(file_for(name, connectors) for name in NAMES)
    assert len(held) == files
    assert max(held.values()) < 2 * len(NAMES) / files


def test_a_file_that_there_was_stays_when_connectors_become_more() -> None:
    assert {file_for(name, 50) for name in NAMES} < {file_for(name, 100) for name in NAMES} < {file_for(name, 1000) for name in NAMES}


def test_the_texts_are_the_same_for_the_same_connectors_and_hold_each_once() -> None:
    connectors = {name: {"airflow.schedule": "5m"} for name in NAMES[:120]}
    texts = dict(file_texts(connectors))
    assert texts == dict(file_texts(dict(reversed(connectors.items()))))
    assert sorted(name for text in texts.values() for name in held(text)) == sorted(connectors)


def test_a_name_cannot_become_code() -> None:
    name = 'a\'); import os; os.abort() #\n"""\\'
    text = file_text({name: {"airflow.description": name}}, [name])
    assert held(text) == {name: mark_of({"airflow.description": name})}
    assert names_in(text) == [name]


def held(text: str) -> dict[str, str]:
    """The connectors in a file, by its one call."""
    (call,) = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    found: dict[str, str] = ast.literal_eval(call.args[1])
    return found


def test_there_is_a_file_when_there_is_no_connector() -> None:
    assert list(dict(file_texts({}))) == ["connectors_000.py"]


def test_each_shared_application_that_a_connector_names_is_in_a_file_of_its_own() -> None:
    check = partial(steering_errors, limits=DagLimits(applications=frozenset({"crm", "erp"})))
    configs = {
        "a": {**CONFIG, "airflow.application": "crm"},
        "b": {**CONFIG, "airflow.application": "crm"},
        "of-a-file": {**CONFIG, "airflow.application": "any", "airflow.defined.in": "dags/file.py"},
        "refused": {**CONFIG, "airflow.application": "secret"},
        "wrong": {**CONFIG, "airflow.application": "../x"},
        "alone": CONFIG,
    }
    marks = application_marks(configs, {"airflow.application.crm.engine": "process", "airflow.application.any.engine": "none"}, check)
    assert marks.keys() == {"crm"}
    assert '"engine": "process"' in marks["crm"]
    text = applications_text(marks)
    ast.parse(text)
    assert "crm" in text
    assert "canary" not in text
    assert steering_keys({**CONFIG, "airflow.application": "crm"}, "5m") == {"airflow.application": "crm"}
