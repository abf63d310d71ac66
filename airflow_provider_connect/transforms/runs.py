"""Runs of equal values in a column: where a batch has to be cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_provider_connect.sdk.arrow import pa, pc


def runs_of(column: pa.Array) -> Iterator[tuple[int, int, Any]]:  # Any: a value of the column
    """Start, length and value of each run, in order."""
    encoded = pc.run_end_encode(column)
    start = 0
    for end, value in zip(encoded.run_ends.to_pylist(), encoded.values.to_pylist(), strict=True):
        yield start, end - start, value
        start = end
