"""Names of connectors that run only in Confluent Cloud, each with the equivalent class elsewhere. Only for messages."""

from __future__ import annotations

from typing import Final

_JDBC: Final = "io.confluent.connect.jdbc.Jdbc"
_URLS: Final = {
    "IbmDb2": "db2://«connection.host»:«connection.port»/«db.name»",
    "MicrosoftSqlServer": "sqlserver://«connection.host»:«connection.port»;databaseName=«db.name»",
    "MySql": "mysql://«connection.host»:«connection.port»/«db.name»",
    "OracleDatabase": "oracle:thin:@//«connection.host»:«connection.port»/«db.name»",
    "Postgres": "postgresql://«connection.host»:«connection.port»/«db.name»",
}
_BY_KEY: Final = {
    **{
        f"{name}{kind}": (f"{_JDBC}{kind}Connector", f"connection.url=jdbc:{url}")
        for name, url in _URLS.items()
        for kind in ("Source", "Sink")
    },
    "AzureBlobSink": ("io.confluent.connect.azure.blob.AzureBlobStorageSinkConnector", "{sink}"),
    "GcsSink": ("io.confluent.connect.gcs.GcsSinkConnector", "gcs.credentials.json instead of gcs.credentials.config, {sink}"),
    "S3_SINK": ("io.confluent.connect.s3.S3SinkConnector", "aws.access.key.id and aws.secret.access.key, {sink}"),
    "MySqlCdcSource": ("io.debezium.connector.mysql.MySqlConnector", ""),
    "MySqlCdcSourceV2": ("io.debezium.connector.mysql.MySqlConnector", ""),
}
_SINK: Final = "format=«output.data.format» in small letters, partitioner.class=HourlyPartitioner or DailyPartitioner for «time.interval»"
_CONFLUENT: Final = """
ActiveMQSource activemq.ActiveMQSourceConnector
AzureBlobSource azure.blob.storage.AzureBlobStorageSourceConnector
AzureCognitiveSearchSink azure.search.AzureSearchSinkConnector
AzureDataLakeGen2Sink azure.datalake.gen2.AzureDataLakeGen2SinkConnector
AzureEventHubsSource azure.eventhubs.EventHubsSourceConnector
AzureFunctionsSink azure.functions.AzureFunctionsSinkConnector
AzureServiceBusSource azure.servicebus.ServiceBusSourceConnector
AzureSqlDwSink azuresqldw.AzureSqlDwSinkConnector
BigTableSink gcp.bigtable.BigtableSinkConnector
CloudWatchLogsSource aws.cloudwatch.AwsCloudWatchSourceConnector
CloudWatchMetricsSink aws.cloudwatch.metrics.AwsCloudWatchMetricsSinkConnector
DatabricksDeltaLakeSink databricks.deltalake.DatabricksDeltaLakeSinkConnector
DatadogMetricsSink datadog.metrics.DatadogMetricsSinkConnector
DynamoDbSink aws.dynamodb.DynamoDbSinkConnector
ElasticsearchSink elasticsearch.ElasticsearchSinkConnector
ElasticsearchSinkV2 elasticsearch.ElasticsearchSinkConnector
GcsSource gcs.GcsSourceConnector
GithubSource github.GithubSourceConnector
GoogleCloudFunctionsGen2Sink gcp.functions.GoogleCloudFunctionsSinkConnector
GoogleCloudFunctionsSink gcp.functions.GoogleCloudFunctionsSinkConnector
HttpSink http.HttpSinkConnector
HttpSinkV2 http.sink.GenericHttpSinkConnector
HttpSource http.HttpSourceConnector
HttpSourceV2 http.source.GenericHttpSourceConnector
IbmMQSource ibm.mq.IbmMQSourceConnector
IbmMqSink jms.IbmMqSinkConnector
JiraSource jira.JiraSourceConnector
KinesisSource kinesis.KinesisSourceConnector
LambdaSink aws.lambda.AwsLambdaSinkConnector
MqttSink mqtt.MqttSinkConnector
MqttSource mqtt.MqttSourceConnector
OracleCdcSource oracle.cdc.OracleCdcSourceConnector
OracleXStreamSource oracle.xstream.cdc.OracleXStreamSourceConnector
PagerDutySink pagerduty.PagerDutySinkConnector
PubSubSource gcp.pubsub.PubSubSourceConnector
RabbitMQSink rabbitmq.sink.RabbitMQSinkConnector
RabbitMQSource rabbitmq.RabbitMQSourceConnector
RedshiftSink aws.redshift.RedshiftSinkConnector
S3Source s3.source.S3SourceConnector
SalesforceBulkApiSink salesforce.SalesforceBulkApiSinkConnector
SalesforceBulkApiSource salesforce.SalesforceBulkApiSourceConnector
SalesforceBulkApiV2Sink salesforce.SalesforceBulkApiSinkConnector
SalesforceBulkApiV2Source salesforce.SalesforceBulkApiSourceConnector
ServiceNowSink servicenow.ServiceNowSinkConnector
ServiceNowSource servicenow.ServiceNowSourceConnector
ServiceNowSourceV2 servicenow.ServiceNowSourceConnector
SftpSink sftp.SftpSinkConnector
SftpSource sftp.SftpCsvSourceConnector
SolaceSink jms.SolaceSinkConnector
SolaceSource solace.SolaceSourceConnector
SpannerSink gcp.spanner.SpannerSinkConnector
SqsSource sqs.source.SqsSourceConnector
ZendeskSource zendesk.ZendeskSourceConnector
"""
_OTHERS: Final = """
BigQuerySink com.wepay.kafka.connect.bigquery.BigQuerySinkConnector
BigQueryStorageSink com.wepay.kafka.connect.bigquery.BigQuerySinkConnector
ClickHouseSink com.clickhouse.kafka.connect.ClickHouseSinkConnector
CosmosDbSink com.azure.cosmos.kafka.connect.sink.CosmosDBSinkConnector
CosmosDbSinkV2 com.azure.cosmos.kafka.connect.CosmosSinkConnector
CosmosDbSource com.azure.cosmos.kafka.connect.source.CosmosDBSourceConnector
CosmosDbSourceV2 com.azure.cosmos.kafka.connect.CosmosSourceConnector
CouchbaseSink com.couchbase.connect.kafka.CouchbaseSinkConnector
CouchbaseSource com.couchbase.connect.kafka.CouchbaseSourceConnector
DatagenSource io.confluent.kafka.connect.datagen.DatagenConnector
MariaDbCdcSource io.debezium.connector.mariadb.MariaDbConnector
MongoDbAtlasSink com.mongodb.kafka.connect.MongoSinkConnector
MongoDbAtlasSource com.mongodb.kafka.connect.MongoSourceConnector
MongoDbCdcSource io.debezium.connector.mongodb.MongoDbConnector
Neo4jSink org.neo4j.connectors.kafka.sink.Neo4jConnector
OpenSearchSink io.aiven.kafka.connect.opensearch.OpensearchSinkConnector
PostgresCdcSource io.debezium.connector.postgresql.PostgresConnector
PostgresCdcSourceV2 io.debezium.connector.postgresql.PostgresConnector
RedisKafkaSink com.redis.kafka.connect.RedisSinkConnector
RedisKafkaSource com.redis.kafka.connect.RedisStreamSourceConnector
RedisSink com.github.jcustenborder.kafka.connect.redis.RedisSinkConnector
SalesforceCdcSource io.confluent.salesforce.SalesforceCdcSourceConnector
SalesforcePlatformEventSink io.confluent.salesforce.SalesforcePlatformEventSinkConnector
SalesforcePlatformEventSource io.confluent.salesforce.SalesforcePlatformEventSourceConnector
SalesforcePushTopicSource io.confluent.salesforce.SalesforcePushTopicSourceConnector
SalesforceSObjectSink io.confluent.salesforce.SalesforceSObjectSinkConnector
SnowflakeSink com.snowflake.kafka.connector.SnowflakeSinkConnector
SpannerCdcSource io.debezium.connector.spanner.SpannerConnector
SplunkSink com.splunk.kafka.connect.SplunkSinkConnector
SqlServerCdcSource io.debezium.connector.sqlserver.SqlServerConnector
SqlServerCdcSourceV2 io.debezium.connector.sqlserver.SqlServerConnector
"""
_ALONE: Final = (
    *("AzureLogAnalyticsSink", "AzureLogAnalyticsSinkV2", "DynamoDbCdcSource", "FirestoreSink"),
    *("InfluxDB2Sink", "InfluxDB2Source", "InfluxDB3Sink", "SalesforceSourceV2", "SnowflakeSource"),
)
"""Names without a known equivalent elsewhere."""


def _rows(text: str, begin: str = "") -> dict[str, tuple[str, str]]:
    return {name: (f"{begin}{class_name}", "") for name, class_name in (line.split() for line in text.strip().splitlines())}


_CLASSES: Final = {**_rows(_CONFLUENT, "io.confluent.connect."), **_rows(_OTHERS), **_BY_KEY}


def is_of_cloud(name: str) -> bool:
    """Whether ``name`` is a connector of Confluent Cloud."""
    return name in _CLASSES or name in _ALONE


def self_managed(name: str) -> tuple[str, str] | None:
    """The equivalent class in a Connect cluster, and its settings that have other names. None: unknown."""
    found = _CLASSES.get(name)
    return None if found is None else (found[0], found[1].format(sink=_SINK))
