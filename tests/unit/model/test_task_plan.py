"""Whether a task set has changed, what says so, and whom to fence."""

from airflow_provider_connect.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.model.ids import ConnectorTaskId
from airflow_provider_connect.model.records import CommitRecord, ConnectorRecord, FencingRecord, TaskRecord
from airflow_provider_connect.model.run import Claim
from airflow_provider_connect.model.task_plan import ids_alive, task_config, task_plan

CLAIM = Claim(3, "t")
CONFIG = {"name": "c"}


def committed(*configs: dict[str, str], fenced: int = 0) -> ClusterConfigState:
    log = ConfigLog("t")
    log.apply(ConnectorRecord("c", CONFIG, 0))
    for record in task_plan(log.state, "c", configs).records:
        log.apply(record)
    log.apply(FencingRecord("c", fenced, offset=10))
    return log.state


def test_first_set_is_written_with_its_commit_record_last() -> None:
    plan = task_plan(committed(), "c", [{"a": "1"}, {"a": "2"}])
    assert plan.is_changed
    assert plan.records == [
        TaskRecord(ConnectorTaskId("c", 0), {"a": "1"}),
        TaskRecord(ConnectorTaskId("c", 1), {"a": "2"}),
        CommitRecord("c", 2),
    ]


def test_same_set_writes_nothing() -> None:
    plan = task_plan(committed({"a": "1"}), "c", [{"a": "1"}])
    assert not plan.is_changed
    assert plan.records == []


def test_set_of_another_size_content_or_order_is_a_change() -> None:
    state = committed({"a": "1"}, {"a": "2"})
    assert task_plan(state, "c", [{"a": "1"}]).is_changed
    assert task_plan(state, "c", [{"a": "1"}, {"a": "3"}]).is_changed
    assert task_plan(state, "c", [{"a": "2"}, {"a": "1"}]).is_changed
    assert task_plan(state, "c", [{"a": "1"}, {"a": "2"}, {"a": "3"}]).is_changed


def test_same_set_of_a_changed_connector_config_is_written_again() -> None:
    state = committed({"a": "1"})
    state.connector_configs["c"] = {"name": "c", "transforms": "t"}
    assert task_plan(state, "c", [{"a": "1"}]).is_changed


def test_inconsistent_set_is_written_again_even_if_there_are_to_be_no_tasks() -> None:
    log = ConfigLog("t")
    log.apply(ConnectorRecord("c", CONFIG, 0))
    log.apply(CommitRecord("c", 1, 1))
    assert task_plan(log.state, "c", []).records == [CommitRecord("c", 0)]


def test_stop_commits_no_tasks_once() -> None:
    assert task_plan(committed({"a": "1"}), "c", []).records == [CommitRecord("c", 0)]
    assert task_plan(committed(), "c", []).records == []


def test_plan_folds_to_what_it_says() -> None:
    log = ConfigLog("t")
    log.apply(ConnectorRecord("c", CONFIG, 0))
    for record in task_plan(log.state, "c", [{"a": "1"}, {"a": "2"}]).records:
        assert log.apply(record) == ""
    assert log.state.all_task_configs("c") == {0: {"a": "1"}, 1: {"a": "2"}}
    assert not task_plan(log.state, "c", [{"a": "1"}, {"a": "2"}]).is_changed


def test_ids_alive_are_the_larger_of_the_last_count_and_the_committed_tasks() -> None:
    assert ids_alive(committed({}, {}, fenced=1), "c") == 2
    assert ids_alive(committed({}, fenced=3), "c") == 3
    assert ids_alive(ClusterConfigState(), "c") == 0


def test_every_id_that_may_live_and_is_not_hosted_is_fenced() -> None:
    plan = task_plan(committed({}, fenced=4), "c", [{"a": "1"}, {"a": "2"}])
    assert plan.ids_to_fence([0, 1]) == [2, 3]
    assert plan.ids_to_fence([]) == [0, 1, 2, 3]
    assert plan.ids_to_fence(range(9)) == []


def test_new_count_carries_the_claim_and_is_written_only_if_it_differs() -> None:
    plan = task_plan(committed({}, fenced=4), "c", [{"a": "1"}, {"a": "2"}])
    assert plan.fencing_record(CLAIM) == FencingRecord("c", 2, CLAIM)
    assert task_plan(committed({}, {}, fenced=2), "c", [{}, {}]).fencing_record(CLAIM) is None


def test_task_config_has_the_class_and_a_sinks_topics() -> None:
    connector_config = {"topics": "a,b", "topics.regex": "x.*", "file": "out"}
    assert task_config({"file": "out"}, connector_config, task_class="T", is_sink=False) == {"file": "out", "task.class": "T"}
    assert task_config({"file": "out"}, connector_config, task_class="T", is_sink=True) == {
        "file": "out",
        "task.class": "T",
        "topics": "a,b",
        "topics.regex": "x.*",
    }


def test_task_config_gets_its_variables_back() -> None:
    raw = {"password": "${env:SECRET}", "url": "jdbc:${file:/x:host}/db", "file": "plain"}
    generated = {"password": "hunter2", "url": "jdbc:db1/db", "file": "changed", "split": "0"}
    config = task_config(generated, raw, task_class="T", is_sink=False)
    assert config == {"password": "${env:SECRET}", "url": "jdbc:${file:/x:host}/db", "file": "changed", "split": "0", "task.class": "T"}
