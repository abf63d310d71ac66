"""Requests for replays, over an offset file: one at a time, the same one once, refused with the reason, done by the position."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.codecs.dead_letters import OffsetRanges, ReplayPosition, queue_partition
from airflow_provider_connect.errors import BadRequestException, ConflictException, NotFoundException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.herder.replays import Queue
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus
from airflow_provider_connect.runtime.stores.local_backing import LocalBacking
from airflow_provider_connect.runtime.stores.offset_file import OffsetFile
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord
from tests.unit.herder.conftest import CONFIG, SINK, GivenErrors, NotedRuns

HEADERS = "errors.deadletterqueue.context.headers.enable"
QUEUED = {**SINK, "errors.deadletterqueue.topic.name": "dlq", HEADERS: "true", "airflow.engine": "process", "airflow.owner": "anna"}
TRIGGERED = ("trigger", "c-replay", None)


class Queued:
    """A herder with sink ``c``, whose queue has 9 records."""

    def __init__(self, folder: Path) -> None:
        self.settings = WorkerSettings.of({"task.shutdown.graceful.timeout.ms": "200"})
        self.backing, self.runs = LocalBacking(OffsetFile(folder / "offsets")), NotedRuns()
        self.herder = Herder(self.settings, self.runs, probe=GivenErrors(), backing=self.backing, author="anna")
        self.herder._replays._read_queue = lambda *_: Queue("dlq", "id-1", {0: 9}, {"t": 1})
        self.define({})

    def define(self, change: Mapping[str, str | None]) -> None:
        """Give the sink its config, as its DAG file has it: what limits authors of stored connectors does not limit that."""
        config = {key: text for key, text in {**QUEUED, "name": "c", **change}.items() if text is not None}
        self.herder.define_connector("c", {**config, "airflow.defined.in": "c.py"}, "c.py")

    def ask(self, **asked: Any) -> Replay:  # the request's own fields
        return self.herder.replay_dead_letters("c", ReplayRequest(**asked))

    def state(self) -> Replay:
        return self.herder.dead_letter_replay("c")

    def commit(self, replay: str, read: int, records: int) -> None:
        """What a run of the replay commits."""
        store = self.backing.offsets(OffsetLocation.of(self.settings, {}))
        position = ReplayPosition(OffsetRanges([(0, read - 1)]), "id-1", replay, read, records)
        found = store.records("c-replay", [(queue_partition("dlq", 0), position.to_offset())])
        committer = self.backing.committer("c-replay", self.backing.configs().claim("c-replay"))
        assert committer is not None
        committer.take_over()
        committer.write([ProducerRecord(store.topic, *record, None) for record in found])


@pytest.fixture
def queued(tmp_path: Path) -> Iterator[Queued]:
    found = Queued(tmp_path)
    yield found
    found.herder.close()


def test_a_request_creates_a_connector_whose_run_does_it(queued: Queued) -> None:
    queued.runs.taken()
    with pytest.raises(NotFoundException, match="were replayed yet"):
        queued.state()
    requested = queued.ask(exceptions=["DataException"])
    assert (requested.connector, requested.queue, requested.until, requested.is_done) == ("c-replay", "dlq", ["0:9"], False)
    assert TRIGGERED in queued.runs.taken()
    config = queued.herder.config_state().connector_configs["c-replay"]
    assert (config["connector.class"], config["airflow.schedule"], config["airflow.owner"]) == ("DeadLetterReplay", "none", "anna")
    assert "airflow.engine" not in config, "the worker's settings allow it to no stored connector"
    assert queued.herder.config_state().target_state("c-replay") is TargetState.STARTED


def test_the_position_decides_how_far_it_is(queued: Queued) -> None:
    replay = queued.ask().replay
    queued.commit(replay, 4, 3)
    assert (queued.state().is_done, queued.state().records) == (False, 3)
    queued.commit(replay, 9, 7)
    assert (queued.state().is_done, queued.state().records) == (True, 7)
    assert queued.ask(replay="next").records == 0, "counted anew"
    assert {at: str(ranges) for at, ranges in queued.herder._replays.replayed("c", "dlq").items()} == {0: "0-8"}


@pytest.mark.parametrize("is_first", [True, False])
def test_of_two_requests_at_the_same_time_the_later_one_is_refused(queued: Queued, is_first: bool) -> None:
    if not is_first:
        queued.commit(queued.ask(replay="before").replay, 9, 9)
    read_queue, others = queued.herder._replays._read_queue, []

    def meanwhile(*asked: Any) -> Queue:  # between the check and the write
        queued.herder._replays._read_queue = read_queue
        others.append(queued.ask(replay="first"))
        return read_queue(*asked)

    queued.herder._replays._read_queue = meanwhile
    with pytest.raises(ConflictException, match="at the same time"):
        queued.ask(replay="second")
    assert (others[0].replay, queued.state().replay) == ("first", "first")


def test_one_replay_at_a_time_and_the_same_request_twice_is_one(queued: Queued) -> None:
    first = queued.ask(replay="mine")
    queued.runs.taken()
    assert queued.ask(replay="mine") == first
    assert queued.runs.taken() == []
    with pytest.raises(ConflictException, match="abandon it by pausing connector c-replay"):
        queued.ask()
    queued.herder.pause("c-replay")
    assert queued.ask(replay="second").replay == "second"
    assert queued.herder.config_state().target_state("c-replay") is TargetState.STARTED
    queued.commit("second", 9, 9)
    assert queued.ask(replay="third").replay == "third"
    status = ConnectorStatus("c-replay", State.FAILED, "w:1", trace="x.DataException: no JSON\n\tat y")
    queued.backing.status_notes().put_connector(status)
    failed = queued.state()
    assert (failed.state, failed.failure) == ("FAILED", "x.DataException: no JSON")
    assert queued.ask(replay="fourth").replay == "fourth", "what has FAILED is replaced"


def test_another_connector_of_that_name_is_left_alone(queued: Queued) -> None:
    queued.herder.create_connector("c-replay", CONFIG, TargetState.STOPPED)
    with pytest.raises(ConflictException, match="does not replay"):
        queued.ask()
    with pytest.raises(NotFoundException):
        queued.state()
    assert queued.herder.connector_config("c-replay")["connector.class"] == CONFIG["connector.class"]


@pytest.mark.parametrize(
    ("change", "error", "reason"),
    [
        ({HEADERS: None}, BadRequestException, "names the topic"),
        ({"errors.deadletterqueue.topic.name": None}, BadRequestException, "has no dead letter queue"),
        ({"errors.deadletterqueue.topic.name": "connect-configs"}, BadRequestException, "internal topic"),
        ({"producer.override.bootstrap.servers": "away:9092"}, BadRequestException, "another cluster"),
    ],
)
def test_what_cannot_be_replayed_is_refused(queued: Queued, change: dict[str, str | None], error: type[Exception], reason: str) -> None:
    queued.define(change)
    with pytest.raises(error, match=reason):
        queued.ask()
    with pytest.raises(NotFoundException):
        queued.herder.connector_config("c-replay")


def test_an_unknown_sink_has_no_replays(queued: Queued) -> None:
    verbs: list[Callable[[], object]] = [
        lambda: queued.herder.replay_dead_letters("nobody", ReplayRequest()),
        lambda: queued.herder.dead_letter_replay("nobody"),
        lambda: queued.herder.replay_dead_letters("nobody", ReplayRequest(), dry_run=True),
    ]
    for verb in verbs:
        with pytest.raises(NotFoundException, match="nobody"):
            verb()


def test_dead_letters_of_a_backfill_are_not_replayed(queued: Queued) -> None:
    """Its ranges have ended, so it would not read them; the live connector would."""
    queued.define({"backfill.of": "live", "backfill.ranges": "a:0:0:9"})
    with pytest.raises(BadRequestException, match=r"a backfill of live, .* create another backfill"):
        queued.herder.replay_dead_letters("c", ReplayRequest())
