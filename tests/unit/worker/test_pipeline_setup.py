"""What is refused before a run, of converters, transformations and predicates: all of it at once, named as the config names it."""

from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector, check_connector
from airflow_provider_connect.runtime.worker.task.pipeline_setup import check_pipeline, create_converters, create_stages

HOIST = "org.apache.kafka.connect.transforms.HoistField$Value"
BY_NAME = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def settings(folder: Path) -> WorkerSettings:
    return WorkerSettings.of({"connectors.allowed.paths": str(folder)})


def checked(folder: Path, **more: str) -> CheckedConnector:
    config = {"connector.class": "FileStreamSink", "file": str(folder / "out"), "topics": "t", "name": "c"}
    named = {"transforms": "hoist", "transforms.hoist.type": HOIST, "transforms.hoist.predicate": "named", "predicates": "named"}
    named |= {"predicates.named.type": BY_NAME, "value.converter": JSON}
    return check_connector("c", config | named | more, settings(folder), {})


def test_a_right_config_is_created_without_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    known = checked(tmp_path, **{"transforms.hoist.field": "line", "predicates.named.pattern": "t.*"})
    check_pipeline(known, settings(tmp_path))
    [stage] = create_stages(known, create_converters(known, settings(tmp_path)).header)
    assert stage.predicate is not None
    assert caplog.text == ""


def test_all_errors_are_reported_at_once(tmp_path: Path) -> None:
    known = checked(tmp_path, **{"value.converter.schemas.enable": "maybe", "transforms.hoist.fielt": "line"})
    with pytest.raises(ConfigException) as refused:
        check_pipeline(known, settings(tmp_path))
    assert refused.value.errors == [
        "value.converter: Invalid value maybe for configuration schemas.enable: Expected value to be either true or false",
        'transforms.hoist: Missing required configuration "field" which has no default value.',
    ]
    assert "Unknown setting 'transforms.hoist.fielt': did you mean 'transforms.hoist.field'?" in str(refused.value)


def test_a_predicates_errors_are_named_by_its_own_key(tmp_path: Path) -> None:
    known = checked(tmp_path, **{"transforms.hoist.field": "line", "predicates.named.patern": "t"})
    with pytest.raises(ConfigException, match=r'predicates\.named: Missing required configuration "pattern"') as refused:
        check_pipeline(known, settings(tmp_path))
    assert "did you mean 'predicates.named.pattern'?" in str(refused.value)


def test_misspelt_settings_of_a_working_pipeline_are_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    more = {"transforms.hoist.field": "line", "predicates.named.pattern": "t", "value.converter.schemas.enabel": "true"}
    known = checked(tmp_path, **more, **{"transforms.hoist.fieldd": "x"})
    create_stages(known, create_converters(known, settings(tmp_path)).header)
    assert "did you mean 'value.converter.schemas.enable'?" in caplog.text
    assert "did you mean 'transforms.hoist.field'?" in caplog.text


def test_a_workers_wrong_setting_is_the_workers(tmp_path: Path) -> None:
    worker = WorkerSettings.of({"connectors.allowed.paths": str(tmp_path), "key.converter": JSON, "key.converter.schemas.enable": "maybe"})
    config = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": "t", "name": "c"}
    with pytest.raises(ConfigException, match=r"key\.converter: Invalid value maybe for configuration schemas\.enable"):
        check_pipeline(check_connector("c", config, worker, {}), worker)
