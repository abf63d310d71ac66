"""``connect-run --preview``: prints the next records of one connector. Writes no record, offset, status or claim.

This module loads Arrow. A run that moves records never imports it, because the connector's plugins may load another version of Arrow.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException, message_of
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.previews import (
    Fields,
    Preview,
    PreviewedRecord,
    PreviewedStep,
    PreviewedTask,
    PreviewEnd,
    PreviewRequest,
)
from airflow_provider_connect.runtime.model.view_json import escaped
from airflow_provider_connect.runtime.stores.offset_file import SETTING, read_offset_file
from airflow_provider_connect.runtime.worker.errors.traces import line_of_author
from airflow_provider_connect.runtime.worker.preview.fields import WHOLE
from airflow_provider_connect.runtime.worker.preview.preview import make_preview, mask_failure
from airflow_provider_connect.standalone.files import ConnectorFile

_OBJECT: Final = "object"  # the type of values without a schema only


def print_preview(connector: ConnectorFile, settings: WorkerSettings, records: int, mask: Mask, *, with_steps: bool = False) -> None:
    """Read up to ``records`` records in this process, from the committed offsets on, and print them. With ``with_steps``, also print the
    first records before and after each transformation. ``mask`` gets each secret before the code that uses it is called.

    Raises ConfigException and ConnectException, with a message of one line and without secrets. A plugin's exception becomes a
    ConnectException with the name of its class and the plugin's line of code.
    """
    request = PreviewRequest(connector.name, connector.config, records, settings.plugin_probe_timeout_ms / 1000)
    path = settings.values.get(SETTING, "").strip()
    try:
        offsets = read_offset_file(Path(path), connector.name) if path else None
        with redirect_stdout(sys.stderr):  # output of the connector is not a record
            preview = make_preview(request, settings, {}, mask, offsets=offsets)
        print("\n".join(map(escaped, [*_lines(preview), *(_steps(preview) if with_steps else ())])))
    except Exception as error:  # (a plugin may raise any exception)
        mask_failure(mask, request, settings, {})
        retriable = RetriableException if isinstance(error, ConnectException) and error.retriable else ConnectException
        kind = ConfigException if isinstance(error, ConfigException) else retriable
        raise kind(mask(_one_line(error))) from None


def _lines(preview: Preview) -> Iterator[str]:
    version = preview.versions["connector"]
    yield f"{preview.type} {preview.class_name} {version}: {preview.read} records read in {preview.seconds:g} s, nothing written"
    if preview.missing:
        yield f"a run waits: {preview.missing}"
    for task in preview.tasks:
        yield f"task {task.task}: {_outcome(task)}"
    for topic in preview.topics:
        yield f"topic {topic.topic}: {topic.records} records, {topic.bytes} bytes"
        for part, fields in (("key", topic.key), ("value", topic.value)):
            if fields:
                yield f"  {part}: {_types(fields)}"
            if preview.type == "sink" and _OBJECT in fields.get(WHOLE, "").rstrip("?").split("|"):
                yield f"  batch.{part} holds these objects as JSON text; values_of(batch.{part}, batch.{part}_schema) returns them as below"
    dropped = preview.read - preview.skipped - sum(topic.records for topic in preview.topics)
    if dropped > 0:
        yield f"{dropped} records were dropped by transformations"
    if preview.skipped:
        yield f"{preview.skipped} records failed and are left out:"
        yield from (f"  {failure}" for failure in preview.failures)
    yield from (_json(_visible_fields(record)) for record in preview.records)


def _steps(preview: Preview) -> Iterator[str]:
    """One line for each record that was read, and one for each transformation that was applied to it."""
    if not preview.steps:
        yield "no steps: there are no transformations, or no record was read"
    for number, steps in enumerate(preview.steps, 1):
        yield f"record {number} as read: {_json(_visible_fields(steps.read))}"
        yield from (f"  {line}" for step in steps.transforms for line in _step(step))
        if steps.is_cut:
            yield "  not all steps are shown: they are too long"


def _step(step: PreviewedStep) -> Iterator[str]:
    predicate = "" if step.predicate is None else f", predicate {step.predicate}"
    name = f"{step.alias} ({step.class_name.rpartition('.')[2]}{predicate})"
    yield from (f"{name}: {_json(_visible_fields(record))}" for record in step.records)
    if step.error is not None:
        yield f"{name} {step.outcome}: {' '.join(step.error.split())}"
    elif not step.records:
        yield f"{name}: {step.outcome}"


def _outcome(task: PreviewedTask) -> str:
    if task.end is PreviewEnd.NOT_ASKED:
        return "not started: the tasks before it have read all records of the preview"
    return f"{task.records} records, ended by {task.end.name}; partitions {_json(task.partitions)}"


def _visible_fields(record: PreviewedRecord) -> Mapping[str, object]:
    """The existing fields of a record. Its ``offset`` is the offset in the topic, or the source offset."""
    offset = record.source_offset if record.offset is None else record.offset
    there = {"partition": record.partition, "offset": offset, "timestamp": record.timestamp, "headers": list(record.headers) or None}
    known = {name: value for name, value in there.items() if value is not None}
    return {"topic": record.topic, **known, "key": record.key, "value": record.value, **({"is_cut": True} if record.is_cut else {})}


def _types(fields: Fields) -> str:
    return ", ".join(f"{path} {kind}" for path, kind in fields.items())


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _one_line(error: Exception) -> str:
    """The message of ``error`` in one line.

    If the original cause is not a ConnectException, the line also has the cause's class and message, and the connector's line of code."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    message = "" if cause is error and not isinstance(error, ConnectException) else " ".join(message_of(error).split())
    if isinstance(cause, ConnectException):
        return message
    text = (
        f"{type(cause).__name__}: {' '.join(message_of(cause).split())}{line_of_author(''.join(traceback.format_tb(cause.__traceback__)))}"
    )
    return f"{message}; cause: {text}" if message else text
