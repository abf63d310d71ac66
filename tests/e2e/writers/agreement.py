"""Whether a target table holds what its source does, and whether the topic between them has changes in order and none twice."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.e2e.faults.oracle import Verdict, topic_records
from tests.e2e.writers.modes import Mode, topic_of
from tests.e2e.writers.written_table import WrittenTable

TIMES = ("made", "changed")


@dataclass(frozen=True, slots=True)
class TopicVerdict:
    """``lost`` are rows whose last state is not on the topic, ``doubled`` records that came more than once, ``disordered`` those behind a
    later state of their row."""

    records: int
    lost: int
    doubled: int
    disordered: int


def judge_target(table: WrittenTable, target: str, compared: Sequence[str]) -> Verdict:
    """Row by row, in the database. A row that differs is lost and, what replaces it, doubled. Times are compared by the millisecond."""
    source = _selected(table.name, compared, "date_trunc('milliseconds', {} AT TIME ZONE 'UTC')")
    arrived = _selected(target, compared, "{}")
    lost, doubled, sent = (
        table.do(f"SELECT count(*) FROM ({rows}) AS rows")[0][0]
        for rows in (f"{source} EXCEPT ALL {arrived}", f"{arrived} EXCEPT ALL {source}", source)
    )
    return Verdict(sent, lost, doubled)


def judge_topic(bootstrap: str, table: WrittenTable, mode: Mode) -> TopicVerdict:
    """By number and changes of each row, as the topic has them in their order."""
    states: dict[int, list[int]] = defaultdict(list)
    for value in topic_records(bootstrap, topic_of(table.name)):
        row = json.loads(value)["payload"]
        states[row["id"]].append(row["changes"])
    last = dict(table.do(f"SELECT id, changes FROM {table.name}"))
    strange = states.keys() - last.keys()
    assert not strange, f"rows on the topic that were never committed: {sorted(strange)[:10]}"
    if not mode.sees_changes:
        doubled = sum(len(found) - 1 for found in states.values())
        return TopicVerdict(sum(map(len, states.values())), len(last.keys() - states.keys()), doubled, 0)
    return TopicVerdict(
        sum(map(len, states.values())),
        sum(1 for number, changes in last.items() if number not in states or states[number][-1] != changes),
        sum(count - 1 for found in states.values() for count in Counter(found).values()),
        sum(1 for found in states.values() for before, after in pairwise(found) if after < before),
    )


def _selected(table: str, columns: Sequence[str], time: str) -> str:
    return f"SELECT {', '.join(time.format(column) if column in TIMES else column for column in columns)} FROM {table}"
