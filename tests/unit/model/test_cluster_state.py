"""The fold of the config topic: a table of what records add up to (contract §2.5)."""

import pytest

from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState, ConfigLog
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    LoggerRecord,
    NoteKind,
    NoteRecord,
    RestartRecord,
    SessionKeyRecord,
    TargetStateRecord,
    TaskRecord,
    Unreadable,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState

CONFIG = {"name": "c", "tasks.max": "2"}


def at(offset: int, record: ConfigRecord) -> ConfigRecord:
    """The record as read at this offset."""
    return type(record)(**{name: getattr(record, name) for name in record.__slots__ if name != "offset"}, offset=offset)


def folded(*records: ConfigRecord | Unreadable, topic_id: str = "t") -> ConfigLog:
    log = ConfigLog(topic_id)
    for offset, record in enumerate(records):
        log.apply(record if isinstance(record, Unreadable) else at(offset, record))
    return log


def state(*records: ConfigRecord | Unreadable, topic_id: str = "t") -> ClusterConfigState:
    return folded(*records, topic_id=topic_id).state


def connector(config: dict[str, str] | None = CONFIG) -> ConnectorRecord:
    return ConnectorRecord("c", config)


def task(number: int, **config: str) -> TaskRecord:
    return TaskRecord(ConnectorTaskId("c", number), config)


def commit(tasks: int) -> CommitRecord:
    return CommitRecord("c", tasks)


def test_nothing_is_known_before_the_first_record() -> None:
    empty = state()
    assert (empty.offset, empty.connectors(), empty.tasks("c"), empty.target_state("c"), empty.connector_config("c")) == (
        0,
        [],
        [],
        None,
        None,
    )


def test_connector_is_started_at_first_sight() -> None:
    known = state(connector())
    assert "c" in known
    assert known.connector_config("c") == CONFIG
    assert known.target_state("c") is TargetState.STARTED
    assert known.offset == 1


def test_initial_state_written_before_the_config_holds() -> None:
    known = state(TargetStateRecord("c", TargetState.STOPPED), connector())
    assert known.target_state("c") is TargetState.STOPPED
    assert state(TargetStateRecord("c", TargetState.STOPPED)).target_state("c") is None


def test_changed_config_leaves_the_target_state_alone() -> None:
    known = state(connector(), TargetStateRecord("c", TargetState.PAUSED), connector({"name": "c"}))
    assert known.target_state("c") is TargetState.PAUSED
    assert known.connector_config("c") == {"name": "c"}


def test_tasks_count_only_after_their_commit_record() -> None:
    half: list[ConfigRecord] = [connector(), task(0, a="1"), task(1, a="2")]
    assert state(*half).tasks("c") == []
    whole = state(*half, commit(2))
    assert whole.tasks("c") == [0, 1]
    assert whole.task_config("c", 1) == {"a": "2"}
    assert whole.all_task_configs("c") == {0: {"a": "1"}, 1: {"a": "2"}}
    assert whole.applied_configs["c"] == CONFIG
    assert whole.generations["c"] == 0


def test_half_written_set_behind_a_whole_one_changes_nothing() -> None:
    known = state(connector(), task(0, a="1"), commit(1), task(0, a="2"), task(1, a="3"))
    assert known.all_task_configs("c") == {0: {"a": "1"}}


def test_commit_with_missing_tasks_makes_the_connector_inconsistent() -> None:
    log = folded(connector(), task(0, a="1"), commit(1), task(1, a="2"))
    assert "no config for task 0 (configs given: 1)" in log.apply(at(4, commit(2)))
    assert log.state.tasks("c") == []
    assert log.state.task_config("c", 0) is None
    assert log.state.task_counts["c"] == 2
    assert log.state.inconsistent == {"c"}


def test_commit_without_any_task_record_makes_it_inconsistent() -> None:
    assert state(connector(), commit(1)).inconsistent == {"c"}


def test_whole_set_repairs_an_inconsistent_connector() -> None:
    known = state(connector(), commit(1), task(0, a="1"), commit(1))
    assert known.tasks("c") == [0]
    assert known.inconsistent == set()


def test_tasks_of_a_failed_commit_are_forgotten() -> None:
    assert state(connector(), task(1), commit(2), task(0), commit(2)).inconsistent == {"c"}


def test_set_of_no_tasks_is_whole() -> None:
    known = state(connector(), task(0), commit(1), commit(0))
    assert known.tasks("c") == []
    assert known.inconsistent == set()


def test_generation_rises_with_every_set_once_there_was_a_task_record() -> None:
    assert "c" not in state(connector(), commit(0)).generations
    assert state(connector(), task(0), commit(1), commit(0)).generations == {"c": 1}


def test_smaller_set_ends_the_tasks_beyond_it() -> None:
    known = state(connector(), task(0), task(1), commit(2), task(0, b="1"), commit(1))
    assert known.tasks("c") == [0]
    assert known.task_config("c", 1) is None


def test_task_records_that_compaction_left_over_do_not_disturb_a_commit() -> None:
    assert state(connector(), task(1), task(0), commit(1)).tasks("c") == [0]


def test_absurd_count_is_inconsistent_at_once_and_lists_nothing() -> None:
    known = state(connector(), task(0), commit(2**31 - 1))
    assert known.tasks("c") == []


def test_deletion_takes_everything_but_count_claim_and_generation() -> None:
    before: list[ConfigRecord] = [connector(), TargetStateRecord("c", TargetState.PAUSED), task(0), commit(1), FencingRecord("c", 1)]
    config_gone = state(*before, connector(None))
    assert (config_gone.connectors(), config_gone.tasks("c"), config_gone.task_configs, config_gone.task_counts) == ([], [], {}, {})
    assert config_gone.applied_configs == {}
    assert config_gone.target_states == {"c": TargetState.PAUSED}
    assert config_gone.target_state("c") is None
    gone = state(*before, connector(None), TargetStateRecord("c", None))
    assert gone.target_states == {}
    assert (gone.fencing_counts, gone.claims, gone.generations) == ({"c": 1}, {"c": Claim(4, "t")}, {"c": 0})


def test_connector_made_anew_under_an_old_name_starts_without_tasks() -> None:
    known = state(connector(), task(0), commit(1), connector(None), TargetStateRecord("c", None), connector({"name": "c"}))
    assert known.tasks("c") == []
    assert known.target_state("c") is TargetState.STARTED


def test_target_state_tombstone_of_a_living_connector_starts_it() -> None:
    known = state(connector(), TargetStateRecord("c", TargetState.PAUSED), TargetStateRecord("c", None))
    assert known.target_state("c") is TargetState.STARTED


def test_commit_left_over_from_a_deleted_connector_is_skipped() -> None:
    log = folded(task(0))
    assert "which has no config" in log.apply(at(1, commit(1)))
    log.apply(at(2, connector()))
    assert log.state.tasks("c") == []
    assert log.state.inconsistent == set()


def test_last_of_contradictory_target_states_holds() -> None:
    records = [
        TargetStateRecord("c", target) for target in (TargetState.PAUSED, TargetState.STOPPED, TargetState.STARTED, TargetState.PAUSED)
    ]
    assert state(connector(), *records).target_state("c") is TargetState.PAUSED


def test_commit_asks_for_fencing_and_a_fencing_record_answers() -> None:
    assert state(connector(), task(0), commit(1)).pending_fencing == {"c"}
    assert state(connector(), task(0), commit(1), FencingRecord("c", 1)).pending_fencing == set()


def test_fencing_record_is_a_claim_at_its_own_offset() -> None:
    known = state(FencingRecord("c", 2), FencingRecord("d", 0), FencingRecord("c", 3))
    assert known.claims == {"c": Claim(2, "t"), "d": Claim(1, "t")}
    assert {claim.topic_id for claim in known.claims.values()} == {"t"}
    assert known.fencing_counts == {"c": 3, "d": 0}


def test_count_with_the_claims_header_makes_no_new_claim() -> None:
    known = state(FencingRecord("c", 2), FencingRecord("c", 5, Claim(0, "t")))
    assert known.claims["c"] == Claim(0, "t")
    assert known.fencing_counts["c"] == 5


def test_count_that_compaction_left_alone_still_gives_the_claim() -> None:
    log = ConfigLog("t")
    log.apply(FencingRecord("c", 5, Claim(7, "t"), offset=9))
    assert log.state.claims["c"] == Claim(7, "t")


def test_count_by_an_older_claim_is_skipped() -> None:
    log = folded(FencingRecord("c", 2), FencingRecord("c", 3))
    assert "has taken over" in log.apply(at(2, FencingRecord("c", 9, Claim(0, "t"))))
    assert log.state.fencing_counts["c"] == 3
    assert log.state.claims["c"] == Claim(1, "t")


def test_count_whose_claim_is_of_another_topic_is_a_claim_of_its_own() -> None:
    known = state(FencingRecord("c", 2), FencingRecord("c", 3, Claim(900, "former")))
    assert known.claims["c"] == Claim(1, "t")
    assert known.claims["c"].topic_id == "t"


def test_session_key_is_kept_and_requests_leave_nothing_behind() -> None:
    log = folded(SessionKeyRecord("k", "a", 1), RestartRecord("c", True, True), LoggerRecord("l", "DEBUG"))
    assert log.state.session_key == SessionKeyRecord("k", "a", 1)
    assert log.skipped == 0
    assert log.state.offset == 3


def test_unreadable_record_moves_the_offset_and_is_counted() -> None:
    log = folded(connector())
    assert log.apply(Unreadable("why", b"key", 9)) == "why"
    assert (log.skipped, log.state.offset, log.state.connectors()) == (1, 10, ["c"])


def test_connectors_whose_names_contain_each_other_are_kept_apart() -> None:
    log = ConfigLog("t")
    for name in ("c", "c-0"):
        log.apply(ConnectorRecord(name, {"name": name}))
        log.apply(TaskRecord(ConnectorTaskId(name, 0), {"of": name}))
        log.apply(CommitRecord(name, 1))
    log.apply(ConnectorRecord("c", None))
    assert log.state.connectors() == ["c-0"]
    assert log.state.task_config("c-0", 0) == {"of": "c-0"}


@pytest.mark.parametrize("cut", range(6))
def test_reading_in_two_parts_gives_the_same_as_in_one(cut: int) -> None:
    records: list[ConfigRecord] = [
        connector(),
        task(0, a="1"),
        commit(1),
        TargetStateRecord("c", TargetState.PAUSED),
        FencingRecord("c", 1),
        task(0, a="2"),
    ]
    log = folded(*records[:cut])
    for offset, record in enumerate(records[cut:], start=cut):
        log.apply(at(offset, record))
    assert log.state == state(*records)


def test_what_configs_reserve_is_known_of_all_connectors_whomever_the_reader_is_for() -> None:
    log = ConfigLog("t", only="mine")
    log.apply(ConnectorRecord("a", {"offsets.storage.topic": " a-offsets ", "topic": "x"}, offset=0))
    log.apply(ConnectorRecord("b", {"consumer.override.group.id": "g", "offsets.storage.topic": ""}, offset=1))
    log.apply(ConnectorRecord("mine", {"topics": "y"}, offset=2))
    known = {"a": {"offsets.storage.topic": "a-offsets"}, "b": {"consumer.override.group.id": "g"}}
    assert (log.state.reserved, list(log.state.connector_configs)) == (known, ["mine"])
    handed = ConfigSnapshot.from_json(ConfigSnapshot.of(log, ["mine"]).to_json()).log("mine")
    assert handed.state.reserved == known
    before = handed.state.copy()
    handed.apply(ConnectorRecord("a", None, offset=3))
    handed.apply(ConnectorRecord("b", {"topic": "z"}, offset=4))
    assert (handed.state.reserved, before.reserved) == ({}, known)


@pytest.mark.parametrize(("fenced", "committed", "alive"), [(1, 2, 2), (3, 1, 3), (0, 0, 0)])
def test_ids_alive_are_the_larger_of_the_last_count_and_the_committed_tasks(fenced: int, committed: int, alive: int) -> None:
    state = ClusterConfigState(fencing_counts={"c": fenced}, task_counts={"c": committed})
    assert state.ids_alive("c") == alive


@pytest.mark.parametrize("kind", NoteKind)
def test_a_note_is_about_the_config_before_it(kind: NoteKind) -> None:
    config, note = ConnectorRecord("c", CONFIG), NoteRecord("c", "no file", kind)
    other = NoteRecord("c", "another", next(each for each in NoteKind if each is not kind))
    assert state(config, note).notes_of(kind) == {"c": "no file"}
    assert state(config, note, other).notes_of(kind) == {"c": "no file"}
    assert state(config, note, NoteRecord("c", None, kind)).notes_of(kind) == {}
    assert state(config, note, config).notes_of(kind) == {}
    assert state(config, note, ConnectorRecord("c", None)).notes_of(kind) == {}
    assert state(note).notes_of(kind) == {}, "compaction took the connector's tombstone and left the note"
    assert ConfigSnapshot.from_json(ConfigSnapshot.of(folded(config, note)).to_json()).log().state.notes_of(kind) == {"c": "no file"}
