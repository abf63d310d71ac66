"""Compares two previews of a connector, with an old and a new version of its plugin, and finds the differences that prevent an upgrade."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from airflow_provider_connect.runtime.model.previews import Fields, Preview, PreviewedTopic


class Change(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class Subject(StrEnum):
    """The subject of a difference. All except COUNT are differences of schema."""

    TOPIC = "topic"
    KEY = "key"
    VALUE = "value"
    OFFSETS = "offsets"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Difference:
    """``path`` is the field, or empty. ``old`` and ``new`` are types, topics or numbers as text. None: missing."""

    subject: Subject
    change: Change
    topic: str
    path: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        where = " ".join(filter(None, [self.subject, self.path]))
        what = {Change.ADDED: str(self.new), Change.REMOVED: str(self.old), Change.CHANGED: f"{self.old} → {self.new}"}[self.change]
        return f"{self.topic or 'source'}: {where} {self.change}: {what}"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both versions read ``records``. ``equal_records`` of them are equal byte by byte. ``has_seen_enough`` false: the old version found no
    record, so there is nothing to compare."""

    old_version: str
    new_version: str
    records: int
    equal_records: int
    differences: Sequence[Difference]
    has_seen_enough: bool = True

    def blockers(self, *, accept_schema_change: bool) -> list[Difference]:
        """The differences that prevent the new version."""
        return [found for found in self.differences if found.subject is Subject.COUNT or not accept_schema_change]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Comparison":
        """Raises KeyError, TypeError or ValueError for JSON of another form."""
        found = [
            Difference(**{**each, "subject": Subject(each["subject"]), "change": Change(each["change"])}) for each in values["differences"]
        ]
        return cls(**{**values, "differences": found})


def compare_previews(old: Preview, new: Preview) -> Comparison:
    """Compares the previews. ``old`` ran first, so the new version may have found a few more records at the end of the data."""
    before, after = ({topic.topic: topic for topic in preview.topics} for preview in (old, new))
    differences = [*_topics(before, after), *_fields(Subject.OFFSETS, "", old.offsets, new.offsets), *_counts(old, new)]
    for name in before.keys() & after.keys():
        differences += _fields(Subject.KEY, name, before[name].key, after[name].key)
        differences += _fields(Subject.VALUE, name, before[name].value, after[name].value)
    return Comparison(
        old.versions.get("connector", ""),
        new.versions.get("connector", ""),
        records=min(old.read, new.read),
        equal_records=sum(_equal(topic.digests, after[name].digests) for name, topic in before.items() if name in after),
        differences=sorted(differences, key=lambda found: (found.topic, found.subject, found.path)),
        has_seen_enough=old.read > 0,
    )


def _topics(before: Mapping[str, PreviewedTopic], after: Mapping[str, PreviewedTopic]) -> Iterator[Difference]:
    for name in before.keys() - after.keys():
        yield Difference(Subject.TOPIC, Change.REMOVED, name, "", name, None)
    for name in after.keys() - before.keys():
        yield Difference(Subject.TOPIC, Change.ADDED, name, "", None, name)


def _fields(subject: Subject, topic: str, before: Fields, after: Fields) -> Iterator[Difference]:
    if not before or not after:  # one version has no records, so there is nothing to compare
        return
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        if old != new:
            change = Change.ADDED if old is None else Change.REMOVED if new is None else Change.CHANGED
            yield Difference(subject, change, topic, path, old, new)


def _counts(old: Preview, new: Preview) -> Iterator[Difference]:
    """Reports if the new version read fewer records, or if the same number of read records resulted in a different number of records."""
    if new.read < old.read:
        yield Difference(Subject.COUNT, Change.CHANGED, "", "read", str(old.read), str(new.read))
        return
    before, after = (sum(topic.records for topic in preview.topics) for preview in (old, new))
    if new.read == old.read and before != after:
        yield Difference(Subject.COUNT, Change.CHANGED, "", "records", str(before), str(after))


def _equal(before: Sequence[str], after: Sequence[str]) -> int:
    return sum(one == other for one, other in zip(before, after, strict=False))
