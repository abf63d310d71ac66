"""The ranges of offsets that a run that stays has delivered, as disjoint spans, and the part of them that is new."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Spans = dict[str, dict[str, list[list[int]]]]
"""By topic and partition: spans of a first and a next offset, sorted and disjoint."""
KnownSpans = Mapping[str, Mapping[str, Sequence[Sequence[int]]]]
TaskRanges = Mapping[str, Mapping[str, Sequence[int]]]
"""By topic and partition: the first and the next offset of one task."""


def merged(tasks: Iterable[TaskRanges]) -> Spans:
    """The ranges of several tasks. Those of a source's tasks overlap if the tasks write to the same topic."""
    found: Spans = {}
    for ranges in tasks:
        for topic, partitions in ranges.items():
            for partition, span in partitions.items():
                found.setdefault(topic, {}).setdefault(partition, []).append(list(span))
    return {topic: {partition: _joined(spans) for partition, spans in found[topic].items()} for topic in found}


def united(first: TaskRanges, second: TaskRanges) -> dict[str, dict[str, list[int]]]:
    """The range of a task in each partition, from two entries of the same claim. A process that replaces a lost one begins with an entry of
    its own."""
    found = {topic: {partition: list(span) for partition, span in partitions.items()} for topic, partitions in first.items()}
    for topic, partitions in second.items():
        for partition, (start, end) in partitions.items():
            known = found.setdefault(topic, {}).setdefault(partition, [start, end])
            found[topic][partition] = [min(known[0], start), max(known[1], end)]
    return found


def connected(spans: Spans, before: KnownSpans) -> Spans:
    """``spans`` with the gaps after ``before``, the spans of an earlier claim whose last records no entry has, because its process was
    killed."""
    found: Spans = {}
    for topic, partitions in spans.items():
        for partition, own in partitions.items():
            end = max((span[1] for span in before.get(topic, {}).get(partition, ())), default=own[0][0])
            gap = [[end, own[0][0]]] if end < own[0][0] else []
            found.setdefault(topic, {})[partition] = _joined([*gap, *own])
    return found


def without(spans: Spans, known: KnownSpans) -> Spans:
    """The parts of ``spans`` that are not in ``known``. Partitions without such a part are left out."""
    found: Spans = {}
    for topic, partitions in spans.items():
        for partition, own in partitions.items():
            if left := _subtracted(own, known.get(topic, {}).get(partition, ())):
                found.setdefault(topic, {})[partition] = left
    return found


def added(spans: Iterable[KnownSpans]) -> Spans:
    """All spans together."""
    found: Spans = {}
    for each in spans:
        for topic, partitions in each.items():
            for partition, own in partitions.items():
                found.setdefault(topic, {}).setdefault(partition, []).extend(map(list, own))
    return {topic: {partition: _joined(own) for partition, own in found[topic].items()} for topic in found}


def _joined(spans: Iterable[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = []
    for first, end in sorted((span[0], span[1]) for span in spans if span[0] < span[1]):
        if found and first <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([first, end])
    return found


def _subtracted(spans: Iterable[Sequence[int]], known: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = []
    for span in spans:
        first, end = span
        for start, after in sorted((each[0], each[1]) for each in known):
            if after <= first or start >= end:
                continue
            if start > first:
                found.append([first, start])
            first = max(first, after)
        if first < end:
            found.append([first, end])
    return found
