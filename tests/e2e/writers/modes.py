"""Each mode of ``JdbcSource`` with what it needs to pass nothing over, the sink that goes with it, and what is promised then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.e2e.writers.written_table import WrittenTable

JSON = "org.apache.kafka.connect.json.JsonConverter"
KEYED = {
    "transforms": "key",
    "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
    "transforms.key.fields": "id",
}
INSERT = {"insert.mode": "insert", "pk.mode": "none"}  # a row that comes twice is there twice
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key"}
BOTH = {"mode": "timestamp+incrementing", "incrementing.column.name": "id", "timestamp.column.name": "changed"}
UNCHANGING = ("id", "writer", "word")
ALL = ("id", "writer", "word", "changes", "made", "changed")


@dataclass(frozen=True, slots=True)
class Mode:
    """``compared`` are the columns that must agree: a mode that sees no changes brings the others as they once were. ``clock``, ``step``
    and ``has_null_changes`` as in ``WrittenTable``. ``needs_delay``: rows are held back for longer than any transaction takes.
    ``query``: with ``{table}``. ``is_exactly_once``: no change of a row comes twice."""

    name: str
    source: Mapping[str, str]
    sink: Mapping[str, str] = field(default_factory=lambda: UPSERT)
    compared: tuple[str, ...] = ALL
    clock: str = "clock_timestamp()"
    step: int = 1
    has_null_changes: bool = False
    needs_delay: bool = False
    query: str = ""
    is_exactly_once: bool = True

    @property
    def sees_changes(self) -> bool:
        return self.compared == ALL

    @property
    def guarantee(self) -> str:
        return "exactly_once" if self.is_exactly_once else "at_least_once"

    def table(self, uri: str, name: str) -> WrittenTable:
        return WrittenTable(uri, name, self.clock, self.step, self.has_null_changes)

    def source_config(self, connector: str, url: str, table: str, delay_ms: int) -> dict[str, str]:
        """Small pages, each in a transaction of its own, into ``topic_of(table)``. Its connections bear the connector's name."""
        config = {
            "name": connector,
            "connector.class": "JdbcSource",
            "connection.url": f"{url}?application_name={connector}",
            "connection.backoff.ms": "100",
            "batch.max.rows": "200",
            "delivery.guarantee": self.guarantee,
            "key.converter": JSON,
            "value.converter": JSON,
            **self.source,
        }
        if self.sees_changes:
            config |= KEYED
        if self.needs_delay:
            config["timestamp.delay.interval.ms"] = str(delay_ms)
        if self.query:
            return config | {"query": self.query.format(table=table), "topic.prefix": topic_of(table)}
        return config | {"table.include": table, "topic.prefix": topic_of("")}

    def sink_config(self, connector: str, url: str, table: str, target: str) -> dict[str, str]:
        """From the topic of ``table`` into the table ``target``, which it makes."""
        return {
            "name": connector,
            "connector.class": "JdbcSink",
            "connection.url": f"{url}?application_name={connector}",
            "retry.backoff.ms": "100",
            "topics": topic_of(table),
            "table.name.format": target,
            "tasks.max": "2",
            "auto.create": "true",
            "delivery.guarantee": "exactly_once",
            "key.converter": JSON,
            "value.converter": JSON,
            **self.sink,
        }


def topic_of(table: str) -> str:
    """The topic into which a table's rows go, or those of the query."""
    return f"topic-{table}"


MODES = (
    Mode("bulk", {"mode": "bulk"}, is_exactly_once=False),
    Mode("incrementing", {"mode": "incrementing", "incrementing.column.name": "id"}, INSERT, UNCHANGING),
    Mode(
        "incrementing in ranges",  # a table of few rows whose numbers lie as far apart as those of a large one
        {"mode": "incrementing", "incrementing.column.name": "id", "tasks.max": "2"},
        INSERT,
        UNCHANGING,
        step=10_000,
    ),
    Mode("timestamp", {"mode": "timestamp", "timestamp.column.name": "changed,made"}, has_null_changes=True),
    Mode("timestamp+incrementing", BOTH),
    Mode("timestamp+incrementing, delayed", BOTH, clock="now()", needs_delay=True),
    Mode(
        "query",
        BOTH,
        clock="now()",
        needs_delay=True,
        query="SELECT {table}.*, name FROM {table} JOIN {table}_writers USING (writer) -- which have names",
    ),
)
