"""``airflow connect preview``."""

import json
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.configs import unhidden
from airflow_provider_connect.cli.connection import Verbs, speaks_to_connect
from airflow_provider_connect.cli.printing import print_rows, print_value
from airflow_provider_connect.model.previews import Preview, PreviewedRecord
from airflow_provider_connect.standalone.connector_files import read_connector_file


@speaks_to_connect
def preview(arguments: Any, verbs: Verbs) -> None:
    """What the next run would plan and read first: tasks, types and records as tables, or the whole as JSON or YAML."""
    config: dict[str, str] | None = None
    if arguments.file is not None:
        file = read_connector_file(Path("/dev/stdin" if arguments.file == "-" else arguments.file))
        config = {key: text for key, text in unhidden(verbs, arguments.name, file.config).items() if text is not None}
    found = verbs.preview(arguments.name, config, records=arguments.records, version=arguments.plugin_version)
    if arguments.output == "table":
        _print(found)
    else:
        print_value(found.to_json(), arguments.output)


def _print(found: Preview) -> None:
    versions = ", ".join(f"{place} {version}" for place, version in found.versions.items() if place != "task")
    print(f"{found.type} {found.class_name}: {versions}")
    print(f"{found.read} records read in {found.seconds:g} s; nothing is committed\n")
    rows = [{"task": task.task, "records": task.records, "ended": str(task.end), "partitions": list(task.partitions)} for task in found.tasks]
    print_rows(rows, "table")
    for topic in found.topics:
        print(f"\n{topic.topic}: {topic.records} records, {topic.bytes} bytes")
        types = [("key", topic.key), ("value", topic.value)]
        print_rows([{"of": part, "field": path, "type": kind} for part, fields in types for path, kind in fields.items()], "table")
    if found.records:
        print()
        print_rows([_row(record) for record in found.records], "table")


def _row(record: PreviewedRecord) -> dict[str, object]:
    place = record.topic if record.partition is None else f"{record.topic}-{record.partition}"
    headers = {str(header["key"]): header["value"] for header in record.headers}
    row: dict[str, object] = {"task": record.task, "topic": place}
    if record.offset is not None:
        row["offset"] = record.offset
    return {**row, "key": _text(record.key), "value": _text(record.value), "headers": headers or None}


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
