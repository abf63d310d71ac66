"""Creating, changing, reading and deleting connectors."""

import pytest

from airflow_provider_connect.errors import (
    AlreadyExistsException,
    BadRequestException,
    ConfigException,
    ConflictException,
    ConnectException,
    NotFoundException,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import TopicStatus
from tests.unit.herder.conftest import CONFIG, SINK, RunEnvironment

R, P, F, U = State.RUNNING, State.PAUSED, State.FAILED, State.UNASSIGNED


def test_a_created_connector_is_running_has_no_tasks_yet_and_gets_a_run(environment: RunEnvironment) -> None:
    info = environment.herder.create_connector("c", CONFIG)
    assert (info.name, info.config, info.tasks, info.type) == ("c", {**CONFIG, "name": "c"}, [], "source")
    assert list(info.config) == [*CONFIG, "name"]
    assert environment.states("c") == ("RUNNING", [])
    assert environment.runs.taken() == [("trigger", "c", None)]
    assert environment.herder.connectors() == ["c"]


@pytest.mark.parametrize(("initial", "state"), [(TargetState.PAUSED, "PAUSED"), (TargetState.STOPPED, "STOPPED")])
def test_one_created_paused_or_stopped_is_so_and_does_not_run(environment: RunEnvironment, initial: TargetState, state: str) -> None:
    environment.herder.create_connector("c", CONFIG, initial)
    assert environment.states("c") == (state, [])
    assert environment.runs.taken() == []
    environment.herder.resume("c")
    assert environment.states("c") == ("RUNNING", [])
    assert environment.runs.taken() == [("trigger", "c", None)]


def test_a_name_that_is_taken_is_refused_after_the_config_is_checked(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    with pytest.raises(AlreadyExistsException, match=r"^Connector c already exists$"):
        environment.herder.create_connector("c", CONFIG)
    environment.probe.errors = {"topic": ["Missing required configuration"]}
    with pytest.raises(ConfigException):
        environment.herder.create_connector("c", CONFIG)


def test_every_error_is_reported_and_nothing_is_written(environment: RunEnvironment) -> None:
    environment.probe.errors = {"topic": ["first", "second"]}
    with pytest.raises(ConfigException) as caught:
        environment.herder.create_connector("c", {**CONFIG, "airflow.schdule": "none"})
    assert caught.value.message.startswith("Connector configuration is invalid and contains the following 3 error(s):\nfirst\nsecond\n")
    assert caught.value.message.endswith(
        "\nYou can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
    )
    assert "airflow.schdule" in caught.value.message
    assert environment.configs.records == []


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"topic": "t"}, "Connector config contains no connector type"),
        ({"connector.class": None, "topic": "t"}, "Connector config contains no connector type"),
        ({"a": None}, "Connector config contains no connector type"),
        ({**CONFIG, "name": "d"}, "Connector name configuration (d) doesn't match connector name in the URL (c)"),
        ({**CONFIG, "connector.class": "Nope"}, "Failed to find any class that implements Connector and which name matches Nope"),
    ],
)
def test_a_config_that_cannot_be_checked_is_a_bad_request(environment: RunEnvironment, config: dict[str, str | None], text: str) -> None:
    environment.probe.unknown = {"Nope"}
    with pytest.raises(BadRequestException) as caught:
        environment.herder.create_connector("c", config)
    assert caught.value.message == text


def test_a_name_of_null_is_that_of_the_request(environment: RunEnvironment) -> None:
    assert environment.herder.put_connector_config("c", {**CONFIG, "name": None})[0].config["name"] == "c"


def test_a_null_is_refused_even_where_the_plugin_reports_nothing(environment: RunEnvironment) -> None:
    with pytest.raises(ConfigException, match="Null value can not be supplied as the configuration value"):
        environment.herder.create_connector("c", {**CONFIG, "own": None})
    with pytest.raises(ConfigException, match="Null value can not be supplied as the configuration value"):
        environment.herder.create_connector("c", {**CONFIG, "airflow.pool": None})


def test_a_herder_without_access_to_plugins_takes_no_configs(environment: RunEnvironment) -> None:
    environment.probe = None  # type: ignore[assignment]
    with pytest.raises(ConnectException, match="has no access to plugins"):
        environment.another_herder().create_connector("c", CONFIG)


def test_keys_that_steer_the_dag_are_kept_and_not_shown(environment: RunEnvironment) -> None:
    info = environment.herder.create_connector("c", {**CONFIG, "airflow.schedule": "none", "airflow.owner": "shop"})
    assert info.config == {**CONFIG, "name": "c"}
    assert [key for key in environment.probe.asked[-1] if key.startswith("airflow.")] == ["airflow.schedule"]
    assert environment.herder.connector_config("c") == {**CONFIG, "name": "c"}
    environment.herder.put_connector_config("c", {**environment.herder.connector_config("c"), "topic": "other"})
    assert environment.configs.read().connector_config("c") == {
        **CONFIG,
        "name": "c",
        "topic": "other",
        "airflow.schedule": "none",
        "airflow.owner": "shop",
    }
    environment.herder.patch_connector_config("c", {"airflow.schedule": None, "airflow.owner": None})
    assert environment.configs.read().connector_config("c") == {**CONFIG, "name": "c", "topic": "other"}


def test_a_changed_config_unassigns_the_tasks_until_a_run_has_planned_them(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, F)
    info, is_new = environment.herder.put_connector_config("c", {**CONFIG, "topic": "other"})
    assert (info.config["topic"], len(info.tasks), is_new) == ("other", 2, False)
    assert environment.states("c") == ("RUNNING", ["UNASSIGNED", "UNASSIGNED"])
    assert environment.runs.taken() == [("trigger", "c", None)]
    environment.run("c", R)
    assert environment.states("c") == ("RUNNING", ["RUNNING", "UNASSIGNED"])


def test_the_same_config_again_restarts_the_connector_alone(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, connector=F)
    environment.herder.put_connector_config("c", CONFIG)
    assert environment.states("c") == ("UNASSIGNED", ["RUNNING"])
    assert environment.runs.taken() == [("trigger", "c", None)]


@pytest.mark.parametrize("target", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_config_changed_while_paused_or_stopped_changes_no_state(environment: RunEnvironment, target: TargetState) -> None:
    environment.herder.create_connector("c", CONFIG, target)
    before = environment.states("c")
    environment.herder.put_connector_config("c", {**CONFIG, "topic": "other"})
    assert (environment.states("c"), environment.configs.read().target_state("c")) == (before, target)
    assert environment.runs.taken() == []


def test_a_config_put_under_a_new_name_creates_the_connector(environment: RunEnvironment) -> None:
    info, is_new = environment.herder.put_connector_config("c", CONFIG)
    assert (info.tasks, is_new) == ([], True)
    assert environment.states("c") == ("RUNNING", [])


def test_a_run_in_progress_is_fenced_by_a_new_config(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    old = environment.run("c", R)
    environment.runs.alive = {"c"}
    environment.herder.put_connector_config("c", {**CONFIG, "topic": "other"})
    assert environment.configs.read().claims["c"] > old
    assert environment.runs.taken() == [("trigger", "c", None)]


def test_a_patch_sets_and_removes_keys(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", {**CONFIG, "own.key": "1"})
    info = environment.herder.patch_connector_config("c", {"own.key": None, "topic": "other", "never.there": None})
    assert info.config == {**CONFIG, "topic": "other", "name": "c"}
    with pytest.raises(NotFoundException, match=r"^Connector nobody not found$"):
        environment.herder.patch_connector_config("nobody", {"a": "b"})
    with pytest.raises(BadRequestException, match=r"Connector name configuration \(d\) doesn't match connector name in the URL \(c\)"):
        environment.herder.patch_connector_config("c", {"name": "d"})
    with pytest.raises(ConfigException, match=r'Missing required configuration "name" which has no default value'):
        environment.herder.patch_connector_config("c", {"name": None})
    assert environment.herder.patch_connector_config("c", {"name": "c"}).config["name"] == "c"


def test_what_another_process_wrote_during_a_patch_is_not_lost(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    other, validate = environment.another_herder(), environment.probe.validate

    def meanwhile(plugin: str, config: object) -> object:
        environment.probe.validate = validate  # type: ignore[method-assign]
        other.patch_connector_config("c", {"theirs": "1"})
        return validate(plugin, config)  # type: ignore[arg-type]

    environment.probe.validate = meanwhile  # type: ignore[assignment, method-assign]
    environment.herder.patch_connector_config("c", {"ours": "1"})
    assert environment.herder.connector_config("c") == {**CONFIG, "name": "c", "theirs": "1", "ours": "1"}


def test_reads_of_unknown_connectors_are_refused_in_connects_words(environment: RunEnvironment) -> None:
    herder = environment.herder
    for read in (herder.connector_info, herder.connector_config, herder.task_infos, herder.delete_connector):
        with pytest.raises(NotFoundException, match=r"^Connector nobody not found$"):
            read("nobody")
    with pytest.raises(NotFoundException, match=r"^No status found for connector nobody$"):
        herder.connector_status("nobody")
    with pytest.raises(NotFoundException, match=r"^No status found for task nobody-0$"):
        herder.task_status("nobody", 0)


def test_tasks_are_listed_with_their_configs(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.run("c", R, F)
    infos = environment.herder.task_infos("c")
    assert [(str(info.id), info.config) for info in infos] == [("c-0", {"task": "0"}), ("c-1", {"task": "1"})]
    assert (environment.herder.task_status("c", 1).state, environment.herder.task_status("c", 1).trace) == ("FAILED", "it broke")


def test_a_deleted_connector_leaves_nothing_but_its_offsets(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    old = environment.run("c", R)
    environment.backing.status_store.put_topic(TopicStatus("lines", "c", 0, 1))
    environment.runs.alive = {"c"}
    environment.herder.delete_connector("c")
    assert environment.runs.taken() == [("end", "c"), ("forget", "c")]
    assert (environment.herder.connectors(), environment.statuses.names()) == ([], set())
    assert environment.configs.read().claims["c"] > old
    with pytest.raises(NotFoundException):
        environment.herder.delete_connector("c")


def test_a_name_is_free_again_after_a_deletion_and_starts_started(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG, TargetState.STOPPED)
    environment.herder.delete_connector("c")
    environment.herder.create_connector("c", CONFIG)
    assert environment.configs.read().target_state("c") is TargetState.STARTED
    assert environment.states("c") == ("RUNNING", [])


def test_a_connector_of_a_dag_file_can_be_steered_but_not_changed(environment: RunEnvironment) -> None:
    environment.herder.define_connector("c", {**CONFIG, "name": "c", "airflow.defined.in": "etl/c.py"}, "etl/c.py")
    assert environment.states("c") == ("RUNNING", [])
    assert environment.runs.taken() == []
    assert environment.herder.connector_config("c") == {**CONFIG, "name": "c"}
    herder = environment.herder
    for change in (
        lambda: herder.put_connector_config("c", CONFIG),
        lambda: herder.patch_connector_config("c", {"a": "b"}),
        lambda: herder.delete_connector("c"),
    ):
        with pytest.raises(ConflictException, match=r"etl/c.py"):
            change()
    herder.pause("c")
    herder.resume("c")
    herder.stop("c")
    herder.release_connector("c")
    herder.put_connector_config("c", CONFIG)
    herder.delete_connector("c")
    assert herder.connectors() == []


def test_a_client_cannot_claim_that_a_file_defines_its_connector(environment: RunEnvironment) -> None:
    with pytest.raises(ConfigException, match=r"airflow.defined.in"):
        environment.herder.create_connector("c", {**CONFIG, "airflow.defined.in": "x.py"})


def test_topics_that_a_sink_no_longer_reads_are_forgotten(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", SINK)
    for topic in ("a", "b"):
        environment.backing.status_store.put_topic(TopicStatus(topic, "c", 0, 1))
    environment.herder.put_connector_config("c", {**SINK, "topics": "b,d"})
    assert environment.statuses.topics_of("c") == ["b"]


def test_a_list_with_everything_gives_the_same_objects_until_something_changes(environment: RunEnvironment) -> None:
    environment.herder.create_connector("c", CONFIG)
    environment.herder.create_connector("d", SINK)
    first, second = environment.herder.expanded(True, True), environment.herder.expanded(True, True)
    assert {name: set(views) for name, views in first.items()} == {"c": {"info", "status"}, "d": {"info", "status"}}
    assert all(first[name][key] is second[name][key] for name in first for key in first[name])
    environment.run("c", R)
    third = environment.herder.expanded(True, True)
    assert third["c"]["status"] != first["c"]["status"]
    assert third["c"]["info"] != first["c"]["info"]
    assert third["d"]["info"] is first["d"]["info"]
    assert third["d"]["status"] is first["d"]["status"]
    assert environment.herder.expanded(False, False) == {"c": {}, "d": {}}


def test_a_connector_without_a_status_is_left_out_of_a_list_of_statuses(environment: RunEnvironment) -> None:
    environment.configs.create_connector("c", {**CONFIG, "name": "c"})
    assert environment.herder.expanded(True, True) == {}
    assert list(environment.herder.expanded(True, False)) == ["c"]


def test_the_type_of_a_connector_whose_plugin_is_missing_is_unknown(environment: RunEnvironment) -> None:
    environment.configs.create_connector("c", {"connector.class": "Missing", "name": "c"})
    assert environment.herder.connector_info("c").type == "unknown"


def test_nothing_of_another_connector_is_named(environment: RunEnvironment) -> None:
    """Its consumer group, or the topic of its offsets."""
    group = {"consumer.override.group.id": "shared"}
    environment.herder.create_connector("first", {**CONFIG, **group, "offsets.storage.topic": "first-offsets"})
    wrong = {"consumer.override.group.id": "shared", "topics": "a, first-offsets", "errors.deadletterqueue.topic.name": "first-offsets"}
    for key, value in wrong.items():
        for attempt in (environment.herder.create_connector, environment.herder.put_connector_config):
            with pytest.raises(ConfigException, match=r"(c|C)onnector first") as refused:
                attempt("second", {**CONFIG, key: value})
            assert f"for configuration {key}: " in refused.value.message
    assert environment.herder.connectors() == ["first"]
    environment.herder.put_connector_config("first", {**CONFIG, **group, "tasks.max": "2"})  # one's own
    environment.herder.create_connector("second", {**CONFIG, "consumer.override.group.id": "another"})
    with pytest.raises(ConfigException, match="group of connector first"):
        environment.herder.patch_connector_config("second", group)
    with pytest.raises(ConfigException, match=r"configuration offsets\.storage\.topic: Records of connector second are there"):
        environment.herder.create_connector("third", {**CONFIG, "offsets.storage.topic": "lines"})


def test_nothing_of_another_connector_is_named_by_a_variable(environment: RunEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OF_TEAM", "first-offsets")
    monkeypatch.setenv("LINES", "lines")
    env = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider", "config.providers.env.secret": "false"}
    environment.settings = WorkerSettings.of({**environment.settings.originals, **env})
    environment.herder = environment.another_herder()
    environment.herder.create_connector("first", {**CONFIG, "topic": "${env:LINES}", "offsets.storage.topic": "first-offsets"})
    for key in ("topics", "errors.deadletterqueue.topic.name"):
        with pytest.raises(ConfigException, match=f"for configuration {key}: Connector first keeps its offsets there"):
            environment.herder.create_connector("second", {**SINK, key: "${env:OF_TEAM}"})
    with pytest.raises(ConfigException, match="Records of connector first are there"):
        environment.herder.create_connector("third", {**CONFIG, "topic": "x", "offsets.storage.topic": "lines"})


@pytest.mark.parametrize("name", ["\u00a0c\u00a0", "\u0085c", "c\u2003"])
def test_a_name_loses_the_white_space_that_java_trims_alone(environment: RunEnvironment, name: str) -> None:
    assert environment.herder.create_connector(f" \t{name}\n", {**CONFIG, "name": name}).name == name
    assert environment.herder.connectors() == [name]
