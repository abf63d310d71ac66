"""Connector files in the forms that Kafka Connect takes, and the settings of a worker of its own."""

import json
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.standalone.files import ConnectorFile, read_connector_file, read_properties, standalone_settings

CONFIG = {"name": "c", "connector.class": "X", "tasks.max": "1"}


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("name=c\nconnector.class = X\ntasks.max: 1\n", None),
        (json.dumps(CONFIG), None),
        (json.dumps({**CONFIG, "tasks.max": 1}), None),
        (json.dumps({"name": "c", "config": {"connector.class": "X", "tasks.max": "1"}}), None),
        (json.dumps({"name": "c", "config": CONFIG, "initial_state": "paused", "unknown": [1]}), TargetState.PAUSED),
        (json.dumps({"name": "c", "config": CONFIG, "initial_state": "STOPPED"}), TargetState.STOPPED),
        (json.dumps({"name": "c", "config": CONFIG, "initial_state": "RUNNING"}), TargetState.STARTED),
    ],
)
def test_each_form_gives_the_same_connector(tmp_path: Path, text: str, state: TargetState | None) -> None:
    path = tmp_path / "connector"
    path.write_text(text)
    assert read_connector_file(path) == ConnectorFile("c", CONFIG, state)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"connector.class": "X"}', "is missing the mandatory 'name' configuration"),
        ("connector.class=X\n", "is missing the mandatory 'name' configuration"),
        ('{"config": {"connector.class": "X"}}', "is missing the mandatory 'name' configuration"),
        ('{"name": "c", "config": {"name": "d"}}', "Connector name configuration in 'config' doesn't match the one specified in 'name' at"),
        ('{"name": "c", "config": {"a": [1]}}', "each value in 'config' must be a text"),
        ('{"name": "c", "a": {"b": "c"}}', "neither a JSON map of texts nor an object with 'name' and 'config'"),
        ('{"name": "c", "config": {}, "initial_state": "asleep"}', "initial_state must be one of RUNNING, PAUSED, STOPPED, not 'asleep'"),
        (b"\xff", "is missing the mandatory 'name' configuration"),  # a key in ISO-8859-1
        ("name=\\u12", "cannot be read: Malformed"),
        (None, "cannot be read"),
    ],
)
def test_what_is_wrong_is_reported_with_the_file(tmp_path: Path, text: str | bytes | None, message: str) -> None:
    path = tmp_path / "connector"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigException) as refused:
        read_connector_file(path)
    assert message in refused.value.message
    assert str(path) in refused.value.message


@pytest.mark.parametrize("text", ['{"topic": "t"}', '{"config": {"topic": "t"}}', "topic=t\n"])
def test_a_file_without_a_name_takes_the_one_that_is_given(text: str, tmp_path: Path) -> None:
    path = tmp_path / "connector"
    path.write_text(text)
    assert read_connector_file(path, "c") == ConnectorFile("c", {"topic": "t", "name": "c"})
    with pytest.raises(ConfigException, match="missing the mandatory 'name'"):
        read_connector_file(path)
    path.write_text('{"config": {"topic": "t", "name": "own"}}')
    assert read_connector_file(path, "c").name == "own"  # the caller compares


def test_a_worker_file_needs_a_file_for_offsets_and_no_topics(tmp_path: Path) -> None:
    path = tmp_path / "worker.properties"
    path.write_text("bootstrap.servers=b:1\noffset.storage.file.filename=/tmp/offsets\n")
    settings = standalone_settings(read_properties(path))
    assert (settings.bootstrap_servers, settings.exactly_once_source_enabled) == ("b:1", False)
    assert settings.allowed_paths.folders == (str(tmp_path / "connect-data"),)
    with pytest.raises(
        ConfigException, match=r'Missing required configuration "offset\.storage\.file\.filename" which has no default value'
    ):
        standalone_settings({"bootstrap.servers": "b:1"})
    with pytest.raises(ConfigException, match=r"Invalid value enabled for configuration exactly\.once\.source\.support"):
        standalone_settings({"offset.storage.file.filename": "f", "exactly.once.source.support": "enabled"})
    with pytest.raises(ConfigException, match="cannot be read"):
        read_properties(tmp_path / "nowhere")
