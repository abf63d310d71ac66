"""Where a task's requests cut what its poll has returned."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.worker.delivery.transaction_boundary import Ending, RequestedBoundary
from airflow_provider_connect.sdk.batch import Batch

COMMIT, ABORT = Ending.COMMIT, Ending.ABORT


def batch(first: int, count: int, *, of_each: bool = True) -> Batch:
    offsets = [{"next": number + 1} for number in range(first, first + count)]
    values = pa.array([str(number) for number in range(first, first + count)])
    each = offsets if of_each else None
    return Batch.of("t", value=values, source_partition={"p": 0}, source_offset={"next": first + count}, source_offsets=each)


def cuts(boundary: RequestedBoundary, batches: Sequence[Batch]) -> list[tuple[list[str], object, Ending | None]]:
    """Values, the last offset and the ending of each piece."""
    return [
        (
            [value for piece in pieces if piece.value is not None for value in piece.value.to_pylist()],
            dict(pieces[-1].source_offset or {}).get("next") if pieces else None,
            ending,
        )
        for pieces, ending in boundary.split(batches)
    ]


def asked(*requests: Callable[[RequestedBoundary], None]) -> RequestedBoundary:
    boundary = RequestedBoundary()
    for request in requests:
        request(boundary)
    return boundary


def commit(after: int | None = None) -> Callable[[RequestedBoundary], None]:
    return lambda boundary: boundary.commit_transaction(after)


def abort(after: int | None = None) -> Callable[[RequestedBoundary], None]:
    return lambda boundary: boundary.abort_transaction(after)


def test_nothing_asked_leaves_the_transaction_open() -> None:
    assert cuts(asked(), [batch(0, 2), batch(2, 1)]) == [(["0", "1", "2"], 3, None)]


def test_records_are_counted_over_all_batches_of_a_poll() -> None:
    boundary = asked(commit(1), abort(3), commit())
    expected = [(["0", "1"], 2, COMMIT), (["2", "3"], 4, ABORT), (["4"], 5, COMMIT)]
    assert cuts(boundary, [batch(0, 3), batch(3, 2)]) == expected
    assert cuts(boundary, [batch(5, 2)]) == [(["5", "6"], 7, None)], "what was asked for held for one poll"


def test_behind_the_last_record_of_a_batch_its_own_offset_is_enough() -> None:
    assert cuts(asked(commit(1)), [batch(0, 2, of_each=False)]) == [(["0", "1"], 2, COMMIT), ([], None, None)]


def test_empty_batches_keep_their_offsets() -> None:
    empty = Batch("t", source_partition={"p": 0}, source_offset={"next": 9})
    [(pieces, ending)] = asked(commit()).split([empty])
    assert (pieces, ending) == ([empty], COMMIT)


def test_requests_without_records_are_taken_apart() -> None:
    boundary = asked(abort())
    assert boundary.take_last() is ABORT
    assert boundary.take_last() is None


@pytest.mark.parametrize(
    ("boundary", "text"),
    [
        (asked(commit(), abort()), "Connector requested both commit and abort of same transaction"),
        (asked(commit(1), abort(1)), "Connector requested both commit and abort of same record against topic/partition t/None"),
        (asked(commit(3)), "after record 3 of a poll that returned 3"),
        (asked(commit(-1)), "after record -1; the first is number 0"),
    ],
)
def test_contradictions_and_records_that_are_not_there_are_refused(boundary: RequestedBoundary, text: str) -> None:
    with pytest.raises(ConnectException, match=text):
        list(boundary.split([batch(0, 3)]))


def test_a_cut_without_an_offset_to_go_on_from_is_refused() -> None:
    with pytest.raises(ConnectException, match="give the batch source_offsets, or return it in two"):
        list(asked(commit(0)).split([batch(0, 3, of_each=False)]))
