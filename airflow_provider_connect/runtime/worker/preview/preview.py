"""A dry run of one connector: plans as a run does, reads and converts the next records, and writes nothing.

It takes no claim and no transactional id, and writes no offset, status or topic, so it does not disturb a concurrent run. It runs plugins'
code, so it is called in a process of its own (``process``).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress

from airflow_provider_connect.errors import ConfigException, plugin_code
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.masking import Mask, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.previews import Fields, Preview, PreviewedRecord, PreviewedSteps, PreviewedTask, PreviewRequest
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN, is_secret_key, is_variable
from airflow_provider_connect.runtime.model.url_passwords import without_url_passwords
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import CONNECTOR, VERSION_ENDING
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.offset_location import OffsetLocation
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.missing import missing_of
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.preview.findings import Findings
from airflow_provider_connect.runtime.worker.preview.sink import PreviewedSink
from airflow_provider_connect.runtime.worker.preview.source import PreviewedSource
from airflow_provider_connect.runtime.worker.preview.steps import Steps
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector, check_connector, check_outside
from airflow_provider_connect.runtime.worker.task.contexts import WorkersKafka
from airflow_provider_connect.runtime.worker.task.pipeline_setup import create_converters, create_stages
from airflow_provider_connect.runtime.worker.task.task_configs import PlanningContext, task_configs
from airflow_provider_connect.sdk.config_type import Type
from airflow_provider_connect.sdk.connector import SourceConnector

MAX_RECORDS = 10_000


@plugin_code()
def make_preview(
    request: PreviewRequest, settings: WorkerSettings, secrets: Mapping[str, str], mask: Mask, *, offsets: SourceOffsets | None = None
) -> Preview:
    """Make the preview. Raises ConfigException for a config that could not run, and any exception of the plugins. No text of the preview
    contains a secret: ``mask`` receives all secrets before code that knows them runs. The caller masks exceptions (``mask_failure``).
    ``offsets`` are the offsets of a source that keeps its offsets in a file. None: the offsets are on the topics."""
    started = time.monotonic()
    if not 0 < request.records <= MAX_RECORDS:
        raise ConfigException.of("records", request.records, f"give a number from 1 to {MAX_RECORDS}")
    providers = settings.config_providers(request.connector)
    mask.add(secret_values(request.config, providers, secrets))
    mask.add(secret_values(settings.originals, settings.config_providers(), secrets))
    version = {} if request.version is None else {f"{CONNECTOR}.{VERSION_ENDING}": request.version}
    config = {**request.config, **version}
    checked = check_connector(request.connector, config, settings, secrets, providers=providers, hide=mask.add)
    if checked.is_java:
        raise ConfigException.of("connector.class", checked.plugin.class_name, "A Java connector has no preview")
    check_outside(checked, fully=True)
    offsets = _offsets(checked, settings) if offsets is None else offsets
    configs = task_configs(checked, PlanningContext(request.connector, lambda _: offsets, is_preview=True), settings)
    converters = create_converters(checked, settings)
    findings = Findings(converters.header, mask)
    stages = create_stages(checked, converters.header)
    errors = Tolerance(dataclasses.replace(checked.settings.errors, retry_timeout_ms=0), findings.skip, task=request.connector, mask=mask)
    deadline = started + request.seconds
    steps = Steps(checked.settings.transforms, stages, converters.header, mask, deadline=deadline)
    shown = [_shown(checked, config) for config in configs]

    def resolve(config: Mapping[str, str]) -> Mapping[str, str]:
        return config_providers.resolve(config, providers, secrets)

    fields: Fields = {}
    missing = missing_of(checked.connector, mask)
    if isinstance(checked.connector, SourceConnector):
        kafka = WorkersKafka(checked, settings, converters, errors)
        pipeline = SourcePipeline(converters, stages, errors)
        source = PreviewedSource(checked.connector, pipeline, offsets, findings, steps, kafka=kafka, deadline=deadline)
        tasks = _source_tasks(source, configs, shown, request.records, resolve)
        read, fields = source.read, source.offset_fields()
    else:
        sink = PreviewedSink(checked, settings, SinkPipeline(converters, stages, errors), findings, steps, deadline=deadline)
        tasks = sink.run_tasks(shown, request.records)
        read = sink.read
        missing = missing or sink.missing
    preview = Preview(
        connector=request.connector,
        type="source" if checked.is_source else "sink",
        class_name=checked.plugin.class_name,
        versions=checked.plugins.versions(),
        read=read,
        tasks=tasks,
        topics=findings.topics(),
        records=findings.shown,
        offsets=fields,
        skipped=findings.skipped,
        failures=findings.failures,
        seconds=round(time.monotonic() - started, 3),
        steps=steps.shown,
        missing=missing,
    )
    return _masked(preview, mask)


def mask_failure(mask: Mask, request: PreviewRequest, settings: WorkerSettings, secrets: Mapping[str, str]) -> None:
    """Add the secrets of a failed preview to ``mask``, even if it failed before they were known."""
    for config in (settings.originals, request.config):
        with suppress(ConfigException):  # a variable that cannot be resolved has no value to hide
            mask.add(secret_values(config, settings.config_providers(request.connector), secrets))


def _masked(preview: Preview, mask: Mask) -> Preview:
    """The preview without secrets. Secrets may also be in names of topics and fields, keys, headers and partitions."""
    return dataclasses.replace(
        preview,
        tasks=[dataclasses.replace(task, config=mask.whole(task.config), partitions=mask.whole(task.partitions)) for task in preview.tasks],
        topics=[
            dataclasses.replace(seen, topic=mask(seen.topic), key=mask.whole(seen.key), value=mask.whole(seen.value))
            for seen in preview.topics
        ],
        records=[_masked_record(record, mask) for record in preview.records],
        offsets=mask.whole(preview.offsets),
        failures=list(map(mask, preview.failures)),
        steps=[_masked_steps(each, mask) for each in preview.steps],
        missing=None if preview.missing is None else mask(preview.missing),
    )


def _masked_record(record: PreviewedRecord, mask: Mask) -> PreviewedRecord:
    return dataclasses.replace(
        record,
        topic=mask(record.topic),
        key=mask.whole(record.key),
        value=mask.whole(record.value),
        headers=[{"key": mask(str(header["key"])), "value": mask.whole(header["value"])} for header in record.headers],
        source_offset=mask.whole(record.source_offset),
    )


def _masked_steps(steps: PreviewedSteps, mask: Mask) -> PreviewedSteps:
    transforms = [
        dataclasses.replace(
            step,
            alias=mask(step.alias),
            class_name=mask(step.class_name),
            predicate=None if step.predicate is None else mask(step.predicate),
            records=[_masked_record(record, mask) for record in step.records],
            error=None if step.error is None else mask(step.error),
        )
        for step in steps.transforms
    ]
    return dataclasses.replace(steps, read=_masked_record(steps.read, mask), transforms=transforms)


def _source_tasks(
    source: PreviewedSource,
    configs: Sequence[Mapping[str, str]],
    shown: Sequence[Mapping[str, str]],
    records: int,
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]],
) -> list[PreviewedTask]:
    """Preview each task. Each reads an equal share of the records that earlier tasks have left."""
    tasks = []
    for number, config in enumerate(configs):
        most = -(-(records - source.read) // (len(configs) - number))
        tasks.append(source.run_task(number, shown[number], resolve(config), most))
    return tasks


def _offsets(checked: CheckedConnector, settings: WorkerSettings) -> SourceOffsets:
    """The offsets from which a source would continue. Empty before the first run has created their topic."""
    nothing = SourceOffsets(checked.name, {})
    if not checked.is_source:
        return nothing
    with closing(TopicBacking(settings).offsets(OffsetLocation.of(settings, checked.resolved))) as store:
        try:
            return store.read(checked.name)
        except TopicMissingException:
            return nothing


def _shown(checked: CheckedConnector, config: Mapping[str, str]) -> Mapping[str, str]:
    """A task's config without secrets. A variable for a secret is shown unchanged."""
    passwords = {key.name for key in checked.connector.config_def.keys.values() if key.type is Type.PASSWORD}

    def is_secret(key: str, text: str) -> bool:
        return bool(text) and (key in passwords or is_secret_key(key)) and not is_variable(text)

    return {key: HIDDEN if is_secret(key, text) else without_url_passwords(text or "") for key, text in config.items()}
