"""The remedy for a config whose connector is not installed. Only for messages.

The remedy is a plugin to install, an equivalent connector of this package with the changed settings, or the advice to keep the connector in
its Connect cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from airflow_provider_connect.runtime.java.config.rules import STAY, needs_continuous
from airflow_provider_connect.runtime.plugins.catalog.cloud_connectors import is_of_cloud, self_managed
from airflow_provider_connect.runtime.plugins.catalog.maven_connectors import coordinates_of, installation_of

INSTALL: Final = "install the plugin that has it: airflow connect plugins install maven:GROUP:ARTIFACT:VERSION, or an archive of its maker"
"""The text for an unknown class."""
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
"""The equivalents in this package, by prefix of the class name. The first match is used."""
_OF_CLOUD: Final = (
    "of a config of Confluent Cloud leave out kafka.auth.mode and kafka.api.*, and give key.converter and value.converter "
    "(org.apache.kafka.connect.json.JsonConverter, io.confluent.connect.avro.AvroConverter …) instead of input.data.format and "
    "output.data.format"
)


class StepKind(StrEnum):
    """The kinds of remedies, in the order of effort."""

    INSTALL = "install"
    DOWNLOAD = "download"
    CLASS = "class"
    STAY = "stay"


@dataclass(frozen=True, slots=True)
class NextStep:
    """``what`` is the same for all connectors with the same remedy: coordinates, a package, a class, or the reason why they must stay.
    ``text`` is the message for a single connector."""

    kind: StepKind
    what: str
    text: str


def next_step(name: str) -> str | None:
    """The text of ``step_of``."""
    found = step_of(name)
    return None if found is None else found.text


def step_of(name: str) -> NextStep | None:
    """The remedy for ``name``, a class that no plugin has or a name of Confluent Cloud. None: unknown."""
    if "." not in name:
        return _of_cloud(name) if is_of_cloud(name) else None
    ours = next((text for begin, text in _OURS.items() if name.startswith(begin)), None)
    stays = "" if needs_continuous(name) is None else f", and set {STAY}"
    more = stays if ours is None else f"{stays}; or use {ours}"
    coordinates, archive = coordinates_of(name), archive_of(name)
    if coordinates is not None:
        return NextStep(StepKind.INSTALL, coordinates, f"to install it: {installation_of(name)}{more}")
    if archive is not None:
        return NextStep(StepKind.DOWNLOAD, archive[0], f"{archive[1]}{more}")
    return None if ours is None else NextStep(StepKind.CLASS, ours, f"use {ours}")


def _of_cloud(name: str) -> NextStep:
    found = self_managed(name)
    if found is None:
        reason = f"{name} runs in Confluent Cloud alone: leave it there, or write it as a function in Python (docs/functions.md)"
        return NextStep(StepKind.STAY, "they run in Confluent Cloud alone: leave them there, or write them as functions in Python", reason)
    class_name, settings = found
    stays = None if needs_continuous(class_name) is None else STAY
    set_ = f"set {', '.join(filter(None, (f'connector.class={class_name}', settings, stays)))}"
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


# Connectors that their makers publish as archives on Confluent Hub or GitHub, and not in Maven's central repository. Only for messages. The
# names are those of the packages on the hub, as images of Kafka Connect install them.
_CONFLUENT: Final = {
    "connect.": "Splunk=splunk-source activemq amps appdynamics.metrics=appdynamics-metrics aws.cloudwatch=aws-cloudwatch-logs "
    "aws.cloudwatch.metrics=aws-cloudwatch-metrics aws.dynamodb=aws-dynamodb aws.lambda=aws-lambda aws.redshift=aws-redshift "
    "azure.blob=azure-blob-storage azure.blob.storage=azure-blob-storage-source azure.datalake.gen2=azure-data-lake-gen2-storage "
    "azure.eventhubs=azure-event-hubs azure.functions=azure-functions azure.search=azure-search azure.servicebus=azure-service-bus "
    "azuresqldw=azure-sql-dw cassandra databricks.deltalake=databricks-delta-lake datadog.metrics=datadog-metrics diode=data-diode "
    "elasticsearch firebase ftps gcp.bigtable=gcp-bigtable gcp.dataproc=gcp-dataproc-sink gcp.functions=gcp-functions "
    "gcp.pubsub=gcp-pubsub gcp.spanner=gcp-spanner gcs gcs.GcsSource=gcs-source github hbase hdfs hdfs2=hdfs2-source hdfs3 "
    "hdfs3.Hdfs3Source=hdfs3-source http http.HttpSource=http-source http.sink=http-v2 http.source=http-v2 ibm.mq=ibmmq jdbc jira "
    "jms.JmsSource=jms jms.JmsSink=jms-sink jms.ActiveMqSink=activemq-sink jms.IbmMqSink=ibmmq-sink jms.SolaceSink=solace-sink "
    "jms.TibcoSink=tibco-sink kinesis kudu mapr.db=maprdb marketo mqtt netezza omnisci oracle.cdc=oracle-cdc "
    "oracle.xstream=oracle-xstream-cdc-source pagerduty pivotal.gemfire=pivotal-gemfire prometheus=prometheus-metrics rabbitmq "
    "rabbitmq.sink=rabbitmq-sink replicator s3 s3.source=s3-source salesforce=salesforce-bulk-api servicenow sftp snmp "
    "solace=solace-source splunk.s2s=splunk-s2s sqs syslog tibco=tibco-source weblogic zendesk",
    "": "influxdb salesforce vertica kafka.connect.datagen=datagen",
}
_HUB: Final = {
    **{
        f"io.confluent.{begin}{package}": f"confluentinc/kafka-connect-{name or package}"
        for begin, text in _CONFLUENT.items()
        for package, _, name in (each.partition("=") for each in text.split())
    },
    "com.azure.cosmos.kafka.connect.": "microsoftcorporation/kafka-connect-cosmos",
    "com.clickhouse.kafka.connect.": "clickhouse/clickhouse-kafka-connect",
    "com.couchbase.connect.kafka.": "couchbase/kafka-connect-couchbase",
    "com.datadoghq.connect.logs.": "datadog/kafka-connect-logs",
    "com.github.jcustenborder.kafka.connect.redis.": "jcustenborder/kafka-connect-redis",
    "com.github.jcustenborder.kafka.connect.spooldir.": "jcustenborder/kafka-connect-spooldir",
    "com.ontotext.kafka.": "ontotext/kafka-sink-graphdb",
    "com.redis.kafka.connect.": "redis/redis-kafka-connect",
    "com.singlestore.kafka.": "singlestore/singlestore-kafka-connector",
    "com.snowflake.kafka.connector.": "snowflakeinc/snowflake-kafka-connector",
    "com.splunk.kafka.connect.": "splunk/kafka-connect-splunk",
    "com.wepay.kafka.connect.bigquery.": "wepay/kafka-connect-bigquery",
    "io.streamthoughts.kafka.connect.filepulse.": "streamthoughts/kafka-connect-file-pulse",
    "org.neo4j.connectors.kafka.": "neo4j/kafka-connect-neo4j",
}
_SITES: Final = {
    "com.datamountaineer.streamreactor.": "github.com/lensesio/stream-reactor",
    "com.ibm.eventstreams.connect.mqsink.": "github.com/ibm-messaging/kafka-connect-mq-sink",
    "com.ibm.eventstreams.connect.mqsource.": "github.com/ibm-messaging/kafka-connect-mq-source",
    "com.sap.kafka.connect.": "github.com/SAP/kafka-connect-sap",
    "io.aiven.kafka.connect.opensearch.": "github.com/Aiven-Open/opensearch-connector-for-apache-kafka",
    "io.lenses.streamreactor.": "github.com/lensesio/stream-reactor",
    "io.debezium.": "debezium.io/releases",
}
_INSTALL: Final = "airflow connect plugins install"


def archive_of(class_name: str) -> tuple[str, str] | None:
    """The package with this connector class, and instructions to install it from its publisher's archive. None: unknown."""
    hub = _longest(_HUB, class_name)
    if hub is not None:
        archive = f"{hub.replace('/', '-')}-VERSION.zip"
        return hub, f"download the zip of {hub} from Confluent Hub (www.confluent.io/hub/{hub}), then {_INSTALL} {archive}"
    where = _longest(_SITES, class_name)
    if where is not None:
        return where, f"download the archive of a release of {where}, then {_INSTALL} ARCHIVE (a zip, tar.gz or jar)"
    if class_name.startswith("io.confluent."):
        where = "www.confluent.io/hub"
        return where, f"it is one of Confluent's: download its zip from Confluent Hub ({where}), then {_INSTALL} FILE.zip"
    return None


def _longest(names: dict[str, str], class_name: str) -> str | None:
    """The entry with the longest name that is a prefix of ``class_name`` and ends at a word boundary."""
    found = [begin for begin in names if class_name.startswith(begin) and (begin.endswith(".") or _ends_word(class_name[len(begin) :]))]
    return names[max(found, key=len)] if found else None


def _ends_word(rest: str) -> bool:
    return not rest or not rest[0].isalnum() or rest[0].isupper()
