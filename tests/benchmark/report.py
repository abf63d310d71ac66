"""From runs to tables: medians, ratios, spreads; to standard output, to a file of raw runs, and into the document of benchmarks."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

from tests.benchmark.race import Run
from tests.benchmark.works import Aimed

OURS, FIRST, SECOND = "ours", "ours-a", "ours-b"  # the last two race each other


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
    """Replaces the sections by their headings. Those of other works, and the introduction before the first section, stay as they are."""
    text = path.read_text() if path.exists() else "# Benchmarks\n"
    introduction, *_ = text.split("\n## ")
    kept = {**_sections(text), **sections}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([introduction.strip("\n") + "\n", *(f"## {heading}\n\n{kept[heading]}" for heading in sorted(kept))]))


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
