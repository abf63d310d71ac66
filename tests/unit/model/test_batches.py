"""What a run that has ended well left out of what it read."""

import pytest

from airflow_provider_connect.runtime.model.batches import refusals
from airflow_provider_connect.runtime.model.run import TaskResult

PARTLY = "The last run left out {} records, because they failed (errors.tolerance=all)"
TEXT = "The last run delivered nothing: {} records failed and were left out (errors.tolerance=all)"


@pytest.mark.parametrize(
    ("tasks", "text"),
    [
        ([], None),
        ([(5, 0, "")], None),
        ([(0, 0, "")], None),
        ([(1, 999, "e")], PARTLY.format("999 of 1000") + ", the last one by e"),
        ([(0, 1, "")], TEXT.format(1)),
        ([(0, 3, "first"), (0, 0, "")], TEXT.format(3) + ", the last one by first"),
        ([(0, 3, "first"), (0, 4, "second")], TEXT.format(7) + ", the last one by second"),
        ([(0, 3, "first"), (1, 0, "")], PARTLY.format("3 of 4") + ", the last one by first"),
    ],
)
def test_records_that_were_left_out_are_counted_over_all_tasks(tasks: list[tuple[int, int, str]], text: str | None) -> None:
    results = [TaskResult(at, records=records, failed=failed, error=error) for at, (records, failed, error) in enumerate(tasks)]
    assert refusals(results) == text
