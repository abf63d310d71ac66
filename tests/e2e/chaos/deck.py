"""Which step of which commit is struck next: random, but each comes up once before any comes up again. Knows nothing of processes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.e2e.faults.runs import CUT
from tests.e2e.faults.steps import STEPS

_Card = TypeVar("_Card")
FILES = [(kind, guarantee) for kind in ("source", "sink") for guarantee in STEPS[kind]]
TABLES = [(kind, guarantee) for kind in ("table source", "table sink") for guarantee in STEPS[kind]]
MIRRORS = [("mirror source", guarantee) for guarantee in STEPS["mirror source"]]
PROCESSES = {name: (name, "SIGKILL") for name in ("worker", "driver", "jvm")}
CONNECTIONS = {  # which a run loses, and lives on
    "broker connection": ("broker connection", CUT),
    "backend": ("backend", "SIGTERM"),  # as ``pg_terminate_backend`` does
    "killed backend": ("backend", "SIGKILL"),  # whose database ends all others too
}
TRANSACTION_ENDS = {  # offsets of every guarantee go through it
    direction: f"airflow_provider_connect.runtime.worker.delivery.{direction}_delivery:TransactionalProducer.commit"
    for direction in ("source", "sink")
}
DEEPEST_CALL = {
    "CommitFiles.write": 2,
    "PostgresqlStore.commit": 2,
    "OffsetsTable.write": 2,
    CommitStep.PRE_COMMIT: 2,
    CommitStep.COMMIT_GROUP: 1,
    "TransactionalProducer.commit": 2,
}
OTHER_CALLS = 3  # a run takes each of its steps at least so often, as a rule


class Deck(Generic[_Card]):
    """Cards in random order, dealt without end: shuffled anew when all have been dealt."""

    def __init__(self, cards: Sequence[_Card], chance: random.Random) -> None:
        self._deal = _dealt(list(cards), chance)

    def draw(self) -> _Card:
        return next(self._deal)


def _dealt(cards: list[_Card], chance: random.Random) -> Iterator[_Card]:
    while True:
        chance.shuffle(cards)
        yield from cards


class StepDecks:
    """For each direction and guarantee a deck of its steps, before and after, and what else is in ``sides``."""

    def __init__(self, chance: random.Random, sides: Sequence[str] = ("before", "after")) -> None:
        self._chance = chance
        self._decks = {
            (kind, guarantee): Deck([(step, when) for step in (*steps, TRANSACTION_ENDS[kind.split()[-1]]) for when in sides], chance)
            for kind, by_guarantee in STEPS.items()
            for guarantee, steps in by_guarantee.items()
        }

    def draw(self, kind: str, guarantee: str) -> tuple[str, str, int]:
        """Step, its side, and which call of it."""
        step, when = self._decks[kind, guarantee].draw()
        return step, when, self._chance.randint(1, DEEPEST_CALL.get(step.rpartition(":")[2], OTHER_CALLS))
