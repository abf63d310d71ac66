"""What to do about a config whose connector is not installed: the plugin to install, a connector of this package that does the same with
the settings that change, or where it has to stay. Only for messages."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_provider_connect.runtime.java.config_rules import refused_source
from airflow_provider_connect.runtime.plugins.catalog.cloud_connectors import is_of_cloud, self_managed
from airflow_provider_connect.runtime.plugins.catalog.hub_connectors import archive_of
from airflow_provider_connect.runtime.plugins.catalog.maven_connectors import coordinates_of, installation_of

INSTALL: Final = "install the plugin that has it: airflow connect plugins install maven:GROUP:ARTIFACT:VERSION, or an archive of its maker"
"""For a class of which nothing is known."""
_LISTENING: Final = "it listens on a port, and runs here are bounded: leave it in a Kafka Connect cluster"
_FILES: Final = "connector.class=FileSystemSource of this package, with topic, format (json, csv, parquet, avro, orc or bytes) and"
_SINK: Final = "connector.class=FileSystemSink of this package, with"
_PATTERN: Final = "file.pattern=«input.file.pattern», cleanup.policy=archive instead of finished.path"
_FOLDER: Final = "file.prefix=«topics.dir»"
_SFTP: Final = "sftp.known.hosts (sftp.username and sftp.password stay)"
_OURS: Final = {
    "com.github.jcustenborder.kafka.connect.spooldir.": f"{_FILES} url=«input.path», {_PATTERN}",
    "io.aiven.kafka.connect.gcs.": f"{_SINK} gcs.bucket.name, gcs.credentials.json, format",
    "io.aiven.kafka.connect.s3.": f"{_SINK} s3.bucket.name, s3.region, aws.access.key.id, format",
    "io.confluent.connect.azure.blob.storage.": f"{_FILES} {_FOLDER} (azblob.* stay)",
    "io.confluent.connect.databricks.deltalake.": "connector.class=DeltaSink of this package, with delta.table.path=s3://«bucket»/«table»",
    "io.confluent.connect.gcs.GcsSource": f"{_FILES} gcs.credentials.json, {_FOLDER} (gcs.bucket.name stays)",
    "io.confluent.connect.hdfs2.": f"{_FILES} hdfs.url, {_FOLDER}",
    "io.confluent.connect.hdfs3.Hdfs3Source": f"{_FILES} hdfs.url, {_FOLDER}",
    "io.confluent.connect.http.HttpSource": "a class made by rest_source of this package (docs/rest-source.md)",
    "io.confluent.connect.http.source.": "a class made by rest_source of this package (docs/rest-source.md)",
    "io.confluent.connect.replicator.": "connector.class=MirrorSource of this package, with source.cluster.alias, "
    "source.cluster.* instead of src.kafka.*, target.cluster.* instead of dest.kafka.*, topics=«topic.whitelist»",
    "io.confluent.connect.s3.source.": f"{_FILES} {_FOLDER} (s3.* and aws.* stay)",
    "io.confluent.connect.sftp.SftpSink": f"{_SINK} url=sftp://«sftp.host»:«sftp.port»/«sftp.working.dir», format, {_SFTP}",
    "io.confluent.connect.sftp.": f"{_FILES} url=sftp://«sftp.host»:«sftp.port»/«input.path», {_PATTERN}, {_SFTP}",
    "io.streamthoughts.kafka.connect.filepulse.": f"{_FILES} url (instead of fs.listing.directory.path and aws.s3.*), {_PATTERN}",
}
"""Of classes that begin so: what of this package does the same. The first that fits counts."""
_LISTENERS: Final = (
    "io.confluent.connect.SplunkHttpSource",
    "io.confluent.connect.diode.source.",
    "io.confluent.connect.snmp.",
    "io.confluent.connect.splunk.s2s.",
    "io.confluent.connect.syslog.",
)
_OF_CLOUD: Final = (
    "of a config of Confluent Cloud leave out kafka.auth.mode and kafka.api.*, and give key.converter and value.converter "
    "(org.apache.kafka.connect.json.JsonConverter, io.confluent.connect.avro.AvroConverter …) instead of input.data.format and "
    "output.data.format"
)


class StepKind(StrEnum):
    """What has to be done, in the order of work."""

    INSTALL = "install"
    DOWNLOAD = "download"
    CLASS = "class"
    STAY = "stay"


@dataclass(frozen=True, slots=True)
class NextStep:
    """``what`` is the same for all connectors of one step: coordinates, the name of a package, a class, or why they stay."""

    kind: StepKind
    what: str
    text: str


def next_step(name: str) -> str | None:
    """The text of ``step_of``."""
    found = step_of(name)
    return None if found is None else found.text


def step_of(name: str) -> NextStep | None:
    """``name`` is a class that no plugin has, or a name of Confluent Cloud; None: nothing is known about it."""
    if "." not in name:
        return _of_cloud(name) if is_of_cloud(name) else None
    stays = must_stay(name)
    if stays is not None:
        return NextStep(StepKind.STAY, stays, stays)
    ours = next((text for begin, text in _OURS.items() if name.startswith(begin)), None)
    more = "" if ours is None else f"; or use {ours}"
    coordinates, archive = coordinates_of(name), archive_of(name)
    if coordinates is not None:
        return NextStep(StepKind.INSTALL, coordinates, f"to install it: {installation_of(name)}{more}")
    if archive is not None:
        return NextStep(StepKind.DOWNLOAD, archive[0], f"{archive[1]}{more}")
    return None if ours is None else NextStep(StepKind.CLASS, ours, f"use {ours}")


def must_stay(name: str) -> str | None:
    """Why the connector of this class belongs into a Kafka Connect cluster, installed or not; None: it does not."""
    return refused_source(name) or (_LISTENING if name.startswith(_LISTENERS) else None)


def _of_cloud(name: str) -> NextStep:
    found = self_managed(name)
    if found is None:
        reason = f"{name} runs in Confluent Cloud alone: leave it there, or write it as a function in Python (docs/functions.md)"
        return NextStep(StepKind.STAY, "they run in Confluent Cloud alone: leave them there, or write them as functions in Python", reason)
    class_name, settings = found
    set_ = f"set connector.class={class_name}{f', {settings}' if settings else ''}"
    step = "" if _is_built_in(class_name) else next_step(class_name)
    text = f"outside of Confluent Cloud {name} is {class_name}: {set_}; {_OF_CLOUD}{f'; {step}' if step else ''}"
    return NextStep(StepKind.CLASS, name, text)


def _is_built_in(class_name: str) -> bool:
    """Whether this package has a connector of that name."""
    return class_name.startswith(_BUILT_IN)


_BUILT_IN: Final = (
    "io.confluent.connect.azure.blob.AzureBlobStorageSink",
    "io.confluent.connect.gcs.GcsSink",
    "io.confluent.connect.jdbc.",
    "io.confluent.connect.s3.S3Sink",
)
