"""What applications that run now have delivered: by their claims, from the batch log, or as their own process counts."""

from dataclasses import replace

from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import StoreTimeoutException
from airflow_provider_connect.runtime.herder.metrics import BatchLogMetrics, with_counted_records
from airflow_provider_connect.runtime.model.batches import BatchRecord, ConnectorType
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.views import WorkerView
from airflow_provider_connect.runtime.stores.batch_log import BatchLog, Delivered

NOW, BEFORE = Claim(9, "id"), Claim(7, "id")
WORKER = WorkerView("host:1", "c", str(NOW), [0, 1, 2])


class Log(BatchLog):
    """Of these entries; ``is_away``: its broker does not answer."""

    def __init__(self, *entries: BatchRecord, is_away: bool = False) -> None:
        self._entries = {entry.task: entry for entry in entries}
        self.is_away, self.reads = is_away, 0

    def delivered(self) -> dict[ConnectorTaskId, Delivered]:
        self.reads += 1
        if self.is_away:
            raise StoreTimeoutException("no answer")
        return {}


def entry(connector: str, task: int, claim: Claim, records: int, seconds: float) -> BatchRecord:
    return BatchRecord(ConnectorTaskId(connector, task), "run", claim, ConnectorType.SINK, records, records * 10, seconds)


def test_what_tasks_have_delivered_under_the_claim_counts() -> None:
    refusing = replace(entry("c", 0, NOW, 5, 1.5), failed=3)
    log = Log(refusing, entry("c", 1, NOW, 7, 0.5), entry("c", 2, BEFORE, 100, 9.0), entry("d", 0, NOW, 1000, 9.0))
    (found,) = BatchLogMetrics(log).with_records([WORKER], {})
    assert (found.records, found.bytes, found.seconds, found.failed) == (12, 120, 1.5, 3)
    (new,) = BatchLogMetrics(log).with_records([WorkerView("host:2", "c", "id:11", [0])], {})
    assert (new.records, new.bytes, new.seconds) == (0, 0, 0.0)


def test_an_application_of_a_run_that_has_ended_is_left_out_while_a_new_run_has_no_claim() -> None:
    metrics = BatchLogMetrics(Log(entry("c", 0, NOW, 5, 1.5), entry("c", 1, BEFORE, 7, 0.5)))
    shown = {
        name: metrics.with_records([WORKER], {"c": runs}) for name, runs in {"new": ["new"], "own": ["new", "run"], "unknown": []}.items()
    }
    assert shown["new"] == []
    assert shown["own"] == shown["unknown"] == metrics.with_records([WORKER], {})
    nothing_delivered = WorkerView("host:2", "c", "id:11", [0])
    assert len(metrics.with_records([nothing_delivered], {"c": ["new"]})) == 1


def test_applications_are_shown_without_the_batch_log() -> None:
    assert BatchLogMetrics(Log(is_away=True)).with_records([WORKER], {}) == [WORKER]


def test_the_batch_log_is_not_read_while_nothing_runs() -> None:
    log = Log()
    assert BatchLogMetrics(log).with_records([], {}) == []
    assert log.reads == 0


def test_a_process_that_counts_itself_counts_for_its_tasks() -> None:
    counted = {
        ("c", 0): {"source-record-write-total": 3.0, "source-record-poll-total": 9.0, "total-records-skipped": 2.0},
        ("c", 2): {"sink-record-send-total": 4.0},
    }
    (found,) = with_counted_records(lambda: counted, [WORKER], {})
    assert (found.records, found.bytes, found.seconds, found.failed) == (7, None, None, 2)


def at(task: int, distance: Distance | None, claim: Claim = NOW, connector: str = "c") -> BatchRecord:
    return BatchRecord(ConnectorTaskId(connector, task), "run", claim, ConnectorType.SOURCE, distance=distance)


def test_what_is_left_is_the_sum_over_tasks_that_count_alike() -> None:
    known = [at(0, Distance(5, "bytes")), at(1, Distance(7, "bytes"))]
    worker = WorkerView("host:1", "c", str(NOW), [0, 1])
    cases = [
        (known, (12, "bytes")),
        (known[:1], (None, None)),
        ([known[0], at(1, None)], (None, None)),
        ([known[0], at(1, Distance(7))], (None, None)),
    ]
    for entries, expected in cases:
        (found,) = BatchLogMetrics(Log(*entries)).with_records([worker], {})
        assert (found.left, found.left_unit) == expected


def test_the_distance_of_a_source_is_that_of_its_newest_claim() -> None:
    log = Log(at(0, Distance(5)), at(1, Distance(7)), at(2, Distance(100), BEFORE), at(0, None, connector="d"), entry("s", 0, NOW, 5, 1.5))
    assert BatchLogMetrics(log).source_distances() == {"c": Distance(12)}


def test_what_the_last_run_has_read_or_written_is_named_once() -> None:
    old, new, table = ("file", "/old"), ("file", "/new"), ("postgres://db:5432", "shop.public.orders")
    named = [(0, NOW, [new]), (1, NOW, [table, new]), (2, BEFORE, [old])]
    log = Log(*(replace(at(task, None, claim), datasets=datasets) for task, claim, datasets in named))
    assert (BatchLogMetrics(log).datasets("c"), BatchLogMetrics(log).datasets("d")) == ([new, table], [])
