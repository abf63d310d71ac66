from airflow_provider_connect.runtime.model.batches import BatchRecord, ConnectorType
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.stores.batch_log import Delivered

TASK = ConnectorTaskId("c", 0)


def test_each_record_counts_once_however_often_its_run_wrote_its_entry() -> None:
    known: dict[ConnectorTaskId, Delivered] = {}
    before: BatchRecord | None = None
    sums = []
    for run, claim, records in (("a", 1, 10), ("a", 1, 25), ("b", 2, 5), ("b", 3, 7), ("b", 3, 7)):
        entry = BatchRecord(TASK, run, Claim(claim, "t"), ConnectorType.SINK, records=records, bytes=2 * records)
        known[TASK] = Delivered.after(entry, before, known)
        before = entry
        sums.append(known[TASK].records)
    assert sums == [10, 25, 30, 37, 37]
    assert known[TASK] == Delivered(ConnectorType.SINK, 37, 74)
