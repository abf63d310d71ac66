"""What a config's author reaches on a real broker and host: no internal topic, no file outside, nothing of a server's environment."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.run import RunSpec, RunState
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.application.application import Application
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner
from tests.conftest import CHECKOUT
from tests.integration.worker.environment import RunEnvironment, make_topic, read_topic, send, values_of

LINE = '{"properties": {"connector.class": "FileStreamSource"}}'
ROUTED = {"transforms": "route", "transforms.route.type": "RegexRouter", "transforms.route.regex": ".*"}


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize("kind", ["config", "offset", "status", "batch"])
def test_transformations_make_no_config_of_a_record(environment: RunEnvironment, unique: str, kind: str, tolerance: str) -> None:
    internal = environment.properties[f"{kind}.storage.topic"]
    environment.file.write_text(f"{LINE}\n")
    config = environment.file_source(f"data-{unique}", errors_tolerance=tolerance) | ROUTED
    config["transforms.route.replacement"] = internal
    result = environment.run(config)
    assert result.state is RunState.FAILED
    [task] = result.tasks
    refusal = "to their own offsets topics" if kind == "offset" else f"Records may not go to topic {internal}. It is the worker's own topic"
    assert refusal in (task.trace or "")
    assert LINE.encode() not in [record.value for record in read_topic(environment.bootstrap, internal)]


def test_transformations_write_to_no_topic_of_offsets(environment: RunEnvironment, unique: str) -> None:
    own = f"own-offsets-{unique}"
    environment.file.write_text("one\n")
    config = environment.file_source(f"data-{unique}", offsets_storage_topic=own, delivery_guarantee="at_least_once") | ROUTED
    config["transforms.route.replacement"] = own
    result = environment.run(config)
    assert result.state is RunState.FAILED
    assert f"Records may not go to topic {own}" in (result.tasks[0].trace or "")


def put_other(environment: RunEnvironment, config: Mapping[str, str]) -> str:
    """The name of another connector of the worker."""
    TopicAdmin(environment.settings).ensure_internal_topics()
    name = f"other-of-{environment.connector}"
    with ConfigStore(environment.settings) as store:
        store.put_connector(name, {**config, "name": name})
    return name


@pytest.mark.parametrize("is_handed_on", [False, True])
def test_transformations_write_to_no_topic_of_another_connectors_offsets(
    environment: RunEnvironment, unique: str, tmp_path: Path, is_handed_on: bool
) -> None:
    theirs = make_topic(environment.bootstrap, f"their-offsets-{unique}")
    environment.file.write_text("one\n")
    config = environment.file_source(f"data-{unique}", errors_tolerance="all") | ROUTED
    config["transforms.route.replacement"] = theirs
    put_other(environment, environment.file_source("lines", offsets_storage_topic=theirs))
    environment.put_config(config)
    known = ConfigCache(tmp_path).read(environment.settings, environment.connector).to_json() if is_handed_on else None
    spec = RunSpec(environment.connector, environment.properties, "run", secrets=environment.secrets, known=known)
    result = Application(spec, lambda: run_task, host="127.0.0.1", on_claim=lambda _: None).run()
    assert result.state is RunState.FAILED
    assert f"Records may not go to topic {theirs}. It holds the offsets of connectors" in (result.tasks[0].trace or "")
    assert read_topic(environment.bootstrap, theirs) == []


def test_who_names_the_topic_of_anothers_records_for_offsets_does_not_stop_the_other(environment: RunEnvironment, unique: str) -> None:
    data = f"data-{unique}"
    environment.file.write_text("one\n")
    assert environment.run(environment.file_source(data)).state is RunState.DONE
    put_other(environment, environment.file_source("lines", offsets_storage_topic=data))
    with environment.file.open("a") as file:
        file.write("two\n")
    assert environment.run().state is RunState.DONE
    assert values_of(environment.bootstrap, data) == ["one", "two"]


def test_a_connector_of_a_dag_file_takes_no_group_of_anothers_at_its_first_run(environment: RunEnvironment, unique: str) -> None:
    wrong = environment.file_sink(unique, consumer_override_group_id=f"group-{unique}")
    other = put_other(environment, wrong)
    with pytest.raises(ConfigException, match=f"group of connector {other}"):
        environment.readiness(wrong)
    result = environment.run(wrong)
    assert (result.state, result.retriable) == (RunState.FAILED, False)
    assert f"group of connector {other}" in (result.error or "")
    assert environment.connector not in environment.configs()


def test_files_outside_are_reached_by_no_run_and_no_preview(environment: RunEnvironment, unique: str, tmp_path: Path) -> None:
    data, dag_file = tmp_path / "data", tmp_path / "dag.py"
    data.mkdir()
    dag_file.write_text("import airflow\n")
    environment.properties["connectors.allowed.paths"] = str(data)
    topic = make_topic(environment.bootstrap, unique)
    send(environment.bootstrap, topic, ["evil()"])
    (data / "link").symlink_to("/etc")
    runner = PreviewRunner(environment.settings)
    for path in ("/etc/passwd", f"{data}/link/passwd"):
        with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
            runner.preview(environment.connector, environment.file_source(topic) | {"file": path}, records=3)
    refused = environment.run(environment.file_sink(topic) | {"file": str(dag_file)})
    assert refused.state is RunState.FAILED
    assert "connectors.allowed.paths" in (refused.error or "")
    assert dag_file.read_text() == "import airflow\n"
    (data / "in.txt").write_text("one\n")
    found = runner.preview(environment.connector, environment.file_source(topic) | {"file": str(data / "in.txt")}, records=3)
    assert [record.value for record in found.records] == ["one"]


def test_a_previews_plugin_sees_nothing_of_the_servers_environment(
    environment: RunEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But the value that its config names: the server resolves that."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'plugins'}:{CHECKOUT}")
    monkeypatch.setenv("POSTGRES_PASSWORD", "canary-of-the-server")
    monkeypatch.setenv("SHOP_WORD", "told-by-the-config")
    allowed = {"config.providers.env.param.allowlist.pattern": "SHOP_.*"}
    environment.properties |= {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"} | allowed
    config = {"name": environment.connector, "connector.class": "tests.SpySourceConnector", "word": "${env:SHOP_WORD} it says"}
    found = PreviewRunner(environment.settings).preview(environment.connector, config, records=1)
    [record] = found.records
    text = str(record.value)
    assert text.startswith("[hidden] it says: {")
    assert "'PATH': " in text
    assert [word for word in ("canary-of-the-server", "POSTGRES_PASSWORD", "SHOP_WORD") if word in text] == []
