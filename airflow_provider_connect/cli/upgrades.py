"""``airflow connect preview|upgrade``."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from airflow_provider_connect.cli.configs import unhidden
from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_rows, print_value, visible
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.preview_comparison import Comparison
from airflow_provider_connect.runtime.model.previews import Preview, PreviewedRecord
from airflow_provider_connect.runtime.model.upgrades import Upgrade, UpgradeState
from airflow_provider_connect.runtime.model.view_json import to_json
from airflow_provider_connect.standalone.files import read_connector_file

T = TypeVar("T")


@connect_command
def preview(arguments: Any, verbs: Verbs) -> None:
    """Print the tasks that the next run would plan, and the types and first records that it would read. JSON and YAML have everything."""
    config: dict[str, str] | None = None
    if arguments.file is not None:
        file = read_connector_file(Path("/dev/stdin" if arguments.file == "-" else arguments.file), arguments.name)
        config = {key: text for key, text in unhidden(verbs, arguments.name, file.config).items() if text is not None}
    found = verbs.preview(arguments.name, config, records=arguments.records, version=arguments.plugin_version)
    _show(found, arguments.output, print_preview)
    if arguments.steps and arguments.output == "table":
        print_steps(found)


@connect_command
def upgrade(arguments: Any, verbs: Verbs) -> None:
    """Request an upgrade with --to, or print the state of the last upgrade. The exit code is 1 if it was held back or rolled back."""
    if arguments.forget:
        verbs.forget_upgrade(arguments.name)
        print(f"The upgrade of connector {arguments.name} is removed: its config decides which version runs")
        return
    if arguments.to and arguments.dry_run:
        comparison = verbs.compare_versions(arguments.name, arguments.to, records=arguments.canary)
        _show(comparison, arguments.output, _print_comparison)
        hindrances = comparison.blockers(accept_schema_change=arguments.accept_schema_change)
        sys.exit(1 if hindrances or not comparison.has_seen_enough else 0)
    if arguments.dry_run:
        raise BadRequestException("Give the version with --to")
    if arguments.to:
        accepts = arguments.accept_schema_change
        requested = verbs.request_upgrade(arguments.name, arguments.to, canary=arguments.canary, accept_schema_change=accepts)
        print(f"The next run of {arguments.name} upgrades from version {requested.old} to {requested.new} unless something prevents it")
        return
    found = verbs.upgrade(arguments.name)
    _show(found, arguments.output, _print_upgrade)
    sys.exit(1 if found.state in (UpgradeState.HELD, UpgradeState.ROLLED_BACK) else 0)


def _show(found: T, output: str, as_tables: Callable[[T], None]) -> None:
    if output == "table":
        as_tables(found)
    else:
        print_value(to_json(found), output)


def _print_upgrade(found: Upgrade) -> None:
    print(visible(f"{found.state}: from version {found.old} to {found.new} ({found.to})"))
    if found.reason:
        print(visible(found.reason))
    if found.comparison is not None:
        print()
        _print_comparison(Comparison.of_json(found.comparison))


def _print_comparison(found: Comparison) -> None:
    if not found.has_seen_enough:
        print(visible(f"Version {found.old_version} found no record: there is nothing to compare"))
        return
    versions = f"{found.old_version} and {found.new_version}"
    print(visible(f"{found.equal_records} of {found.records} records are the same in versions {versions}"))
    rows = [
        {"topic": each.topic or None, "of": str(each.subject), "field": each.path, "is": str(each.change), "old": each.old, "new": each.new}
        for each in found.differences
    ]
    print_rows(rows, "table")


def print_preview(found: Preview) -> None:
    """Print a preview as tables."""
    versions = ", ".join(f"{location} {version}" for location, version in found.versions.items() if location != "task")
    print(visible(f"{found.type} {found.class_name}: {versions}"))
    print(f"{found.read} records read in {found.seconds:g} s; nothing is committed\n")
    if found.missing:
        print(visible(f"A run waits: {found.missing}\n"))
    if found.skipped:
        print(visible(f"{found.skipped} records have failed and are left out:\n" + "\n".join(found.failures) + "\n"))
    rows = [
        {"task": task.task, "records": task.records, "ended": str(task.end), "partitions": list(task.partitions)} for task in found.tasks
    ]
    print_rows(rows, "table")
    for topic in found.topics:
        print(visible(f"\n{topic.topic}: {topic.records} records, {topic.bytes} bytes"))
        types = [("key", topic.key), ("value", topic.value)]
        print_rows([{"of": part, "field": path, "type": kind} for part, fields in types for path, kind in fields.items()], "table")
    if found.records:
        print()
        print_rows([_row(record) for record in found.records], "table")


def print_steps(found: Preview) -> None:
    """Print the first records before and after each transformation, as tables."""
    if not found.steps:
        print("\nNo steps: there are no transformations, or no record was read")
    for number, steps in enumerate(found.steps, 1):
        print(f"\nRecord {number}:")
        rows: list[dict[str, object]] = [{"step": "read", "class": None, "outcome": None, **_fields(steps.read)}]
        for step in steps.transforms:
            outcome = str(step.outcome) if step.predicate is None else f"{step.outcome} (predicate: {step.predicate})"
            own: dict[str, object] = {"step": step.alias, "class": step.class_name.rpartition(".")[2], "outcome": outcome}
            rows += [{**own, **_fields(record)} for record in step.records] or [own]
        print_rows(rows, "table")
        for step in steps.transforms:
            if step.error is not None:
                print(visible(f"{step.alias}: {step.error}"))
        if steps.is_cut:
            print("Not all steps are shown: they are too long")


def _fields(record: PreviewedRecord) -> dict[str, object]:
    """The fields of a record that transformations can change. The first row has all columns of the table."""
    row = _row(record)
    return {name: row[name] for name in ("topic", "key", "value", "headers")} | {"timestamp": record.timestamp}


def _row(record: PreviewedRecord) -> dict[str, object]:
    topic = record.topic if record.partition is None else f"{record.topic}-{record.partition}"
    headers = {str(header["key"]): header["value"] for header in record.headers}
    row: dict[str, object] = {"task": record.task, "topic": topic}
    if record.offset is not None:
        row["offset"] = record.offset
    return {**row, "key": _text(record.key), "value": _text(record.value), "headers": headers or None}


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
