"""Connections that write at once, in transactions that stay open for random times: what was numbered first is often committed last."""

from __future__ import annotations

import itertools
import random
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from psycopg2.errors import DeadlockDetected, LockNotAvailable

from tests.e2e.writers.written_table import WrittenTable

CONNECTIONS = 8
MOST_ROWS = 12
OVERDUE = 1.5  # times the longest time that was meant: then a transaction is not committed any more


@dataclass(slots=True)
class Written:
    """What was committed. ``late`` are transactions that were committed after one that had reached the table later."""

    inserted: int = 0
    updated: int = 0
    transactions: int = 0
    late: int = 0
    rolled_back: int = 0

    def __str__(self) -> str:
        return (
            f"{self.inserted} rows inserted, {self.updated} updated in {self.transactions} transactions, "
            f"{self.late} of them late, {self.rolled_back} rolled back"
        )


class Writers:
    """They write inside the block. Each makes the same choices for the same ``seed``; which comes first is up to the machine.

    No transaction that takes longer than ``OVERDUE`` × ``longest_seconds`` is committed. Leaving the block raises what a writer raised.
    """

    def __init__(self, table: WrittenTable, seed: int, longest_seconds: float) -> None:
        self.written = Written()
        self._table = table
        self._longest_seconds = longest_seconds
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._greatest_number = 0
        self._tickets = itertools.count(1)
        self._latest_ticket = 0
        self._errors: list[BaseException] = []
        chances = [random.Random(f"{seed}/{number}") for number in range(CONNECTIONS)]
        self._threads = [
            threading.Thread(target=self._write, args=(number, chance), name=f"writer-{number}") for number, chance in enumerate(chances)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    def _write(self, number: int, chance: random.Random) -> None:
        try:
            with closing(self._table.connect()) as connection:
                while not self._stop.is_set():
                    self._transaction(connection, number, chance)
        except BaseException as error:  # (for the thread that leaves the block)
            self._errors.append(error)

    def _transaction(self, connection: Any, number: int, chance: random.Random) -> None:
        began = time.monotonic()
        inserted = updated = greatest = 0
        ticket = None
        try:
            with connection.cursor() as cursor:
                if chance.random() < 0.3:
                    cursor.execute("SELECT now()")  # its time is taken long before it reaches the table
                    self._hold(chance)
                for _ in range(chance.randint(1, 4)):
                    if chance.random() < 0.5:
                        words = [f"{number}-{chance.getrandbits(40):x}" for _ in range(chance.randint(1, MOST_ROWS))]
                        greatest = max(greatest, self._table.insert(cursor, number, words))
                        inserted += len(words)
                    else:
                        updated += self._table.change(cursor, self._some_number(chance), chance.randint(1, MOST_ROWS))
                    ticket = ticket or next(self._tickets)
                    self._hold(chance)
            is_overdue = time.monotonic() - began > OVERDUE * self._longest_seconds
            if is_overdue or chance.random() < 0.1:
                connection.rollback()
                inserted = updated = 0
            else:
                connection.commit()
        except (LockNotAvailable, DeadlockDetected):
            connection.rollback()
            inserted = updated = 0
        self._note(inserted, updated, greatest, ticket or 0)

    def _hold(self, chance: random.Random) -> None:
        """Leave the transaction open for a while, in one of two cases. There are at most five such whiles."""
        if chance.random() < 0.5:
            self._stop.wait(chance.uniform(0, self._longest_seconds / 5))

    def _some_number(self, chance: random.Random) -> int:
        """Often one of the last, which others may be changing too."""
        greatest = self._greatest_number
        back = 30 * self._table.step if chance.random() < 0.5 else greatest
        return max(0, greatest - int(chance.random() * back))

    def _note(self, inserted: int, updated: int, greatest: int, ticket: int) -> None:
        with self._lock:
            written = self.written
            if not inserted + updated:
                written.rolled_back += 1
                return
            written.inserted += inserted
            written.updated += updated
            written.transactions += 1
            written.late += ticket < self._latest_ticket
            self._latest_ticket = max(self._latest_ticket, ticket)
            self._greatest_number = max(self._greatest_number, greatest)
