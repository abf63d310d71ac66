"""Rows of 200 kB through a task of JdbcSource or JdbcSink: prints by how many bytes that makes the process grow at most.

``python -m tests.integration.jdbc.wide_rows source|sink DIALECT URL ROWS QUERY``, where ``{rows}`` in the query is the number of rows. A
program of its own, since a test's process holds memory that is free.
"""

from __future__ import annotations

import resource
import sys

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_connect.data.arrow_schema import arrow_type
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.sdk.batch import Batch, KafkaBatch
from tests.integration.jdbc.sinks import NOTE, Sink, TargetDatabase
from tests.integration.worker.test_jdbc_source import started

LENGTH = 200_000
PUT_ROWS = 160  # 32 MB, as a sink's reader gives them


def read(target: TargetDatabase, rows: int, query: str) -> None:
    """The pages are forgotten one by one, as in a run."""
    own = {"connection.url": target.url, "mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "wide"}
    task, seen = started({**own, "query": query.format(rows=rows)}), 0
    while (page := task.poll()) is not None:
        if isinstance(page, Batch) and page.value is not None:
            lengths = pc.binary_length(page.value.field("text"))
            assert pc.all(pc.equal(lengths, LENGTH)).as_py()
            seen += page.num_records
    task.stop()
    assert seen == rows, f"{seen} of {rows} rows"


def write(target: TargetDatabase, rows: int) -> None:
    """The task is asked to commit when it wants that, and at the end."""
    sink = Sink(target, {"insert.mode": "insert"}, exactly_once=False)
    wanted, partition = 0, TopicPartition("notes", 0)
    for start in range(0, rows, PUT_ROWS):
        count = min(PUT_ROWS, rows - start)
        texts = pa.array([f"{number:0{LENGTH}}" for number in range(start, start + count)])
        value = pa.StructArray.from_arrays([pa.array(range(start, start + count), pa.int64()), texts], fields=list(arrow_type(NOTE)))
        sink.task.put(KafkaBatch("notes", value, value_schema=NOTE, kafka_partition=0, first_offset=start))
        if sink.context.commit_requests > wanted:
            wanted = sink.context.commit_requests
            sink.task.pre_commit({partition: start + count})
    sink.task.pre_commit({partition: rows})
    sink.task.stop()
    [(seen,)] = target.rows("SELECT count(*) AS n FROM notes")
    assert seen >= rows, f"{seen} of {rows} rows"


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(what: str, dialect: str, url: str, rows: str, query: str = "") -> None:
    target = TargetDatabase(url, dialect)
    grown = []
    for count in (1, int(rows)):  # what the first imports counts for nothing
        read(target, count, query) if what == "source" else write(target, count)
        grown.append(peak_bytes())
    print(grown[1] - grown[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
