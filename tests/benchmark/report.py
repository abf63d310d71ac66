"""From runs to tables: medians, ratios, spreads; to standard output, to a file of raw runs, and into the document of benchmarks."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.benchmark.race import Run
from tests.benchmark.works import Aimed

OURS, FIRST, SECOND = "ours", "ours-a", "ours-b"  # the last two race each other
_INTRODUCTION = """\
# Benchmarks

Written by `make bench`; `make bench W=W1` runs one work and replaces its section. A real Kafka Connect is the peer, with its defaults
(`connect-default`) and tuned as its experts do (`connect-tuned`: file source `batch.size=20000`, producer `linger.ms=20`,
`batch.size=524288`, lz4; consumer `max.poll.records=20000`, `max.partition.fetch.bytes` 10 MiB). All use the same broker, the same
lines of 100 bytes, `StringConverter` on both sides, one task and a topic of one partition.

Seconds run from the request (`POST /connectors`; for ours the start of spark-submit) to the last record at the destination, where records
are counted afterwards. Kafka Connect's worker is warm when the clock starts; our start-up counts. CPU is that of the worker's JVM until
the last record has arrived; for ours of every process from spark-submit to the end of the last one. The broker's is not counted. Memory is
the sum of resident sizes at its peak. Medians of the runs, contestants taking turns; the spread is that of our own contestant run
against itself (A/A) in the same session: a difference smaller than that means nothing.

W3, W4 and W4u go between a PostgreSQL (without fsync) and a topic: rows of six columns as JSON, with their schema where they come from the
topic. The peers are Debezium's connectors (snapshot with `ExtractNewRecordState`; JDBC sink with `reWriteBatchedInserts`), tuned by
`snapshot.fetch.size`, `max.batch.size` and `batch.size` besides.

W5 and W5x mirror a topic of the broker into another one: `MirrorSource` beside MirrorMaker 2's connector on the same worker, with
`ByteArrayConverter`. W5x delivers exactly once on both sides.

W6, W7 and W8 move the same rows between a topic (JSON with its schema), Parquet files, an Iceberg table in a SQLite catalog, and a topic of
Avro. The peers are a plain Spark batch job on the same `local[2]` master, and Apache Iceberg's sink on Kafka Connect. `spark` is Spark's
Kafka source with `from_json`, or `to_avro` (without a registry's header) with its Kafka sink: its start-up counts, and it is never exactly
once. Iceberg's sink commits every two seconds here, five minutes by default. Java's sinks for S3 and HDFS are not in Maven's central
repository.

`REST` asks `GET /connectors?expand=status&expand=info`, one request after another on one connection, timed to the answer's last byte. Ours
is Airflow's API server, with a DAG for each connector and a user whose rights are checked each time; Kafka Connect's worker authenticates
no client. Each connector has one task; those of Kafka Connect run, on an empty file; ours are paused, and Airflow is at rest. The page's
list is `GET /connect/ui/connectors`, compressed, with 24 runs of each connector in the mirror.
"""


def spread_text(runs: Sequence[Run]) -> str:
    """How far the two halves of an A/A race lie apart."""
    found = _by_contestant(runs)
    return f"A/A, our contestant against itself: {_spread(found[FIRST], found[SECOND])}"


def write_raw(path: Path, runs: Iterable[Run]) -> None:
    """All runs of the session as a JSON list."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([dataclasses.asdict(run) for run in runs], indent=1) + "\n")


def race_table(work: Aimed, runs: Sequence[Run]) -> str:
    """One work's runs as a Markdown table, a row for each contestant and number of records, with ratios against ours; and one for each aim
    that was not raced."""
    lines = [
        "| records | contestant | runs | seconds (range) | records/s | CPU-s | peak MB | delivered | ours is faster | aim | CPU ratio |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |",
    ]
    for records in sorted({run.records for run in runs}):
        contestants = _by_contestant(run for run in runs if run.records == records)
        first, second = contestants.pop(FIRST, []), contestants.pop(SECOND, [])
        if first and second:
            lines.append(f"| {records:,} | A/A: {OURS} twice | {len(first)} + {len(second)} | {_spread(first, second)} | | | | | | | |")
        for name, theirs in contestants.items():
            lines.append(_row(work, records, name, theirs, contestants.get(OURS, [])))
    raced = {(run.records, run.contestant) for run in runs}
    for (records, name), wanted in sorted(work.aims.items()):
        if (records, name) not in raced:
            lines.append(f"| {records:,} | {name} | 0 | not raced | | | | | | ≥ {wanted} × | |")
    return "\n".join(lines) + "\n"


def update_document(path: Path, sections: Mapping[str, str]) -> None:
    """Puts the sections, by their headings, into the document; those of other works stay as they are."""
    kept = _sections(path.read_text()) if path.exists() else {}
    kept |= sections
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([_INTRODUCTION, *(f"## {heading}\n\n{kept[heading]}" for heading in sorted(kept))]))


def _row(work: Aimed, records: int, name: str, theirs: Sequence[Run], ours: Sequence[Run]) -> str:
    seconds = [run.seconds for run in theirs]
    typical = median(seconds)
    ratio = cheaper = aim = ""
    if ours and name != OURS:
        ratio = f"{typical / median(run.seconds for run in ours):.2f} ×"
        cheaper = f"{median(run.cpu_seconds for run in theirs) / median(run.cpu_seconds for run in ours):.2f} ×"
        wanted = work.aims.get((records, name))
        aim = f"≥ {wanted} ×" if wanted else ""
    cells = [
        f"{records:,}",
        name,
        f"{len(theirs)}",
        f"{typical:.2f} ({min(seconds):.2f}–{max(seconds):.2f})",
        f"{records / typical:,.0f}",
        f"{median(run.cpu_seconds for run in theirs):.1f}",
        f"{max(run.peak_rss_bytes for run in theirs) / 1e6:,.0f}",
        _delivery(records, theirs),
        ratio,
        aim,
        cheaper,
    ]
    return f"| {' | '.join(cells)} |"


def _delivery(records: int, runs: Sequence[Run]) -> str:
    wrong = sorted({run.delivered for run in runs if run.delivered != records})
    return f"{', '.join(f'{count:,}' for count in wrong)}!" if wrong else "all"


def _spread(first: Sequence[Run], second: Sequence[Run]) -> str:
    one, other = median(run.seconds for run in first), median(run.seconds for run in second)
    seconds = [run.seconds for run in (*first, *second)]
    apart, widest = abs(one - other) / min(one, other), max(seconds) / min(seconds) - 1
    return f"medians {apart:.0%} apart, runs up to {widest:.0%}"


def _by_contestant(runs: Iterable[Run]) -> dict[str, list[Run]]:
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.contestant, []).append(run)
    return found


def _sections(text: str) -> dict[str, str]:
    parts = text.split("\n## ")[1:]
    return {heading: body.strip("\n") + "\n" for heading, _, body in (part.partition("\n") for part in parts)}
