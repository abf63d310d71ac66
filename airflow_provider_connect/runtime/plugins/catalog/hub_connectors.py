"""Connectors whose makers publish them as archives on Confluent Hub or GitHub, and not in Maven's central repository. Only for messages.

The names are those of the packages on the hub, as images of Kafka Connect install them.
"""

from __future__ import annotations

from typing import Final

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
_GITHUB: Final = {
    "com.datamountaineer.streamreactor.": "lensesio/stream-reactor",
    "com.ibm.eventstreams.connect.mqsink.": "ibm-messaging/kafka-connect-mq-sink",
    "com.ibm.eventstreams.connect.mqsource.": "ibm-messaging/kafka-connect-mq-source",
    "com.sap.kafka.connect.": "SAP/kafka-connect-sap",
    "io.aiven.kafka.connect.opensearch.": "Aiven-Open/opensearch-connector-for-apache-kafka",
    "io.lenses.streamreactor.": "lensesio/stream-reactor",
}
_INSTALL: Final = "airflow connect plugins install"


def archive_of(class_name: str) -> tuple[str, str] | None:
    """What has the connector of this class, and how to install it from the archive that its maker publishes; None: it is not known."""
    hub = _longest(_HUB, class_name)
    if hub is not None:
        archive = f"{hub.replace('/', '-')}-VERSION.zip"
        return hub, f"download the zip of {hub} from Confluent Hub (www.confluent.io/hub/{hub}), then {_INSTALL} {archive}"
    repository = _longest(_GITHUB, class_name)
    if repository is not None:
        where = f"github.com/{repository}"
        return where, f"download the archive of a release of {where}, then {_INSTALL} ARCHIVE (a zip, tar.gz or jar)"
    if class_name.startswith("io.confluent."):
        where = "www.confluent.io/hub"
        return where, f"it is one of Confluent's: download its zip from Confluent Hub ({where}), then {_INSTALL} FILE.zip"
    return None


def _longest(names: dict[str, str], class_name: str) -> str | None:
    """That of the longest beginning of ``class_name``, which ends with a whole word of it."""
    found = [begin for begin in names if class_name.startswith(begin) and (begin.endswith(".") or _ends_word(class_name[len(begin) :]))]
    return names[max(found, key=len)] if found else None


def _ends_word(rest: str) -> bool:
    return not rest or not rest[0].isalnum() or rest[0].isupper()
