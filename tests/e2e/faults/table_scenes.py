"""The same scenes with a real PostgreSQL: a table into a topic, and a topic into a table, exactly once, in many small commits."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import create_engine, text

from tests.e2e.faults.oracle import Verdict, judge, topic_records
from tests.e2e.faults.runs import Runs
from tests.e2e.faults.scenes import PLAIN, RECORDS, lines, make_topic, send

GUARANTEE = "exactly_once"


@dataclass(slots=True)
class _TableScene:
    """``database`` is SQLAlchemy's address of it."""

    bootstrap: str
    topic: str
    database: str
    table: str
    runs: Runs
    sent: list[bytes]


class TableSourceScene(_TableScene):
    """``JdbcSource`` in polls of 500 rows; a record is the text of its row."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], database: str, *, master: str = "local[2]") -> TableSourceScene:
        name = f"table-source-{uuid.uuid4().hex[:8]}"
        table, bootstrap = name.replace("-", "_"), settings["bootstrap.servers"]
        config = {
            "name": name,
            "connector.class": "JdbcSource",
            "connection.url": database,
            "table.include": table,
            "mode": "incrementing",
            "incrementing.column.name": "id",
            "topic.prefix": "topic-",
            "batch.max.rows": "500",
            "transforms": "text",
            "transforms.text.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
            "transforms.text.field": "line",
            "delivery.guarantee": GUARANTEE,
        }
        quick = {"transaction.boundary.poll.linger.ms": "0", "offset.flush.interval.ms": "0"}
        scene = cls(bootstrap, f"topic-{table}", database, table, Runs(folder, name, {**settings, **PLAIN, **quick}, config, master), [])
        make_topic(bootstrap, scene.topic)
        _execute(database, f"create table {table} (id bigserial primary key, line text not null)")
        scene.add()
        return scene

    def add(self, count: int = RECORDS) -> None:
        """More rows."""
        new = lines(count)
        _execute(self.database, f"insert into {self.table} (line) values (:line)", [{"line": line.decode()} for line in new])
        self.sent += new

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, self.topic))


class TableSinkScene(_TableScene):
    """``JdbcSink`` that commits after every put; a record is the text of a row to be."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str], database: str, *, master: str = "local[2]") -> TableSinkScene:
        name = f"table-sink-{uuid.uuid4().hex[:8]}"
        table, bootstrap = name.replace("-", "_"), settings["bootstrap.servers"]
        config = {
            "name": name,
            "connector.class": "JdbcSink",
            "connection.url": database,
            "topics": f"topic-{name}",
            "table.name.format": table,
            "auto.create": "true",
            "transforms": "text",
            "transforms.text.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.text.field": "line",
            "delivery.guarantee": GUARANTEE,
        }
        quick = {"offset.flush.interval.ms": "0"}
        scene = cls(bootstrap, f"topic-{name}", database, table, Runs(folder, name, {**settings, **PLAIN, **quick}, config, master), [])
        make_topic(bootstrap, scene.topic, partitions=3)
        scene.add()
        return scene

    def add(self, count: int = RECORDS) -> None:
        """More records on the topic."""
        new = lines(count)
        send(self.bootstrap, self.topic, new)
        self.sent += new

    def verdict(self) -> Verdict:
        engine = create_engine(self.database)
        with engine.connect() as connection:
            arrived = [line.encode() for line in connection.execute(text(f"select line from {self.table}")).scalars()]
        engine.dispose()
        return judge(self.sent, arrived)


def _execute(database: str, statement: str, rows: list[dict[str, str]] | None = None) -> None:
    engine = create_engine(database)
    with engine.begin() as connection:
        connection.execute(text(statement), rows)
    engine.dispose()
