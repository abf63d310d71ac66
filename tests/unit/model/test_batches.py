"""When a run that has ended well delivered nothing of what it read."""

import pytest

from airflow_provider_connect.runtime.model.batches import nothing_delivered
from airflow_provider_connect.runtime.model.run import TaskResult

TEXT = "The last run delivered nothing: {} records failed and were left out (errors.tolerance=all)"


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        ([], None),
        ([(5, 0, "")], None),
        ([(0, 0, "")], None),
        ([(1, 999, "e")], None),
        ([(0, 1, "")], TEXT.format(1)),
        ([(0, 3, "first"), (0, 0, "")], TEXT.format(3) + ", the last one by first"),
        ([(0, 3, "first"), (0, 4, "second")], TEXT.format(7) + ", the last one by second"),
        ([(0, 3, "first"), (1, 0, "")], None),
    ],
)
def test_a_run_delivered_nothing_if_no_task_did_and_some_record_failed(tasks: list[tuple[int, int, str]], text: str | None) -> None:
    results = [TaskResult(at, records=records, failed=failed, error=error) for at, (records, failed, error) in enumerate(tasks)]
    assert nothing_delivered(results) == text
