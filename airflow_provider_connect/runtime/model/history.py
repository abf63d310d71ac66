"""The history of one connector for users: revisions of its config, changes of its offsets, and the effects of restoring earlier offsets.

Pure values and rules. The SQL mirror stores the lines of the history, and the herder carries out the changes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import accumulate

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.offsets import OFFSET
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.view_json import OMITTED
from airflow_provider_connect.runtime.model.views import OffsetView

MOST_PAGE_BYTES = 1_048_576
"""The maximum bytes of recorded JSON in one page of a history. A longer line is a page of its own."""

MOST_RETURNS = 1000
"""The maximum number of partitions in the response to an undo."""

_MOST_DIGITS = 18
MAY_DIFFER = "a value that is hidden may have changed"

Config = Mapping[str, str]
Redact = Callable[[Config], Config]
"""A config with its secrets hidden."""


@dataclass(frozen=True, slots=True)
class Line:
    """One change as the mirror recorded it. ``old`` and ``new`` are JSON. None: no value. ``at_ms`` is the record's timestamp."""

    id: int
    subject: str
    at_ms: int
    old: str | None
    new: str | None
    who: str | None = None
    claim: str | None = None
    run: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines of a history, newest first. Older lines have numbers below ``next_before``. None: there are no older lines."""

    lines: Sequence[Line]
    next_before: int | None = None


def page_of(sizes: Sequence[tuple[int, int]], limit: int, most_bytes: int = MOST_PAGE_BYTES) -> tuple[Sequence[int], int | None]:
    """The numbers of the lines in a page, and its ``next_before``. ``sizes`` has number and bytes of each line, newest first. If there are
    more than ``limit`` lines, it has one additional line."""
    fitting = _fitting([size for _, size in sizes[:limit]], most_bytes)
    numbers = [number for number, _ in sizes[:fitting]]
    return numbers, numbers[-1] if len(sizes) > fitting else None


def _fitting(sizes: Sequence[int], most_bytes: int) -> int:
    """The number of lines from the start that have at most ``most_bytes`` together. At least 1 if there is a line."""
    return max(sum(total <= most_bytes for total in accumulate(sizes)), min(len(sizes), 1))


# ── configs ──


@dataclass(frozen=True, slots=True)
class KeyChange:
    """The change of one key between two revisions. None: not set."""

    key: str
    old: str | None
    new: str | None


@dataclass(frozen=True, slots=True)
class ConfigRevision:
    """One config of the connector. ``config`` None: the connector was deleted. ``who`` is a user, or a DAG file. None: unknown."""

    revision: int
    at_ms: int
    who: str | None
    changes: Sequence[KeyChange]
    config: Config | None
    note: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class ConfigHistory:
    """The revisions, newest first. ``next_before`` is the value of ``before`` that requests older revisions. None: there are no older
    revisions."""

    revisions: Sequence[ConfigRevision]
    next_before: int | None = None


def config_history(page: Page, redact: Redact, left_out: Iterable[str] = ()) -> ConfigHistory:
    """The lines of ``page`` as revisions, without the keys in ``left_out``. These keys control only the DAG."""
    hidden_keys = frozenset(left_out)

    def visible(text: str | None) -> Config | None:
        if text is None:
            return None
        return redact({key: value for key, value in json.loads(text).items() if key not in hidden_keys})

    revisions = []
    for line in page.lines:
        old, new = visible(line.old), visible(line.new)
        changes = key_changes(old or {}, new or {})
        note = MAY_DIFFER if not changes and new is not None and any(HIDDEN in value for value in new.values()) else None
        revisions.append(ConfigRevision(line.id, line.at_ms, line.who, changes, new, note))
    return ConfigHistory(revisions, page.next_before)


def key_changes(old: Config, new: Config) -> list[KeyChange]:
    """The keys whose values differ, sorted."""
    return [KeyChange(key, old.get(key), new.get(key)) for key in sorted({*old, *new}) if old.get(key) != new.get(key)]


# ── offsets ──


class Effect(StrEnum):
    """The effect on the connector of setting back its offset in a partition."""

    AGAIN = "read again"
    FROM_BEGINNING = "read from the beginning"
    SKIPPED = "skipped"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """The offset of one source or sink partition before and after a change. None: no offset."""

    partition: Mapping[str, object]
    old: Mapping[str, object] | None
    new: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The changes of offsets by one run, or by one request of a user. ``run`` is an Airflow run, ``who`` a user. None: unknown. ``entry``
    is the number with which a user can undo the change, together with all later changes."""

    entry: int
    from_ms: int
    to_ms: int
    who: str | None
    run: str | None
    moves: Sequence[OffsetMove]
    note: str | None = field(default=None, metadata=OMITTED)


@dataclass(frozen=True, slots=True)
class OffsetHistory:
    """The changes, newest first. ``begins_ms`` is the earliest instant whose offsets can be restored. None: there is no such instant.
    ``next_before`` as in ``ConfigHistory``."""

    changes: Sequence[OffsetChange]
    begins_ms: int | None
    next_before: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetReturn:
    """The effect of restoring an earlier offset in one partition. ``records`` counts the records of a sink's topic that are read again or
    skipped. For a source, only the connector could count them."""

    partition: Mapping[str, object]
    now: Mapping[str, object] | None
    then: Mapping[str, object] | None
    effect: str
    records: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetUndo:
    """The response to an undo. ``to_ms`` is the instant whose offsets are restored. ``returns`` are the partitions whose offsets differ.
    ``dry_run``: nothing was changed. ``message`` is the server's text. ``left_out`` is the number of differing partitions that are not
    listed."""

    to_ms: int
    dry_run: bool
    returns: Sequence[OffsetReturn]
    message: str
    left_out: int | None = field(default=None, metadata=OMITTED)

    @classmethod
    def of(cls, to_ms: int, dry_run: bool, found: Sequence[OffsetReturn], message: str) -> OffsetUndo:
        """A response that lists the first partitions of ``found``, at most ``MOST_RETURNS`` and ``MOST_PAGE_BYTES``."""
        first = found[:MOST_RETURNS]
        fitting = _fitting([len(json.dumps([each.partition, each.now, each.then])) for each in first], MOST_PAGE_BYTES)
        return cls(to_ms, dry_run, first[:fitting], message, len(found) - fitting or None)


def offset_history(page: Page, begins_ms: int | None) -> OffsetHistory:
    """The lines of ``page``, grouped by the claim under which they were written."""
    groups: dict[str, list[Line]] = {}
    for line in page.lines:
        groups.setdefault(line.claim or f"line {line.id}", []).append(line)
    changes = [_change(group[::-1]) for group in groups.values()]
    return OffsetHistory(changes, begins_ms, page.next_before)


def _change(lines: Sequence[Line]) -> OffsetChange:
    """A single change from several lines, oldest first."""
    ends: dict[str, tuple[str | None, str | None]] = {}
    for line in lines:
        ends[line.subject] = (ends.get(line.subject, (line.old, None))[0], line.new)
    moves = [OffsetMove(json.loads(subject), _offset(old), _offset(new)) for subject, (old, new) in ends.items()]
    first, times = lines[0], [line.at_ms for line in lines]
    return OffsetChange(first.id, min(times), max(times), first.who, first.run, moves, first.note)


def offsets_before(lines: Iterable[Line]) -> dict[str, OffsetView]:
    """The offset of each partition before the first of ``lines``, by ``partition_key``. ``lines`` are sorted oldest first."""
    before: dict[str, OffsetView] = {}
    for line in lines:
        partition = json.loads(line.subject)
        before.setdefault(partition_key(partition), OffsetView(partition, _offset(line.old)))
    return before


def offset_returns(before: Mapping[str, OffsetView], now: Iterable[OffsetView]) -> list[OffsetReturn]:
    """The changes if the offsets in force ``now`` are set to ``before``. Partitions without a change are left out."""
    known = {partition_key(view.partition): view for view in now}
    found = []
    for key, view in before.items():
        held = known.get(key)
        current = None if held is None else held.offset
        if _same(current, view.offset):
            continue
        partition = (held or view).partition or {}
        found.append(OffsetReturn(partition, current, view.offset, *_effect(current, view.offset)))
    return found


def partition_key(partition: Mapping[str, object] | None) -> str:
    """A text that is equal for partitions that differ only in the order of their entries."""
    return json.dumps(partition, sort_keys=True)


def by_partition(offsets: Iterable[OffsetView]) -> dict[str, object]:
    """Offsets by ``partition_key``, for comparison, without removed partitions."""
    return {partition_key(view.partition): dict(view.offset) for view in offsets if view.offset is not None}


def instant_ms(text: str | int) -> int:
    """An instant in ms since 1970. ``text`` is such a number, or an instant in ISO 8601 with a time zone. Raises BadRequestException."""
    if isinstance(text, int) or (len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal()):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        form = "give a time with its zone, such as 2026-01-31T14:00:00+01:00 or 2026-01-31T13:00:00Z, or milliseconds since 1970"
        raise BadRequestException(f"'{text[:100]}' is not an instant: {form}")
    return int(found.timestamp() * 1000)


def _same(one: Mapping[str, object] | None, other: Mapping[str, object] | None) -> bool:
    return one == other if one is None or other is None else dict(one) == dict(other)


def _effect(now: Mapping[str, object] | None, then: Mapping[str, object] | None) -> tuple[str, int | None]:
    if then is None:
        return str(Effect.FROM_BEGINNING), None
    if now is None:
        return str(Effect.SKIPPED), None
    changed = [key for key in {*now, *then} if now.get(key) != then.get(key)]
    numbers = [(now.get(key), then.get(key)) for key in changed]
    if len(numbers) != 1 or not all(isinstance(value, int | float) and not isinstance(value, bool) for value in numbers[0]):
        return str(Effect.CHANGED), None
    (before, after) = numbers[0]
    difference = before - after if isinstance(before, int) and isinstance(after, int) else float(str(before)) - float(str(after))
    count = abs(int(difference)) if changed == [OFFSET] and math.isfinite(difference) else None
    return str(Effect.AGAIN if difference > 0 else Effect.SKIPPED), count


def _offset(text: str | None) -> Mapping[str, object] | None:
    found: Mapping[str, object] | None = None if text is None else json.loads(text)
    return found
