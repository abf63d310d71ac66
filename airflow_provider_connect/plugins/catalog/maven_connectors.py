"""Where connectors that many clusters have are published: the coordinates that ``airflow connect plugins install maven:…`` takes.

Only for messages: a class that is not here is installed in the same way. Those whose makers publish archives elsewhere are not here.
"""

from __future__ import annotations

from typing import Final

_DEBEZIUM: Final = {
    "db2.Db2Connector": "db2",
    "informix.InformixConnector": "informix",
    "jdbc.JdbcSinkConnector": "jdbc",
    "mariadb.MariaDbConnector": "mariadb",
    "mongodb.MongoDbConnector": "mongodb",
    "mongodb.MongoDbSinkConnector": "mongodb",
    "mysql.MySqlConnector": "mysql",
    "oracle.OracleConnector": "oracle",
    "postgresql.PostgresConnector": "postgres",
    "spanner.SpannerConnector": "spanner",
    "sqlserver.SqlServerConnector": "sqlserver",
    "vitess.VitessConnector": "vitess",
}
_MAVEN: Final = {
    **{f"io.debezium.connector.{name}": f"io.debezium:debezium-connector-{artifact}" for name, artifact in _DEBEZIUM.items()},
    "com.azure.cosmos.kafka.connect.CosmosSinkConnector": "com.azure.cosmos.kafka:azure-cosmos-kafka-connect",
    "com.azure.cosmos.kafka.connect.CosmosSourceConnector": "com.azure.cosmos.kafka:azure-cosmos-kafka-connect",
    "com.couchbase.connect.kafka.CouchbaseSinkConnector": "com.couchbase.client:kafka-connect-couchbase",
    "com.couchbase.connect.kafka.CouchbaseSourceConnector": "com.couchbase.client:kafka-connect-couchbase",
    "com.mongodb.kafka.connect.MongoSinkConnector": "org.mongodb.kafka:mongo-kafka-connect",
    "com.mongodb.kafka.connect.MongoSourceConnector": "org.mongodb.kafka:mongo-kafka-connect",
    "com.snowflake.kafka.connector.SnowflakeSinkConnector": "com.snowflake:snowflake-kafka-connector",
}


def installation_of(class_name: str) -> str | None:
    """The command that installs the connector of this class, but for its version; None: it is not known.

    ``class_name`` is a whole name: an alias is that of an installed plugin.
    """
    found = _MAVEN.get(class_name)
    return None if found is None else f"airflow connect plugins install maven:{found}:VERSION"
