"""The verbs of the config topic, on the store in memory: the rules are the same for both."""

import pytest

from airflow_provider_connect.errors import AlreadyExistsException, ConflictException, FencedException, NotFoundException
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import CommitRecord, ConnectorRecord, FencingRecord, TargetStateRecord, TaskRecord
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_follower import Change, ChangeKind
from airflow_provider_connect.runtime.stores.memory import MemoryConfigStore

CONFIG = {"name": "c", "connector.class": "X"}


@pytest.fixture
def store() -> MemoryConfigStore:
    store = MemoryConfigStore()
    store.create_connector("c", CONFIG)
    return store


def test_created_connector_is_started(store: MemoryConfigStore) -> None:
    assert store.read().connector_config("c") == CONFIG
    assert store.read().target_state("c") is TargetState.STARTED


def test_initial_state_goes_before_the_config(store: MemoryConfigStore) -> None:
    store.create_connector("d", CONFIG, TargetState.STOPPED)
    assert store.records[-2:] == [TargetStateRecord("d", TargetState.STOPPED), ConnectorRecord("d", CONFIG)]


def test_connector_is_created_once(store: MemoryConfigStore) -> None:
    with pytest.raises(AlreadyExistsException, match="Connector c already exists"):
        store.create_connector("c", CONFIG)


def test_config_changed_by_another_client_is_not_overwritten(store: MemoryConfigStore) -> None:
    store.put_connector("c", CONFIG | {"a": "1"}, expected=CONFIG)
    with pytest.raises(ConflictException):
        store.put_connector("c", CONFIG | {"a": "2"}, expected=CONFIG)
    assert store.read().connector_config("c") == CONFIG | {"a": "1"}


def test_stop_goes_with_an_empty_task_set(store: MemoryConfigStore) -> None:
    claim = store.claim("c")
    store.put_tasks("c", [{"a": "1"}], claim)
    store.put_target_state("c", TargetState.STOPPED)
    assert store.records[-2:] == [TargetStateRecord("c", TargetState.STOPPED), CommitRecord("c", 0)]
    assert store.read().tasks("c") == []


def test_target_state_that_holds_already_is_not_written(store: MemoryConfigStore) -> None:
    count = len(store.records)
    store.put_target_state("c", TargetState.STARTED)
    assert len(store.records) == count


def test_claims_rise_and_count_every_task_that_may_be_alive(store: MemoryConfigStore) -> None:
    first = store.claim("c")
    store.put_tasks("c", [{"a": "1"}, {"a": "2"}, {"a": "3"}], first)
    second = store.claim("c")
    assert store.records[-1] == FencingRecord("c", 3)
    store.put_tasks("c", [{"a": "1"}], second)
    third = store.claim("c")
    assert store.records[-1] == FencingRecord("c", 3)
    store.put_fencing_count("c", 1, third)
    assert store.records[-1] == FencingRecord("c", 1, third)
    assert store.read().claims["c"] == third
    assert first < second < third


def test_task_set_ends_with_its_commit(store: MemoryConfigStore) -> None:
    claim = store.claim("c")
    assert store.put_tasks("c", [{"a": "1"}, {"a": "2"}], claim, planned_from=CONFIG)
    tasks = [TaskRecord(ConnectorTaskId("c", 0), {"a": "1"}), TaskRecord(ConnectorTaskId("c", 1), {"a": "2"})]
    assert store.records[-3:] == [*tasks, CommitRecord("c", 2)]
    assert store.read().all_task_configs("c") == {0: {"a": "1"}, 1: {"a": "2"}}


def test_unchanged_task_set_is_not_written_again(store: MemoryConfigStore) -> None:
    claim = store.claim("c")
    store.put_tasks("c", [{"a": "1"}], claim)
    assert not store.put_tasks("c", [{"a": "1"}], claim)
    store.put_connector("c", CONFIG | {"b": "1"})
    assert store.put_tasks("c", [{"a": "1"}], claim)  # made from another config now, which the commit record names


@pytest.mark.parametrize("what", ["newer claim", "stopped", "deleted", "another config"])
def test_planner_that_was_overtaken_writes_nothing(store: MemoryConfigStore, what: str) -> None:
    claim = store.claim("c")
    match what:
        case "newer claim":
            store.claim("c")
        case "stopped":
            store.put_target_state("c", TargetState.STOPPED)
        case "deleted":
            store.delete_connector("c")
        case "another config":
            store.put_connector("c", CONFIG | {"z": "1"})
    count = len(store.records)
    with pytest.raises(FencedException):
        store.put_tasks("c", [{"a": "1"}], claim, planned_from=CONFIG)
    assert len(store.records) == count


def test_older_claim_cannot_lower_the_count(store: MemoryConfigStore) -> None:
    old = store.claim("c")
    store.claim("c")
    with pytest.raises(FencedException, match="is not the newest"):
        store.put_fencing_count("c", 0, old)


def test_deleted_connector_is_gone_but_its_claims_go_on(store: MemoryConfigStore) -> None:
    claim = store.claim("c")
    store.delete_connector("c")
    assert "c" not in store.read()
    store.create_connector("c", CONFIG)
    assert store.claim("c") > claim


def test_unknown_connector_is_reported(store: MemoryConfigStore) -> None:
    for verb in (store.claim, store.delete_connector):
        with pytest.raises(NotFoundException, match="Connector nobody not found"):
            verb("nobody")
    with pytest.raises(NotFoundException):
        store.put_target_state("nobody", TargetState.PAUSED)


def test_follower_sees_what_concerns_its_claim(store: MemoryConfigStore) -> None:
    claim = store.claim("c")
    follower = store.follow("c", claim)
    assert follower.poll() is None
    store.create_connector("other", CONFIG)
    store.claim("other")
    store.put_fencing_count("c", 5, claim)
    store.put_connector("c", CONFIG | {"b": "1"})
    assert follower.poll() is None
    store.put_target_state("c", TargetState.PAUSED)
    assert follower.poll() == Change(ChangeKind.PAUSED)
    store.put_target_state("c", TargetState.STARTED)
    assert follower.poll() is None
    store.put_target_state("c", TargetState.STOPPED)
    verb = store.claim("c")
    assert follower.poll() == Change(ChangeKind.INTERRUPTED, verb)
    newer = store.claim("c", owner="a run")
    assert follower.poll() == Change(ChangeKind.CLAIMED, newer)
    store.delete_connector("c")
    assert follower.poll() == Change(ChangeKind.DELETED)
    assert follower.poll() is None


def test_claim_prints_and_parses(store: MemoryConfigStore) -> None:
    claim = store.claim("c")
    assert Claim.parse(str(claim)) == claim


def test_a_run_claims_again_after_a_verb_and_not_after_another_run(store: MemoryConfigStore) -> None:
    store.claim("c", owner="older")
    store.claim("c")
    again = store.claim("c", owner="older", again=True)
    assert store.read().owners == {"c": "older"}
    store.put_tasks("c", [{}], again)
    store.put_fencing_count("c", 1, again)  # after compaction, it is the only record of the claim
    assert store.records[-1] == FencingRecord("c", 1, again, owner="older")
    newest = store.claim("c", owner="newer")
    with pytest.raises(FencedException, match=f"claim {newest} of connector c is a newer run's"):
        store.claim("c", owner="older", again=True)
    assert store.read().claims["c"] == newest
    store.claim("c")
    assert "c" not in store.read().owners


def test_a_handover_belongs_to_one_claim(store: MemoryConfigStore) -> None:
    claim = store.claim("c", owner="older")
    follower, of_task = store.follow("c", claim), store.follow("c", claim)
    store.put_successor("c", "", claim)
    assert not follower.has_changed("older"), "the run's own offer"
    assert store.request_handover("c", "newer")
    assert follower.has_changed("older")
    assert of_task.poll() is None, "the tasks end when their run has them end"
    assert ConfigSnapshot.from_json(ConfigSnapshot.of(store._fold).to_json()).log().state.successors == {"c": "newer"}
    newest = store.claim("c")
    assert store.read().successors == {}
    with pytest.raises(FencedException):
        store.hand_over("c", claim)
    store.put_successor("c", None, newest)
    assert not store.hand_over("c", newest)
    assert store.read().claims["c"] == newest


def test_a_connector_that_is_not_started_is_not_handed_over(store: MemoryConfigStore) -> None:
    claim = store.claim("c", owner="older")
    store.put_successor("c", "", claim)
    assert store.request_handover("c", "newer")
    store.put_fencing_count("c", 4, claim)
    assert store.read().successors == {"c": "newer"}, "another count of tasks leaves the handover as it is"
    store.put_target_state("c", TargetState.PAUSED)
    assert not store.request_handover("c", "another")
    assert not store.hand_over("c", claim)
    assert store.read().claims["c"] == claim


def test_a_run_that_stays_is_told_of_what_concerns_it(store: MemoryConfigStore) -> None:
    claim = store.claim("c", owner="mine")
    with store.follow("c", claim) as follower:
        assert not follower.has_changed("mine")
        store.put_tasks("c", [{}], claim)
        store.put_fencing_count("c", 1, claim)
        store.claim("c", owner="mine")
        store.create_connector("d", {"connector.class": "X"})
        assert not follower.has_changed("mine")
        for change in (
            lambda: store.claim("c"),
            lambda: store.claim("c", owner="another"),
            lambda: store.put_target_state("c", TargetState.PAUSED),
            lambda: store.put_target_state("c", TargetState.STARTED),
            lambda: store.put_connector("c", {"connector.class": "Y"}),
        ):
            change()
            assert follower.has_changed("mine")
            assert not follower.has_changed("mine")
