"""Values changed one by one, where columns cannot be: an error says which of them it was."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from airflow_provider_connect.errors import DataException

Before = TypeVar("Before")
After = TypeVar("After")


def one_by_one(change: Callable[[Before], After], values: Iterable[Before]) -> list[After]:
    """What ``change`` makes of each. Its DataException goes on with the number of the value, from 0 on."""
    changed = []
    for record, value in enumerate(values):
        try:
            changed.append(change(value))
        except DataException as error:
            error.record = record
            raise
    return changed
